package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

type object = map[string]any

// step returns a message of the model and the results of its calls. A call has the form "tool
// arguments=result".
func step(text string, calls ...string) []abi.Message {
	m := abi.Assistant(text)
	out := []abi.Message{m}
	for i, c := range calls {
		call, result, _ := strings.Cut(c, "=")
		name, arguments, _ := strings.Cut(call, " ")
		id := fmt.Sprint("c", i)
		out[0].ToolCalls = append(out[0].ToolCalls, abi.NewToolCall(id, name, arguments))
		out = append(out, abi.Message{Role: abi.RoleTool, ToolCallID: id, Content: abi.Text(result)})
	}
	return out
}

// steps returns a conversation that consists of a user's message and the given steps.
func steps(all ...[]abi.Message) []abi.Message {
	out := []abi.Message{abi.User("go")}
	for i, s := range all {
		for _, m := range s {
			// Call IDs must be unique across steps.
			for j := range m.ToolCalls {
				m.ToolCalls[j].ID += fmt.Sprint("-", i)
			}
			if m.ToolCallID != "" {
				m.ToolCallID += fmt.Sprint("-", i)
			}
			out = append(out, m)
		}
	}
	return out
}

// look returns the module's reaction to a conversation: "", or text that begins with "hint: " or
// "stop: ".
func look(t *testing.T, config object, messages []abi.Message) string {
	t.Helper()
	h := middlewaretest.New(middleware.Options{}, newAntiLoop())
	require.NoError(t, h.Configure(config))
	h.SetMessages(messages...)
	answer, err := h.BeforeModelRewriteState(abi.BeforeModelRewriteStateInput{})
	require.NoError(t, err)
	if answer.Stop != nil {
		require.Equal(t, "loop", answer.Stop.Code)
		return "stop: " + answer.Stop.Reason
	}
	if now := h.Messages(); len(now) > len(messages) {
		return "hint: " + now[len(now)-1].Content.String()
	}
	require.Empty(t, h.Events)
	return ""
}

func TestLoops(t *testing.T) {
	t.Parallel()
	a, b := step("", `t {"x":1}=same`), step("", `u {}=other`)
	changes := func(n int) []abi.Message { return step("", fmt.Sprintf(`t {"x":1}=%d`, n)) }
	long := strings.Repeat("I will look into it now. ", 5)
	tool := "called t with the same arguments"
	for name, c := range map[string]struct {
		config object
		steps  [][]abi.Message
		want   string
	}{
		"nothing yet": {nil, nil, ""},
		"twice":       {nil, [][]abi.Message{a, a}, ""},
		"three times": {nil, [][]abi.Message{a, a, a}, "hint: You have " + tool + " 3 times"},
		"in another order": {
			nil,
			[][]abi.Message{step("", `t {"x":1,"y":2}=r`), step("", `t {"y":2,"x":1}=r`), step("", `t { "x":1, "y":2}=r`)},
			"hint",
		},
		"six times":               {nil, [][]abi.Message{a, a, a, a, a, a}, "stop: The model has " + tool + " 6 times."},
		"by turns":                {nil, [][]abi.Message{a, b, a, b, a}, "hint: You have " + tool + " 3 times"},
		"the last was another":    {nil, [][]abi.Message{a, a, a, b}, ""},
		"other arguments":         {nil, [][]abi.Message{a, step("", `t {"x":2}=same`), step("", `t {"x":3}=same`)}, ""},
		"until something changes": {nil, [][]abi.Message{changes(1), changes(2), changes(3), changes(4)}, ""},
		"results do not count":    {object{"results": false}, [][]abi.Message{changes(1), changes(2), changes(3)}, "hint"},
		"a tool that may":         {object{"except": []string{"t*"}}, [][]abi.Message{a, a, a, a, a, a, a}, ""},
		"thrice in one message":   {nil, [][]abi.Message{step("", "t {}=r", "t {}=r", "t {}=r")}, ""},
		"beside others": {
			nil,
			[][]abi.Message{step("", "t {}=r", "u {}=1"), step("", "t {}=r", "u {}=2"), step("", "t {}=r", "u {}=3")},
			"hint: You have " + tool,
		},
		"no JSON": {nil, [][]abi.Message{step("", "t {x=bad"), step("", "t {x=bad"), step("", "t {x=bad")}, "hint"},
		"text": {
			nil, [][]abi.Message{step("Done."), step("done. "), step(" Done.")}, "hint: You have said the same 3 times",
		},
		"a long text with other calls": {
			nil,
			[][]abi.Message{step(long, "t {}=1"), step(long, "t {}=2"), step(long, "t {}=3")},
			"hint: You have said the same",
		},
		"short words with other calls": {
			nil,
			[][]abi.Message{step("Let me look.", "t {}=1"), step("Let me look.", "t {}=2"), step("Let me look.", "t {}=3")},
			"",
		},
		"never hint":        {object{"hint_after": 0, "stop_after": 2}, [][]abi.Message{a, a}, "stop"},
		"never stop":        {object{"stop_after": 0}, [][]abi.Message{a, a, a, a, a, a, a, a}, "hint: You have " + tool + " 8 times"},
		"beyond the window": {object{"window": 6, "hint_after": 3, "stop_after": 0}, [][]abi.Message{a, b, a, b, a}, ""},
		"one's own words":   {object{"hint": "%s: %d!"}, [][]abi.Message{a, a, a}, "hint: " + tool + ": 3!"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := look(t, c.config, steps(c.steps...))
			if c.want == "" {
				require.Empty(t, got)
			}
			require.True(t, strings.HasPrefix(got, c.want), got)
		})
	}
}

// TestUserSpeaks checks that a repetition that the user asked for is not a loop, and that a
// module's hint does not count as a message of the user.
func TestUserSpeaks(t *testing.T) {
	t.Parallel()
	a := step("", `t {"x":1}=same`)
	again := append(steps(a, a), abi.User("once more"))
	again = append(again, a...)
	require.Empty(t, look(t, nil, again))

	reported := steps(a, a)
	reported = append(reported, abi.Message{Role: abi.RoleUser, Content: abi.Text("hint"), Origin: "module:anti-loop"})
	require.Contains(t, look(t, nil, append(reported, a...)), "hint")
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]object{
		"once is no loop":              {"hint_after": 1},
		"both 0":                       {"hint_after": 0, "stop_after": 0},
		"must be below stop_after":     {"hint_after": 6},
		"window: 5 messages":           {"window": 5},
		"window: at most":              {"window": 20000},
		"hint: want one %s":            {"hint": "stop it"},
		"hint: want one %s, one %d be": {"hint": "%d %s"},
	} {
		h := middlewaretest.New(middleware.Options{}, newAntiLoop())
		require.ErrorContains(t, h.Configure(config), want)
	}
}
