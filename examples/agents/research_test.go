package agents

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestResearch checks that the research agent answers a question about a table that is larger than
// its context window.
func TestResearch(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles the modules of an agent")
	}
	t.Parallel()
	research := example{name: "research"}
	out := research.test(t)
	out.require(
		t,
		"reduce cut",
		"reduce answers call_3",
		"summarize summarized",
		"tool-cache cache_hit",
		"tool-cache answers call_12",
		"call-log log",
	)
	require.Contains(t, out.result(t, "call_9"), `"matches":["calculator"]`)
	require.Contains(t, out.result(t, "call_11"), "439/6")
	require.Contains(t, out.answer(t), "By 36.2 centimetres")

	sent := string(research.read(t, "conversation.json"))
	require.Contains(t, sent, "The older part of this conversation was left out")
	require.NotContains(t, sent, "1995,06", "of the middle of the table nothing was asked for")
}
