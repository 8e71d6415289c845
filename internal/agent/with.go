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

// With returns a copy of the agent with additional middlewares, such as those of a tenant or a
// request. In each ring, the agent's own middlewares come first; see [chain.Chain.Join]. The
// additional middlewares do not apply to agents to which this one transfers. A paused run must be
// resumed by an agent with the same middlewares.
//
// With returns an error if a middleware of c has the name of one of the agent's middlewares.
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

// WithTools returns a copy of the agent with additional tools, such as those that the client of a
// request executes; see [tool.ByClient]. A paused run must be resumed by an agent with the same
// tools. WithTools returns an error if a tool is invalid or another tool has the same name.
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

// given returns the agent for a run whose input has chain c: the agent itself if c is nil, and
// otherwise a copy with the entries of c. If the copy cannot be made, given returns the agent
// itself and the error that ends the run.
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

// checkWith returns an error if the run of state s had other additional middlewares than the agent
// has. The run must not continue without a middleware that guards it.
func (a *Agent) checkWith(s *runlog.State) error {
	if slices.Equal(a.with, s.With) {
		return nil
	}
	text := "had none"
	if len(s.With) > 0 {
		text = "had " + strings.Join(s.With, ", ")
	}
	return errors.New(
		"in addition to the agent's own middlewares, the run " + text + "; resume it with Agent.With and the same",
	)
}
