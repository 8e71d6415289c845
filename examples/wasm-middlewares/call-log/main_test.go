package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/contract"
)

func newHost(t *testing.T, config any) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{}, newLog())
	require.NoError(t, h.Configure(config))
	return h
}

// observe passes the events one at a time, wipes the module's memory between them, and returns the
// log lines with their levels.
func observe(t *testing.T, h *middlewaretest.Host, events ...abi.Event) []string {
	t.Helper()
	for _, e := range events {
		require.NoError(t, h.Wipe())
		_, err := h.Observe(abi.ObserveInput{Events: []abi.Event{e}})
		require.NoError(t, err)
	}
	var out []string
	for _, l := range h.Logs {
		out = append(out, levels[l.Level]+" "+l.Text)
	}
	return out
}

func events() []abi.Event {
	calls := abi.Message{
		Role:      abi.RoleAssistant,
		ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "read", "{}"), abi.NewToolCall("2", "rm", "{}")},
	}
	answer := abi.Assistant("all\n  done " + strings.Repeat("é", 70))
	read := &abi.Call{ID: "1", Name: "read", Arguments: `{"path":"a.txt"}`}
	rm := &abi.Call{ID: "2", Name: "rm", Arguments: `{}`}
	return []abi.Event{
		{Type: abi.EventRunStarted, TimeMS: 1000},
		{Type: abi.EventMessage, Step: 1, Message: &calls},
		{Type: abi.EventToolCall, Step: 1, TimeMS: 1100, Call: read},
		{Type: abi.EventToolCall, Step: 1, TimeMS: 1110, Call: rm},
		{Type: abi.EventToolResult, Step: 1, TimeMS: 1130, Call: rm, Result: abi.ErrorResult("no"), Source: "policy"},
		{Type: abi.EventToolResult, Step: 1, TimeMS: 1142, Call: read, Result: abi.TextResult("text"), Source: "tool"},
		{Type: abi.EventCustom, Step: 1, Entry: "redact", Name: "redacted", Data: []byte(`{"n":1}`)},
		{Type: abi.EventFault, Step: 2, Entry: "x", Hook: contract.HookOnChunk, Action: "skipped", Cause: "a trap"},
		{Type: abi.EventMessage, Step: 2, Message: &answer},
		{Type: abi.EventRunFinished, Step: 2, TimeMS: 1250, FinishReason: "stop", Usage: &abi.Usage{TotalTokens: 99}},
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	all := []string{
		"info step 1: calls read, rm",
		`debug step 1: read#1 {"path":"a.txt"}`,
		"debug step 1: rm#2 {}",
		"warn step 1: rm#2 failed by policy, 20 ms, 2 bytes: no",
		"info step 1: read#1 ok, 42 ms, 4 bytes: text",
		`debug step 1: redact says redacted {"n":1}`,
		"error step 2: fault of x in on_chunk, skipped: a trap",
		"info step 2: answer, 151 bytes: all done " + strings.Repeat("é", 49) + "…",
		"info stop after 2 steps, 250 ms, 99 tokens",
	}
	for i, level := range levels {
		var want []string
		for _, line := range all {
			for _, shown := range levels[i:] {
				if strings.HasPrefix(line, shown) {
					want = append(want, line)
				}
			}
		}
		h := newHost(t, map[string]any{"level": level})
		require.Equal(t, want, observe(t, h, events()...))
	}
	h := newHost(t, map[string]any{"preview": 0})
	require.NotContains(t, strings.Join(observe(t, h, events()...), "\n"), "done", "nothing of what was said is shown")
}

func TestHowRunsEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	require.Equal(t, []string{
		"error error after 1 steps: the model is down",
		"warn stopped after 1 steps by limits: too much",
	}, observe(
		t,
		h,
		abi.Event{
			Type:         abi.EventRunFinished,
			Step:         1,
			FinishReason: "error",
			Error:        &abi.Error{Message: "the model is down"},
		},
		abi.Event{Type: abi.EventRunFinished, Step: 1, FinishReason: "stopped", StoppedBy: "limits", Reason: "too much"},
	))
}

func TestSummary(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	for _, in := range []abi.AfterToolInput{
		{Call: abi.Call{Name: "read"}, Result: abi.TextResult("ok")},
		{Call: abi.Call{Name: "read"}, Result: abi.ErrorResult("no")},
		{Call: abi.Call{Name: "rm"}, Error: &abi.Error{Code: abi.CodeTool, Message: "down"}},
	} {
		require.NoError(t, h.Wipe())
		_, err := h.AfterTool(in)
		require.NoError(t, err)
	}
	h.SetMessages(abi.User("hi"), abi.Assistant("a"), abi.Assistant("b"))
	h.Run.Step = 3
	_, err := h.AfterAgent(abi.AfterAgentInput{NewFrom: 1, FinishReason: "stop", Usage: abi.Usage{TotalTokens: 5}})
	require.NoError(t, err)
	require.Equal(t, "summary", h.Events[0].Name)
	require.JSONEq(
		t,
		`{"finish_reason":"stop","steps":3,"messages":2,"tools":{"read":{"calls":2,"failed":1},"rm":{"calls":1,"failed":1}},
		"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":5}}`,
		string(h.Events[0].Data),
	)
}

func TestConfig(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	require.ErrorContains(t, h.Configure(map[string]any{"level": "trace"}), `config: level: "trace" is not one of`)
	require.ErrorContains(t, h.Configure(map[string]any{"preview": -1}), "config: preview: -1 is below 0")
}
