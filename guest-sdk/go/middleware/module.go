package middleware

import (
	"errors"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
)

// A Module is one WebAssembly module's side of the ABI: its middlewares, and
// how the hooks that the host calls reach them.
type Module struct {
	description abi.Description
	parts       []*part
	config      configurer
	served      []served
	lists       [2]listCache
	room        []byte // where values are encoded
}

// A served is a hook that the module has.
type served struct {
	hook   abi.Hook
	serve  func(s *served) (abi.Writable, error)
	called any    // the middlewares that have it, in a slice of the hook's interface; nil: not collected yet
	server server // that collects them; nil: they are there for good
	visit  any    // what the last call was made in, which the next one uses again
	deep   int    // how many calls of it go on: one that waits for the host may be called again

	// Of the call that begins: each argument more is put away in each function on the way.
	m     *Module
	host  Host
	input []byte
}

// A configurer takes a module's configuration, a JSON object.
type configurer interface {
	configure(ctx *Context, config abi.JSON) error
}

// A server is the code that serves hooks. It consists of methods of types that the
// hooks name, see [method.server].
type server interface {
	// collect returns the middlewares that have the hook.
	collect(m *Module, hook abi.Hook) any
	// serve decodes the input, calls the hook and says what it answers.
	serve(s *served) (abi.Writable, error)
}

// A call is one call of a hook.
type call struct {
	m    *Module
	ctx  *Context
	host Host
	own  Context
}

// A listed is a list that is handed out, in one object: a module pays for each.
type listed struct {
	Messages
	shown shown
	whole [1]piece
}

// list returns a list of the input, to read and edit.
func (c *call) list(l abi.List) *Messages {
	out := &listed{}
	c.show(out, l)
	return &out.Messages
}

// show makes out a list of the input.
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

// Call is one call of a hook: it takes the hook's input and returns its output,
// nil for none, or, if ok is false, an error object.
func (m *Module) Call(host Host, hook abi.Hook, input []byte) (output []byte, ok bool) {
	return m.callInto(make([]byte, 0, answerBytes), host, hook, input)
}

// callInto is Call with room for the output.
func (m *Module) callInto(room []byte, host Host, hook abi.Hook, input []byte) (output []byte, ok bool) {
	answer, err := m.answer(host, hook, input)
	return answered(room, hook, answer, err)
}

// answer is what a hook answers; nil: nothing.
func (m *Module) answer(host Host, hook abi.Hook, input []byte) (answer abi.Writable, err error) {
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

// answered is the output of a hook that came to an answer, or an error.
func answered(room []byte, hook abi.Hook, answer abi.Writable, err error) (output []byte, ok bool) {
	if err == nil && answer != nil {
		output, err = encodeAnswer(room, answer)
	}
	if err == nil {
		return output, true
	}
	return failed(hook, err)
}

// failed is the output of a hook that ended with an error.
func failed(hook abi.Hook, err error) (output []byte, ok bool) {
	if output, err = endingOf(hook, err); err == nil {
		return output, true
	}
	if output, err = abi.Write(nil, errorObject(err)); err != nil { // a text that is not UTF-8 does not get here: it is replaced
		output = []byte(`{"code":"internal","message":"the error could not be encoded"}`)
	}
	return output, false
}

// find is the hook as the module has it, or nil.
func (m *Module) find(hook abi.Hook) *served {
	for i := range m.served {
		if m.served[i].hook == hook {
			return &m.served[i]
		}
	}
	return nil
}

// other serves what is no hook of the module's.
func (m *Module) other(host Host, hook abi.Hook, input []byte) (abi.Writable, error) {
	switch {
	case hook == abi.HookDescribe:
		return &m.description, nil
	case hook == abi.HookConfigure:
		return m.configure(host, input)
	case slices.Contains(abi.Hooks(), hook):
		return nil, nil // no middleware has it
	default:
		return nil, misuse("unknown hook " + strconv.Quote(string(hook)))
	}
}

// A visit is one call of a hook with its input and answer, which are made together.
type visit[I, A any] struct {
	call
	in  I
	out A
}

// visitOf returns an empty visit: the one of the last call, if that is over. So
// nothing of a visit may be handed to an author but the context, and what its
// input points to.
func visitOf[I, A any](s *served) *visit[I, A] {
	v, ok := s.visit.(*visit[I, A])
	switch {
	case !ok:
		v = &visit[I, A]{}
		s.visit = v
	case s.deep > 1:
		v = &visit[I, A]{}
	default:
		*v = visit[I, A]{}
	}
	return v
}

// begin decodes a hook's input, of which common is a part. Keys that this SDK does not
// know are a newer host's, and no error.
func (c *call) begin(s *served, in abi.Readable, common *abi.Common) error {
	m, host, input := s.m, s.host, s.input
	s.host, s.input = nil, nil
	if err := abi.Read(input, in); err != nil {
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
	ctx.room = &m.room
	c.m, c.host, c.ctx = m, host, ctx
	return nil
}

// configured reports whether all middlewares are there.
func (m *Module) configured() bool {
	return !slices.ContainsFunc(m.parts, func(p *part) bool { return p.value == nil })
}

// collect finds the middlewares that have each of the module's hooks.
func (m *Module) collect() {
	for i := range m.served {
		if s := &m.served[i]; s.server != nil {
			s.called = s.server.collect(m, s.hook)
		}
	}
}

// collect finds the middlewares with the hook H.
func collect[H any](m *Module) any {
	var list []H
	for _, p := range m.parts {
		if h, ok := p.value.(H); ok {
			list = append(list, h)
		}
	}
	return list
}

// hooks are the middlewares with the hook H, which is s.
func hooks[H any](s *served) []H {
	list, _ := s.called.([]H)
	return list
}

// caught turns the panic p with which reading a list gives up into its error. What
// shows a list defers a function that asks it.
func caught(p any, answer abi.Writable, err error) (abi.Writable, error) {
	switch p := p.(type) {
	case nil:
		return answer, err
	case hostFailure:
		return nil, p.err
	default:
		panic(p) // the author's: the runtime prints it with its stack, and traps
	}
}

// joined is what went wrong, where one that fails does not keep the others from
// being called.
func joined(failed []error) error {
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// encodeAnswer encodes an answer, and one that says nothing as no output.
func encodeAnswer(room []byte, answer abi.Writable) ([]byte, error) {
	b, err := abi.Write(room, answer)
	if err != nil {
		return nil, abi.Wrap("encode the answer", err)
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
	end, ok := errors.AsType[*ending](err)
	if !ok {
		return nil, err
	}
	switch hook {
	case abi.HookDescribe, abi.HookConfigure, abi.HookToolMessages, abi.HookAfterAgent, abi.HookObserve,
		abi.HookTranslateBefore, abi.HookTranslateAfter:
		return nil, misuse(string(hook) + " can neither stop nor interrupt a run: " + err.Error())
	case abi.HookOnChunk:
		if end.Interrupt != nil {
			return nil, misuse("on_chunk cannot interrupt a run: " + err.Error())
		}
	}
	return abi.Write(nil, &end.Control)
}

// null reports whether raw JSON is absent.
func null(raw abi.JSON) bool { return len(raw) == 0 || string(raw) == "null" }
