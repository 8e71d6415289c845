package hook

import (
	"context"
	"iter"
	"math"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Stream is an answer that a Go middleware reads as it arrives.
//
//	stream := call.StreamModel(ctx, abi.RequestPatch{})
//	for chunk := range stream.Chunks() {
//		// call.Send(ctx, …)
//	}
//	return nil, stream.End()
//
// If the loop ends early, the stream is closed when the hook returns.
type Stream[R any] struct {
	ctx   context.Context
	call  *Call
	reply func(*contract.StreamEnd) *R
	res   *R
	err   error
	over  bool
}

// StreamModel opens the stream of the call that a wrap_model hook wraps. If that fails,
// [Stream.End] returns the error.
func (c *Call) StreamModel(ctx context.Context, patch abi.RequestPatch) *Stream[abi.Response] {
	s := &Stream[abi.Response]{ctx: ctx, call: c, reply: func(e *contract.StreamEnd) *abi.Response { return e.Response }}
	s.err = ControlOf(c).NextStream(ctx, &patch)
	return s
}

// StreamTool opens the stream of the call that a wrap_tool_call hook wraps. If that fails,
// [Stream.End] returns the error.
func (c *Call) StreamTool(ctx context.Context, patch abi.CallPatch) *Stream[abi.Result] {
	s := &Stream[abi.Result]{ctx: ctx, call: c, reply: func(e *contract.StreamEnd) *abi.Result { return e.Result }}
	s.err = ControlOf(c).NextStream(ctx, &patch)
	return s
}

// Chunks iterates over the remaining chunks.
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

// Batches iterates over the remaining chunks in groups that arrived together.
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

// End reads the rest of the stream and returns the error of the wrapped call, or nil if the call
// succeeded or the loop ended early.
func (s *Stream[R]) End() error {
	for range s.Batches() { // read to the end
	}
	return s.err
}

// Reply returns the whole answer. It is valid after End. It is nil if the call failed or the loop
// ended early.
func (s *Stream[R]) Reply() *R { return s.res }
