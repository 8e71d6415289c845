package chunk

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// checkChunk refuses a chunk that makes no sense, or that does not belong to
// the stream: a model's text is no tool's result, nor the other way round.
func Check(c *abi.Chunk, ofTool bool) error {
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

// nameCall says of which call's result chunks are, whatever call they name.
func SetCallID(chunks []abi.Chunk, id string) {
	for i := range chunks {
		chunks[i].CallID = id
	}
}

// chunksOf are chunks of the result of a call, whatever call they name.
func WithCallID(q abi.Call, chunks []abi.Chunk) []abi.Chunk {
	out := slices.Clone(chunks)
	SetCallID(out, q.ID)
	return out
}
