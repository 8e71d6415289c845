package chain

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/agent-runner/agent-runner/abi"
)

// NextStream is Next without waiting for the answer: Recv reads it as it comes.
// One stream is open at a time: Next, another NextStream and the end of the
// hook close it, which cancels what is wrapped and waits for it to unwind.
func (c *Call) NextStream(ctx context.Context, patch any) error {
	if c.open == nil {
		return denied("next_stream is for wrap_model and wrap_tool_call, not for %s", c.Hook)
	}
	if err := c.countNext(); err != nil {
		return err
	}
	return c.waitFor(func() error { return c.open(ctx, patch) })
}

// Recv waits for chunks of the stream that NextStream opened, and returns all
// that wait, or as many as are at most that many bytes; once they came to their
// end, that; then nothing. An error of what is wrapped is returned once, in
// place of its end.
func (c *Call) Recv(ctx context.Context, most int) (abi.Received, error) {
	if c.recv == nil {
		return abi.Received{}, denied("recv is for wrap_model and wrap_tool_call, not for %s", c.Hook)
	}
	var got abi.Received
	err := c.waitFor(func() (err error) {
		got, err = c.recv(ctx, most)
		return err
	})
	return got, err
}

// Send hands chunks outward, through the wrappers and on_chunk hooks outside,
// and returns once there is room for more. Without an answer of the hook, what
// was sent is the answer. In a call that is not streamed it is that alone.
//
// The error is an *abi.Error of code invalid for chunks that make no sense here,
// limit for too many of them, or that of an on_chunk hook which refused them; or
// an ending.
func (c *Call) Send(ctx context.Context, chunks ...abi.Chunk) error {
	if c.hand == nil {
		return denied("send is for wrap_model, wrap_tool_call and call_tool, not for %s", c.Hook)
	}
	return c.waitFor(func() error { return c.hand(ctx, chunks) })
}

// countNext counts a call of what is wrapped.
func (c *Call) countNext() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.run.mayHold("next"); err != nil {
		return err
	}
	if c.nexts++; c.nexts > maxNext {
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("next and next_stream may be called %d times in a hook", maxNext)}
	}
	return nil
}

// A Stream is an answer that a native middleware reads as it comes.
//
//	stream := call.StreamModel(ctx, abi.RequestPatch{})
//	for chunk := range stream.Chunks() {
//		// call.Send(ctx, …)
//	}
//	return nil, stream.End()
//
// Leaving the loop before its end leaves the stream: it is closed with the hook.
type Stream[R any] struct {
	ctx   context.Context
	call  *Call
	reply func(*abi.StreamEnd) *R
	res   *R
	err   error
	over  bool
}

// StreamModel opens the stream of what a wrap_model hook wraps.
func (c *Call) StreamModel(ctx context.Context, patch abi.RequestPatch) *Stream[abi.Response] {
	s := &Stream[abi.Response]{ctx: ctx, call: c, reply: func(e *abi.StreamEnd) *abi.Response { return e.Response }}
	s.err = c.NextStream(ctx, &patch)
	return s
}

// StreamTool opens the stream of what a wrap_tool_call hook wraps.
func (c *Call) StreamTool(ctx context.Context, patch abi.CallPatch) *Stream[abi.Result] {
	s := &Stream[abi.Result]{ctx: ctx, call: c, reply: func(e *abi.StreamEnd) *abi.Result { return e.Result }}
	s.err = c.NextStream(ctx, &patch)
	return s
}

// Chunks are the chunks that are still to come, one by one.
func (s *Stream[R]) Chunks() iter.Seq[abi.Chunk] {
	return func(yield func(abi.Chunk) bool) {
		for batch := range s.Batches() {
			for _, c := range batch {
				if !yield(c) {
					return
				}
			}
		}
	}
}

// Batches are the chunks that are still to come, those together that wait
// together.
func (s *Stream[R]) Batches() iter.Seq[[]abi.Chunk] {
	return func(yield func([]abi.Chunk) bool) {
		for s.err == nil && !s.over {
			got, err := s.call.Recv(s.ctx, math.MaxInt)
			switch {
			case err != nil:
				s.err = err
			case got.End != nil:
				s.res, s.over = s.reply(got.End), true
			case len(got.Chunks) == 0:
				s.over = true
			case !yield(got.Chunks):
				s.over = true
			}
		}
	}
}

// End is the error with which the answer ended, or could not be asked for; nil
// if it ended well, or the loop was left. What was not read before is read now.
func (s *Stream[R]) End() error {
	for range s.Batches() { //nolint:revive // to its end
	}
	return s.err
}

// Reply is the whole answer, after End; nil where it failed, or the loop was left.
func (s *Stream[R]) Reply() *R { return s.res }
