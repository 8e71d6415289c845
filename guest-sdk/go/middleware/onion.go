package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// An onion is one call of a module's wrappers around the host's next. The first wrapper
// is the outermost. Each wrapper has its own copy of the request, so that a second call
// of next starts from that wrapper's request, without the changes that inner wrappers
// made in the first call.
type onion[Q, R any] struct {
	*wrapping[Q, R]
	call    *call
	request *Q  // the original request
	hooks   any // slice of the hook's interface with the wrappers
	count   int // number of wrappers

	last, lastCopy *R // the last reply that the host sent or received, and a copy of it

	// Memory for the first lastCopy and the first wrapperCall. Most calls need only one of each,
	// and allocations are expensive in a module.
	firstCopy R
	outer     wrapperCall[Q, R]
}

// wrapping holds the operations of a wrap hook whose requests have type Q and whose replies have
// type R.
type wrapping[Q, R any] struct {
	wrap       func(hooks any, i int, ctx *Context, req *Q, next func(*Q) (*R, error)) (*R, error)
	clone      func(to, from *Q)
	streamArgs func(*Q) *streamArgs
	patch      func(original, req *Q) (patch abijson.Writable, unchanged bool, err error)
	// reply decodes a reply of the host's next, and end converts the end of its stream.
	reply func([]byte) (*R, error)
	end   func(*contract.StreamEnd) *R
	copy  func(to, from *R)
	same  func(a, b *R) bool
	// chunks converts a reply to chunks. assemble is the inverse; it takes the fields that chunks
	// cannot represent from a reply, which may be nil.
	chunks   func(original *Q, reply *R) []abi.Chunk
	assemble func(*R, *chunkjoin.Assembly) *R
}

// A listener receives the chunks of a wrapped call while it streams.
type listener struct {
	receive func([]abi.Chunk) error
	// read is readStream. It is only reached through this field, so that only modules
	// that read streams link the imports it needs.
	read func(h Host, patch []byte, receive func([]abi.Chunk) error) (*contract.StreamEnd, error)
}

// A streamArgs has additional arguments of [NextModel.Stream] and [NextTool.Stream], stored
// in the request. It refers to no other type, because the linker retains the methods of
// all types that an author's method can reach, and a gate does not need those for
// streams.
type streamArgs struct {
	listener any  // a *listener, or nil
	asIs     bool // whether the request is unchanged
}

func listenerOf(a streamArgs) *listener {
	l, _ := a.listener.(*listener)
	return l
}

// A frame records the chunks that a running wrapper sent, and their receiver.
type frame struct {
	out        *listener          // receiver of the chunks; nil if the host receives them
	head, tail chunkjoin.Assembly // chunks sent before and after the last call of next
	sent       bool
}

func (f *frame) begin() {
	f.head.Add(f.tail.Chunks()...)
	f.tail = chunkjoin.Assembly{}
}

// enter makes f the current frame and returns the previous one, which the caller must pass to exit.
func (c *Context) enter(f *frame) (outer any) {
	outer, c.frame = c.frame, f
	return outer
}

func (c *Context) exit(outer any) { c.frame = outer }

// run calls the wrappers. It returns nil if the host already has the reply.
func (o *onion[Q, R]) run() (*R, error) {
	reply, err := o.layer(0, o.request, nil)
	if err != nil || reply == o.last && o.same(reply, o.lastCopy) {
		return nil, err
	}
	return reply, nil
}

// layer calls wrapper i and those inside it, and returns their reply. The listener pass receives
// the chunks that the wrappers pass on; if pass is nil, the host receives them.
func (o *onion[Q, R]) layer(i int, original *Q, pass *listener) (*R, error) {
	if i == o.count {
		return o.next(original, pass)
	}
	t := &o.outer
	if i > 0 {
		t = &wrapperCall[Q, R]{}
	}
	t.onion, t.i, t.original, t.pass, t.frame.out = o, i, original, pass, pass
	ctx := o.call.ctx
	defer ctx.exit(ctx.enter(&t.frame))
	o.clone(&t.own, original)
	reply, err := o.wrap(o.hooks, i, ctx, &t.own, t.next)
	switch {
	case err != nil:
		return nil, err
	case reply != nil:
		return reply, nil
	case t.frame.sent:
		return t.sentReply(), nil
	case t.called:
		return t.last, t.failed
	default:
		return o.layer(i+1, &t.own, pass)
	}
}

