package chain

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// changeLimits returns the limits of the run with patch p applied. It returns an error if a limit
// in the patch is negative or, unless raise is set, higher than the run's. A limit of 0 means
// unlimited.
func (s *Start) changeLimits(p *abi.LimitsPatch, raise bool) (abi.RunLimits, error) {
	l := s.Limits
	if p == nil {
		return l, nil
	}
	if s.MaxSteps == 0 {
		return l, errors.New("before_agent cannot set the limits of this run")
	}
	for _, c := range []struct {
		name string
		to   *int
		n    int
	}{
		{"max_steps", &l.MaxSteps, p.MaxSteps},
		{"model_calls", &l.ModelCalls, p.ModelCalls},
		{"tool_calls", &l.ToolCalls, p.ToolCalls},
	} {
		if c.n == 0 {
			continue
		}
		if err := checkLimit(c.name, *c.to, c.n, raise); err != nil {
			return l, err
		}
		*c.to = c.n
	}
	if l.MaxSteps > max(s.MaxSteps, s.Limits.MaxSteps) {
		return l, fmt.Errorf("max_steps is %d; at most %d are allowed", l.MaxSteps, s.MaxSteps)
	}
	var err error
	l.Tools, err = changeToolLimits(l.Tools, p.Tools, raise)
	return l, err
}

// changeToolLimits returns the limits of single tools with patch applied. The conditions of
// changeLimits apply.
func changeToolLimits(limits, patch map[string]int, raise bool) (map[string]int, error) {
	if len(patch) == 0 {
		return limits, nil
	}
	out := maps.Clone(limits)
	if out == nil {
		out = map[string]int{}
	}
	for _, name := range slices.Sorted(maps.Keys(patch)) {
		switch n := patch[name]; {
		case name == "" || len(name) > contract.MaxName:
			return nil, fmt.Errorf("tools: want names of 1 to %d bytes", contract.MaxName)
		case n == 0:
			return nil, fmt.Errorf("tools: %s is 0; want a number above 0, or remove the tool from the agent", name)
		}
		if err := checkLimit("tools: "+name, out[name], patch[name], raise); err != nil {
			return nil, err
		}
		out[name] = patch[name]
	}
	if len(out) > toolset.Max {
		return nil, fmt.Errorf("tools: %d tools have a limit; at most %d may have one", len(out), toolset.Max)
	}
	return out, nil
}

// checkLimit returns an error if n is not a valid new value of the limit called name. n must not be
// negative or, unless raise is set, higher than the current value now. now is 0 if there is no
// limit.
func checkLimit(name string, now, n int, raise bool) error {
	switch {
	case n < 0:
		return fmt.Errorf("%s is %d; want a number above 0", name, n)
	case now > 0 && n > now && !raise:
		return fmt.Errorf("%s is %d, above the run's %d; only modules of the outer and the inner ring may raise it",
			name, n, now)
	}
	return nil
}
