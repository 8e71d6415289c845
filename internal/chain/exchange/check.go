package exchange

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// checkChunk rejects a malformed chunk and one that does not belong to the stream. The model's stream
// holds no tool results. The stream of a tool, for which ofTool is set, holds only tool results and
// parts.
func checkChunk(c *abi.Chunk, ofTool bool) error {
	if err := contract.CheckChunk(c); err != nil {
		return err
	}
	fits := c.Kind != abi.ChunkToolResult
	if ofTool {
		fits = c.Kind == abi.ChunkToolResult || c.Kind == abi.ChunkPart
	}
	if !fits {
		return fmt.Errorf("a %s in this stream; "+
			"streams of the model contain no tool results, and streams of tools contain nothing else", c.Kind)
	}
	return nil
}

// setCallID sets the call id of all chunks.
func setCallID(chunks []abi.Chunk, id string) {
	for i := range chunks {
		chunks[i].CallID = id
	}
}

// WithCallID returns copies of chunks that name the given call.
func WithCallID(q abi.Call, chunks []abi.Chunk) []abi.Chunk {
	out := slices.Clone(chunks)
	setCallID(out, q.ID)
	return out
}
