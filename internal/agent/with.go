package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// With returns the agent with more middlewares: those of a run, a tenant or a
// request, beside its own. In each ring the agent's come first and then those of
// c, in their order; see [chain.Chain.Join]. It is cheap, and a run that pauses
// is resumed by an agent with the same middlewares. Agents that this one hands
// over to keep their own.
//
// It fails if a middleware of c has the name of one of the agent's.
func (a *Agent) With(c *chain.Chain) (*Agent, error) {
	joined, err := a.Chain.Join(c)
	if err != nil {
		return nil, fmt.Errorf("agent %q with the middlewares of a run: %w", a.Name, err)
	}
	b := *a
	b.Chain = joined
	b.with = slices.Clone(a.with)
	for _, e := range c.Entries() {
		b.with = append(b.with, e.Name)
	}
	return &b, nil
}

// WithTools returns the agent with more tools: those of a request, say, that the
// client runs itself; see [tool.ByClient]. A run that pauses is resumed by an agent
// with the same tools. It fails if a tool cannot be used, or has the name of one
// of the agent's.
func (a *Agent) WithTools(tools ...tool.Tool) (*Agent, error) {
	b := *a
	b.Tools, b.tools = slices.Clone(a.Tools), maps.Clone(a.tools)
	for _, t := range tools {
		if err := b.addTool(t); err != nil {
			return nil, fmt.Errorf("agent %q with the tools of a run: %w", a.Name, err)
		}
		b.Tools = append(b.Tools, t)
	}
	return &b, nil
}

// given is the agent with a chain that a run was given. The error refuses the run.
func (a *Agent) given(c *chain.Chain) (*Agent, error) {
	if c == nil {
		return a, nil
	}
	b, err := a.With(c)
	if err != nil {
		return a, err
	}
	return b, nil
}

// goesOnWith refuses a state whose run had other middlewares beside the agent's:
// it must not go on without one that guards it.
func (a *Agent) goesOnWith(s *runlog.State) error {
	if slices.Equal(a.with, s.With) {
		return nil
	}
	text := "had none"
	if len(s.With) > 0 {
		text = "had " + strings.Join(s.With, ", ")
	}
	return errors.New("beside the agent's own middlewares the run " + text + "; resume it with Agent.With and the same")
}
