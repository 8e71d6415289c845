package abi

import (
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// The kinds of chunks.
const (
	ChunkText       = "text"
	ChunkReasoning  = "reasoning"
	ChunkToolCall   = "tool_call"
	ChunkToolResult = "tool_result"
	ChunkPart       = "part"
)

// A Chunk is a piece of a streamed response or tool result. Concatenate the text of
// successive chunks. The chunks of one tool call have the same Index; the first of them
// has the call's ID and name.
type Chunk struct {
	Seq       int64  `json:"seq"` // set by the host; ignored in answers
	Kind      string `json:"kind"`
	Text      string `json:"text"`      // text, reasoning, tool_result
	Index     int    `json:"index"`     // tool_call
	ID        string `json:"id"`        // tool_call
	Name      string `json:"name"`      // tool_call
	Arguments string `json:"arguments"` // tool_call
	CallID    string `json:"call_id"`   // tool_result, and part in a tool result
	Part      *Part  `json:"part"`      // part
}

// MarshalJSON writes the fields that belong to the chunk's kind.
func (c Chunk) MarshalJSON() ([]byte, error) {
	base := chunkBase{c.Seq, c.Kind}
	switch c.Kind {
	case ChunkToolCall:
		return jsoncodec.AppendValue(nil, toolCallChunk{base, c.Index, c.ID, c.Name, c.Arguments})
	case ChunkPart:
		return jsoncodec.AppendValue(nil, partChunk{base, c.CallID, c.Part})
	default:
		return jsoncodec.AppendValue(nil, textChunk{base, c.CallID, c.Text})
	}
}

// The encodings of the kinds of chunks.
type (
	chunkBase struct {
		Seq  int64  `json:"seq,omitempty"`
		Kind string `json:"kind"`
	}
	toolCallChunk struct {
		chunkBase
		Index     int    `json:"index"`
		ID        string `json:"id,omitempty"`
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	}
	partChunk struct {
		chunkBase
		CallID string `json:"call_id,omitempty"`
		Part   *Part  `json:"part"`
	}
	textChunk struct {
		chunkBase
		CallID string `json:"call_id,omitempty"`
		Text   string `json:"text"`
	}
)

// Chunks returns chunks for the message's reasoning, content and tool calls, in this order. It
// omits empty text.
func (m *Message) Chunks() []Chunk {
	parts := m.Content.Parts()
	out := make([]Chunk, 0, 1+len(parts)+len(m.ToolCalls))
	if m.ReasoningContent != "" {
		out = append(out, Chunk{Kind: ChunkReasoning, Text: m.ReasoningContent})
	}
	for i := range parts {
		switch p := &parts[i]; {
		case p.Type != PartText:
			part := *p
			out = append(out, Chunk{Kind: ChunkPart, Part: &part})
		case p.Text != "":
			out = append(out, Chunk{Kind: ChunkText, Text: p.Text})
		}
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		out = append(
			out,
			Chunk{Kind: ChunkToolCall, Index: i, ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments},
		)
	}
	return out
}
