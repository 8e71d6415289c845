package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/chunk"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chunks"
)

// A wrapping is one call of a wrapper: what it does with what it wraps, and
// what comes of it.
type wrapping[Q, P, R any] struct {
	x     *exchange[Q, P, R]
	ctx   context.Context // of the exchange: it outlives the wrapper's code
	ring  Ring
	m     *member
	inner []*member
	q     Q

	out  outlet   // where the wrapper's chunks go; nil: nowhere before it has answered
	pass *passage // where those of next go; nil as well

	called         bool
	last, lastGood reply[R]
	good           []reply[R]
	stream         *opened[R] // of next_stream

	head chunks.Assembly // what was sent before the last next
	body []abi.Chunk     // what that let pass
	tell telling         // what was sent since
}

// An opened is a stream that a wrapper reads.
type opened[R any] struct {
	feed   *chunk.Pipe
	cancel context.CancelCauseFunc
	done   chan struct{} // closed once what is wrapped has unwound; then rep and err are there
	rep    reply[R]
	err    error
	seq    int64
	told   bool // the wrapper knows how it ended
}

// errClosed is the cause by which a stream ends that its reader closes.
var errClosed = errors.New("the module that read the stream closed it")

// onion calls the first of the wrappers around the others, and at last the
// next ring.
func (x *exchange[Q, P, R]) onion(ctx context.Context, i Ring, wrappers []*member, q Q, out outlet) (reply[R], error) {
	if len(wrappers) == 0 {
		return x.ring(ctx, i+1, q, out)
	}
	w := &wrapping[Q, P, R]{x: x, ctx: ctx, ring: i, m: wrappers[0], inner: wrappers[1:], q: q, out: out}
	w.tell.ofTool, w.tell.held = x.ofTool(), &x.held
	if out != nil && !w.m.desc.HoldStream {
		w.pass, w.tell.sink = &passage{to: out}, sending(out)
	}
	res, v, err := x.kind.callWrap(ctx, w.m, q, w)
	return w.outcome(res, v, err)
}

// hold counts the answer of the wrapper, which the record does not.
func (w *wrapping[Q, P, R]) hold(c *Call) error {
	if err := w.x.held.Add(c.weight); err != nil {
		return ending.MemoryFault(err)
	}
	return nil
}

// serve lets the wrapper that is called run and read what it wraps.
func (w *wrapping[Q, P, R]) serve(c *Call) {
	c.next = func(ctx context.Context, patch any) (any, error) {
		rep, err := w.next(ctx, patchOf[P](patch))
		switch {
		case err != nil:
			return nil, err
		case rep.err != nil:
			return nil, rep.err
		}
		res := *rep.res
		return &res, nil
	}
	c.open = func(ctx context.Context, patch any) error { return w.open(ctx, patchOf[P](patch)) }
	c.recv = w.recv
}

// patchOf is a patch as a hook gave it; nil changes nothing.
func patchOf[P any](patch any) (p P) {
	if given, _ := patch.(*P); given != nil {
		p = *given
	}
	return p
}

// next runs what is wrapped.
func (w *wrapping[Q, P, R]) next(ctx context.Context, p P) (reply[R], error) {
	patched, rep, err := w.begin(p)
	if err != nil || rep.err != nil {
		return rep, err
	}
	var out outlet
	if w.pass != nil && (!w.called || w.pass.anew()) {
		out = w.pass
	}
	w.called = true
	if rep, err = w.x.onion(ctx, w.ring, w.inner, patched, out); err != nil {
		return rep, err
	}
	w.keep(rep)
	if rep.err == nil {
		w.body = w.x.kind.chunks(w.q, rep.res)
	}
	return rep, nil
}

// begin makes ready for another call of what is wrapped. A patch that makes no
// sense is a reply, and changes nothing.
func (w *wrapping[Q, P, R]) begin(p P) (q Q, rep reply[R], err error) {
	if q, err = w.x.kind.patch(w.q, p, w.m); err != nil {
		return q, reply[R]{err: ending.AsError(err, abi.CodeInvalid), source: sourceHost}, nil
	}
	if err := w.close(); err != nil {
		return q, rep, err
	}
	w.head.Add(w.tell.take()...)
	w.body = nil
	return q, rep, nil
}

// keep takes note of a reply.
func (w *wrapping[Q, P, R]) keep(rep reply[R]) {
	if w.last = rep; rep.err == nil {
		w.lastGood, w.good = rep, append(w.good, rep)
	}
}

// open runs what is wrapped beside the wrapper, which reads what it says.
func (w *wrapping[Q, P, R]) open(ctx context.Context, p P) error {
	patched, rep, err := w.begin(p)
	switch {
	case err != nil:
		return err
	case rep.err != nil:
		return rep.err
	}
	// What is wrapped ends with the exchange, and not with the wrapper's own
	// code, whose fault may be passed over.
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })
	o := &opened[R]{feed: chunk.NewPipe(), cancel: cancel, done: make(chan struct{})}
	w.stream, w.called = o, true
	go func() {
		defer close(o.done)
		defer o.feed.End()
		defer stop()
		defer func() {
			if v := recover(); v != nil {
				o.rep = reply[R]{err: &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("the host failed: %v", v)}, source: sourceHost}
			}
		}()
		o.rep, o.err = w.read(inner, patched, o.feed)
	}()
	return nil
}

