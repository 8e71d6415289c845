package sdktest

import (
	"bytes"
	"encoding/json"
	"math/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sample is JSON, and the export that mirrors it.
type sample struct {
	export string
	json   []byte
}

// samples returns the inputs, answers and errors of all golden vectors, without insignificant
// whitespace.
func samples(t *testing.T) (out []sample) {
	t.Helper()
	files, err := filepath.Glob("../../testdata/abi/*.json")
	require.NoError(t, err)
	for _, file := range files {
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		var v vector
		require.NoError(t, json.Unmarshal(b, &v))
		for _, export := range []string{string(v.Hook), "answer_" + string(v.Hook), "error"} {
			for _, part := range v.parts()[export] {
				if part != nil {
					var compact bytes.Buffer
					require.NoError(t, json.Compact(&compact, part))
					out = append(out, sample{export, compact.Bytes()})
				}
			}
		}
	}
	require.NotEmpty(t, out)
	return out
}

// mutated returns a copy of whole with one to three changes: a byte replaced, inserted or removed, or
// the rest cut off.
func mutated(r *rand.Rand, whole []byte) []byte {
	const letters = "{}[]\",:\\0123456789eE.+-tfnul \n\tu\x01/a"
	b := bytes.Clone(whole)
	for range 1 + r.Intn(3) {
		at, letter := r.Intn(len(b)), letters[r.Intn(len(letters))]
		switch r.Intn(13) {
		case 0, 1, 2, 3:
			b[at] = letter
		case 4, 5, 6, 7:
			b = append(b[:at+1], b[at:]...)
			b[at] = letter
		case 8, 9, 10, 11:
			b = append(b[:at], b[at+1:]...)
		default:
			b = b[:at+1]
		}
		if len(b) == 0 {
			return b
		}
	}
	return b
}

// TestStrict checks that an SDK rejects invalid JSON, for JSON with small random faults. If the SDK
// accepts an input, its output must be valid JSON that it mirrors unchanged.
func TestStrict(t *testing.T) {
	t.Parallel()
	all := samples(t)
	each(t, "mirror", func(t *testing.T, h *Host) {
		r := rand.New(rand.NewSource(1))
		taken, refused := 0, 0
		for range 6000 {
			s := all[r.Intn(len(all))]
			input := mutated(r, s.json)
			output, ok, err := h.Hook(t.Context(), s.export, string(input))
			require.NoError(t, err, "%s: %q", s.export, input)
			if !ok {
				refused++
				continue
			}
			taken++
			require.True(t, json.Valid(input), "%s takes %q", s.export, input)
			require.True(t, json.Valid([]byte(output)), "%s writes %q of %q", s.export, output, input)
			again, ok, err := h.Hook(t.Context(), s.export, output)
			require.NoError(t, err)
			require.True(t, ok, "%s: %q", s.export, output)
			require.Equal(t, output, again, "%s: %q", s.export, input)
		}
		require.Greater(t, taken, 1000)
		require.Greater(t, refused, 1000)
	})
}
