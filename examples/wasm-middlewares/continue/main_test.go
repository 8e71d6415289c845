package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
)

type object = map[string]any

func checks(list ...object) object { return object{"checks": list} }

func newHost(t *testing.T, config object) *middlewaretest.Host {
	t.Helper()
	h := middlewaretest.New(middleware.Options{Name: "continue"}, newKeeper())
	require.NoError(t, h.Configure(config))
	h.Run.Step, h.Run.MaxSteps = 1, 20
	return h
}

// says passes an answer of the model to the module, whose memory it wipes first. It returns the
// module's message to the model, or "" if the module accepts the answer.
func says(t *testing.T, h *middlewaretest.Host, text string) string {
	t.Helper()
	answer := abi.Assistant(text)
	answer.Origin = abi.OriginModel
	h.SetMessages(abi.User("hi"), answer)
	return decides(t, h)
}

func decides(t *testing.T, h *middlewaretest.Host) string {
	t.Helper()
	before := len(h.Messages())
	require.NoError(t, h.Wipe())
	_, err := h.AfterModelRewriteState(abi.AfterModelRewriteStateInput{})
	require.NoError(t, err)
	if now := h.Messages(); len(now) > before {
		require.Len(t, now, before+1)
		require.Equal(t, abi.RoleUser, now[before].Role)
		return now[before].Content.String()
	}
	return ""
}

// did passes the result of a tool call in the given step to the module. It is an error result
// unless ok is true.
func did(t *testing.T, h *middlewaretest.Host, step int, tool string, ok bool) {
	t.Helper()
	require.NoError(t, h.Wipe())
	h.Run.Step = step
	in := abi.AfterToolInput{Call: abi.Call{Name: tool}, Result: abi.TextResult("fine")}
	if !ok {
		in.Result = abi.ErrorResult("no")
	}
	_, err := h.AfterTool(in)
	require.NoError(t, err)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	h := newHost(t, object{
		"checks": []object{{"must": "^a"}, {"must_not": "z$", "say": "No z."}},
		"accept": []string{`\?$`}, "prompt": "{missing}", "max_times": 50,
	})
	for answer, want := range map[string]string{
		"abc": "", "abz": "- No z.", "b": "- The answer must match this regular expression: ^a",
		"bz": "- The answer must match this regular expression: ^a\n- No z.", "b?": "", "": "- The answer must match this regular expression: ^a",
	} {
		require.Equal(t, want, says(t, h, answer), answer)
	}
}

// TestOnlyTheModelsAnswers checks that the module ignores tool calls, the user's messages and
// answers of other modules.
func TestOnlyTheModelsAnswers(t *testing.T) {
	t.Parallel()
	h := newHost(t, checks(object{"must": "x"}))
	calls := abi.Message{
		Role:      abi.RoleAssistant,
		Origin:    abi.OriginModel,
		ToolCalls: []abi.ToolCall{abi.NewToolCall("1", "t", "{}")},
	}
	refusal := abi.Assistant("no")
	refusal.Origin = abi.OriginModule + "guard"
	for _, last := range []abi.Message{calls, refusal, abi.User("go on")} {
		h.SetMessages(abi.User("hi"), last)
		require.Empty(t, decides(t, h))
	}
	require.Empty(t, h.Events)
}

func TestCalled(t *testing.T) {
	t.Parallel()
	type call struct {
		step int
		tool string
		ok   bool
	}
	for name, c := range map[string]struct {
		check object
		calls []call
		want  string
	}{
		"never":                {object{"called": "save"}, nil, "- Call save, so that it succeeds."},
		"another":              {object{"called": "save"}, []call{{1, "load", true}}, "- Call save, so that it succeeds."},
		"failed":               {object{"called": "save"}, []call{{1, "save", false}}, "- Call save, so that it succeeds."},
		"worked":               {object{"called": "save"}, []call{{1, "save", true}}, ""},
		"worked, failed later": {object{"called": "save"}, []call{{1, "save", true}, {2, "save", false}}, ""},
		"pattern":              {object{"called": "run_*"}, []call{{1, "run_tests", true}}, ""},
		"own words":            {object{"called": "save", "say": "Save it."}, nil, "- Save it."},
		"after nothing":        {object{"called": "test", "after": []string{"edit"}}, nil, ""},
		"after an edit": {
			object{"called": "test", "after": []string{"edit"}}, []call{{1, "edit", true}, {2, "test", true}}, "",
		},
		"beside an edit":        {object{"called": "test", "after": []string{"edit"}}, []call{{1, "edit", true}, {1, "test", true}}, "- Call test after the last call of edit, so that it succeeds."},
		"before the last edit":  {object{"called": "test", "after": []string{"edit", "w*"}}, []call{{1, "edit", true}, {2, "test", true}, {3, "write", false}}, "- Call test after the last call of write, so that it succeeds."},
		"two edits of one step": {object{"called": "test", "after": []string{"*"}}, []call{{1, "b", true}, {1, "a", true}}, "- Call test after the last call of a, so that it succeeds."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := checks(c.check)
			config["prompt"] = "{missing}"
			h := newHost(t, config)
			for _, call := range c.calls {
				did(t, h, call.step, call.tool, call.ok)
			}
			require.Equal(t, c.want, says(t, h, "done"))
		})
	}
}

// TestKeepsLittle checks that the module stores no calls if no check depends on them.
func TestKeepsLittle(t *testing.T) {
	t.Parallel()
	h := newHost(t, checks(object{"must": "x"}))
	did(t, h, 1, "save", true)
	require.Empty(t, h.Locals())
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]object{
		"checks: want at least one":                                   nil,
		"checks[0]: want one of must, must_not, called, plan":         checks(object{"say": "x"}),
		"checks[1]: want one of must":                                 checks(object{"must": "x"}, object{"must": "x", "called": "y"}),
		"checks[0]: after: goes with called":                          checks(object{"must": "x", "after": []string{"y"}}),
		"checks[0]: error parsing regexp":                             checks(object{"must_not": "("}),
		"checks[0].calls":                                             checks(object{"calls": "x"}),
		"accept[0]: want a regular expression that does not match th": {"checks": []object{{"must": "x"}}, "accept": []string{"x*"}},
		"accept[1]: want a regular expression": {
			"checks": []object{{"must": "x"}}, "accept": []string{"x", "("},
		},
		"max_times: 0 is not 1 to 50":           {"checks": []object{{"must": "x"}}, "max_times": 0},
		`then: "go" is not one of answer, stop`: {"checks": []object{{"must": "x"}}, "then": "go"},
		"prompt: must contain {missing}":        {"checks": []object{{"must": "x"}}, "prompt": "go on"},
	} {
		h := middlewaretest.New(middleware.Options{}, newKeeper())
		require.ErrorContains(t, h.Configure(config), want)
	}
}
