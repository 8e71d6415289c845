package chain

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// TestSettings checks which models, parameters and limits an answer of before_agent may set.
func TestSettings(t *testing.T) {
	t.Parallel()
	limits := abi.RunLimits{MaxSteps: 20, ToolCalls: 5, Tools: map[string]int{"t": 2}}
	start := Start{Model: "small", Limits: limits, MaxSteps: 100, Messages: conversation(),
		Allow: func(model string, _ abi.Params) error {
			if model == "large" {
				return errors.New("too expensive")
			}
			return nil
		}}
	h := &harness{}
	r := h.open(t)
	apply := func(s Start, ring hook.Ring, out abi.BeforeAgentAnswer) (Start, error) {
		m := &hook.Member{Plan: &hook.Plan{Entry: hook.Entry{Name: "e", Ring: ring}}}
		return r.applyStart(r.Call(m, contract.HookBeforeAgent), s, &out, m, nil)
	}

	got, err := apply(start, hook.Tenant, abi.BeforeAgentAnswer{
		Model:  "other",
		Limits: &abi.LimitsPatch{MaxSteps: 10, ModelCalls: 7, Tools: map[string]int{"t": 1, "u": 9}},
	})
	require.NoError(t, err)
	require.Equal(t, "other", got.Model)
	require.Equal(
		t,
		abi.RunLimits{MaxSteps: 10, ModelCalls: 7, ToolCalls: 5, Tools: map[string]int{"t": 1, "u": 9}},
		got.Limits,
	)
	require.Equal(t, map[string]int{"t": 2}, limits.Tools, "the agent's own limits do not change")

	got, err = apply(start, hook.Inner, abi.BeforeAgentAnswer{Limits: &abi.LimitsPatch{MaxSteps: 100, ToolCalls: 1000}})
	require.NoError(t, err)
	require.Equal(t, 100, got.Limits.MaxSteps)
	require.Equal(t, 1000, got.Limits.ToolCalls)

	many := map[string]int{}
	for i := range 1025 {
		many[strings.Repeat("x", i%128)+string(rune('0'+i/128))] = 1
	}
	for want, c := range map[string]struct {
		ring hook.Ring
		out  abi.BeforeAgentAnswer
	}{
		"model: too expensive":                      {hook.Outer, abi.BeforeAgentAnswer{Model: "large"}},
		"params: 65537 bytes; at most 65536":        {hook.Tenant, abi.BeforeAgentAnswer{Params: params(65537)}},
		"limits: max_steps is 101; at most 100 are": {hook.Outer, abi.BeforeAgentAnswer{Limits: &abi.LimitsPatch{MaxSteps: 101}}},
		"limits: model_calls is -1; want a number":  {hook.Outer, abi.BeforeAgentAnswer{Limits: &abi.LimitsPatch{ModelCalls: -1}}},
		"limits: tool_calls is 6, above the run's 5": {hook.Tenant,
			abi.BeforeAgentAnswer{Limits: &abi.LimitsPatch{ToolCalls: 6}}},
		"limits: tools: t is 3, above the run's 2": {hook.Tenant,
			abi.BeforeAgentAnswer{Limits: &abi.LimitsPatch{Tools: map[string]int{"t": 3}}}},
		"limits: tools: t is 0; want a number above 0": {hook.Outer,
			abi.BeforeAgentAnswer{Limits: &abi.LimitsPatch{Tools: map[string]int{"t": 0}}}},
		"limits: tools: 1026 tools have a limit": {hook.Tenant, abi.BeforeAgentAnswer{Limits: &abi.LimitsPatch{Tools: many}}},
	} {
		got, err := apply(start, c.ring, c.out)
		require.ErrorContains(t, err, want)
		require.Equal(t, limits, got.Limits, want)
	}

	_, err = apply(Start{Messages: conversation()}, hook.Outer, abi.BeforeAgentAnswer{Model: "m"})
	require.ErrorContains(t, err, "before_agent cannot set the model")
	_, err = apply(
		Start{Messages: conversation()},
		hook.Outer,
		abi.BeforeAgentAnswer{Limits: &abi.LimitsPatch{ToolCalls: 1}},
	)
	require.ErrorContains(t, err, "before_agent cannot set the limits")
}

// params returns parameters of n bytes.
func params(n int) abi.Params { return abi.Params{"p": []byte(`"` + strings.Repeat("x", n-3) + `"`)} }
