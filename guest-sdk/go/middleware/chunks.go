package middleware

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// Chunks are the pieces of a streamed answer that wait. Items may be changed,
// in any way: emptied, they are dropped.
type Chunks struct {
	Items []abi.Chunk
	// Stream says which stream of the run they are of: what a hook keeps of
	// one has nothing to do with the next, for example after a call that
	// broke off was made once more.
	Stream int64
	// Final is true once a message, with its last pieces; there may be none.
	Final bool
}

func (m *Module) onChunk(c *call, in *abi.OnChunkInput) (abi.Writable, error) {
	chunks := &Chunks{Items: cloneChunks(in.Chunks), Stream: in.Stream, Final: in.Final}
	err := each(m, func(h OnChunkHook) (bool, error) { return true, h.OnChunk(c.ctx, chunks) })
	if err != nil {
		return nil, err
	}
	out := &abi.OnChunkAnswer{}
	if !slices.EqualFunc(chunks.Items, in.Chunks, sameChunk) {
		out.Chunks = append([]abi.Chunk{}, chunks.Items...)
	}
	return out, nil
}

func cloneChunks(chunks []abi.Chunk) []abi.Chunk {
	out := slices.Clone(chunks)
	for i := range out {
		if out[i].Part != nil {
			part := *out[i].Part
			out[i].Part = &part
		}
	}
	return out
}

func sameChunk(a, b abi.Chunk) bool {
	same := samePart(a.Part, b.Part)
	a.Part, b.Part = nil, nil
	return same && a == b
}
