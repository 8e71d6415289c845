package model

import "github.com/agent-runner/agent-runner/abi"

// Chunks returns the chunks of a message that came whole: its reasoning, its
// content and its tool calls, in this order. Empty text makes no chunk.
func Chunks(m *abi.Message) []abi.Chunk {
	var out []abi.Chunk
	if m.ReasoningContent != "" {
		out = append(out, abi.Chunk{Kind: abi.ChunkReasoning, Text: m.ReasoningContent})
	}
	for _, p := range m.Content.Parts() {
		switch {
		case p.Type != abi.PartText:
			out = append(out, abi.Chunk{Kind: abi.ChunkPart, Part: &p})
		case p.Text != "":
			out = append(out, abi.Chunk{Kind: abi.ChunkText, Text: p.Text})
		}
	}
	for i, c := range m.ToolCalls {
		out = append(out, abi.Chunk{
			Kind: abi.ChunkToolCall, Index: i, ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments,
		})
	}
	return out
}
