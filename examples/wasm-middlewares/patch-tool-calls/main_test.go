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
		m := abi.ToolMessage(id, name, abi.Text(fmt.Sprintf(
			"Tool call %s with id %s was canceled - another message came in before it could be completed.", name, id)))
		m.Extra = []byte(`{"synthetic":true}`)
		return m
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

// inParts returns the message with its text as a part, followed by an image.
func inParts(m abi.Message) abi.Message {
	m.Content = abi.Parts(abi.Part{Type: abi.PartText, Text: m.Content.String()},
		abi.Part{Type: abi.PartImage, ImageURL: []byte(`{"url":"data:image/png;base64,AA=="}`)})
	return m
}

func newHost(t *testing.T, config any) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{}, newPatcher())
	require.NoError(t, h.Configure(config))
	return h
}

// step runs the hook and returns the messages without the fields that the host sets.
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
		"late result":              {[]abi.Message{onlyA, user, resultA}, []abi.Message{onlyA, user, resultA}},
		"late result of one of two": {
			[]abi.Message{user, both, user, resultA, user},
			[]abi.Message{user, both, b, user, resultA, user},
		},
		"late result of a later call": {
			[]abi.Message{onlyA, resultA, onlyA, user, resultA},
			[]abi.Message{onlyA, resultA, onlyA, user, resultA},
		},
		"several messages": {[]abi.Message{onlyA, both, resultA}, []abi.Message{onlyA, a, both, b, resultA}},
		"a call twice": {
			[]abi.Message{calls("t#c", "t#c"), abi.ToolMessage("c", "t", abi.Text("x"))},
			[]abi.Message{calls("t#c", "t#c"), canceled("t", "c"), abi.ToolMessage("c", "t", abi.Text("x"))},
		},
		"an orphan":            {[]abi.Message{resultA, user, resultA}, []abi.Message{resultA, user, resultA}},
		"a duplicate":          {[]abi.Message{onlyA, resultA, resultA}, []abi.Message{onlyA, resultA, resultA}},
		"parts":                {[]abi.Message{inParts(both), inParts(resultA)}, []abi.Message{inParts(both), b, inParts(resultA)}},
		"a call without an id": {[]abi.Message{calls("tool_a#"), user}, []abi.Message{calls("tool_a#"), user}},
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

func TestRemovesResults(t *testing.T) {
	t.Parallel()
	a, other := canceled("tool_a", "call_1"), abi.ToolMessage("call_9", "tool_z", abi.Text("z"))
	second := abi.ToolMessage("call_1", "tool_a", abi.Text("again"))
	for name, c := range map[string]struct {
		orphans, duplicates bool
		before, after       []abi.Message
	}{
		"an orphan at the begin":        {true, false, []abi.Message{resultA, user}, []abi.Message{user}},
		"an orphan behind a user":       {true, false, []abi.Message{user, resultA, user}, []abi.Message{user, user}},
		"an orphan between results":     {true, false, []abi.Message{both, other, resultA}, []abi.Message{both, canceled("tool_b", "call_2"), resultA}},
		"a late result":                 {true, false, []abi.Message{onlyA, user, resultA, resultA}, []abi.Message{onlyA, user, resultA}},
		"nothing but orphans":           {true, false, []abi.Message{resultA, other}, nil},
		"orphans stay":                  {false, true, []abi.Message{resultA, user}, []abi.Message{resultA, user}},
		"a duplicate":                   {false, true, []abi.Message{onlyA, resultA, second, user}, []abi.Message{onlyA, resultA, user}},
		"several":                       {true, true, []abi.Message{onlyA, second, resultA, other, second}, []abi.Message{onlyA, second}},
		"duplicates stay":               {true, false, []abi.Message{onlyA, resultA, second}, []abi.Message{onlyA, resultA, second}},
		"a result beside a placeholder": {false, true, []abi.Message{onlyA, a, resultA}, []abi.Message{onlyA, resultA}},
		"a result after a placeholder":  {false, false, []abi.Message{onlyA, a, resultA}, []abi.Message{onlyA, resultA}},
		"a late result of a placeholder": {
			false, false, []abi.Message{user, onlyA, a, user, resultA, user}, []abi.Message{user, onlyA, user, resultA, user},
		},
		"a late placeholder":         {false, false, []abi.Message{onlyA, user, a}, []abi.Message{onlyA, a, user}},
		"two placeholders":           {false, true, []abi.Message{onlyA, a, a}, []abi.Message{onlyA, a}},
		"the id of an earlier round": {true, true, []abi.Message{onlyA, resultA, onlyA, second}, []abi.Message{onlyA, resultA, onlyA, second}},
		"a call twice has two results": {
			true,
			true,
			[]abi.Message{
				calls("t#c", "t#c"), other, abi.ToolMessage("c", "t", abi.Text("1")), abi.ToolMessage("c", "t", abi.Text("2")),
			},
			[]abi.Message{
				calls("t#c", "t#c"), abi.ToolMessage("c", "t", abi.Text("1")), abi.ToolMessage("c", "t", abi.Text("2")),
			},
		},
		"parts of an orphan and a result": {true, true, []abi.Message{inParts(resultA), onlyA, inParts(resultA), resultA}, []abi.Message{onlyA, inParts(resultA)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, map[string]any{"remove_orphan_results": c.orphans, "remove_duplicate_results": c.duplicates})
			h.SetMessages(c.before...)
			got := step(t, h)
			require.Len(t, got, len(c.after))
			for i := range c.after {
				require.Equal(t, c.after[i], got[i], "message %d", i)
			}
			reported := len(h.Events)
			require.Equal(t, got, step(t, h), "a second look changes nothing")
			require.Len(t, h.Events, reported)
		})
	}
}

