package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// A Sink takes chunks on their way outward; nil stands for a call that is not
// streamed. It keeps nothing of the slice. final marks the last of a message. An error
// is an ending, or a *Failed by which the call fails.
type Sink func(ctx context.Context, chunks []abi.Chunk, final bool) error

// A stream is the way of one reply outward through one ring: what came from
// inside, and what its on_chunk hooks let pass.
type stream struct {
	run      *Run
	members  []*member
	off      map[*member]bool // faulted, passed over for the rest of this stream
	out      outlet           // nil: chunks go nowhere as they come
	came     abi.Assembly
	passed   abi.Assembly
	n        int           // batches that came
	finished bool          // the last of the message came
	failed   *Failed       // the on_chunk, here or further out, that refused what came
	tool     bool          // of a tool's result
	held     account.Meter // what came and what passed
	callID   string        // of that tool's call
	id       int64
	seq      int64
}

func (r *Run) newStream(ring Ring, tool bool, callID string, out outlet) *stream {
	return &stream{run: r, members: r.in(ring, abi.HookOnChunk), tool: tool, callID: callID, out: out, id: r.streams.Add(1), held: account.Meter{Of: r.account}}
}

// outlet is what the ring hands its chunks to; nil if they go nowhere.
func (s *stream) outlet() outlet {
	if s.out == nil {
		return nil
	}
	return s
}

func (s *stream) pushes() int { return s.n }

// anew forgets what came, unless it went further and was seen.
func (s *stream) anew() bool {
	if s.n > 0 && !s.out.anew() {
		return false
	}
	s.n, s.finished, s.failed, s.came, s.passed, s.id = 0, false, nil, abi.Assembly{}, abi.Assembly{}, s.run.streams.Add(1)
	s.held.Release()
	return true
}

// push lets chunks pass and gives what is left of them to the ring outside.
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
		s.failed, _ = errors.AsType[*Failed](err)
		return err
	}
	if s.failed = s.hold(chunks); s.failed != nil {
		return s.failed
	}
	s.came.Add(chunks...)
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
	s.failed, _ = errors.AsType[*Failed](err)
	return err
}

// hold counts chunks that the stream keeps until its end. If they do not fit the run's
// memory, the call fails.
func (s *stream) hold(chunks []abi.Chunk) *Failed {
	if err := s.held.Add(sizeOfChunks(chunks)); err != nil {
		return &Failed{sourceHost, abi.HookOnChunk, memoryFailure("stream", err)}
	}
	return nil
}

// filter runs the ring's on_chunk hooks over chunks.
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
		c := s.run.call(m, abi.HookOnChunk)
		var out abi.OnChunkAnswer
		v, err := s.run.invoke(ctx, c, &abi.OnChunkInput{Chunks: numbered, Stream: s.id, Final: final}, &out, func() error {
			for i := range out.Chunks {
				if err := checkChunk(&out.Chunks[i], s.tool); err != nil {
					return faultf("chunks[%d]: %w", i, err)
				}
			}
			if out.Chunks == nil {
				return nil
			}
			if chunks = out.Chunks; s.tool {
				nameCall(chunks, s.callID)
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case v.failed != nil:
			return nil, &Failed{m.Name, c.Hook, v.failed}
		case v.faulted:
			put(&s.off, m, true)
		}
	}
	return chunks, nil
}

// nameCall says of which call's result chunks are, whatever call they name.
func nameCall(chunks []abi.Chunk, id string) {
	for i := range chunks {
		chunks[i].CallID = id
	}
}

// checkChunk refuses a chunk that makes no sense, or that does not belong to
// the stream: a model's text is no tool's result, nor the other way round.
func checkChunk(c *abi.Chunk, ofTool bool) error {
	if err := c.Check(); err != nil {
		return err
	}
	fits := c.Kind != abi.ChunkToolResult
	if ofTool {
		fits = c.Kind == abi.ChunkToolResult || c.Kind == abi.ChunkPart
	}
	if !fits {
		return fmt.Errorf("a %s in this stream; the model's streams have no results of tools, and theirs nothing else", c.Kind)
	}
	return nil
}

// changed reports whether what passed says something else than what came.
// Without on_chunk hooks nothing changes.
func (s *stream) changed(came, passed []abi.Chunk) bool {
	if len(s.members) == 0 {
		return false
	}
	var a abi.Assembly
	a.Add(passed...)
	return !a.Says(came)
}
