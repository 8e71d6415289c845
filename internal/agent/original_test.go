package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// TestChainOfARun checks the order in which a run calls the agent's middlewares and those of its
// input, and that the next run calls only the agent's.
func TestChainOfARun(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var log []string
	of := func(ring hook.Ring, name string) hook.Entry { return at(ring, name, orderOf(name, &log, &mu)) }
	a, err := agent.New(&agent.Options{Model: scripted.New(scripted.Text("one"), scripted.Text("two")),
		Chain: with(t, of(hook.Inner, "ai"), of(hook.Tenant, "at"), of(hook.Outer, "ao"))})
	require.NoError(t, err)
	given := with(t, of(hook.Outer, "ro"), of(hook.Inner, "ri"), of(hook.Tenant, "rt"))
	hooks := func(in agent.Input, hook string) string {
		log = nil
		in.Messages = []abi.Message{abi.User("hi")}
		for _, err := range a.Run(t.Context(), in) {
			require.NoError(t, err)
		}
		var out []string
		for _, line := range log {
			if name, is := strings.CutSuffix(line, hook); is {
				out = append(out, name)
			}
		}
		return strings.Join(out, " ")
	}
	require.Equal(t, "ao ro at rt ai ri", hooks(agent.Input{Chain: given}, ".wm<"))
	require.Equal(t, "ao at ai", hooks(agent.Input{}, ".wm<"))
}

// TestChainOfARunRefused checks that a run fails if one of its own middlewares has the name of a
// middleware of the agent.
func TestChainOfARunRefused(t *testing.T) {
	t.Parallel()
	m := scripted.New(scripted.Text("one"))
	a, err := agent.New(&agent.Options{Model: m, Chain: with(t, nativeEntry("guard", &inproc.Middleware{}))})
	require.NoError(t, err)
	var failed error
	for _, err := range a.Run(t.Context(), agent.Input{
		Messages: []abi.Message{abi.User("hi")}, Chain: with(t, nativeEntry("guard", &inproc.Middleware{})),
	}) {
		failed = err
	}
	require.ErrorContains(t, failed, `two middlewares are named "guard"`)
	require.Empty(t, m.Requests())
}

// TestChainOfARunResumes checks that a run resumes only with the middlewares that it started with.
func TestChainOfARunResumes(t *testing.T) {
	t.Parallel()
	calls := 0
	given := with(
		t,
		nativeEntry(
			"asks",
			&inproc.Middleware{
				BeforeAgent: func(_ context.Context, _ *hook.Call, in *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
					if calls++; in.Resume != nil {
						return nil, nil
					}
					return &abi.BeforeAgentAnswer{Control: abi.Control{Interrupt: &abi.Interrupt{Reason: "may I?"}}}, nil
				},
			},
		),
	)
	a, err := agent.New(&agent.Options{Model: scripted.New(scripted.Text("one"))})
	require.NoError(t, err)
	p := &pauser{t: t, agent: a}
	p.drain(a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}, Chain: given}))
	require.NotNil(t, p.paused)
	_, err = a.Resume(
		t.Context(),
		p.paused.State,
		map[string]json.RawMessage{p.paused.Interrupts[0].ID: json.RawMessage("1")},
	)
	require.ErrorContains(t, err, "the run had asks; resume it with Agent.With")
	p.agent, err = a.With(given)
	require.NoError(t, err)
	p.one("1")
	require.NoError(t, p.err)
	require.Equal(t, 2, calls)
}