// TestStrict checks that a strict patcher changes nothing, and that its error lists the
// inconsistencies of a round.
func TestStrict(t *testing.T) {
	t.Parallel()
	for want, messages := range map[string][]abi.Message{
		"": {user, both, abi.ToolMessage("call_2", "tool_b", abi.Text("b")), resultA, user},
		"the call tool_b#call_2 of message 1 has no result":        {user, both, resultA},
		"message 0 is a result of tool_a#call_1: orphan":           {resultA},
		"message 2 is a result of tool_a#call_1: duplicate":        {onlyA, resultA, resultA},
		"message 0 has a call without an id; the call tool_a#call": {calls("tool_a#", "tool_a#call_1")},
	} {
		h := newHost(t, map[string]any{"strict": true})
		h.SetMessages(messages...)
		_, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, "the conversation is not sound: "+want)
			require.ErrorIs(t, err, &abi.Error{Code: abi.CodeInvalid})
		}
		require.Len(t, h.Messages(), len(messages))
	}
}

// TestLooksOnlyAtWhatChanged checks that the module reads only the last round after an addition,
// and that it also repairs an earlier round that changed.
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

	// Remove the result of an earlier call.
	now := h.Messages()
	h.SetMessages(append(now[:2:2], now[3:]...)...)
	require.Equal(t, canceled("t", "c0"), step(t, h)[2])
}

// TestLateResultOfAnEarlierStep checks that the placeholder of an earlier step gives way to a result
// that another middleware appends.
func TestLateResultOfAnEarlierStep(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	h.SetMessages(onlyA, user, both, resultA, abi.ToolMessage("call_2", "tool_b", abi.Text("b")), user)
	require.Equal(t, canceled("tool_a", "call_1"), step(t, h)[1])
	h.SetMessages(append(h.Messages(), resultA)...)
	require.Equal(t, user, step(t, h)[1])
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

// TestNamesAreNotTemplates checks that a tool name that looks like a template placeholder is not
// expanded.
func TestNamesAreNotTemplates(t *testing.T) {
	t.Parallel()
	h := newHost(t, map[string]any{"template": "{name}/{id}"})
	h.SetMessages(calls("{id}#x"))
	require.Equal(t, "{id}/x", step(t, h)[1].Content.String())
}

func TestConfig(t *testing.T) {
	t.Parallel()
	h := middlewaretest.New(middleware.Options{}, newPatcher())
	require.ErrorContains(t, h.Configure(map[string]any{"language": "fr"}), `config: language: "fr" is not one of en, zh`)
	require.ErrorContains(
		t,
		h.Configure(map[string]any{"strict": true, "remove_orphan_results": true}),
		"config: strict repairs nothing",
	)
	require.ErrorContains(t, h.Configure(map[string]any{"lang": "en"}), "lang")
}
