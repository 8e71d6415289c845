package exchange

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// The functions in this file hold back the chunks of wrappers whose module has hold_stream, and
// count the memory of chunks and answers that a call keeps until it ends.

// connect makes the chunks of the wrapper, and those of its calls of next, reach the ring outside at
// once. If the wrapper's module has hold_stream, they stay in the wrapper until it has answered.
func (w *Wrapping[Q, P, R]) connect() {
	if w.out != nil && !w.m.HoldsStream() {
		w.pass, w.sender.Sink = &passage{to: w.out}, sending(w.out)
	}
}

// Hold charges the memory of the wrapper's answer to the exchange. The answer is not recorded, so
// the record does not charge it.
func (w *Wrapping[Q, P, R]) Hold(c *hook.Control) error {
	if err := w.x.Held.Add(c.Weight()); err != nil {
		return ending.MemoryFault(err)
	}
	return nil
}

// hold counts chunks that the stream keeps until its end. If they exceed the run's memory limit, it
// returns the error that fails the call.
func (s *stream) hold(chunks []abi.Chunk) *ending.HookError {
	if err := s.held.Add(size.Chunks(chunks)); err != nil {
		return &ending.HookError{Entry: SourceHost, Hook: contract.HookOnChunk, Err: ending.LimitFailure("stream", err)}
	}
	return nil
}
