package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A ModelCall is a model call by a module, for example to summarize or to judge.
type ModelCall struct {
	// Messages are all messages that the model receives.
	Messages []abi.Message
	// Tools are offered to the model. If the model calls one, the host does not run the call. Nil
	// means no tools.
	Tools []abi.Tool
	// Model defaults to the agent's model.
	Model string
	// Params are parameters by their OpenAI names, with any values that can be encoded as
	// JSON. They are merged with the agent's; nil removes a parameter.
	Params map[string]any
}

// Model makes a model call. It needs the grant "model". Only the hooks of operators' modules apply
// to the call, which is not streamed and not part of the conversation. The call's usage counts
// towards the run. Errors of the host are of type *abi.Error. Typical codes are [abi.CodeDenied]
// without the grant and for a model other than the agent's, [abi.CodeModel] or
// [abi.CodeUnavailable] if the model failed, and [abi.CodeLimit]. Model does not return if the run
// ends meanwhile.
func (c *Context) Model(call ModelCall) (*abi.Response, error) {
	patch := abi.RequestPatch{Messages: abi.ListPatch{Whole: true, Replace: call.Messages}, Model: call.Model}
	if call.Tools != nil {
		patch.Tools = abi.ToolsPatch{Whole: true, Replace: call.Tools}
	}
	for name, value := range call.Params {
		raw, err := abijson.MarshalValue(value)
		if err != nil {
			return nil, jsoncodec.Wrap("encode parameter "+name, err)
		}
		if patch.Params == nil {
			patch.Params = abi.Params{}
		}
		patch.Params[name] = raw
	}
	b, err := abijson.Write(nil, (*abijson.RequestPatch)(&patch))
	if err != nil {
		return nil, jsoncodec.Wrap("encode the model call", err)
	}
	b, err = c.host.Model(b)
	if err != nil {
		return nil, err
	}
	var reply contract.ModelReply
	if err := abijson.Read(b, (*abijson.ModelReply)(&reply)); err != nil || reply.Response == nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to model has no response"}
	}
	return reply.Response, nil
}

// Tool calls one of the agent's tools. It needs the grant "tool:NAME". All hooks and gates apply to
// the call except this module's own. args is any value that is encoded as a JSON object; nil means
// {}. If the tool fails or a gate denies the call, the result is an error result. Other errors of
// the host are of type *abi.Error. Typical codes are [abi.CodeDenied] without the grant or for an
// inactive tool, [abi.CodeNotFound] for an unknown tool, and [abi.CodeLimit] for too many calls or
// calls that are nested too deeply. Tool does not return if the run ends or pauses meanwhile.
func (c *Context) Tool(name string, args any) (*abi.Result, error) {
	req := contract.ToolRequest{Name: name}
	if args != nil {
		raw, err := abijson.MarshalValue(args)
		if err != nil {
			return nil, jsoncodec.Wrap("encode the arguments of "+name, err)
		}
		req.Arguments = string(raw)
	}
	b, err := abijson.Write(nil, (*abijson.ToolRequest)(&req))
	if err != nil {
		return nil, jsoncodec.Wrap("encode the call of "+name, err)
	}
	b, err = c.host.Tool(b)
	if err != nil {
		return nil, err
	}
	var reply contract.ToolReply
	if err := abijson.Read(b, (*abijson.ToolReply)(&reply)); err != nil || reply.Result == nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to tool has no result"}
	}
	return reply.Result, nil
}
