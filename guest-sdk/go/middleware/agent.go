package middleware

import (
	"maps"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// An AgentStart is a run before its first step. The hook may change Instruction, Tools,
// ReturnDirectly and Messages in any way.
type AgentStart struct {
	Instruction string
	Tools       []abi.Tool
	// ReturnDirectly names the tools whose result ends the run as its answer.
	ReturnDirectly []string
	Messages       *Messages

	// Model and Params are those of every model call of the agent. Params is never nil. Changing them
	// needs the grant set:model.
	Model  string
	Params abi.Params
	// Limits are the limits of the run. Changing them needs the grant set:limits. Only modules of the
	// outer and the inner ring may raise a limit, and no module removes one.
	Limits abi.RunLimits

	respond *abi.Message
}

// AddInstruction appends text to the instruction, on a new line unless the instruction is empty.
// Empty text changes nothing.
func (a *AgentStart) AddInstruction(text string) {
	switch {
	case text == "":
	case a.Instruction == "":
		a.Instruction = text
	default:
		a.Instruction += "\n" + text
	}
}

// AddTool adds tools that this middleware's CallTool runs. If a tool is invalid or its name
// is already taken, AddTool returns an error and adds none of the tools.
func (a *AgentStart) AddTool(tools ...abi.Tool) error {
	next := slices.Clone(a.Tools)
	for i := range tools {
		if err := contract.CheckTool(&tools[i]); err != nil {
			return &abi.Error{Code: abi.CodeInvalid, Message: err.Error()}
		}
		if clone.FindTool(next, tools[i].Name) >= 0 {
			return &abi.Error{Code: abi.CodeConflict, Message: "there is a tool " + strconv.Quote(tools[i].Name) + " already"}
		}
		next = append(next, tools[i])
	}
	a.Tools = next
	return nil
}

// RemoveTool removes tools. It ignores unknown names.
func (a *AgentStart) RemoveTool(names ...string) {
	a.Tools = slices.DeleteFunc(slices.Clone(a.Tools), func(t abi.Tool) bool { return slices.Contains(names, t.Name) })
}

// SetParam sets a parameter of every model call of the agent by its OpenAI name, for example SetParam("temperature",
// 0.2). It needs the grant set:model. It returns an error if value cannot be encoded as JSON.
func (a *AgentStart) SetParam(name string, value any) error { return setParam(a.Params, name, value) }

// settings sets the model, the parameters and the limits of an answer to the changes from in. It
// fails if the model or a limit was removed.
func (a *AgentStart) settings(in *abi.BeforeAgentInput, out *abi.BeforeAgentAnswer) error {
	if a.Model != in.Model {
		if a.Model == "" {
			return misuse("a run needs a model")
		}
		out.Model = a.Model
	}
	out.Params = paramsPatch(in.Params, a.Params)
	was, now, p := &in.Limits, &a.Limits, &abi.LimitsPatch{}
	changed := false
	for _, l := range []struct {
		was, now int
		to       *int
	}{
		{was.MaxSteps, now.MaxSteps, &p.MaxSteps},
		{was.ModelCalls, now.ModelCalls, &p.ModelCalls},
		{was.ToolCalls, now.ToolCalls, &p.ToolCalls},
	} {
		switch l.now {
		case l.was:
		case 0:
			return misuse("a limit of a run cannot be removed")
		default:
			*l.to, changed = l.now, true
		}
	}
	for name, n := range now.Tools {
		if n != was.Tools[name] {
			if p.Tools == nil {
				p.Tools = map[string]int{}
			}
			p.Tools[name], changed = n, true
		}
	}
	for name := range was.Tools {
		if _, ok := now.Tools[name]; !ok {
			return misuse("a limit of a run cannot be removed")
		}
	}
	if changed {
		out.Limits = p
	}
	return nil
}

// Respond makes the run end with an assistant message, without a model call. The hooks
// after_model_rewrite_state and after_agent still run.
func (a *AgentStart) Respond(message abi.Message) { a.respond = &message }

func (*AgentStart) collect(m *Module, _ abi.Hook) any { return collect[BeforeAgentHook](m) }

func (*AgentStart) serve(s *served) (answer abijson.Writable, err error) {
	v := hookCallOf[abijson.BeforeAgentInput, abijson.BeforeAgentAnswer](s)
	defer func() { answer, err = caught(recover(), answer, err) }()
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	in, out := &v.in, &v.out
	run := &AgentStart{
		Instruction:    in.Instruction,
		Tools:          slices.Clone(in.Tools),
		ReturnDirectly: slices.Clone(in.ReturnDirectly),
		Messages:       v.list(in.Messages),
		Model:          in.Model,
		Params:         maps.Clone(in.Params),
		Limits:         in.Limits,
	}
	if run.Params == nil {
		run.Params = abi.Params{}
	}
	run.Limits.Tools = maps.Clone(in.Limits.Tools)
	for _, h := range hooks[BeforeAgentHook](s) {
		if err := h.BeforeAgent(v.ctx, run); err != nil {
			return nil, err
		}
		if run.respond != nil {
			break
		}
	}
	out.Respond = run.respond
	if run.Instruction != in.Instruction {
		out.Instruction = &run.Instruction
	}
	if !slices.Equal(run.ReturnDirectly, in.ReturnDirectly) {
		out.ReturnDirectly = append([]string{}, run.ReturnDirectly...)
	}
	if out.Tools, err = clone.ToolsPatch(in.Tools, run.Tools); err != nil {
		return nil, err
	}
	if err := run.settings((*abi.BeforeAgentInput)(in), (*abi.BeforeAgentAnswer)(out)); err != nil {
		return nil, err
	}
	out.Messages, err = run.Messages.patch()
	return out, err
}

// An AgentEnd is a run at its end. The hook may change the message in Final, or replace it.
type AgentEnd struct {
	// Messages is the whole conversation. The messages of this run start at index NewFrom.
	Messages *History
	NewFrom  int
	// Final is the answer, or nil if there is none.
	Final *abi.Message
	// Err is the reason why the run failed, or nil if it succeeded.
	Err          *abi.Error
	FinishReason string
	Usage        abi.Usage
}

func (*AgentEnd) collect(m *Module, _ abi.Hook) any { return collect[AfterAgentHook](m) }

func (*AgentEnd) serve(s *served) (answer abijson.Writable, err error) {
	v := hookCallOf[abijson.AfterAgentInput, abijson.AfterAgentAnswer](s)
	defer func() { answer, err = caught(recover(), answer, err) }()
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	in, out := &v.in, &v.out
	run := &AgentEnd{
		Messages:     &v.list(in.Messages).History,
		NewFrom:      in.NewFrom,
		Err:          in.Error,
		FinishReason: in.FinishReason,
		Usage:        in.Usage,
	}
	if in.Final != nil {
		final := clone.Message(in.Final)
		run.Final = &final
	}
	// A failing hook must not prevent the others from running.
	var failed []error
	for _, h := range hooks[AfterAgentHook](s) {
		if err := h.AfterAgent(v.ctx, run); err != nil {
			failed = append(failed, err)
		}
	}
	if failed != nil {
		return nil, joined(failed)
	}
	if run.Final != nil && !clone.SameMessage(run.Final, in.Final) {
		out.Final = run.Final
	}
	return out, nil
}
