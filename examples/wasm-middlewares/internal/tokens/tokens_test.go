package tokens_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/tokens"
)

func TestEstimates(t *testing.T) {
	t.Parallel()
	require.Equal(t, 0, tokens.Text(""))
	require.Equal(t, 1, tokens.Text("a"))
	require.Equal(t, 25, tokens.Text(strings.Repeat("a", 100)))
	require.Equal(t, 100, tokens.Text(strings.Repeat("好", 100)))
	call := abi.Message{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall("c", "read", `{"a":1}`)}}
	require.Equal(t, 4+4+1+2, tokens.Message(call))
	parts := abi.Message{Content: abi.Parts(abi.Part{Type: abi.PartText, Text: "abcd"}, abi.Part{Type: abi.PartImage})}
	require.Equal(t, 4+1+2000, tokens.Message(parts))
	require.Equal(t, 11+2005, tokens.Messages([]abi.Message{call, parts}))
	tool := abi.StateTool{Tool: abi.Tool{Name: "read", Description: "abcd", Parameters: []byte(`{}`)}, Active: true}
	require.Equal(t, 4+1+1+1, tokens.Tools([]abi.StateTool{tool, {Tool: abi.Tool{Name: "off"}}}))
}

func TestClip(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", tokens.Clip("short", 2))
	got := tokens.Clip(strings.Repeat("a", 60)+strings.Repeat("b", 60), 15)
	require.Equal(t, strings.Repeat("a", 40)+"\n… 60 characters left out …\n"+strings.Repeat("b", 20), got)
}

func FuzzHeadTail(f *testing.F) {
	f.Add("aé好😀", 1)
	f.Add("\xff\xfea", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(0, min(limit, len(s)))
		head, tail := tokens.Head(s, limit), tokens.Tail(s, limit)
		require.True(t, strings.HasPrefix(s, head))
		require.True(t, strings.HasSuffix(s, tail))
		require.LessOrEqual(t, tokens.Text(head), limit)
		require.LessOrEqual(t, tokens.Text(tail), limit)
		if utf8.ValidString(s) {
			require.True(t, utf8.ValidString(head) && utf8.ValidString(tail), "characters stay whole")
		}
	})
}
