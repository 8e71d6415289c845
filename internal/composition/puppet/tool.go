package puppet

import (
	"errors"

	"github.com/agent-runner/agent-runner/abi"
)

// playTool runs the hooks of tool calls.
func (p *player) playTool(in, out any) error {
	switch in := in.(type) {
	case *abi.BeforeToolInput:
		p.about = in.Call.ID
		return p.beforeTool(in, out.(*abi.BeforeToolAnswer))
	case *abi.WrapToolCallInput:
		p.about = in.Call.ID
		return p.wrapToolCall(in, out.(*abi.WrapToolCallAnswer))
	case *abi.GateToolInput:
		p.about = in.Call.ID
		return p.gateTool(in, out.(*abi.GateToolAnswer))
	case *abi.CallToolInput:
		p.about = in.Call.ID
		return p.callTool(in, out.(*abi.CallToolAnswer))
	case *abi.AfterToolInput:
		p.about = in.Call.ID
		return p.afterTool(in, out.(*abi.AfterToolAnswer))
	case *abi.ToolMessagesInput:
		p.about = in.Call.ID
		return p.toolMessages(in, out.(*abi.ToolMessagesAnswer))
	default:
		return errors.New("a puppet has no such hook")
	}
}

func (p *player) arguments() *string {
	text := `{"by":"` + p.entry + `"}`
	return &text
}

func (p *player) beforeTool(in *abi.BeforeToolInput, out *abi.BeforeToolAnswer) error {
	switch p.script.Do {
	case Edit:
		out.Arguments = p.arguments()
	case Answer:
		out.Result = abi.TextResult(p.mark(Answer))
	}
	return p.report(call(&in.Call))
}

func (p *player) wrapToolCall(in *abi.WrapToolCallInput, out *abi.WrapToolCallAnswer) error {
	if err := p.report(call(&in.Call)); err != nil {
		return err
	}
	var last *abi.Result
	for _, change := range p.script.Next {
		patch := &abi.CallPatch{}
		if change != "" {
			text := `{"change":"` + change + `"}`
			patch.Arguments = &text
		}
		reply, failed, err := p.next(change, patch)
		if err != nil {
			return err
		}
		res, _ := reply.(*abi.Result)
		if failed == nil {
			last = res
		}
		if err := p.host.Tell("reply", in.Call.ID+" "+result(res, failed)); err != nil {
			return err
		}
	}
	switch {
	case p.script.Do == Edit && last != nil:
		out.Result = p.edited(last)
	case p.script.Do == Edit, p.script.Do == Answer:
		out.Result = abi.TextResult(p.mark(Answer))
	case p.read():
		out.Result = last
		return p.failed()
	}
	return nil
}

func (p *player) edited(r *abi.Result) *abi.Result {
	res := *r
	res.Content = abi.Text(res.Content.String() + "+" + p.entry)
	return &res
}

func (p *player) gateTool(in *abi.GateToolInput, out *abi.GateToolAnswer) error {
	switch p.script.Do {
	case Allow, Deny, Ask:
		out.Decision, out.Message = p.script.Do, p.mark(p.script.Do)
	}
	return p.report(call(&in.Call))
}

func (p *player) callTool(in *abi.CallToolInput, out *abi.CallToolAnswer) error {
	out.Result = abi.TextResult(p.mark(Answer) + in.Call.Arguments)
	return p.report(call(&in.Call))
}

func (p *player) afterTool(in *abi.AfterToolInput, out *abi.AfterToolAnswer) error {
	if err := p.report(call(&in.Call) + " " + in.Source + " " + result(in.Result, in.Error)); err != nil {
		return err
	}
	switch {
	case p.script.Do == Error:
		out.Error = &abi.Error{Code: abi.CodeInvalid, Message: p.mark(Error)}
	case p.script.Do == Again:
		n, err := p.host.Add("again." + in.Run.StepID + "." + in.Call.ID)
		if err != nil || n > 1 {
			return err
		}
		out.Again = &abi.ToolAgain{Arguments: p.arguments(), Reason: "once"}
	case p.script.Do == Edit && in.Result != nil:
		out.Result = p.edited(in.Result)
	case p.script.Do == Edit, p.script.Do == Answer:
		out.Result = abi.TextResult(p.mark(Answer))
	}
	return nil
}

func (p *player) toolMessages(in *abi.ToolMessagesInput, out *abi.ToolMessagesAnswer) error {
	switch p.script.Do {
	case Edit:
		m := in.Default
		m.Content = abi.Text(m.Content.String() + "+" + p.entry)
		out.Messages = []abi.Message{m}
	case Insert:
		out.Messages = []abi.Message{abi.User(p.mark(Insert)), in.Default}
	}
	return p.report(call(&in.Call) + " " + result(&in.Result, nil) + " | " + Message(&in.Default))
}
