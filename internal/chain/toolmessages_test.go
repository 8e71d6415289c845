package chain

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// TestToolMessagesAnswered checks that an answer of tool_messages is recorded only if exactly one
// of its messages answers the call. An empty list counts as an answer.
func TestToolMessagesAnswered(t *testing.T) {
	t.Parallel()
	call := abi.Call{ID: "1", Name: "t", Arguments: "{}"}
	answer := func(id string) abi.Message {
		return abi.Message{Role: abi.RoleTool, ToolCallID: id, Content: abi.Text("x")}
	}
	for name, tc := range map[string]struct {
		messages []abi.Message
		want     string // the fault; empty if the answer is recorded
	}{
		"one":       {[]abi.Message{answer("1"), abi.User("look")}, ""},
		"none":      {[]abi.Message{}, "0 of the messages answer the call"},
		"no answer": {[]abi.Message{abi.User("look")}, "0 of the messages answer the call"},
		"two":       {[]abi.Message{answer("1"), answer("1")}, "2 of the messages answer the call"},
		"another's": {[]abi.Message{answer("2")}, `answers call "2"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, h := openBoundary(
				t,
				&inproc.Middleware{
					ToolMessages: func(context.Context, *hook.Call, *abi.ToolMessagesInput) (*abi.ToolMessagesAnswer, error) {
						return &abi.ToolMessagesAnswer{Messages: tc.messages}, nil
					},
				},
			)
			def := answer("1")
			got, err := r.ToolMessages(
				t.Context(),
				conversation(),
				abi.Tool{Name: "t"},
				ToolOutcome{Call: call, Result: abi.TextResult("x")},
				def,
			)
			require.NoError(t, err)
			if tc.want == "" {
				require.Len(t, got, len(tc.messages))
				require.Empty(t, h.events)
				return
			}
			require.Equal(t, []abi.Message{def}, got)
			require.Contains(t, h.only(t, abi.EventFault).Cause, tc.want)
		})
	}
}
