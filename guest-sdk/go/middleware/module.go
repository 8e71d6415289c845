package middleware

import (
	"errors"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Module implements the ABI for one WebAssembly module. It dispatches the host's hook
// calls to its middlewares.
type Module struct {
	description abi.Description
	parts       []*part
	config      configurer
	served      []served
	lists       [2]listCache
	buffer      []byte // buffer for encoding values
}

// served is a hook that the module has, with the data for calling the hook.
type served struct {
	hook   abi.Hook
	serve  func(s *served) (abijson.Writable, error)
	called any    // the middlewares that have the hook, a slice of the hook's interface; nil until collected
	server server // collects the middlewares; nil if a Declaration lists them
	last   any    // the *hookCall of the last call, for reuse
	deep   int    // number of calls in progress; a hook can be called again while it waits for the host

	// Arguments of the call that is about to start. Storing them here is cheaper than passing them as parameters
	// through several functions.
	m     *Module
	host  Host
	input []byte
}

// A configurer reads a module's configuration, a JSON object.
type configurer interface {
	configure(ctx *Context, config abi.JSON) error
}

// A server implements one hook for a [Module]: it finds the middlewares that have the hook, and
// calls them when the host calls the hook. A type in the signature of the hook method implements
// it, such as *AgentStart for before_agent, so that unused hooks leave no code in a module. See
// [method.server].
type server interface {
	// collect returns the middlewares of m that have the hook, as a slice of the hook's interface.
	collect(m *Module, hook abi.Hook) any
	// serve decodes the input, calls the middlewares that have the hook and returns the answer.
	serve(s *served) (abijson.Writable, error)
}

// A call holds the module, the host and the context of one call of a hook.
type call struct {
	m    *Module
	ctx  *Context
	host Host
	own  Context
}

// listed is a list that is passed to a hook, in a single object because allocations are expensive
// in a module.
type listed struct {
	Messages
	shown shown
	whole [1]piece
}

// list returns an editable list for the list l of an input.
func (c *call) list(l abi.List) *Messages {
	out := &listed{}
	c.show(out, l)
	return &out.Messages
}

// show initializes out with the list l of an input.
func (c *call) show(out *listed, l abi.List) {
	var cache *listCache
	if l.List >= 0 && l.List < len(c.m.lists) {
		cache = &c.m.lists[l.List]
	} else {
		cache = &listCache{}
	}
	out.shown = shown{List: l, run: c.ctx.Run.ID, host: c.host, cache: cache}
	out.History = History{shown: &out.shown, length: l.Total}
	if l.Total > 0 {
		out.whole[0].n = l.Total
		out.pieces = out.whole[:]
	}
}

// Call calls a hook with an input. It returns the hook's output, which is nil if the hook
// changes nothing. If ok is false, the output is an error object.
func (m *Module) Call(host Host, hook abi.Hook, input []byte) (output []byte, ok bool) {
	return m.callInto(make([]byte, 0, answerBytes), host, hook, input)
}

// callInto is Call with a buffer for the output, which it extends if it is too small.
func (m *Module) callInto(buffer []byte, host Host, hook abi.Hook, input []byte) (output []byte, ok bool) {
	answer, err := m.answer(host, hook, input)
	return answered(buffer, hook, answer, err)
}

// answer calls a hook and returns its answer. A nil answer changes nothing.
func (m *Module) answer(host Host, hook abi.Hook, input []byte) (answer abijson.Writable, err error) {
	s := m.find(hook)
	if s == nil {
		return m.other(host, hook, input)
	}
	s.m, s.host, s.input = m, host, input
	s.deep++
	answer, err = s.serve(s)
	s.deep--
	return answer, err
}

// answered encodes the answer or the error of a hook in buffer. ok is false for an error that
// neither ends nor pauses the run.
func answered(buffer []byte, hook abi.Hook, answer abijson.Writable, err error) (output []byte, ok bool) {
	if err == nil && answer != nil {
		output, err = encodeAnswer(buffer, answer)
	}
	if err == nil {
		return output, true
	}
	return failed(hook, err)
}

// failed encodes the error of a hook: as an answer if it ends or pauses the run, or else as
// an error object.
func failed(hook abi.Hook, err error) (output []byte, ok bool) {
	if output, err = endingOf(hook, err); err == nil {
		return output, true
	}
	if output, err = abijson.Write(nil, (*abijson.Error)(errorObject(err))); err != nil {
		// Invalid UTF-8 is not a cause of this error, because the encoder replaces it.
		output = []byte(`{"code":"internal","message":"the error could not be encoded"}`)
	}
	return output, false
}

// find returns the element of m.served for a hook, or nil.
func (m *Module) find(hook abi.Hook) *served {
	for i := range m.served {
		if m.served[i].hook == hook {
			return &m.served[i]
		}
	}
	return nil
}

// other returns the answer of describe and of configure, nil for a hook that no middleware has, and
// an error for an unknown hook.
func (m *Module) other(host Host, hook abi.Hook, input []byte) (abijson.Writable, error) {
	switch {
	case hook == contract.HookDescribe:
		return (*abijson.Description)(&m.description), nil
	case hook == contract.HookConfigure:
		return m.configure(host, input)
	case contract.Known(hook):
		return nil, nil // no middleware has it
	default:
		return nil, misuse("unknown hook " + strconv.Quote(string(hook)))
	}
}

// A hookCall is one call of a hook with its input and its answer, in a single object because
// allocations are expensive in a module.
type hookCall[I, A any] struct {
	call
	in  I
	out A
}

// hookCallOf returns an empty hookCall. It reuses the hookCall of the last call if that call has
// ended. Because of this, a hook may receive pointers to the context and to values that the input
// points to, but not to the input or the answer.
func hookCallOf[I, A any](s *served) *hookCall[I, A] {
	v, ok := s.last.(*hookCall[I, A])
	switch {
	case !ok:
		v = &hookCall[I, A]{}
		s.last = v
	case s.deep > 1:
		v = &hookCall[I, A]{}
	default:
		*v = hookCall[I, A]{}
	}
	return v
}

// begin decodes a hook's input and initializes the context. common is the part of the decoded input
// that all hooks have. It ignores unknown keys, which a newer host may send. It fails if the module
// has not been configured.
func (c *call) begin(s *served, in abijson.Readable, common *abi.Common) error {
	m, host, input := s.m, s.host, s.input
	s.host, s.input = nil, nil
	if err := abijson.Read(input, in); err != nil {
		return &abi.Error{Code: abi.CodeInvalid, Message: "input: " + err.Error()}
	}
	if s.called == nil {
		if !m.configured() {
			return &abi.Error{Code: abi.CodeInternal, Message: "the module was not configured before its hooks were called"}
		}
		m.collect()
	}
	ctx := &c.own
	ctx.Run, ctx.Entry, ctx.Resume, ctx.host = common.Run, common.Entry, common.Resume, host
	ctx.buffer = &m.buffer
	c.m, c.host, c.ctx = m, host, ctx
	return nil
}

// configured reports whether all middlewares have been built.
func (m *Module) configured() bool {
	return !slices.ContainsFunc(m.parts, func(p *part) bool { return p.value == nil })
}

// collect finds the middlewares for each of the module's hooks.
func (m *Module) collect() {
	for i := range m.served {
		if s := &m.served[i]; s.server != nil {
			s.called = s.server.collect(m, s.hook)
		}
	}
}

// collect returns the middlewares that implement H.
func collect[H any](m *Module) any {
	var list []H
	for _, p := range m.parts {
		if h, ok := p.value.(H); ok {
			list = append(list, h)
		}
	}
	return list
}

// hooks returns the middlewares that have the hook s, or nil if H is the interface of another hook.
func hooks[H any](s *served) []H {
	list, _ := s.called.([]H)
	return list
}

// caught returns answer and err if p, the result of recover, is nil. If p is the panic of reading a
// list, caught returns the host's error; it repeats any other panic. Functions that pass lists to
// hooks defer a call of caught.
func caught(p any, answer abijson.Writable, err error) (abijson.Writable, error) {
	switch p := p.(type) {
	case nil:
		return answer, err
	case hostError:
		return nil, p.err
	default:
		panic(p) // the author's panic: the runtime prints it with its stack, and traps
	}
}

// joined returns the combined error of hooks that were all called although some failed.
func joined(failed []error) error {
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// encodeAnswer encodes an answer. An answer without changes has no output.
func encodeAnswer(buffer []byte, answer abijson.Writable) ([]byte, error) {
	b, err := abijson.Write(buffer, answer)
	if err != nil {
		return nil, jsoncodec.Wrap("encode the answer", err)
	}
	if len(b) == len("{}") {
		return nil, nil
	}
	return b, nil
}

// answerBytes is the initial buffer size of an output. Most answers fit.
const answerBytes = 256

// endingOf returns the answer for an error that ends or pauses the run, or an error if the hook
// cannot do that. It returns other errors unchanged.
func endingOf(hook abi.Hook, err error) ([]byte, error) {
	end, ok := errors.AsType[*ending](err)
	if !ok {
		return nil, err
	}
	switch stop, interrupt := endings(hook); {
	case !stop:
		return nil, misuse(string(hook) + " can neither stop nor interrupt a run: " + err.Error())
	case !interrupt && end.Interrupt != nil:
		return nil, misuse(string(hook) + " cannot interrupt a run: " + err.Error())
	}
	return abijson.Write(nil, (*abijson.Control)(&end.Control))
}

// null reports whether raw is empty or the JSON value null.
func null(raw abi.JSON) bool { return len(raw) == 0 || string(raw) == "null" }

// registered is this program's module. There can be only one, because the exports of a
// WebAssembly module are functions of the whole program.
var registered *Module

// Register makes this program a module of the given middlewares. Call it once, in init.
// The middlewares are called in the given order; the first wrapper is the outermost.
//
// Register panics if a module is already registered, if there are no middlewares, and for the
// reasons that [NewModule] lists.
func Register(o Options, middlewares ...Middleware) {
	if registered != nil {
		panic("middleware: Register was called twice; give it all middlewares of the module at once")
	}
	if len(middlewares) == 0 {
		panic("middleware: Register was called without a middleware")
	}
	registered = NewModule(o, middlewares...)
}

// Serve makes this program the declared module. Call it once, in init. It panics if a module is
// already registered.
func Serve(d *Declaration) {
	if registered != nil {
		panic("middleware: a module was registered already; there is one in a program")
	}
	registered = d.Module()
}

// Combine returns a middleware that consists of the given ones. They are called in the given order.
func Combine(middlewares ...Middleware) Middleware { return combined(middlewares) }

// several is implemented by a middleware that consists of other middlewares.
type several interface{ middlewares() []Middleware }

type combined []Middleware

func (c combined) middlewares() []Middleware { return c }

func flatten(list []Middleware) []Middleware {
	var out []Middleware
	for _, mw := range list {
		if s, ok := mw.(several); ok {
			out = append(out, flatten(s.middlewares())...)
		} else {
			out = append(out, mw)
		}
	}
	return out
}
