package middleware

import (
	"encoding/json"
	"errors"
	"fmt"

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
	own  Context
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
	answer, err := m.dispatch(host, hook, input)
	if err == nil {
		output, err = encodeAnswer(answer)
	}
	if err != nil {
		output, err = endingOf(hook, err)
	}
	if err == nil {
		return output, true
	}
	output, err = abi.Write(nil, errorObject(err))
	if err != nil { // a text that is not UTF-8 does not get here: it is replaced
		output = []byte(`{"code":"internal","message":"the error could not be encoded"}`)
	}
	return output, false
}

// dispatch decodes the input and calls the hook.
func (m *Module) dispatch(host Host, hook abi.Hook, input []byte) (answer abi.Writable, err error) {
	switch hook {
	case abi.HookDescribe:
		return &m.description, nil
	case abi.HookConfigure:
		return m.configure(host, input)
	case abi.HookBeforeAgent:
		return reading(m, host, input, m.beforeAgent)
	case abi.HookBeforeModelRewriteState:
		return reading(m, host, input, m.beforeModelRewriteState)
	case abi.HookBeforeModel:
		return reading(m, host, input, m.beforeModel)
	case abi.HookWrapModel:
		return reading(m, host, input, m.wrapModel)
	case abi.HookOnChunk:
		return handle(m, host, input, m.onChunk)
	case abi.HookAfterModel:
		return reading(m, host, input, m.afterModel)
	case abi.HookAfterModelRewriteState:
		return reading(m, host, input, m.afterModelRewriteState)
	case abi.HookBeforeTool:
		return handle(m, host, input, m.beforeTool)
	case abi.HookWrapToolCall:
		return handle(m, host, input, m.wrapToolCall)
	case abi.HookGateTool:
		return handle(m, host, input, m.gateTool)
	case abi.HookCallTool:
		return handle(m, host, input, m.callTool)
	case abi.HookAfterTool:
		return handle(m, host, input, m.afterTool)
	case abi.HookToolMessages:
		return handle(m, host, input, m.toolMessages)
	case abi.HookAfterTools:
		return reading(m, host, input, m.afterTools)
	case abi.HookAfterAgent:
		return reading(m, host, input, m.afterAgent)
	case abi.HookObserve:
		return handle(m, host, input, m.observe)
	case abi.HookTranslateBefore:
		return handle(m, host, input, m.translateBefore)
	case abi.HookTranslateAfter:
		return handle(m, host, input, m.translateAfter)
	default:
		return nil, misuse("unknown hook %q", hook)
	}
}

// input is a hook's input: all have the common part.
type input[I any] interface {
	*I
	abi.Readable
	Envelope() *abi.Common
}

// A visit is one call of a hook with its input, which are made together.
type visit[I any] struct {
	call
	in I
}

// handle decodes a hook's input and calls its handler. Keys that this SDK does
// not know are a newer host's, and no error.
func handle[I any, P input[I]](m *Module, host Host, b []byte, fn func(*call, *I) (abi.Writable, error)) (abi.Writable, error) {
	v := &visit[I]{}
	in := P(&v.in)
	if err := abi.Read(b, in); err != nil {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "input: " + err.Error()}
	}
	for _, p := range m.parts {
		if p.value == nil {
			return nil, &abi.Error{Code: abi.CodeInternal, Message: "the module was not configured before its hooks were called"}
		}
	}
	common, ctx := in.Envelope(), &v.own
	ctx.Run, ctx.Entry, ctx.Resume, ctx.host = common.Run, common.Entry, common.Resume, host
	v.m, v.host, v.ctx = m, host, ctx
	return fn(&v.call, &v.in)
}

// reading is handle for hooks that are shown a list, of which reading may fail.
func reading[I any, P input[I]](m *Module, host Host, b []byte, fn func(*call, *I) (abi.Writable, error)) (answer abi.Writable, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case hostFailure:
			answer, err = nil, p.err
		default:
			panic(p) // the author's: the runtime prints it with its stack, and traps
		}
	}()
	return handle[I, P](m, host, b, fn)
}

// each calls the hook of one middleware after the other, until one fails or
// says that the rest is not to be asked.
func each[H any](m *Module, fn func(H) (goOn bool, err error)) error {
	for _, p := range m.parts {
		if h, ok := p.value.(H); ok {
			if goOn, err := fn(h); err != nil || !goOn {
				return err
			}
		}
	}
	return nil
}

// all calls the hook of every middleware, and returns what went wrong.
func all[H any](m *Module, fn func(H) error) error {
	var failed []error
	for _, p := range m.parts {
		if h, ok := p.value.(H); ok {
			if err := fn(h); err != nil {
				failed = append(failed, err)
			}
		}
	}
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// encodeAnswer encodes an answer, and one that says nothing as no output.
func encodeAnswer(answer abi.Writable) ([]byte, error) {
	if answer == nil {
		return nil, nil
	}
	b, err := abi.Write(make([]byte, 0, answerBytes), answer)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	if len(b) == len("{}") {
		return nil, nil
	}
	return b, nil
}

// answerBytes is what most answers have room in.
const answerBytes = 256

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
	return abi.Write(nil, &end.Control)
}

// null reports whether raw JSON is absent.
func null(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
