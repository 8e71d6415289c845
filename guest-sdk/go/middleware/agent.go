package middleware

import (
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
)

// An AgentStart is a run before its first step. Instruction, Tools,
// ReturnDirectly and Messages may be changed, in any way; the rest says how
// things are.
type AgentStart struct {
	Instruction string
	Tools       []abi.Tool
	// ReturnDirectly are the tools whose result is the run's answer.
	ReturnDirectly []string
	Messages       *Messages

	Model  string
	Params abi.Params
	Limits abi.RunLimits

	respond *abi.Message
}

// AddInstruction puts text behind the instruction, on a line of its own.
func (a *AgentStart) AddInstruction(text string) {
	switch {
	case text == "":
	case a.Instruction == "":
		a.Instruction = text
	default:
		a.Instruction += "\n" + text
	}
}

// AddTool adds tools that this middleware's CallTool runs. A name that is
// taken is an error, and nothing is added.
func (a *AgentStart) AddTool(tools ...abi.Tool) error {
	next := slices.Clone(a.Tools)
	for i := range tools {
		if err := tools[i].Check(); err != nil {
			return &abi.Error{Code: abi.CodeInvalid, Message: err.Error()}
		}
		if findTool(next, tools[i].Name) >= 0 {
			return &abi.Error{Code: abi.CodeConflict, Message: "there is a tool " + strconv.Quote(tools[i].Name) + " already"}
		}
		next = append(next, tools[i])
	}
	a.Tools = next
	return nil
}

// RemoveTool removes tools. A name that is not there is no error.
func (a *AgentStart) RemoveTool(names ...string) {
	a.Tools = slices.DeleteFunc(slices.Clone(a.Tools), func(t abi.Tool) bool { return slices.Contains(names, t.Name) })
}

// Respond answers in the model's place: the run ends with this message, an
// assistant's, after after_model_rewrite_state and after_agent have seen it.
func (a *AgentStart) Respond(message abi.Message) { a.respond = &message }

func (*AgentStart) collect(m *Module, _ abi.Hook) any { return collect[BeforeAgentHook](m) }

func (*AgentStart) serve(s *served) (answer abi.Writable, err error) {
	v := visitOf[abi.BeforeAgentInput, abi.BeforeAgentAnswer](s)
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
		Params:         in.Params,
		Limits:         in.Limits,
	}
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
	if out.Tools, err = toolsPatch(in.Tools, run.Tools); err != nil {
		return nil, err
	}
	out.Messages, err = run.Messages.patch()
	return out, err
}

// An AgentEnd is a run at its end. Final may be changed: in place, or by
// another message.
type AgentEnd struct {
	// Messages is the whole conversation; those from NewFrom on are this run's.
	Messages *History
	NewFrom  int
	// Final is the answer; nil if there is none.
	Final *abi.Message
	// Err is why the run failed; nil if it did not.
	Err          *abi.Error
	FinishReason string
	Usage        abi.Usage
}

func (*AgentEnd) collect(m *Module, _ abi.Hook) any { return collect[AfterAgentHook](m) }

func (*AgentEnd) serve(s *served) (answer abi.Writable, err error) {
	v := visitOf[abi.AfterAgentInput, abi.AfterAgentAnswer](s)
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
		final := cloneMessage(in.Final)
		run.Final = &final
	}
	// One that fails does not keep the others from the run's end.
	var failed []error
	for _, h := range hooks[AfterAgentHook](s) {
		if err := h.AfterAgent(v.ctx, run); err != nil {
			failed = append(failed, err)
		}
	}
	if failed != nil {
		return nil, joined(failed)
	}
	if run.Final != nil && !sameMessage(run.Final, in.Final) {
		out.Final = run.Final
	}
	return out, nil
}
