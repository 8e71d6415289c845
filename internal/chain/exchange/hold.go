package exchange

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// The functions in this file withhold the chunks of wrappers whose module has hold_stream, and
// count the memory of chunks and answers that a call keeps until its end.

// connect passes the chunks of the wrapper and of its calls of next to the ring outside as they
// arrive. If the wrapper's module has hold_stream, connect does nothing, and the chunks are passed
// on after the wrapper has answered.
func (w *Wrapping[Q, P, R]) connect() {
	if w.out != nil && !w.m.HoldsStream() {
		w.pass, w.sender.Sink = &passage{to: w.out}, sending(w.out)
	}
}

// Hold counts the memory of the wrapper's answer in the exchange, because the answer is not part of
// the record.
func (w *Wrapping[Q, P, R]) Hold(c *hook.Control) error {
	if err := w.x.Held.Add(c.Weight()); err != nil {
		return ending.MemoryFault(err)
	}
	return nil
}

// hold counts the memory of chunks that the stream keeps until its end. If the run's memory limit
// is exceeded, hold returns the error that fails the call.
func (s *stream) hold(chunks []abi.Chunk) *ending.HookError {
	if err := s.held.Add(size.Chunks(chunks)); err != nil {
		return &ending.HookError{Entry: SourceHost, Hook: contract.HookOnChunk, Err: ending.LimitFailure("stream", err)}
	}
	return nil
}
