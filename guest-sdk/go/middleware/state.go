package middleware

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// A State is what a run keeps from step to step: its messages, and which of
// its tools the model is told of. Changes of either are kept.
type State struct {
	Messages *Messages
	// Tools are all tools of the run. Active may be changed before the model,
	// not after it: a tool that is not active is not told to the model, and
	// cannot be called.
	Tools []abi.StateTool

	// Model and Params are those of the next call; empty after the model.
	Model  string
	Params abi.Params
}

// Active returns the names of the tools that the model is told of.
func (s *State) Active() []string {
	names := []string{}
	for i := range s.Tools {
		if s.Tools[i].Active {
			names = append(names, s.Tools[i].Name)
		}
	}
	return names
}

// SetActive makes these tools the ones that the model is told of, from now
// on. A name that is not among Tools is an error, and nothing changes.
func (s *State) SetActive(names ...string) error {
	for _, name := range names {
		if !slices.ContainsFunc(s.Tools, func(t abi.StateTool) bool { return t.Name == name }) {
			return &abi.Error{Code: abi.CodeNotFound, Message: fmt.Sprintf("there is no tool %q to make active", name)}
		}
	}
	for i := range s.Tools {
		s.Tools[i].Active = slices.Contains(names, s.Tools[i].Name)
	}
	return nil
}

func sameActive(a, b []abi.StateTool) bool {
	return slices.EqualFunc(a, b, func(a, b abi.StateTool) bool { return a.Name == b.Name && a.Active == b.Active })
}

func (m *Module) beforeModelRewriteState(c *call, in *abi.BeforeModelRewriteStateInput) (abi.Writable, error) {
	state := &State{Messages: c.list(in.Messages), Tools: slices.Clone(in.Tools), Model: in.Model, Params: in.Params}
	err := each(m, func(h BeforeModelRewriteStateHook) (bool, error) {
		return true, h.BeforeModelRewriteState(c.ctx, state)
	})
	if err != nil {
		return nil, err
	}
	out := &abi.BeforeModelRewriteStateAnswer{}
	if !sameActive(state.Tools, in.Tools) {
		out.Active = state.Active()
	}
	out.Messages, err = state.Messages.patch()
	return out, err
}

func (m *Module) afterModelRewriteState(c *call, in *abi.AfterModelRewriteStateInput) (abi.Writable, error) {
	state := &State{Messages: c.list(in.Messages), Tools: slices.Clone(in.Tools)}
	err := each(m, func(h AfterModelRewriteStateHook) (bool, error) {
		return true, h.AfterModelRewriteState(c.ctx, state)
	})
	if err != nil {
		return nil, err
	}
	if !sameActive(state.Tools, in.Tools) {
		return nil, misuse("which tools are active can be changed in BeforeModelRewriteState only")
	}
	out := &abi.AfterModelRewriteStateAnswer{}
	out.Messages, err = state.Messages.patch()
	return out, err
}

// misuse is the error of a hook that changed what it cannot change: better
// than a change that silently does nothing.
func misuse(format string, args ...any) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf(format, args...)}
}
