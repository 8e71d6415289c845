package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
)

// A ModelCall is a model call of a module's own: to summarise, to judge.
type ModelCall struct {
	// Messages are all that the model is shown.
	Messages []abi.Message
	// Tools are what the model is told of; it answers with calls of them, and
	// nobody makes those. Nil is none.
	Tools []abi.Tool
	// Model is the agent's when empty.
	Model string
	// Params are parameters by their OpenAI names: anything that encodes as JSON.
	// They are merged into the agent's, and nil takes one away.
	Params map[string]any
}

// Model makes a model call of the module's own, with the grant model. It passes
// the hooks of operators' modules alone, is not streamed and no part of the
// conversation; what it uses is the run's. Errors are *abi.Error: of code denied
// without the grant and for a model that is not the agent's, model or
// unavailable where the model failed. If the run ends meanwhile it does not
// return.
func (c *Context) Model(call ModelCall) (*abi.Response, error) {
	patch := abi.RequestPatch{Messages: abi.ListPatch{Whole: true, Replace: call.Messages}, Model: call.Model}
	if call.Tools != nil {
		patch.Tools = abi.ToolsPatch{Whole: true, Replace: call.Tools}
	}
	for name, value := range call.Params {
		raw, err := abi.MarshalValue(value)
		if err != nil {
			return nil, abi.Wrap("encode parameter "+name, err)
		}
		if patch.Params == nil {
			patch.Params = abi.Params{}
		}
		patch.Params[name] = raw
	}
	b, err := abi.Write(nil, &patch)
	if err != nil {
		return nil, abi.Wrap("encode the model call", err)
	}
	b, err = c.host.Model(b)
	if err != nil {
		return nil, err
	}
	var reply abi.ModelReply
	if err := abi.Read(b, &reply); err != nil || reply.Response == nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to model has no response"}
	}
	return reply.Response, nil
}

// Tool calls one of the agent's tools, with the grant tool:NAME, through all
// hooks and gates but this module's own. args are anything that encodes as a
// JSON object; nil is {}. Where the tool fails or a gate denies, the result says
// so as an error result. Other errors are *abi.Error: denied without the grant or
// for a tool that is not active, not_found for one that the agent does not have,
// and limit for calls that lie too deep within one another. If the run ends or
// pauses meanwhile it does not return.
func (c *Context) Tool(name string, args any) (*abi.Result, error) {
	req := abi.ToolRequest{Name: name}
	if args != nil {
		raw, err := abi.MarshalValue(args)
		if err != nil {
			return nil, abi.Wrap("encode the arguments of "+name, err)
		}
		req.Arguments = string(raw)
	}
	b, err := abi.Write(nil, &req)
	if err != nil {
		return nil, abi.Wrap("encode the call of "+name, err)
	}
	b, err = c.host.Tool(b)
	if err != nil {
		return nil, err
	}
	var reply abi.ToolReply
	if err := abi.Read(b, &reply); err != nil || reply.Result == nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to tool has no result"}
	}
	return reply.Result, nil
}
