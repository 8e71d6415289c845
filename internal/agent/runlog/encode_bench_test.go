package runlog

import (
	"strconv"
	"testing"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// BenchmarkEncode measures the encoding of structs with chunks or messages, such as those that a
// run writes to its journal.
func BenchmarkEncode(b *testing.B) {
	chunks := make([]abi.Chunk, 50)
	for i := range chunks {
		chunks[i] = abi.Chunk{
			Kind:      abi.ChunkToolCall,
			ID:        "call_" + strconv.Itoa(i),
			Name:      "read_file",
			Arguments: `{"path":"`,
		}
	}
	messages := make([]abi.Message, 20)
	for i := range messages {
		messages[i] = abi.User("a message of some length, number " + strconv.Itoa(i))
	}
	for name, v := range map[string]any{
		"chunks":   &struct{ Chunks []abi.Chunk }{chunks},
		"messages": &struct{ Messages []abi.Message }{messages},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := abijson.Marshal(v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
