package middlewaretest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// imports implements the module's imports during a hook.
type imports struct {
	h    *Host
	hook abi.Hook
}

// Next implements the import "next" with Host.Model or Host.Tool.
func (i *imports) Next(patch []byte) ([]byte, error) {
	switch i.hook {
	case contract.HookWrapModel:
		return i.nextModel(patch)
	case contract.HookWrapToolCall:
		return i.nextTool(patch)
	default:
		return nil, fail(abi.CodeDenied, "next is for wrap_model and wrap_tool_call, not for %s", i.hook)
	}
}

func (i *imports) nextModel(b []byte) ([]byte, error) {
	h := i.h
	var patch abi.RequestPatch
	if err := decode(b, &patch); err != nil {
		return nil, err
	}
	if h.Model == nil {
		return nil, fail(abi.CodeUnavailable, "the test's Host has no Model")
	}
	request := h.request
	if request == nil {
		request = &abi.Request{}
	}
	messages, err := h.apply(h.lists[abi.ListRequest].now(), patch.Messages)
	if err != nil {
		return nil, fail(abi.CodeInvalid, "%v", err)
	}
	call := ModelCall{
		Messages: messages, Tools: applyTools(request.Tools, patch.Tools), Model: request.Model,
		Params: maps.Clone(request.Params), Patch: patch,
	}
	if patch.Model != "" {
		call.Model = patch.Model
	}
	if call.Params == nil {
		call.Params = abi.Params{}
	}
	for name, value := range patch.Params {
		call.Params[name] = value
		if string(value) == "null" {
			delete(call.Params, name)
		}
	}
	response, err := h.Model(call)
	if err != nil {
		return nil, asError(err, abi.CodeModel)
	}
	return abijson.Marshal(contract.ModelReply{Response: response})
}

func (i *imports) nextTool(b []byte) ([]byte, error) {
	var patch abi.CallPatch
	if err := decode(b, &patch); err != nil {
		return nil, err
	}
	if i.h.Tool == nil {
		return nil, fail(abi.CodeUnavailable, "the test's Host has no Tool")
	}
	var call abi.Call
	if i.h.call != nil {
		call = *i.h.call
	}
	if patch.Arguments != nil {
		call.Arguments = *patch.Arguments
	}
	result, err := i.h.Tool(call)
	if err != nil {
		return nil, asError(err, abi.CodeTool)
	}
	return abijson.Marshal(contract.ToolReply{Result: result})
}

func applyTools(tools []abi.Tool, patch abi.ToolsPatch) []abi.Tool {
	if patch.Whole {
		return patch.Replace
	}
	out := slices.DeleteFunc(slices.Clone(tools), func(t abi.Tool) bool { return slices.Contains(patch.Remove, t.Name) })
	return append(out, patch.Add...)
}

// Messages implements the import "messages".
func (i *imports) Messages(id, from, to int) ([]byte, error) {
	if id < 0 || id >= len(i.h.lists) || i.h.lists[id].revisions == nil {
		return nil, fail(abi.CodeInvalid, "%s shows no list %d", i.hook, id)
	}
	now := i.h.lists[id].now()
	from = min(max(from, 0), len(now))
	to = min(max(to, from), len(now))
	i.h.Pulled += to - from
	return abijson.Marshal(append([]abi.Message{}, now[from:to]...))
}

// Changed implements the import "changed".
func (i *imports) Changed(id int, revision int64) (int, error) {
	if id < 0 || id >= len(i.h.lists) {
		return 0, fail(abi.CodeInvalid, "%s shows no list %d", i.hook, id)
	}
	return i.h.lists[id].changed(revision), nil
}

// Emit implements the import "emit".
func (i *imports) Emit(b []byte) error {
	if i.hook == contract.HookObserve {
		return fail(abi.CodeDenied, "observe cannot emit")
	}
	var event contract.Custom
	if err := decode(b, &event); err != nil {
		return err
	}
	if event.Name == "" || len(event.Name) > contract.MaxName {
		return fail(abi.CodeInvalid, "an event needs a name of 1 to %d bytes", contract.MaxName)
	}
	i.h.Events = append(i.h.Events, event)
	return nil
}

// Log implements the import "log".
func (i *imports) Log(level int, text string) { i.h.Logs = append(i.h.Logs, Log{level, text}) }

func decode(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	unknown, err := abijson.Decode(b, v)
	if err == nil && len(unknown) > 0 {
		err = fmt.Errorf("unknown keys %v", unknown)
	}
	if err != nil {
		return fail(abi.CodeInvalid, "%v", err)
	}
	return nil
}

func fail(code abi.Code, format string, args ...any) error {
	return &abi.Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// asError converts an error of the test's own functions to an *abi.Error. The error has the given
// code unless err wraps an *abi.Error.
func asError(err error, code abi.Code) error {
	var known *abi.Error
	if errors.As(err, &known) {
		return known
	}
	return &abi.Error{Code: code, Message: err.Error()}
}
