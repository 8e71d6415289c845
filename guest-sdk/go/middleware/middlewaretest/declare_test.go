package middlewaretest_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/json"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// limiter is a middleware that the tests both declare and register. A host must not see a
// difference.
type limiter struct {
	Deny   []string `json:"deny" doc:"tools that are never called"`
	Reason string   `json:"reason" doc:"what the model is told"`
	Most   int      `json:"most" doc:"how many calls there may be"`
	Share  float64  `json:"share" doc:"of something"`
	Strict bool     `json:"strict" doc:"whether it is"`

	calls int
}

func (l *limiter) Configure(*middleware.Context) error {
	if l.calls = 0; l.Most < 0 {
		return errors.New("most must not be negative")
	}
	return nil
}

func (l *limiter) GateTool(_ *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	l.calls++
	for _, name := range l.Deny {
		if name == call.Name {
			return middleware.Deny(l.Reason), nil
		}
	}
	if l.calls > l.Most {
		return middleware.Ask("once more?").With(map[string]int{"calls": l.calls}), nil
	}
	return middleware.Allow(), nil
}

func (l *limiter) BeforeAgent(_ *middleware.Context, run *middleware.AgentStart) error {
	run.AddInstruction(l.Reason)
	return nil
}

var limiterOptions = middleware.Options{Name: "limiter", Version: "2", Requires: []string{"gate_tool"}}

func registeredLimiter() *middlewaretest.Host {
	return middlewaretest.New(limiterOptions, &limiter{Deny: []string{"rm"}, Reason: "no", Most: 2})
}

func declaredLimiter() *middlewaretest.Host {
	l := &limiter{Deny: []string{"rm"}, Reason: "no", Most: 2}
	d := middleware.Declare(limiterOptions)
	d.Strings(&l.Deny, "deny", "tools that are never called")
	d.String(&l.Reason, "reason", "what the model is told")
	d.Int(&l.Most, "most", "how many calls there may be")
	d.Float(&l.Share, "share", "of something")
	d.Bool(&l.Strict, "strict", "whether it is")
	d.Configure(l)
	d.GateTool(l)
	d.BeforeAgent(l)
	return middlewaretest.NewDeclared(d)
}

func TestDeclaredEqualsRegistered(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func() *middlewaretest.Host{
		"registered": registeredLimiter, "declared": declaredLimiter,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := make()
			d, err := h.Describe()
			require.NoError(t, err)
			require.Equal(t, []abi.Hook{contract.HookConfigure, contract.HookBeforeAgent, contract.HookGateTool}, d.Hooks)
			require.Equal(t, "limiter 2 [gate_tool]", d.Name+" "+d.Version+" ["+d.Requires[0]+"]")
			require.Equal(
				t,
				`{"type":"object","properties":{"deny":{"type":"array","description":"tools that are never called","items":{"type":"string"}},`+
					`"reason":{"type":"string","description":"what the model is told"},"most":{"type":"integer","description":"how many calls there may be"},`+
					`"share":{"type":"number","description":"of something"},"strict":{"type":"boolean","description":"whether it is"}},"additionalProperties":false}`,
				string(d.ConfigSchema),
			)

			decide := func(tool string) abi.GateToolAnswer {
				answer, err := h.GateTool(abi.GateToolInput{Call: abi.Call{Name: tool}})
				require.NoError(t, err)
				return answer
			}
			require.Equal(t, abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "no"}, decide("rm"))
			require.Equal(t, abi.DecideAllow, decide("ls").Decision)
			require.Equal(t,
				abi.GateToolAnswer{Decision: abi.DecideAsk, Message: "once more?", Payload: abi.JSON(`{"calls":3}`)}, decide("ls"))
			start, err := h.BeforeAgent(abi.BeforeAgentInput{Instruction: "go"})
			require.NoError(t, err)
			require.Equal(t, "go\nno", *start.Instruction)

			require.NoError(t, h.Configure(map[string]any{"deny": []string{"ls"}, "share": 0.5, "strict": true, "most": 1}))
			require.Equal(t, abi.DecideDeny, decide("ls").Decision)
			require.Equal(t, abi.DecideAsk, decide("rm").Decision)
			require.NoError(t, h.Configure(nil))
			require.Equal(t, abi.DecideDeny, decide("rm").Decision, "what is left out is as it was declared")
			require.Equal(t, abi.DecideAllow, decide("ls").Decision)
		})
	}
}

