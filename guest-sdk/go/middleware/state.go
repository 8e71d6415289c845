package middleware

import (
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A State is the part of a run that persists between steps: its messages and its active
// tools. Changes to either persist.
type State struct {
	Messages *Messages
	// Tools are all tools of the run. BeforeModelRewriteState may change Active;
	// AfterModelRewriteState may not. An inactive tool is not offered to the model and
	// cannot be called.
	Tools []abi.StateTool

	// Model and Params are the model and the parameters of the next call. They are empty
	// in AfterModelRewriteState.
	Model  string
	Params abi.Params
}

// Active returns the names of the active tools.
func (s *State) Active() []string {
	names := []string{}
	for i := range s.Tools {
		if s.Tools[i].Active {
			names = append(names, s.Tools[i].Name)
		}
	}
	return names
}

// SetActive makes exactly the named tools active from now on. If a name is unknown,
// SetActive returns an error and changes nothing.
func (s *State) SetActive(names ...string) error {
	for _, name := range names {
		if !slices.ContainsFunc(s.Tools, func(t abi.StateTool) bool { return t.Name == name }) {
			return &abi.Error{Code: abi.CodeNotFound, Message: "there is no tool " + strconv.Quote(name) + " to make active"}
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

func (*State) collect(m *Module, hook abi.Hook) any {
	if hook == contract.HookBeforeModelRewriteState {
		return collect[BeforeModelRewriteStateHook](m)
	}
	return collect[AfterModelRewriteStateHook](m)
}

func (*State) serve(s *served) (abijson.Writable, error) {
	if s.hook == contract.HookBeforeModelRewriteState {
		return serveBeforeModelRewriteState(s)
	}
	return serveAfterModelRewriteState(s)
}

// state returns a State with the list l and a copy of the tools of an input.
func (c *call) state(l abi.List, tools []abi.StateTool) *State {
	out := &struct {
		State
		listed
		tools [2]abi.StateTool // spares an allocation for agents with few tools
	}{}
	c.show(&out.listed, l)
	out.State.Messages = &out.listed.Messages
	out.Tools = append(out.tools[:0], tools...)
	return &out.State
}

func serveBeforeModelRewriteState(s *served) (answer abijson.Writable, err error) {
	defer func() { answer, err = caught(recover(), answer, err) }()
	v := hookCallOf[abijson.BeforeModelRewriteStateInput, abijson.BeforeModelRewriteStateAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	in, out := &v.in, &v.out
	state := v.state(in.Messages, in.Tools)
	state.Model, state.Params = in.Model, in.Params
	for _, h := range hooks[BeforeModelRewriteStateHook](s) {
		if err := h.BeforeModelRewriteState(v.ctx, state); err != nil {
			return nil, err
		}
	}
	if !sameActive(state.Tools, in.Tools) {
		out.Active = state.Active()
	}
	out.Messages, err = state.Messages.patch()
	return out, err
}

func serveAfterModelRewriteState(s *served) (answer abijson.Writable, err error) {
	defer func() { answer, err = caught(recover(), answer, err) }()
	v := hookCallOf[abijson.AfterModelRewriteStateInput, abijson.AfterModelRewriteStateAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	state := v.state(v.in.Messages, v.in.Tools)
	for _, h := range hooks[AfterModelRewriteStateHook](s) {
		if err := h.AfterModelRewriteState(v.ctx, state); err != nil {
			return nil, err
		}
	}
	if !sameActive(state.Tools, v.in.Tools) {
		return nil, misuse("which tools are active can be changed in BeforeModelRewriteState only")
	}
	v.out.Messages, err = state.Messages.patch()
	return &v.out, err
}

// misuse returns the error for a hook that did something it cannot do, such as a change that the
// host would silently ignore.
func misuse(text string) error {
	return &abi.Error{Code: abi.CodeInvalid, Message: text}
}
