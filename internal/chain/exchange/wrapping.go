package exchange

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Wrapping is one call of a wrapper, with the wrapped calls that the wrapper makes and the chunks
// that it sends.
type Wrapping[Q, P, R any] struct {
	x     *Exchange[Q, P, R]
	ctx   context.Context // the exchange's context, which outlives the wrapper's code
	ring  hook.Ring
	m     *hook.Member
	inner []*hook.Member
	q     Q

	out  outlet   // receives the wrapper's chunks; nil if they are not needed before it has answered
	pass *passage // receives the chunks of next; nil if out is nil or the member holds its stream

	called          bool
	last, lastReply Reply[R]
	seen            []Reply[R] // all replies of next
	stream          *opened[R] // the stream that next_stream opened last; nil if there is none

	head   chunkjoin.Assembly // chunks sent before the last next
	body   []abi.Chunk        // chunks of the last next's answer
	sender Sender             // chunks sent since the last next
}

// An opened is a stream that a wrapper reads.
type opened[R any] struct {
	feed   *pipe.Pipe
	cancel context.CancelCauseFunc
	done   chan struct{} // closed once the wrapped calls have returned and rep and err are set
	rep    Reply[R]
	err    error
	seq    int64
	ended  bool // recv has returned the end of the stream
}

// ErrClosed is the cause with which a stream is canceled when its reader closes it.
var ErrClosed = errors.New("the module that read the stream closed it")

// onion calls the first wrapper of the list that applies to the call. The next of each wrapper
// calls the following wrapper, and the next of the last one calls the ring inside.
func (x *Exchange[Q, P, R]) onion(
	ctx context.Context,
	i hook.Ring,
	wrappers []*hook.Member,
	q Q,
	out outlet,
) (Reply[R], error) {
	for len(wrappers) > 0 && !x.Kind.Applies(wrappers[0], q) {
		wrappers = wrappers[1:]
	}
	if len(wrappers) == 0 {
		return x.ring(ctx, i+1, q, out)
	}
	w := &Wrapping[Q, P, R]{x: x, ctx: ctx, ring: i, m: wrappers[0], inner: wrappers[1:], q: q, out: out}
	w.sender.OfTool, w.sender.Meter = x.ofTool(), &x.Held
	w.connect()
	res, v, err := x.Kind.Wrap(ctx, w.m, q, w)
	return w.outcome(res, v, err)
}

// Serve sets the functions of c with which the wrapper makes the wrapped call: next, next_stream
// and recv.
func (w *Wrapping[Q, P, R]) Serve(c *hook.Control) {
	next := func(ctx context.Context, patch any) (any, error) {
		rep, err := w.next(ctx, patchOf[P](patch))
		switch {
		case err != nil:
			return nil, err
		case rep.Err != nil:
			return nil, rep.Err
		}
		return w.x.shown(w.m, rep), nil
	}
	open := func(ctx context.Context, patch any) error { return w.open(ctx, patchOf[P](patch)) }
	c.Serve(next, open, w.recv)
}

// Send sends chunks of the wrapper outward.
func (w *Wrapping[Q, P, R]) Send(ctx context.Context, chunks []abi.Chunk) error {
	return w.sender.Send(ctx, chunks)
}

// LastGood returns the last answer that next returned without an error, or nil if there is none.
func (w *Wrapping[Q, P, R]) LastGood() *R { return w.lastReply.Res }

// patchOf returns the patch that the hook passed to next, which is a *P. If the hook passed none,
// patchOf returns a zero patch, which changes nothing.
func patchOf[P any](patch any) (p P) {
	if given, _ := patch.(*P); given != nil {
		p = *given
	}
	return p
}

// next makes the wrapped call with its request patched by p, and records the reply.
func (w *Wrapping[Q, P, R]) next(ctx context.Context, p P) (Reply[R], error) {
	patched, rep, err := w.begin(p)
	if err != nil || rep.Err != nil {
		return rep, err
	}
	var out outlet
	if w.pass != nil && (!w.called || w.pass.restart()) {
		out = w.pass
	}
	w.called = true
	if rep, err = w.x.onion(ctx, w.ring, w.inner, patched, out); err != nil {
		return rep, err
	}
	w.keep(rep)
	if rep.Err == nil {
		w.body = w.x.Kind.Chunks(w.q, rep.Res)
	}
	return rep, nil
}

// begin prepares a wrapped call. It patches the request, and closes the stream that the wrapper
// reads. If the patch is invalid, begin changes nothing and returns a reply with an error.
func (w *Wrapping[Q, P, R]) begin(p P) (q Q, rep Reply[R], err error) {
	if q, err = w.x.Kind.Patch(w.q, p, w.m); err != nil {
		return q, Reply[R]{Err: ending.AsError(err, abi.CodeInvalid), Source: SourceHost}, nil
	}
	if err := w.close(); err != nil {
		return q, rep, err
	}
	w.head.Add(w.sender.take()...)
	w.body = nil
	return q, rep, nil
}

// keep records a reply that next or a stream returned to the wrapper.
func (w *Wrapping[Q, P, R]) keep(rep Reply[R]) {
	w.seen = append(w.seen, rep)
	if w.last = rep; rep.Err == nil {
		w.lastReply = rep
	}
}

