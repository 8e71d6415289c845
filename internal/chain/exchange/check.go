package exchange

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// checkChunk returns an error if a chunk is malformed or does not belong to the stream. If ofTool
// is set, the stream is a tool's and contains only tool results and parts. Otherwise it is the
// model's and contains no tool results.
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

func setCallID(chunks []abi.Chunk, id string) {
	for i := range chunks {
		chunks[i].CallID = id
	}
}

// WithCallID returns copies of chunks whose call ID is that of q.
func WithCallID(q abi.Call, chunks []abi.Chunk) []abi.Chunk {
	out := slices.Clone(chunks)
	setCallID(out, q.ID)
	return out
}
