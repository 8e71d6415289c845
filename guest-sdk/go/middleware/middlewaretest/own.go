package middlewaretest

import (
	"maps"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Model implements the import "model" with Host.OwnModel.
func (i *imports) Model(request []byte) ([]byte, error) {
	if err := i.mayCall("model"); err != nil {
		return nil, err
	}
	if i.h.OwnModel == nil {
		return nil, fail(abi.CodeDenied, "model is not granted to this entry: the test's Host has no OwnModel")
	}
	var patch abi.RequestPatch
	if err := decode(request, &patch); err != nil {
		return nil, err
	}
	if !patch.Messages.Whole || len(patch.Messages.Replace) == 0 {
		return nil, fail(abi.CodeInvalid, "model: messages must be an array of at least one message")
	}
	call := ModelCall{
		Messages: patch.Messages.Replace,
		Tools:    patch.Tools.Replace,
		Model:    patch.Model,
		Params:   maps.Clone(patch.Params),
		Patch:    patch,
	}
	res, err := i.h.OwnModel(call)
	if err != nil {
		return nil, asError(err, abi.CodeModel)
	}
	return abijson.Marshal(contract.ModelReply{Response: res})
}

// Tool implements the import "tool" with Host.OwnTool.
func (i *imports) Tool(request []byte) ([]byte, error) {
	if err := i.mayCall("tool"); err != nil {
		return nil, err
	}
	var q contract.ToolRequest
	if err := decode(request, &q); err != nil {
		return nil, err
	}
	if i.h.OwnTool == nil {
		return nil, fail(abi.CodeDenied, "tool:%s is not granted to this entry: the test's Host has no OwnTool", q.Name)
	}
	if q.Arguments == "" {
		q.Arguments = "{}"
	}
	var object map[string]any
	if err := decode([]byte(q.Arguments), &object); err != nil {
		return nil, err
	}
	res, err := i.h.OwnTool(q.Name, q.Arguments)
	if err != nil {
		return nil, asError(err, abi.CodeInternal)
	}
	return abijson.Marshal(contract.ToolReply{Result: res})
}

// HTTP implements the import "http" with Host.HTTP.
func (i *imports) HTTP(request []byte) ([]byte, error) {
	if i.hook == contract.HookDescribe || i.hook == contract.HookConfigure {
		return nil, fail(abi.CodeUnavailable, "http is not available while the module's image is built")
	}
	if i.h.HTTP == nil {
		return nil, fail(abi.CodeDenied, "http:HOST is not granted to this entry: the test's Host has no HTTP")
	}
	var q abi.HTTPRequest
	if err := decode(request, &q); err != nil {
		return nil, err
	}
	res, err := i.h.HTTP(q)
	if err != nil {
		return nil, asError(err, abi.CodeUnavailable)
	}
	return abijson.Marshal(res)
}

// mayCall returns an error if a host rejects the module's own model and tool calls in the running
// hook.
func (i *imports) mayCall(what string) error {
	switch i.hook {
	case contract.HookDescribe, contract.HookConfigure:
		return fail(abi.CodeUnavailable, "%s is not available while the module's image is built", what)
	case contract.HookObserve, contract.HookTranslateBefore, contract.HookTranslateAfter:
		return fail(abi.CodeDenied, "%s is not available to %s, which changes nothing in the run", what, i.hook)
	default:
		return nil
	}
}