func TestDeclaredErrors(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`{"denied":[]}`:           "config: unknown key denied; allowed: deny, reason, most, share, strict",
		`{"a":1,"b":{},"most":1}`: "config: unknown key a, b; allowed: deny, reason, most, share, strict",
		`{"deny":"rm"}`:           "config: deny: want an array, got a string (at byte 8)",
		`{"deny":["a",1]}`:        "config: deny[1]: want a string, got a number (at byte 13)",
		`{"most":"2"}`:            "config: most: want a number, got a string (at byte 8)",
		`{"strict":1}`:            "config: strict: want true or false, got a number (at byte 10)",
		`{"most":-1}`:             "most must not be negative",
		`[]`:                      "config: want an object, got an array (at byte 0)",
	} {
		for name, make := range map[string]func() *middlewaretest.Host{
			"registered": registeredLimiter, "declared": declaredLimiter,
		} {
			require.EqualError(t, make().Configure(abi.JSON(config)), want, "%s: %s", name, config)
		}
	}
	require.ErrorContains(t, declaredLimiter().Configure(abi.JSON(`{"most":1.5}`)),
		"config: most: number 1.5 does not fit; want a whole number in range")
	require.EqualError(
		t,
		middlewaretest.NewDeclared(middleware.Declare(middleware.Options{})).Configure(map[string]int{"a": 1}),
		"config: unknown key a; this module takes no configuration",
	)
}

func TestDeclaredHooks(t *testing.T) {
	t.Parallel()
	var calls []abi.Hook
	all, d := everything{func(_ *middleware.Context, h abi.Hook) error {
		calls = append(calls, h)
		return nil
	}}, middleware.Declare(middleware.Options{})
	declare := reflect.ValueOf(d)
	for i := range declare.NumMethod() {
		m := declare.Type().Method(i)
		if m.Type.NumIn() == 2 && strings.HasSuffix(m.Type.In(1).Name(), "Hook") && m.Name != "BeforeAgent" {
			declare.Method(i).Call([]reflect.Value{reflect.ValueOf(all)})
		}
	}
	d.Observe(all)
	d.Tools(middleware.NewTool("echo", "says it again", func(_ *middleware.Context, args struct {
		Text string `json:"text"`
	}) (string, error) {
		return args.Text, nil
	}))
	h := middlewaretest.NewDeclared(d)
	described, err := h.Describe()
	require.NoError(t, err)
	require.Len(t, described.Hooks, len(contract.Hooks())-1, "all but describe, which is none")
	for _, hook := range described.Hooks {
		if hook == contract.HookConfigure || hook == contract.HookBeforeAgent || hook == contract.HookCallTool {
			continue
		}
		calls = nil
		_, ok := h.Call(hook,
			[]byte(`{"run":{"id":"r"},"entry":"e","response":{"message":{"role":"assistant"}},"result":{"content":"x"}}`))
		require.True(t, ok, hook)
		want := []abi.Hook{hook}
		if hook == contract.HookObserve {
			want = append(want, want...) // two middlewares have it
		}
		require.Equal(t, want, calls)
	}
	start, err := h.BeforeAgent(abi.BeforeAgentInput{})
	require.NoError(t, err)
	require.Equal(t, "echo", start.Tools.Add[0].Name)
	answer, err := h.CallTool(abi.CallToolInput{Call: abi.Call{Name: "echo", Arguments: `{"text":"hi"}`}})
	require.NoError(t, err)
	require.Equal(t, "hi", answer.Result.Content.String())
}

// TestDeclaredValueIsReset checks that a second configuration without the key of a value restores
// the value that it had when it was declared.
func TestDeclaredValueIsReset(t *testing.T) {
	t.Parallel()
	ports := []int64{80}
	d := middleware.Declare(middleware.Options{Name: "ports"})
	middleware.Value(d, &ports, "ports", "where it listens", func(r *json.Reader) (list []int64) {
		for r.Next() {
			list = append(list, r.Int())
		}
		return list
	})
	h := middlewaretest.NewDeclared(d)
	require.NoError(t, h.Configure(abi.JSON(`{"ports":[1,2]}`)))
	require.Equal(t, []int64{1, 2}, ports)
	require.NoError(t, h.Configure(nil))
	require.Equal(t, []int64{80}, ports)
}
