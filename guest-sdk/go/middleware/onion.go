package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
)

// An onion is one call of the wrappers of a module around the host's next, the
// first outermost. Each gets a request of its own to change, so that a second
// next of one begins from what that one says, not from what those inside it
// made of the first.
type onion[Q, R any] struct {
	*wrapping[Q, R]
	call    *call
	request *Q  // as it came
	hooks   any // the wrappers, in a slice of the hook's interface
	count   int // of them

	last, untouched *R // what the host knows already: its last reply, or what was sent

	// The first of each, which most calls have no more than one of: a module pays for
	// each object.
	kept  R
	outer turn[Q, R]
}

// A wrapping is what there is to know of a wrap hook: Q is what its wrappers pass on,
// R what they get back.
type wrapping[Q, R any] struct {
	wrap  func(hooks any, i int, ctx *Context, req *Q, next func(*Q) (*R, error)) (*R, error)
	clone func(to, from *Q)
	aside func(*Q) *aside
	patch func(came, req *Q) (patch abi.Writable, unchanged bool, err error)
	// reply and end are what the host's next and the end of its stream say.
	reply func([]byte) (*R, error)
	end   func(*abi.StreamEnd) *R
	copy  func(to, from *R)
	same  func(a, b *R) bool
	// chunks are those that say what a reply says; said is the reverse, with what
	// chunks cannot say from a reply, which may be nil.
	chunks func(came *Q, reply *R) []abi.Chunk
	said   func(*R, *abi.Assembly) *R
}

// A listener takes chunks of what is wrapped as they come.
type listener struct {
	hear func([]abi.Chunk) error
	// read is readStream. It is reached through here alone, so that only modules
	// that read streams import what they need for it.
	read func(h Host, patch []byte, hear func([]abi.Chunk) error) (*abi.StreamEnd, error)
}

// An aside is what [NextModel.Stream] and [NextTool.Stream] say beside a request. It
// names no type: the linker keeps what could be done with all types that a method of the
// author's leads to, and a gate has no use for streams.
type aside struct {
	listener any  // a *listener, or nil
	asIs     bool // the request is the one that came
}

func listenerOf(a aside) *listener {
	l, _ := a.listener.(*listener)
	return l
}

// A frame is a wrapper that runs: what it sends, and to whom.
type frame struct {
	out        *listener    // nil: the host
	head, tail abi.Assembly // sent before the last next, and since
	sent       bool
}

func (f *frame) begin() {
	f.head.Add(f.tail.Chunks()...)
	f.tail = abi.Assembly{}
}

// enter makes f the frame whose wrapper runs, until leave is called with the one that
// it returns.
func (c *Context) enter(f *frame) (outer any) {
	outer, c.frame = c.frame, f
	return outer
}

func (c *Context) leave(outer any) { c.frame = outer }

// run calls the wrappers. Nothing is answered that the host knows already.
func (o *onion[Q, R]) run() (*R, error) {
	reply, err := o.layer(0, o.request, nil)
	if err != nil || reply == o.last && o.same(reply, o.untouched) {
		return nil, err
	}
	return reply, nil
}

// layer calls wrapper i and those inside it. What leaves it as it comes goes
// to pass, or past this module to the host.
func (o *onion[Q, R]) layer(i int, came *Q, pass *listener) (*R, error) {
	if i == o.count {
		return o.next(came, pass)
	}
	t := &o.outer
	if i > 0 {
		t = &turn[Q, R]{}
	}
	t.onion, t.i, t.came, t.pass, t.frame.out = o, i, came, pass, pass
	ctx := o.call.ctx
	defer ctx.leave(ctx.enter(&t.frame))
	o.clone(&t.own, came)
	reply, err := o.wrap(o.hooks, i, ctx, &t.own, t.next)
	switch {
	case err != nil:
		return nil, err
	case reply != nil:
		return reply, nil
	case t.frame.sent:
		return t.said(), nil
	case t.called:
		return t.last, t.failed
	default:
		return o.layer(i+1, &t.own, pass)
	}
}

// A turn is one wrapper that runs. It is one object, since a module pays for each.
type turn[Q, R any] struct {
	onion *onion[Q, R]
	i     int
	came  *Q
	pass  *listener
	frame frame
	own   Q // what the wrapper is given

	called     bool
	last, good *R // what the last next came to, and the last one that was good
	unheard    *R // a copy of what the last next let pass, where nobody listened
	failed     error
}

// next is what the wrapper is given to go on with.
func (t *turn[Q, R]) next(req *Q) (*R, error) {
	o, inside := t.onion, t.pass
	req, listens := o.asked(req, t.came)
	heard := false
	if listens != nil {
		inside = &listener{read: listens.read, hear: func(chunks []abi.Chunk) error {
			defer o.call.ctx.leave(o.call.ctx.enter(&t.frame))
			heard = heard || len(chunks) > 0
			return listens.hear(chunks)
		}}
	}
	t.frame.begin()
	t.called, t.unheard = true, nil
	if t.last, t.failed = o.layer(t.i+1, req, inside); t.failed != nil {
		return nil, t.failed
	}
	t.good = t.last
	switch {
	case listens != nil && !heard:
		t.failed = inside.hear(o.chunks(o.request, t.last))
	case listens != nil: // who has heard it
	case t.last == o.last:
		t.unheard = o.untouched
	default:
		t.unheard = new(R)
		o.copy(t.unheard, t.last)
	}
	return t.last, t.failed
}

// said is the reply of a wrapper that sent chunks and answered nothing.
func (t *turn[Q, R]) said() *R {
	o, f := t.onion, &t.frame
	if t.unheard != nil {
		f.head.Add(o.chunks(o.request, t.unheard)...)
	}
	f.head.Add(f.tail.Chunks()...)
	reply := o.said(t.good, &f.head)
	if t.pass == nil {
		o.knows(reply)
	}
	return reply
}

// asked is the request that a wrapper gave to next, and who listens to what
// comes of it.
func (o *onion[Q, R]) asked(req, came *Q) (*Q, *listener) {
	if req == nil {
		return came, nil
	}
	a := *o.aside(req)
	if a.asIs {
		return came, listenerOf(a)
	}
	*o.aside(req) = aside{}
	return req, listenerOf(a)
}

// next goes on with a call outside of the module.
func (o *onion[Q, R]) next(req *Q, pass *listener) (*R, error) {
	o.last = nil
	patch, unchanged, err := o.patch(o.request, req)
	if err != nil {
		return nil, err
	}
	var b []byte
	if !unchanged {
		if b, err = abi.Write(nil, patch); err != nil {
			return nil, abi.Wrap("encode the patch for next", err)
		}
	}
	reply, err := o.ask(b, pass)
	if err != nil {
		return nil, err
	}
	o.knows(reply)
	return reply, nil
}

// knows notes a reply that the host knows.
func (o *onion[Q, R]) knows(reply *R) {
	if o.untouched == nil {
		o.untouched = &o.kept
	} else {
		o.untouched = new(R)
	}
	o.last = reply
	o.copy(o.untouched, reply)
}

// ask calls the host's next, or reads its stream if somebody listens.
func (o *onion[Q, R]) ask(patch []byte, pass *listener) (reply *R, err error) {
	if pass != nil {
		end, err := pass.read(o.call.host, patch, pass.hear)
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
