package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// Chunks are the available pieces of a streamed answer. The hook may change Items in any
// way; without items, nothing is passed on.
type Chunks struct {
	Items []abi.Chunk
	// Stream identifies the stream of the chunks within the run. Do not combine chunks of
	// different streams: a failed call that is repeated has a new stream.
	Stream int64
	// Final is true in the last call for each message. Items may be empty then.
	Final bool
}

func (*Chunks) collect(m *Module, _ abi.Hook) any { return collect[OnChunkHook](m) }

func (*Chunks) serve(s *served) (abijson.Writable, error) {
	v := visitOf[chunksInput, abijson.OnChunkAnswer](s)
	v.in.Chunks = v.in.one[:0]
	if err := v.begin(s, (*abijson.OnChunkInput)(&v.in.OnChunkInput), &v.in.Common); err != nil {
		return nil, err
	}
	made := &struct {
		Chunks
		one [1]abi.Chunk
	}{Chunks: Chunks{Stream: v.in.Stream, Final: v.in.Final}}
	chunks := &made.Chunks
	if len(v.in.Chunks) == 1 {
		chunks.Items = made.one[:]
	} else {
		chunks.Items = make([]abi.Chunk, len(v.in.Chunks))
	}
	copyChunks(chunks.Items, v.in.Chunks)
	for _, h := range hooks[OnChunkHook](s) {
		if err := h.OnChunk(v.ctx, chunks); err != nil {
			return nil, err
		}
	}
	if !sameChunks(chunks.Items, v.in.Chunks) {
		if v.out.Chunks = chunks.Items; chunks.Items == nil {
			v.out.Chunks = []abi.Chunk{} // nil would mean unchanged
		}
	}
	return &v.out, nil
}

// A chunksInput is the input of on_chunk with memory for one chunk, which is the most common
// number.
type chunksInput struct {
	abi.OnChunkInput
	one [1]abi.Chunk
}

// copyChunks copies chunks and their parts to out, so that a hook can change them in place.
func copyChunks(out, chunks []abi.Chunk) {
	copy(out, chunks)
	for i := range out {
		if out[i].Part != nil {
			part := *out[i].Part
			out[i].Part = &part
		}
	}
}

func sameChunks(a, b []abi.Chunk) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !sameChunk(&a[i], &b[i]) {
			return false
		}
	}
	return true
}

func sameChunk(a, b *abi.Chunk) bool {
	if a.Part == b.Part {
		return *a == *b
	}
	other := *b
	other.Part = a.Part
	return clone.SamePart(a.Part, b.Part) && *a == other
}
