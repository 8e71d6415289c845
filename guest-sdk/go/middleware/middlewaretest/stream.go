package middlewaretest

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A stream is an answer that a wrapper reads while it arrives.
type stream struct {
	chunks []abi.Chunk
	end    *contract.StreamEnd
	failed error
}

// NextStream implements the import "next_stream". It calls Host.Model or Host.Tool, and splits the
// answer into chunks for Recv.
func (i *imports) NextStream(patch []byte) error {
	s := &stream{}
	var b []byte
	switch i.hook {
	case contract.HookWrapModel:
		b, s.failed = i.nextModel(patch)
	case contract.HookWrapToolCall:
		b, s.failed = i.nextTool(patch)
	default:
		return fail(abi.CodeDenied, "next_stream is for wrap_model and wrap_tool_call, not for %s", i.hook)
	}
	i.h.stream = s
	if s.failed != nil {
		return nil
	}
	s.end = &contract.StreamEnd{}
	if err := decode(b, s.end); err != nil {
		return err
	}
	switch {
	case s.end.Response != nil:
		s.chunks = i.h.pieces(s.end.Response.Message.Chunks())
	case s.end.Result != nil && i.h.call != nil:
		s.chunks = i.h.pieces(chunkjoin.OfResult(s.end.Result, i.h.call.ID))
	}
	return nil
}

// pieces splits the text of chunks into chunks of at most Host.Pieces characters, unless
// Host.Pieces is 0. It numbers the chunks.
func (h *Host) pieces(chunks []abi.Chunk) []abi.Chunk {
	var out []abi.Chunk
	for _, c := range chunks {
		text := []rune(c.Text)
		for h.Pieces > 0 && len(text) > h.Pieces {
			piece := c
			piece.Text = string(text[:h.Pieces])
			out = append(out, piece)
			text = text[h.Pieces:]
		}
		c.Text = string(text)
		out = append(out, c)
	}
	for i := range out {
		out[i].Seq = int64(i + 1)
	}
	return out
}

// Recv implements the import "recv". It returns the next chunk, then the end or the error, then
// nothing.
func (i *imports) Recv() ([]byte, error) {
	s := i.h.stream
	if s == nil {
		return nil, fail(abi.CodeInvalid, "recv: no stream is open")
	}
	switch {
	case len(s.chunks) > 0:
		c := s.chunks[0]
		s.chunks = s.chunks[1:]
		return abijson.Marshal(contract.Received{Chunks: []abi.Chunk{c}})
	case s.failed != nil:
		err := s.failed
		s.failed = nil
		return nil, err
	case s.end != nil:
		end := s.end
		s.end = nil
		return abijson.Marshal(contract.Received{End: end})
	}
	return nil, nil
}

// Send implements the import "send". It appends valid chunks to Host.Sent.
func (i *imports) Send(b []byte) error {
	ofTool := i.hook == contract.HookWrapToolCall || i.hook == contract.HookCallTool
	if i.hook != contract.HookWrapModel && !ofTool {
		return fail(abi.CodeDenied, "send is for wrap_model, wrap_tool_call and call_tool, not for %s", i.hook)
	}
	var sent contract.Sent
	if err := decode(b, &sent); err != nil {
		return err
	}
	for n := range sent.Chunks {
		c := &sent.Chunks[n]
		if err := contract.CheckChunk(c); err != nil {
			return fail(abi.CodeInvalid, "send: chunks[%d]: %v", n, err)
		}
		if fits := c.Kind == abi.ChunkPart || (c.Kind == abi.ChunkToolResult) == ofTool; !fits {
			return fail(abi.CodeInvalid, "send: chunks[%d]: a %s in %s", n, c.Kind, i.hook)
		}
	}
	i.h.Sent = append(i.h.Sent, sent.Chunks...)
	return nil
}
