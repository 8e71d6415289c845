package gateway

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/agui"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// TestErrorsOfFrontEndTools checks that a tool of the front end that failed answers its call with an
// error.
func TestErrorsOfFrontEndTools(t *testing.T) {
	t.Parallel()
	waiting := func(id string) abi.Pending {
		p := abi.Pending{ID: "int_" + id, Reason: toolcall.ClientInterrupt().Reason}
		p.Call = &abi.Call{ID: id, Name: "pay"}
		return p
	}
	info := &journal.RunInfo{Progress: journal.Progress{Pending: []abi.Pending{waiting("a"), waiting("b")}}}
	in, err := agui.ParseInput([]byte(`{"threadId":"t","runId":"r","messages":[
		{"id":"1","role":"tool","toolCallId":"a","content":"paid"},
		{"id":"2","role":"tool","toolCallId":"b","content":"","error":"declined"}]}`))
	require.NoError(t, err)
	answers, err := answersOf(info, in)
	require.NoError(t, err)
	require.JSONEq(t, `{"content":"paid"}`, string(answers["int_a"]))
	require.JSONEq(t, `{"content":"declined","is_error":true}`, string(answers["int_b"]))
}