// read runs what is wrapped with its chunks going to a feed.
func (w *wrapping[Q, P, R]) read(ctx context.Context, q Q, feed *chunk.Pipe) (reply[R], error) {
	t := &tap{feed: feed}
	var out outlet
	if w.out != nil {
		out = t
	}
	rep, err := w.x.onion(ctx, w.ring, w.inner, q, out)
	if err != nil || rep.err != nil || t.n > 0 {
		return rep, err
	}
	return rep, t.push(ctx, w.x.kind.chunks(q, rep.res), true)
}

// recv returns what waits of the stream that the wrapper reads, at most that
// many bytes; then, once, how it ended; then nothing.
func (w *wrapping[Q, P, R]) recv(ctx context.Context, most int) (abi.Received, error) {
	o := w.stream
	switch {
	case o == nil:
		return abi.Received{}, &abi.Error{Code: abi.CodeInvalid, Message: "recv: no stream is open; next_stream opens one, and next closes it"}
	case o.told:
		return abi.Received{}, nil
	}
	chunks, _, err := o.feed.Take(ctx, most)
	if err != nil {
		return abi.Received{}, &ending.AbortedError{Cause: err}
	}
	if len(chunks) > 0 {
		for i := range chunks {
			o.seq++
			chunks[i].Seq = o.seq
		}
		return abi.Received{Chunks: chunks}, nil
	}
	<-o.done
	o.told = true
	if o.err != nil {
		return abi.Received{}, o.err
	}
	if w.keep(o.rep); o.rep.err != nil {
		return abi.Received{}, o.rep.err
	}
	return abi.Received{End: w.x.kind.end(o.rep.res)}, nil
}

// close ends the stream that the wrapper reads, if there is one, and waits
// until what is wrapped has unwound. The error is an ending that it met.
func (w *wrapping[Q, P, R]) close() error {
	o := w.stream
	if w.stream = nil; o == nil {
		return nil
	}
	o.cancel(errClosed)
	<-o.done
	switch {
	case o.told:
		return nil
	case o.err != nil && !errors.Is(o.err, errClosed):
		return o.err
	}
	// Whether it had just come to its end does not matter: that is a race.
	w.keep(reply[R]{err: &abi.Error{Code: w.x.failure(), Message: w.m.Name + " closed the stream before its end"}, source: w.m.Name})
	return nil
}

// drain lets the stream come to its end without the wrapper.
func (w *wrapping[Q, P, R]) drain() error {
	o := w.stream
	for o != nil && !o.told {
		if _, err := w.recv(w.ctx, maxSentBytes); err != nil && ending.Is(err) {
			_ = w.close()
			return err
		}
	}
	return w.close()
}

// outcome is what comes of the wrapper, given what its hook came to.
func (w *wrapping[Q, P, R]) outcome(res *R, v record.Verdict, err error) (reply[R], error) {
	var ending error
	if err == nil && v.Faulted {
		ending = w.drain()
	} else {
		ending = w.close()
	}
	if err == nil {
		err = ending
	}
	switch {
	case err != nil:
		return reply[R]{}, err
	case v.Failed != nil && w.last.err != nil && v.Failed.Code == w.last.err.Code && v.Failed.Message == w.last.err.Message:
		return w.last, nil // handed on
	case v.Failed != nil:
		return reply[R]{err: v.Failed, source: w.m.Name}, nil
	case v.Faulted && w.lastGood.res != nil:
		return w.lastGood, nil
	case res != nil && v.OK():
		return reply[R]{res: res, source: w.x.sourceOf(res, w.m.Name, w.good)}, nil
	case w.tell.failed != nil && v.OK():
		return reply[R]{err: w.tell.failed.Err, source: w.tell.failed.Entry}, nil
	case w.called:
		return w.last, nil
	default:
		var out outlet
		if w.pass != nil {
			out = w.out
		}
		return w.x.onion(w.ctx, w.ring, w.inner, w.q, out)
	}
}

// said is what a wrapper without an answer said by what it sent, nil if it sent
// nothing or was refused: its chunks, together with what its last next let
// pass. What chunks cannot say is that of blank, or of the last good reply.
func (w *wrapping[Q, P, R]) said(blank *R) *R {
	if w.tell.sent == 0 || w.tell.failed != nil {
		return nil
	}
	if w.lastGood.res != nil {
		blank = w.lastGood.res
	}
	var all chunks.Assembly
	all.Add(w.head.Chunks()...)
	all.Add(w.body...)
	all.Add(w.tell.said.Chunks()...)
	return w.x.kind.assemble(blank, all.Chunks())
}
