package hook

import (
	"context"
	"iter"
	"math"

	"github.com/agent-runner/agent-runner/abi"
)

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
	s.err = ControlOf(c).NextStream(ctx, &patch)
	return s
}

// StreamTool opens the stream of what a wrap_tool_call hook wraps.
func (c *Call) StreamTool(ctx context.Context, patch abi.CallPatch) *Stream[abi.Result] {
	s := &Stream[abi.Result]{ctx: ctx, call: c, reply: func(e *abi.StreamEnd) *abi.Result { return e.Result }}
	s.err = ControlOf(c).NextStream(ctx, &patch)
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
			got, err := ControlOf(s.call).Recv(s.ctx, math.MaxInt)
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
