package javascript

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func bundleOf(sourceMap string) []byte {
	return []byte(header + "x\n" + mapMark + base64.StdEncoding.EncodeToString([]byte(sourceMap)) + "\n")
}

func TestMap(t *testing.T) {
	t.Parallel()
	// In line 3 of the bundle, column 1 is from a.ts:1:1, column 6 from b.ts:11:3, and column 9
	// from no source. In line 4, column 3 is from a.ts:10:1, and has a name.
	m, err := ReadMap(
		bundleOf(
			`{"version":3,"sources":["a.ts","b.ts"],"sourcesContent":["one\r\ntwo\tthree\nfour",null],"mappings":";;AAAA,KCUE,G;EDDFA"}`,
		),
	)
	require.NoError(t, err)
	for place, want := range map[[2]int]string{
		{1, 1}: "", {3, 1}: "a.ts:1:1", {3, 5}: "a.ts:1:1", {3, 6}: "b.ts:11:3", {3, 8}: "b.ts:11:3", {3, 9}: "",
		{3, 100}: "", {4, 1}: "", {4, 3}: "a.ts:10:1", {5, 1}: "", {0, 1}: "", {1 << 40, 1}: "", {3, -1}: "",
	} {
		p, ok := m.Find(place[0], place[1])
		require.Equal(t, want != "", ok, place)
		if ok {
			require.Equal(t, want, p.String())
		}
	}
	require.Equal(t, "at f (a.ts:1:1) and <script>:9:9 and <script>:99999999999999999999:1",
		m.Translate("at f (<script>:3:2) and <script>:9:9 and <script>:99999999999999999999:1"))
	p, ok := m.First("at native\nat f (<script>:1:1)\nat g (<script>:3:7)")
	require.True(t, ok)
	require.Equal(t, "b.ts:11:3", p.String())
	require.Empty(t, m.Frame(p), "its content is not there")
	require.Equal(t, "  1 | one\n> 2 | two three\n    |     ^\n  3 | four", m.Frame(Position{Line: 2, Column: 5}))
	require.Empty(t, m.Frame(Position{Line: 4, Column: 1}))

	var none *Map
	require.Equal(t, "<script>:1:1", none.Translate("<script>:1:1"))
	require.Empty(t, none.Frame(p))
}

func TestMapRefused(t *testing.T) {
	t.Parallel()
	for mappings, want := range map[string]string{
		"A!":        `'!' is no digit`,
		"AC":        "cut short",
		"AAA":       "cut short",
		"g":         "cut short",
		"AAAAAA":    "too long",
		"ggggggggA": "too long",
		"ACAA":      "a place that is not there",
		"ADAA":      "a place that is not there",
		"AADA":      "a place that is not there",
	} {
		_, err := ReadMap(bundleOf(fmt.Sprintf(`{"version":3,"sources":["a.ts"],"mappings":%q}`, mappings)))
		require.ErrorContains(t, err, want, mappings)
	}
	_, err := ReadMap([]byte("x"))
	require.ErrorContains(t, err, "no source map")
	_, err = ReadMap(bundleOf(`{"version":2}`))
	require.ErrorContains(t, err, "version 2")
	_, err = ReadMap(bundleOf(`{`))
	require.Error(t, err)
}

// FuzzReadMap checks that no source map, and no search in one, makes the host panic.
func FuzzReadMap(f *testing.F) {
	f.Add(`{"version":3,"sources":["a.ts"],"sourcesContent":["x"],"mappings":";;AAAA,KAUE,G"}`, 3, 1)
	f.Add(`{"version":3,"sources":[],"mappings":"A,D;ggggggC"}`, 1, 1)
	f.Fuzz(func(t *testing.T, text string, line, column int) {
		m, err := ReadMap(bundleOf(text))
		if err != nil {
			return
		}
		if p, ok := m.Find(line, column); ok {
			_ = m.Frame(p)
		}
		_ = m.Translate(fmt.Sprintf("<script>:%d:%d", line, column))
	})
}

// TestWithoutPrelude checks that stack traces contain the frames of scripts, but no frames of the
// prelude.
func TestWithoutPrelude(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"Error: e\n    at f (<script>:1:2)\n    at sort (native)\n    at g (<script>:3:4)\n" +
			"    at call (native)\n    at call (host:444:56)\n    at dispatch (host:531:38)": "Error: e\n    at f (<script>:1:2)\n    at sort (native)\n    at g (<script>:3:4)",
		"a: Error: e\n    at <anonymous> (<script>:1:2)\n    at host:7:8\n b": "a: Error: e\n    at <anonymous> (<script>:1:2)\n b",
		"look at host:80:1 and\n at localhost (host)":                         "look at host:80:1 and\n at localhost (host)",
		"plain\n": "plain\n",
	} {
		require.Equal(t, want, WithoutPrelude(text))
	}
}
