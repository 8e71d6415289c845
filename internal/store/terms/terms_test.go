package terms_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

func TestMetadataText(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`"a b"`: "a b", `7`: "7", `1.50`: "1.50", `true`: "true",
		`"` + strings.Repeat("x", terms.MaxMetadataValue) + `"`: strings.Repeat("x", terms.MaxMetadataValue),
	} {
		text, ok := terms.MetadataText(json.RawMessage(value))
		require.True(t, ok, value)
		require.Equal(t, want, text)
	}
	for _, value := range []string{
		``, `null`, `{}`, `["a"]`, `"\u0000"`, `"` + strings.Repeat("x", terms.MaxMetadataValue+1) + `"`,
	} {
		_, ok := terms.MetadataText(json.RawMessage(value))
		require.False(t, ok, value)
	}
}

// TestTermsAreBounded checks that a tenant cannot make a run have more terms than the limits allow.
func TestTermsAreBounded(t *testing.T) {
	t.Parallel()
	metadata, modules := map[string]int{}, make([]journal.Pin, 1000)
	for i := range modules {
		key := strings.Repeat("k", i%64) + string(rune('a'+i%26))
		metadata[key], modules[i].Digest = i, key
	}
	text, err := json.Marshal(metadata)
	require.NoError(t, err)
	run := &journal.Creation{Metadata: text, Modules: modules, Title: strings.Repeat("abc def 漢字 ", 1000)}
	list := terms.OfRun(run, 1)
	require.LessOrEqual(t, len(list), terms.MaxMetadata+terms.MaxTitleWords+64+1)
	column, err := terms.Encode(list)
	require.NoError(t, err)
	same, err := terms.Decode("run", column)
	require.NoError(t, err)
	require.Equal(t, list, same)
}

// FuzzSearch checks that a title which matches a search has all terms of the search. Otherwise a list
// would omit the run.
func FuzzSearch(f *testing.F) {
	for _, seed := range [][2]string{
		{"Refund the order", "refu ord"}, {"Größe 漢字", "GRÖ 字"}, {"a-b_c", "B"}, {"İstanbul", "istanbul"}, {"e\u0301te", "é"},
		{"\xff\x00", "\xff"}, {"", " "},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, title, search string) {
		if len(terms.Words(title)) > terms.MaxTitleWords || !terms.MatchesTitle(title, terms.Words(search)) {
			t.Skip()
		}
		require.Subset(t, terms.OfTitle(title), terms.OfSearch(search))
	})
}
