package chain

import (
	"context"
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
	run     *Run
	members []*member
	off     map[*member]bool // faulted, passed over for the rest of this stream
	out     Sink
	came    assembly
	passed  assembly
	entered bool // something came
	tool    bool // of a tool's result
	id      int64
	seq     int64
}

func (r *Run) newStream(ring Ring, out Sink) *stream {
	return &stream{run: r, members: r.in(ring, abi.HookOnChunk), out: out, off: map[*member]bool{}, id: r.streams.Add(1)}
}

// live reports whether chunks go on outward as they come.
func (s *stream) live() bool { return s.out != nil }

// sink is what the ring inside gives its chunks to.
func (s *stream) sink() Sink {
	if s == nil || s.out == nil {
		return nil
	}
	return s.push
}

// beganDelivery says whether another attempt may no longer be streamed; if
// it may, what came of the one before is forgotten.
func (s *stream) beganDelivery(delivered func() bool) bool {
	if s == nil || !s.entered {
		return false
	}
	if delivered() {
		return true
	}
	s.entered, s.came, s.passed, s.id = false, assembly{}, assembly{}, s.run.streams.Add(1)
	return false
}

// push lets chunks pass and gives what is left of them to the ring outside.
func (s *stream) push(ctx context.Context, chunks []abi.Chunk, final bool) error {
	s.entered = true
	s.came.add(chunks)
	passed, err := s.filter(ctx, chunks, final)
	if err != nil {
		return err
	}
	s.passed.add(passed)
	return s.out(ctx, passed, final)
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
				if err := out.Chunks[i].Check(); err != nil {
					return faultf("chunks[%d]: %w", i, err)
				}
				if kind := out.Chunks[i].Kind; !s.takes(kind) {
					return faultf("chunks[%d]: a %s in this stream; the model's streams have no results of tools, and theirs nothing else", i, kind)
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

// takes reports whether a kind of chunk belongs here: a model's text is no
// tool's result, and the other way round.
func (s *stream) takes(kind string) bool {
	if s.tool {
		return kind == abi.ChunkToolResult || kind == abi.ChunkPart
	}
	return kind != abi.ChunkToolResult
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
