package middleware

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/agent-runner/agent-runner/abi"
)

// A Module is one WebAssembly module's side of the ABI: its middlewares, and
// how the hooks that the host calls reach them.
type Module struct {
	description abi.Description
	parts       []*part
	lists       [2]listCache
}

// A call is one call of a hook.
type call struct {
	m    *Module
	ctx  *Context
	host Host
}

// list returns a list of the input, to read and edit.
func (c *call) list(l abi.List) *Messages {
	cache := &listCache{}
	if l.List >= 0 && l.List < len(c.m.lists) {
		cache = &c.m.lists[l.List]
	}
	return &Messages{newHistory(&shown{List: l, run: c.ctx.Run.ID, host: c.host, cache: cache})}
}

// Call is one call of a hook: it takes the hook's input and returns its output,
// nil for none, or, if ok is false, an error object.
func (m *Module) Call(host Host, hook abi.Hook, input []byte) (output []byte, ok bool) {
	c := &call{m: m, host: host, ctx: &Context{host: host}}
	answer, err := m.dispatch(c, hook, input)
	if err == nil {
		output, err = encodeAnswer(answer)
	}
	if err != nil {
		output, err = endingOf(hook, err)
	}
	if err == nil {
		return output, true
	}
	output, err = abi.Marshal(errorObject(err))
	if err != nil { // a text that is not UTF-8 does not get here: it is replaced
		output = []byte(`{"code":"internal","message":"the error could not be encoded"}`)
	}
	return output, false
}

// dispatch decodes the input and calls the hook.
func (m *Module) dispatch(c *call, hook abi.Hook, input []byte) (answer any, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case hostFailure:
			answer, err = nil, p.err
		default:
			panic(p) // the author's: the runtime prints it with its stack, and traps
		}
	}()
	switch hook {
	case abi.HookDescribe:
		return &m.description, nil
	case abi.HookConfigure:
		return m.configure(c, input)
	case abi.HookBeforeAgent:
		return handle(c, input, m.beforeAgent)
	case abi.HookBeforeModelRewriteState:
		return handle(c, input, m.beforeModelRewriteState)
	case abi.HookBeforeModel:
		return handle(c, input, m.beforeModel)
	case abi.HookWrapModel:
		return handle(c, input, m.wrapModel)
	case abi.HookOnChunk:
		return handle(c, input, m.onChunk)
	case abi.HookAfterModel:
		return handle(c, input, m.afterModel)
	case abi.HookAfterModelRewriteState:
		return handle(c, input, m.afterModelRewriteState)
	case abi.HookBeforeTool:
		return handle(c, input, m.beforeTool)
	case abi.HookWrapToolCall:
		return handle(c, input, m.wrapToolCall)
	case abi.HookGateTool:
		return handle(c, input, m.gateTool)
	case abi.HookCallTool:
		return handle(c, input, m.callTool)
	case abi.HookAfterTool:
		return handle(c, input, m.afterTool)
	case abi.HookToolMessages:
		return handle(c, input, m.toolMessages)
	case abi.HookAfterTools:
		return handle(c, input, m.afterTools)
	case abi.HookAfterAgent:
		return handle(c, input, m.afterAgent)
	case abi.HookObserve:
		return handle(c, input, m.observe)
	case abi.HookTranslateBefore:
		return handle(c, input, m.translateBefore)
	case abi.HookTranslateAfter:
		return handle(c, input, m.translateAfter)
	default:
		return nil, misuse("unknown hook %q", hook)
	}
}

// input is a hook's input: all have the common part.
type input[I any] interface {
	*I
	Envelope() *abi.Common
}

// handle decodes a hook's input and calls its handler. Keys that this SDK does
// not know are a newer host's, and no error.
func handle[I any, P input[I]](c *call, b []byte, fn func(*call, *I) (any, error)) (any, error) {
	in := P(new(I))
	if err := abi.Read(b, in); err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "input: " + err.Error()}
	}
	common := in.Envelope()
	c.ctx.Run, c.ctx.Entry, c.ctx.Resume = common.Run, common.Entry, common.Resume
	for _, p := range c.m.parts {
		if p.value == nil {
			return nil, &abi.Error{Code: abi.CodeInternal, Message: "the module was not configured before its hooks were called"}
		}
	}
	return fn(c, (*I)(in))
}

// hooks returns the middlewares of the module that have a hook, in order.
func hooks[H any](m *Module) []H {
	var out []H
	for _, p := range m.parts {
		if h, ok := p.value.(H); ok {
			out = append(out, h)
		}
	}
	return out
}

// each calls the hook of one middleware after the other, until one fails or
// says that the rest is not to be asked.
func each[H any](m *Module, fn func(H) (goOn bool, err error)) error {
	for _, h := range hooks[H](m) {
		if goOn, err := fn(h); err != nil || !goOn {
			return err
		}
	}
	return nil
}

// all calls the hook of every middleware, and returns what went wrong.
func all[H any](m *Module, fn func(H) error) error {
	var failed []error
	for _, h := range hooks[H](m) {
		if err := fn(h); err != nil {
			failed = append(failed, err)
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// encodeAnswer encodes an answer, and nothing as no output.
func encodeAnswer(answer any) ([]byte, error) {
	if answer == nil || reflect.ValueOf(answer).Elem().IsZero() {
		return nil, nil
	}
	b, err := abi.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return b, nil
}

// endingOf turns an error that ends or pauses the run into the answer that
// does, and leaves others as they are.
func endingOf(hook abi.Hook, err error) ([]byte, error) {
	var end *ending
	if !errors.As(err, &end) {
		return nil, err
	}
	switch hook {
	case abi.HookDescribe, abi.HookConfigure, abi.HookToolMessages, abi.HookAfterAgent, abi.HookObserve,
		abi.HookTranslateBefore, abi.HookTranslateAfter:
		return nil, misuse("%s can neither stop nor interrupt a run: %s", hook, err)
	case abi.HookOnChunk:
		if end.Interrupt != nil {
			return nil, misuse("on_chunk cannot interrupt a run: %s", err)
		}
	}
	return abi.Marshal(end.Control)
}

// null reports whether raw JSON is absent.
func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
