package golden

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

func TestNotation(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"user: hi", "assistant: text [t#1] [u#2 {\"x\":1}]", "assistant: [t#1]", "tool#1: a\\nb", "system: s", "assistant:",
		`user: a \\n b`,
	} {
		m, err := parseMessage(line)
		require.NoError(t, err)
		require.Equal(t, line, formatMessage(m))
	}
	_, err := parseMessage("nobody: hi")
	require.Error(t, err)
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{"-- state --\n", "the head must say which behaviour the case guards"},
		{"A.\n-- model --\n", "nothing is expected"},
		{"A.\n-- stat --\n", "stat: a conversation has no such part"},
		{"A.\n-- state --\n-- tools --\nt\n", `tools: "t" is no tool`},
		{"A.\n-- state --\n-- tools --\nt: a\nt streams: b\n", "all lines of a tool stream, or none"},
		{"A.\n-- state --\n-- tools --\nt {a}: b\n", "the arguments are no JSON object"},
		{"A.\n-- state --\n-- model --\n{\"size\":1}\n", "a reply needs a message, an error or hang"},
		{"A.\n-- state --\n-- model --\n{\"massage\":{}}\n", `unknown key "massage"`},
		{"A.\n-- state --\n-- answers --\nyes\n", `"yes" is no answer`},
		{"A.\n-- state --\n-- agent.yaml --\nmiddleware: []\n", "agent.yaml: "},
		{"A.\n-- state --\n-- h.ts --\n", "h.ts: there is no h.go that it does the same as"},
		{"A.\n-- state --\n-- h.go --\npackage h\n", "h.go has no type Middleware with a hook"},
	} {
		_, err := Parse("x.txtar", []byte(test.text))
		require.ErrorContains(t, err, test.want, test.text)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	const text = "About.\n-- model --\nassistant: done\n-- told 1 --\n-- state --\nuser: old\n"
	c, err := Parse("own-x.txtar", []byte(text))
	require.NoError(t, err)
	outcome := func(state string, tools ...string) *wire.Outcome {
		return &wire.Outcome{State: []abi.Message{abi.User(state)}, ModelCalls: []wire.ModelCall{{Tools: tools}}}
	}

	got, err := c.Update(outcome("old"))
	require.NoError(t, err)
	require.Equal(t, text, string(got))

	got, err = c.Update(outcome("new"))
	require.NoError(t, err)
	require.Equal(t, strings.Replace(text, "user: old", "user: new", 1), string(got))

	_, err = c.Update(outcome("new", "t"))
	require.ErrorContains(t, err, "told 1 is empty: write what you expect first")

	twice := outcome("new")
	twice.ModelCalls = append(twice.ModelCalls, twice.ModelCalls[0])
	_, err = c.Update(twice)
	require.ErrorContains(t, err, "model call 2 has no reply")
	_, err = c.Update(&wire.Outcome{})
	require.ErrorContains(t, err, "told 1: model call 1 did not take place")

	_, err = c.Update(&wire.Outcome{Refused: "no ring"})
	require.ErrorContains(t, err, "the agent cannot be built: no ring")
}

// TestArguments checks that Compare reports tools that received other arguments than the case
// states. Without Strict, a tool whose line states no arguments accepts any.
func TestArguments(t *testing.T) {
	t.Parallel()
	c, err := Parse(
		"own-x.txtar",
		[]byte("About.\n-- tools --\nt {\"x\":{\"y\": 1}}: a: b\nt: ok\nt {\"x\":3}! no\n-- error --\n"),
	)
	require.NoError(t, err)
	require.Equal(t, []wire.Turn{{Text: "a: b"}, {Text: "ok"}, {Error: "no"}}, c.Request().Tools[0].Turns)
	for _, test := range []struct {
		received     []string
		strict, same bool
	}{
		{nil, true, true},
		{[]string{`{"x":{"y": 1}}`}, true, true},
		{[]string{`{"x":2}`}, false, false},
		{[]string{`{}`, `{"x":{"y": 1}}`, `{"x":3}`, `{"x":3}`}, true, true},
		{[]string{`{"x":{"y": 1}}`, `{"x":2}`}, true, false},
		{[]string{`{"x":{"y": 1}}`, `{"x":2}`}, false, true},
		{[]string{`{"x":{"y": 1}}`, `{"x":2}`, `{"x":2}`}, false, false},
	} {
		o := &wire.Outcome{Refused: "x"}
		for _, arguments := range test.received {
			o.ToolCalls = append(o.ToolCalls, wire.ToolCall{Name: "t", Arguments: arguments})
		}
		c.Strict = test.strict
		differences, err := c.Compare(o, false)
		require.NoError(t, err)
		require.Equal(t, test.same, len(differences) == 0, "%v: %v", test, differences)
	}

	o := &wire.Outcome{Refused: "x", Events: []abi.Event{
		{Type: abi.EventToolResult, Source: "tool", Call: &abi.Call{Name: "t"}, Result: abi.TextResult("")},
	}}
	differences, err := c.Compare(o, false)
	require.NoError(t, err)
	require.Len(t, differences, 1, "the result of a call that did not reach its tool")
}

// TestTexts checks that without the capability "texts", Compare ignores the wording of the host's
// own errors, and nothing else.
func TestTexts(t *testing.T) {
	t.Parallel()
	c, err := Parse("own-x.txtar", []byte("About.\n-- events fault,run_finished,model_attempt --\n"+
		"model_attempt 1 m: overloaded, then n\n"+
		"fault h.before_agent run_ended: boom\n"+
		"run_finished error internal: h: boom\n"))
	require.NoError(t, err)
	o := &wire.Outcome{Events: []abi.Event{
		{Type: abi.EventModelAttempt, Attempt: 1, Model: "m", Next: "n", Error: &abi.Error{Message: "too busy"}},
		{Type: abi.EventFault, Entry: "h", Hook: "before_agent", Action: "run_ended", Cause: "it broke"},
		{Type: abi.EventRunFinished, FinishReason: "error", Error: &abi.Error{Code: "internal", Message: "broken"}},
	}}
	differences, err := c.Compare(o, false)
	require.NoError(t, err)
	require.Empty(t, differences)
	differences, err = c.Compare(o, true)
	require.NoError(t, err)
	require.Len(t, differences, 1)

	o.Events[2].Error.Code = "invalid"
	differences, err = c.Compare(o, false)
	require.NoError(t, err)
	require.Len(t, differences, 1)
	require.Contains(t, differences[0].String(), "-run_finished error internal\n+run_finished error invalid\n")
}
