package chain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// A Sink takes chunks on their way outward; nil stands for a call that is not
// streamed. final marks the last of a message. An error is an ending, or a
// *Failed by which the call fails.
type Sink func(ctx context.Context, chunks []abi.Chunk, final bool) error

// A stream is the way of one reply outward through one ring: what came from
// inside, and what its on_chunk hooks let pass.
type stream struct {
	run      *Run
	members  []*member
	off      map[*member]bool // faulted, passed over for the rest of this stream
	out      outlet           // nil: chunks go nowhere as they come
	came     assembly
	passed   assembly
	n        int     // batches that came
	finished bool    // the last of the message came
	failed   *Failed // the on_chunk, here or further out, that refused what came
	tool     bool    // of a tool's result
	id       int64
	seq      int64
}

func (r *Run) newStream(ring Ring, tool bool, out outlet) *stream {
	return &stream{run: r, members: r.in(ring, abi.HookOnChunk), tool: tool, out: out, off: map[*member]bool{}, id: r.streams.Add(1)}
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
	s.n, s.finished, s.failed, s.came, s.passed, s.id = 0, false, nil, assembly{}, assembly{}, s.run.streams.Add(1)
	return true
}

// push lets chunks pass and gives what is left of them to the ring outside.
func (s *stream) push(ctx context.Context, chunks []abi.Chunk, final bool) error {
	if s.failed != nil {
		return s.failed
	}
	s.n++
	s.came.add(chunks)
	passed, err := s.filter(ctx, chunks, final)
	if err == nil {
		s.passed.add(passed)
		if s.finished = final; len(passed) > 0 || final {
			err = s.out.push(ctx, passed, final)
		}
	}
	errors.As(err, &s.failed)
	return err
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
			if out.Chunks != nil {
				chunks = out.Chunks
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, err
		case v.failed != nil:
			return nil, &Failed{m.Name, c.Hook, v.failed}
		case v.faulted:
			s.off[m] = true
		}
	}
	return chunks, nil
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
	var a assembly
	a.add(passed)
	return !a.says(came)
}

// An assembly puts chunks together.
type assembly struct {
	text, reasoning strings.Builder
	calls           []*callPieces
	results         []*resultPieces
}

// resultPieces are tool_result chunks put together, or a part.
type resultPieces struct {
	callID string
	text   strings.Builder
	part   *abi.Part
}

type callPieces struct {
	index     int
	id, name  string
	arguments strings.Builder
}

func (a *assembly) add(chunks []abi.Chunk) {
	for _, c := range chunks {
		switch c.Kind {
		case abi.ChunkText:
			a.text.WriteString(c.Text)
		case abi.ChunkReasoning:
			a.reasoning.WriteString(c.Text)
		case abi.ChunkToolCall:
			a.call(c)
		case abi.ChunkToolResult:
			n := len(a.results)
			if n == 0 || a.results[n-1].part != nil {
				a.results = append(a.results, &resultPieces{callID: c.CallID})
				n++
			}
			a.results[n-1].text.WriteString(c.Text)
		case abi.ChunkPart:
			a.results = append(a.results, &resultPieces{callID: c.CallID, part: c.Part})
		}
	}
}

func (a *assembly) call(c abi.Chunk) {
	for _, p := range a.calls {
		if p.index == c.Index {
			p.id, p.name = either(p.id, c.ID), either(p.name, c.Name)
			p.arguments.WriteString(c.Arguments)
			return
		}
	}
	p := &callPieces{index: c.Index, id: c.ID, name: c.Name}
	p.arguments.WriteString(c.Arguments)
	a.calls = append(a.calls, p)
}

// chunks returns what was put together: one chunk for each thing.
func (a *assembly) chunks() []abi.Chunk {
	var out []abi.Chunk
	if a.reasoning.Len() > 0 {
		out = append(out, abi.Chunk{Kind: abi.ChunkReasoning, Text: a.reasoning.String()})
	}
	if a.text.Len() > 0 {
		out = append(out, abi.Chunk{Kind: abi.ChunkText, Text: a.text.String()})
	}
	for _, p := range a.calls {
		out = append(out, abi.Chunk{Kind: abi.ChunkToolCall, Index: p.index, ID: p.id, Name: p.name, Arguments: p.arguments.String()})
	}
	for _, p := range a.results {
		c := abi.Chunk{Kind: abi.ChunkToolResult, CallID: p.callID, Text: p.text.String()}
		if p.part != nil {
			c = abi.Chunk{Kind: abi.ChunkPart, CallID: p.callID, Part: p.part}
		}
		out = append(out, c)
	}
	return out
}

// says reports whether chunks put together are the same.
func (a *assembly) says(chunks []abi.Chunk) bool {
	var b assembly
	b.add(chunks)
	x, y := a.chunks(), b.chunks()
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		p, q := x[i], y[i]
		p.Seq, q.Seq, p.CallID, q.CallID, p.Index, q.Index = 0, 0, "", "", 0, 0
		if p.Part != nil && q.Part != nil {
			pb, _ := abi.Marshal(p.Part)
			qb, _ := abi.Marshal(q.Part)
			if string(pb) != string(qb) {
				return false
			}
			p.Part, q.Part = nil, nil
		}
		if p != q {
			return false
		}
	}
	return true
}