// A wrapperCall is the state of one running wrapper, in a single object because allocations are
// expensive in a module.
type wrapperCall[Q, R any] struct {
	onion    *onion[Q, R]
	i        int
	original *Q
	pass     *listener
	frame    frame
	own      Q // the wrapper's own copy of the request

	called      bool
	last, good  *R // the last reply of next, and the last reply that was not an error
	undelivered *R // copy of the last reply of next; nil if a listener received that reply
	failed      error
}

// next is the function that the wrapper calls to continue. It returns the reply of the layers
// inside the wrapper.
func (t *wrapperCall[Q, R]) next(req *Q) (*R, error) {
	o, inside := t.onion, t.pass
	req, listens := o.asked(req, t.original)
	received := false
	if listens != nil {
		inside = &listener{read: listens.read, receive: func(chunks []abi.Chunk) error {
			defer o.call.ctx.exit(o.call.ctx.enter(&t.frame))
			received = received || len(chunks) > 0
			return listens.receive(chunks)
		}}
	}
	t.frame.begin()
	t.called, t.undelivered = true, nil
	if t.last, t.failed = o.layer(t.i+1, req, inside); t.failed != nil {
		return nil, t.failed
	}
	t.good = t.last
	switch {
	case listens != nil && !received:
		t.failed = inside.receive(o.chunks(o.request, t.last))
	case listens != nil: // the listener has received it
	case t.last == o.last:
		t.undelivered = o.lastCopy
	default:
		t.undelivered = new(R)
		o.copy(t.undelivered, t.last)
	}
	return t.last, t.failed
}

// sentReply returns the reply of a wrapper that sent chunks and returned nothing.
func (t *wrapperCall[Q, R]) sentReply() *R {
	o, f := t.onion, &t.frame
	if t.undelivered != nil {
		f.head.Add(o.chunks(o.request, t.undelivered)...)
	}
	f.head.Add(f.tail.Chunks()...)
	reply := o.assemble(t.good, &f.head)
	if t.pass == nil {
		o.setLast(reply)
	}
	return reply
}

// asked returns the request that a wrapper passed to next, and the listener for the
// reply.
func (o *onion[Q, R]) asked(req, original *Q) (*Q, *listener) {
	if req == nil {
		return original, nil
	}
	a := *o.streamArgs(req)
	if a.asIs {
		return original, listenerOf(a)
	}
	*o.streamArgs(req) = streamArgs{}
	return req, listenerOf(a)
}

// next continues the call outside of the module, with the changes of req to the original request,
// and returns the host's reply.
func (o *onion[Q, R]) next(req *Q, pass *listener) (*R, error) {
	o.last = nil
	patch, unchanged, err := o.patch(o.request, req)
	if err != nil {
		return nil, err
	}
	var b []byte
	if !unchanged {
		if b, err = abijson.Write(nil, patch); err != nil {
			return nil, jsoncodec.Wrap("encode the patch for next", err)
		}
	}
	reply, err := o.ask(b, pass)
	if err != nil {
		return nil, err
	}
	o.setLast(reply)
	return reply, nil
}

// setLast records reply as the last one that the host sent or received.
func (o *onion[Q, R]) setLast(reply *R) {
	if o.lastCopy == nil {
		o.lastCopy = &o.firstCopy
	} else {
		o.lastCopy = new(R)
	}
	o.last = reply
	o.copy(o.lastCopy, reply)
}

// ask calls the host's next and returns the reply. If pass is not nil, ask reads the reply as a
// stream, whose chunks pass receives.
func (o *onion[Q, R]) ask(patch []byte, pass *listener) (reply *R, err error) {
	if pass != nil {
		end, err := pass.read(o.call.host, patch, pass.receive)
		if err != nil {
			return nil, err
		}
		reply = o.end(end)
	} else {
		b, err := o.call.host.Next(patch)
		if err != nil {
			return nil, err
		}
		if reply, err = o.reply(b); err != nil {
			return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to next: " + err.Error()}
		}
	}
	if reply == nil {
		return nil, &abi.Error{Code: abi.CodeInternal, Message: "the host's reply to next is empty"}
	}
	return reply, nil
}
