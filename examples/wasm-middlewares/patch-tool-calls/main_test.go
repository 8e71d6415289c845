package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

var (
	user     = abi.User("hi")
	onlyA    = calls("tool_a#call_1")
	both     = calls("tool_a#call_1", "tool_b#call_2")
	resultA  = abi.ToolMessage("call_1", "tool_a", abi.Text("result_a"))
	canceled = func(name, id string) abi.Message {
		return abi.ToolMessage(id, name, abi.Text(fmt.Sprintf(
			"Tool call %s with id %s was canceled - another message came in before it could be completed.", name, id)))
	}
)

func calls(pairs ...string) abi.Message {
	m := abi.Message{Role: abi.RoleAssistant}
	for _, p := range pairs {
		var name, id string
		for i, c := range p {
			if c == '#' {
				name, id = p[:i], p[i+1:]
			}
		}
		m.ToolCalls = append(m.ToolCalls, abi.NewToolCall(id, name, "{}"))
	}
	return m
}

func newHost(t *testing.T, config any) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{}, &patcher{Language: "en"})
	require.NoError(t, h.Configure(config))
	return h
}

// step runs the hook and returns the messages without what is the host's.
func step(t *testing.T, h *middlewaretest.Host) []abi.Message {
	t.Helper()
	_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	require.NoError(t, err)
	out := h.Messages()
	for i := range out {
		out[i].ID, out[i].Origin = "", ""
	}
	return out
}

func TestPlaceholders(t *testing.T) {
	t.Parallel()
	a := canceled("tool_a", "call_1")
	b := canceled("tool_b", "call_2")
	more := abi.Assistant("continued…")
	for name, c := range map[string]struct{ before, after []abi.Message }{
		"nothing":                  {nil, nil},
		"no calls":                 {[]abi.Message{user, more}, []abi.Message{user, more}},
		"all answered":             {[]abi.Message{user, onlyA, resultA}, []abi.Message{user, onlyA, resultA}},
		"one of two":               {[]abi.Message{user, both, resultA}, []abi.Message{user, both, b, resultA}},
		"none of two":              {[]abi.Message{both}, []abi.Message{both, a, b}},
		"an assistant's behind it": {[]abi.Message{user, onlyA, more}, []abi.Message{user, onlyA, a, more}},
		"the user's behind it":     {[]abi.Message{user, onlyA, user}, []abi.Message{user, onlyA, a, user}},
		"late result":              {[]abi.Message{onlyA, user, resultA}, []abi.Message{onlyA, a, user, resultA}},
		"several messages":         {[]abi.Message{onlyA, both, resultA}, []abi.Message{onlyA, a, both, b, resultA}},
		"a call without an id":     {[]abi.Message{calls("tool_a#"), user}, []abi.Message{calls("tool_a#"), user}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, nil)
			h.SetMessages(c.before...)
			step(t, h)
			require.Equal(t, len(c.after), len(c.before)+len(h.Events), "each placeholder is told of")
			got := step(t, h)
			for i := range c.after {
				require.Equal(t, c.after[i], got[i], "message %d; a second look changes nothing", i)
			}
		})
	}
}

// Only what changed is looked at, and it is right wherever the change is.
func TestLooksOnlyAtWhatChanged(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	history := []abi.Message{user}
	for i := range 100 {
		id := fmt.Sprint("c", i)
		history = append(history, calls("t#"+id), abi.ToolMessage(id, "t", abi.Text("ok")))
	}
	h.SetMessages(history...)
	step(t, h)
	require.Equal(t, len(history), h.Pulled)

	h.SetMessages(append(h.Messages(), both, resultA)...)
	require.NoError(t, h.Wipe())
	got := step(t, h)
	require.Equal(t, canceled("tool_b", "call_2"), got[len(got)-2])
	require.LessOrEqual(t, h.Pulled-len(history), 8, "after the memory was wiped, only the last round is read")

	// The result of an earlier call is taken away.
	now := h.Messages()
	h.SetMessages(append(now[:2:2], now[3:]...)...)
	require.Equal(t, canceled("t", "c0"), step(t, h)[2])
}

func TestTexts(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]any{
		"工具 tool_a 的调用（id call_1）已取消：在它完成之前又收到了新的消息。": map[string]any{"language": "zh"},
		"123 tool_a call_1": map[string]any{"template": "123 {name} {id}"},
	} {
		h := newHost(t, config)
		h.SetMessages(user, onlyA)
		require.Equal(t, want, step(t, h)[2].Content.String())
	}
}

// A name that looks like a placeholder is not one.
func TestNamesAreNotTemplates(t *testing.T) {
	t.Parallel()
	h := newHost(t, map[string]any{"template": "{name}/{id}"})
	h.SetMessages(calls("{id}#x"))
	require.Equal(t, "{id}/x", step(t, h)[1].Content.String())
}

func TestConfig(t *testing.T) {
	t.Parallel()
	h := middlewaretest.New(middleware.Options{}, &patcher{Language: "en"})
	require.ErrorContains(t, h.Configure(map[string]any{"language": "fr"}), `config: language: "fr" is not one of en, zh`)
	require.ErrorContains(t, h.Configure(map[string]any{"lang": "en"}), "lang")
}
