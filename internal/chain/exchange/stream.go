package exchange

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A stream passes one reply outward through one ring. It collects the chunks that arrive from
// inside, and the chunks that the ring's on_chunk hooks return.
type stream struct {
	run      *hook.Run
	members  []*hook.Member
	off      map[*hook.Member]bool // members that faulted; the rest of this stream skips them
	by       []string              // entries whose on_chunk answered with chunks
	out      outlet                // receives the chunks; nil if they are not needed before the answer is complete
	received chunkjoin.Assembly
	passed   chunkjoin.Assembly
	n        int               // batches that arrived
	finished bool              // the last chunks of the message arrived
	failed   *ending.HookError // the error of the on_chunk hook, here or further out, that rejected chunks
	tool     bool              // whether the stream is that of a tool's result
	held     account.Meter     // memory of received and passed
	callID   string            // the tool call's id
	id       int64
	seq      int64
}

// newStream returns the stream of a ring. members are the ring's members with on_chunk hooks.
// callID is the id of the tool call, or empty for the model.
func newStream(r *hook.Run, members []*hook.Member, tool bool, callID string, out outlet) *stream {
	return &stream{
		run:     r,
		members: members,
		tool:    tool,
		callID:  callID,
		out:     out,
		id:      r.StreamIDs.Add(1),
		held:    account.Meter{Of: r.Account},
	}
}

// outlet returns s, or nil if chunks are not needed before the answer is complete.
func (s *stream) outlet() outlet {
	if s.out == nil {
		return nil
	}
	return s
}

func (s *stream) pushes() int { return s.n }

// restart discards the chunks that arrived, for another attempt. It returns false if a part of them
// was passed on and may have been seen.
func (s *stream) restart() bool {
	if s.n > 0 && !s.out.restart() {
		return false
	}
	s.n, s.finished, s.failed = 0, false, nil
	s.received, s.passed = chunkjoin.Assembly{}, chunkjoin.Assembly{}
	s.id = s.run.StreamIDs.Add(1)
	s.held.Release()
	return true
}

// push passes chunks through the ring's on_chunk hooks and to the ring outside.
func (s *stream) push(ctx context.Context, chunks []abi.Chunk, final bool) error {
	if s.failed != nil {
		return s.failed
	}
	s.n++
	if len(s.members) == 0 {
		if s.finished = final; len(chunks) == 0 && !final {
			return nil
		}
		err := s.out.push(ctx, chunks, final)
		s.failed, _ = errors.AsType[*ending.HookError](err)
		return err
	}
	if s.failed = s.hold(chunks); s.failed != nil {
		return s.failed
	}
	s.received.Add(chunks...)
	passed, err := s.filter(ctx, chunks, final)
	if err == nil {
		if s.failed = s.hold(passed); s.failed != nil {
			return s.failed
		}
		s.passed.Add(passed...)
		if s.finished = final; len(passed) > 0 || final {
			err = s.out.push(ctx, passed, final)
		}
	}
	s.failed, _ = errors.AsType[*ending.HookError](err)
	return err
}

// filter passes chunks through the ring's on_chunk hooks, and returns the resulting chunks. It
// skips members that faulted earlier in the stream. The error is an [*ending.HookError] if a hook
// failed. Any other error ends or pauses the run.
func (s *stream) filter(ctx context.Context, chunks []abi.Chunk, final bool) ([]abi.Chunk, error) {
	for _, m := range s.members {
		if s.off[m] || len(chunks) == 0 && !final {
			continue
		}
		numbered := make([]abi.Chunk, len(chunks))
		for i, c := range chunks {
			s.seq++
			c.Seq = s.seq
			numbered[i] = c
		}
		c := s.run.Call(m, contract.HookOnChunk)
		var out abi.OnChunkAnswer
		v, err := c.Invoke(ctx, &abi.OnChunkInput{Chunks: numbered, Stream: s.id, Final: final}, &out, func() error {
			for i := range out.Chunks {
				if err := checkChunk(&out.Chunks[i], s.tool); err != nil {
					return fmt.Errorf("chunks[%d]: %w", i, err)
				}
			}
			if out.Chunks == nil {
				return nil
			}
			if chunks = out.Chunks; s.tool {
				setCallID(chunks, s.callID)
			}
			if !slices.Contains(s.by, m.Name) {
				s.by = append(s.by, m.Name)
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case v.Failed != nil:
			return nil, &ending.HookError{Entry: m.Name, Hook: c.Hook, Err: v.Failed}
		case v.Faulted:
			if s.off == nil {
				s.off = map[*hook.Member]bool{}
			}
			s.off[m] = true
		}
	}
	return chunks, nil
}

// changed reports whether the chunks that passed the on_chunk hooks differ in content from the
// chunks that arrived. It returns false if the ring has no on_chunk hooks.
func (s *stream) changed(received, passed []abi.Chunk) bool {
	if len(s.members) == 0 {
		return false
	}
	var a chunkjoin.Assembly
	a.Add(passed...)
	return !a.Equal(received)
}