// open starts the wrapped call in another goroutine. The wrapper reads the chunks with recv.
func (w *Wrapping[Q, P, R]) open(ctx context.Context, p P) error {
	patched, rep, err := w.begin(p)
	switch {
	case err != nil:
		return err
	case rep.Err != nil:
		return rep.Err
	}
	// The wrapped call is canceled with the exchange, not with the wrapper: if a fault of the
	// wrapper is skipped, the call continues.
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(w.ctx, func() { cancel(context.Cause(w.ctx)) })
	o := &opened[R]{feed: pipe.NewPipe(), cancel: cancel, done: make(chan struct{})}
	w.stream, w.called = o, true
	go func() {
		defer close(o.done)
		defer o.feed.End()
		defer stop()
		defer func() {
			if v := recover(); v != nil {
				o.rep = Reply[R]{
					Err:    &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("the host failed: %v", v)},
					Source: SourceHost,
				}
			}
		}()
		o.rep, o.err = w.read(inner, patched, o.feed)
	}()
	return nil
}

// read makes the wrapped call, writes its chunks to feed, and returns the reply.
func (w *Wrapping[Q, P, R]) read(ctx context.Context, q Q, feed *pipe.Pipe) (Reply[R], error) {
	t := &tap{feed: feed}
	var out outlet
	if w.out != nil {
		out = t
	}
	rep, err := w.x.onion(ctx, w.ring, w.inner, q, out)
	if err != nil || rep.Err != nil || t.n > 0 {
		return rep, err
	}
	return rep, t.push(ctx, w.x.Kind.Chunks(q, rep.Res), true)
}

// recv returns the available chunks of the wrapper's stream, at most limit bytes but at least one
// chunk. After the last chunk it returns the end of the stream once, and then an empty value.
func (w *Wrapping[Q, P, R]) recv(ctx context.Context, limit int) (contract.Received, error) {
	o := w.stream
	switch {
	case o == nil:
		return contract.Received{}, &abi.Error{
			Code:    abi.CodeInvalid,
			Message: "recv: no stream is open; next_stream opens one, and next closes it",
		}
	case o.ended:
		return contract.Received{}, nil
	}
	chunks, _, err := o.feed.Take(ctx, limit)
	if err != nil {
		return contract.Received{}, &ending.AbortedError{Cause: err}
	}
	if len(chunks) > 0 {
		for i := range chunks {
			o.seq++
			chunks[i].Seq = o.seq
		}
		return contract.Received{Chunks: chunks}, nil
	}
	<-o.done
	o.ended = true
	if o.err != nil {
		return contract.Received{}, o.err
	}
	if w.keep(o.rep); o.rep.Err != nil {
		return contract.Received{}, o.rep.Err
	}
	return contract.Received{End: w.x.Kind.End(w.x.shown(w.m, o.rep))}, nil
}

// close cancels the wrapper's open stream, if there is one, and waits until the wrapped call has
// returned. It returns the call's error if the error ends or pauses the run.
func (w *Wrapping[Q, P, R]) close() error {
	o := w.stream
	if w.stream = nil; o == nil {
		return nil
	}
	o.cancel(ErrClosed)
	<-o.done
	switch {
	case o.ended:
		return nil
	case o.err != nil && !errors.Is(o.err, ErrClosed):
		return o.err
	}
	// The outcome is the same if the stream ended just before it was closed.
	w.keep(Reply[R]{
		Err:    &abi.Error{Code: w.x.failure(), Message: w.m.Name + " closed the stream before its end"},
		Source: w.m.Name,
	})
	return nil
}

// drain reads the wrapper's stream to its end after the wrapper faulted. It returns the wrapped
// call's error if the error ends or pauses the run.
func (w *Wrapping[Q, P, R]) drain() error {
	o := w.stream
	for o != nil && !o.ended {
		if _, err := w.recv(w.ctx, maxSentBytes); err != nil && ending.Is(err) {
			_ = w.close()
			return err
		}
	}
	return w.close()
}

// outcome returns the reply of the wrapper, given the outcome of its hook. It closes the wrapper's
// stream. If the wrapper neither answered nor made the wrapped call, outcome makes the call.
func (w *Wrapping[Q, P, R]) outcome(res *R, v record.Verdict, err error) (Reply[R], error) {
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
		return Reply[R]{}, err
	case v.Failed != nil && w.last.Err != nil && v.Failed.Code == w.last.Err.Code &&
		v.Failed.Message == w.last.Err.Message:
		return w.last, nil // the wrapper returned next's error unchanged
	case v.Failed != nil:
		return Reply[R]{Err: v.Failed, Source: w.m.Name, Labels: w.labels()}, nil
	case v.Faulted && w.lastReply.Res != nil:
		return w.lastReply, nil
	case res != nil && v.OK():
		return w.answered(res), nil
	case w.sender.Failed != nil && v.OK():
		return Reply[R]{Err: w.sender.Failed.Err, Source: w.sender.Failed.Entry}, nil
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

// SentAnswer returns the answer of a wrapper that returned none but sent chunks. The answer
// consists of the chunks of the wrapper's last next and the sent chunks. Fields that chunks cannot
// represent come from the last good reply, or from blank. SentAnswer returns nil if the wrapper
// sent nothing, or if an on_chunk hook rejected a chunk.
func (w *Wrapping[Q, P, R]) SentAnswer(blank *R) *R {
	if w.sender.Sent == 0 || w.sender.Failed != nil {
		return nil
	}
	if w.lastReply.Res != nil {
		blank = w.lastReply.Res
	}
	var all chunkjoin.Assembly
	all.Add(w.head.Chunks()...)
	all.Add(w.body...)
	all.Add(w.sender.Collected.Chunks()...)
	return w.x.Kind.Assemble(blank, all.Chunks())
}
