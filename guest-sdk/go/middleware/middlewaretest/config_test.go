package middlewaretest_test

import (
	"errors"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware/middlewaretest"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// denier has every kind of configuration field.
type denier struct {
	Patterns []string       `json:"patterns" doc:"names of tools that are denied, as regular expressions"`
	Limits   map[string]int `json:"limits,omitempty"`
	Reason   *string        `json:"reason"`
	Sub      struct {
		Rate float64   `json:"rate"`
		From time.Time `json:"from"`
	} `json:"sub"`
	base
	Inside  string `json:"-"`
	Untaged bool

	compiled []*regexp.Regexp
	calls    int
}

type base struct {
	Mode string `json:"mode"`
}

func (d *denier) Configure(*middleware.Context) error {
	for _, p := range d.Patterns {
		re, err := regexp.Compile(p)
		if err != nil {
			return &abi.Error{Code: abi.CodeInvalid, Message: "patterns: " + err.Error()}
		}
		d.compiled = append(d.compiled, re)
	}
	return nil
}

func (d *denier) GateTool(_ *middleware.Context, call *middleware.Call) (middleware.Decision, error) {
	d.calls++
	for _, re := range d.compiled {
		if re.MatchString(call.Name) {
			return middleware.Deny(re.String()), nil
		}
	}
	return middleware.Allow(), nil
}

func TestConfigure(t *testing.T) {
	t.Parallel()
	d := &denier{Patterns: []string{"^rm", "^mv"}, base: base{Mode: "strict"}, Inside: "kept"}
	h := middlewaretest.New(middleware.Options{Name: "denier"}, d)
	decide := func(name string) string {
		answer, err := h.GateTool(abi.GateToolInput{Call: abi.Call{Name: name}})
		require.NoError(t, err)
		return answer.Decision
	}
	require.Equal(t, "deny", decide("rm"), "without a configuration, what was registered")
	require.Equal(t, 1, d.calls)

	require.NoError(t, h.Configure(map[string]any{"patterns": []string{"^cp"}, "sub": map[string]any{"rate": 0.5}}))
	require.Equal(t, "allow", decide("rm"))
	require.Equal(t, "deny", decide("cp"))
	require.Equal(t, "strict", d.Mode, "what is left out is as it was registered")
	require.Equal(t, "kept", d.Inside)
	require.InDelta(t, 0.5, d.Sub.Rate, 0)
	require.Len(t, d.compiled, 1, "nothing is left of the configuration before")

	require.NoError(t, h.Configure(nil))
	require.Equal(t, "deny", decide("mv"), "a configuration does not write into what was registered")
	require.Equal(t, 1, d.calls, "nothing is left of the memory before")
}

func TestConfigureErrors(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"pattern":[]}`:           "config: unknown key pattern; allowed: patterns, limits, reason, sub, mode, Untaged",
		`{"sub":{"rate":1,"x":2}}`: "config: unknown key sub.x",
		`{"patterns":"^rm"}`:       "config: patterns: want an array, got a string",
		`{"sub":{"rate":"fast"}}`:  "config: sub.rate: want a number, got a string",
		`{"limits":{"a":1.5}}`:     "config: ",
		`{"Mode":"x"}`:             `key "Mode" differs from "mode" in case only`,
		`{"mode":"a","mode":"b"}`:  "is duplicated",
		`{"Inside":"x"}`:           "unknown key Inside",
		`[]`:                       "config: want an object, got an array",
		`{"patterns":["("]}`:       "patterns: error parsing regexp",
	} {
		m := middleware.NewModule(middleware.Options{}, &denier{})
		output, ok := m.Call(nil, contract.HookConfigure, []byte(`{"entry":"e","config":`+in+`}`))
		require.False(t, ok, in)
		var failed abi.Error
		_, err := abijson.Decode(output, &failed)
		require.NoError(t, err)
		require.Equal(t, abi.CodeInvalid, failed.Code, in)
		require.Contains(t, failed.Message, want, in)
	}
}

func TestConfigureWithoutConfig(t *testing.T) {
	t.Parallel()
	h := middlewaretest.New(middleware.Options{}, middleware.WithInstruction("x"))
	require.NoError(t, h.Configure(nil))
	require.NoError(t, h.Configure(map[string]any{}))
	require.EqualError(t, h.Configure(map[string]any{"a": 1}), "config: unknown key a; this module takes no configuration")
}

type greeter struct{ text string }

func (g *greeter) BeforeAgent(_ *middleware.Context, run *middleware.AgentStart) error {
	run.AddInstruction(g.text)
	return nil
}

func TestBuild(t *testing.T) {
	t.Parallel()
	type config struct {
		Name string `json:"name"`
	}
	h := middlewaretest.New(middleware.Options{}, middleware.Build(func(c config) (*greeter, error) {
		if c.Name == "" {
			return nil, errors.New("name is missing: say who is greeted")
		}
		return &greeter{"hello " + c.Name}, nil
	}))
	d, err := h.Describe()
	require.NoError(t, err)
	require.Equal(t, []abi.Hook{contract.HookConfigure, contract.HookBeforeAgent}, d.Hooks)
	require.JSONEq(t, `{"type":"object","properties":{"name":{"type":"string"}},"additionalProperties":false}`,
		string(d.ConfigSchema))
	require.EqualError(t, h.Configure(nil), "name is missing: say who is greeted")
	_, err = h.BeforeAgent(abi.BeforeAgentInput{})
	require.ErrorContains(t, err, "was not configured")
	require.NoError(t, h.Configure(config{"you"}))
	answer, err := h.BeforeAgent(abi.BeforeAgentInput{})
	require.NoError(t, err)
	require.Equal(t, "hello you", *answer.Instruction)
}

func TestConfigSchema(t *testing.T) {
	t.Parallel()
	h := middlewaretest.New(middleware.Options{}, &denier{})
	d, err := h.Describe()
	require.NoError(t, err)
	require.Equal(t, `{"type":"object","properties":{`+
		`"patterns":{"type":"array","description":"names of tools that are denied, as regular expressions","items":{"type":"string"}},`+
		`"limits":{"type":"object","additionalProperties":{"type":"integer"}},`+
		`"reason":{"type":"string"},`+
		`"sub":{"type":"object","properties":{"rate":{"type":"number"},"from":{}},"additionalProperties":false},`+
		`"mode":{"type":"string"},`+
		`"Untaged":{"type":"boolean"}},"additionalProperties":false}`, string(d.ConfigSchema))

	own := middlewaretest.New(middleware.Options{ConfigSchema: []byte(`{"type":"object"}`)}, &denier{})
	d, err = own.Describe()
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object"}`, string(d.ConfigSchema))
}

type tree struct {
	Left *tree  `json:"left"`
	Raw  []byte `json:"raw"`
	Any  any    `json:"any"`
}

func (*tree) OnChunk(*middleware.Context, *middleware.Chunks) error { return nil }

func TestConfigSchemaRecursive(t *testing.T) {
	t.Parallel()
	d, err := middlewaretest.New(middleware.Options{}, &tree{}).Describe()
	require.NoError(t, err)
	require.JSONEq(
		t,
		`{"type":"object","properties":{"left":{"type":"object"},"raw":{"type":"string"},"any":{}},"additionalProperties":false}`,
		string(d.ConfigSchema),
	)
}
