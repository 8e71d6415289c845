package chunkjoin

import (
	"cmp"
	"slices"
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// An Assembly joins the chunks of a model's response or of a tool's result. The zero
// value is empty and ready to use. An Assembly must not be copied.
type Assembly struct {
	text, reasoning pieces
	calls           []callPieces
	results         []resultPieces
}

// resultPieces is the text of consecutive tool_result chunks, or a single part chunk.
type resultPieces struct {
	callID string
	text   pieces
	part   *abi.Part
}

type callPieces struct {
	index     int
	id, name  string
	arguments pieces
}

// pieces concatenates strings. A single string is not copied.
type pieces struct {
	one  string
	many []byte // set from the second piece on; append-only
}

// add appends piece. It copies a first piece only when a second one follows.
func (p *pieces) add(piece string) {
	switch {
	case piece == "":
	case p.many == nil && p.one == "":
		p.one = piece
	default:
		if p.many == nil {
			p.many = append(make([]byte, 0, 2*(len(p.one)+len(piece))), p.one...)
		}
		p.many = append(p.many, piece...)
	}
}

func (p *pieces) String() string {
	if p.many == nil {
		return p.one
	}
	return unsafe.String(unsafe.SliceData(p.many), len(p.many))
}

// Add appends chunks to the stream. It ignores chunks of an unknown kind.
func (a *Assembly) Add(chunks ...abi.Chunk) {
	for i := range chunks {
		c := &chunks[i]
		switch c.Kind {
		case abi.ChunkText:
			a.text.add(c.Text)
		case abi.ChunkReasoning:
			a.reasoning.add(c.Text)
		case abi.ChunkToolCall:
			a.call(c)
		case abi.ChunkToolResult:
			n := len(a.results)
			if n == 0 || a.results[n-1].part != nil {
				a.results = append(a.results, resultPieces{callID: c.CallID})
				n++
			}
			a.results[n-1].text.add(c.Text)
		case abi.ChunkPart:
			a.results = append(a.results, resultPieces{callID: c.CallID, part: c.Part})
		}
	}
}

// call adds a tool_call chunk to the pieces of the call with the same index.
func (a *Assembly) call(c *abi.Chunk) {
	for i := range a.calls {
		if p := &a.calls[i]; p.index == c.Index {
			p.id, p.name = cmp.Or(p.id, c.ID), cmp.Or(p.name, c.Name)
			p.arguments.add(c.Arguments)
			return
		}
	}
	a.calls = append(a.calls, callPieces{index: c.Index, id: c.ID, name: c.Name, arguments: pieces{one: c.Arguments}})
}

// Chunks returns the joined content, or nil if there is none. It returns one chunk each for the
// reasoning, the text, each tool call and each part, and one for each run of tool_result chunks
// between parts.
func (a *Assembly) Chunks() []abi.Chunk {
	text, reasoning := a.text.String(), a.reasoning.String()
	n := len(a.calls) + len(a.results)
	if text != "" {
		n++
	}
	if reasoning != "" {
		n++
	}
	if n == 0 {
		return nil
	}
	out := make([]abi.Chunk, 0, n)
	if reasoning != "" {
		out = append(out, abi.Chunk{Kind: abi.ChunkReasoning, Text: reasoning})
	}
	if text != "" {
		out = append(out, abi.Chunk{Kind: abi.ChunkText, Text: text})
	}
	for i := range a.calls {
		p := &a.calls[i]
		out = append(
			out,
			abi.Chunk{Kind: abi.ChunkToolCall, Index: p.index, ID: p.id, Name: p.name, Arguments: p.arguments.String()},
		)
	}
	for i := range a.results {
		p := &a.results[i]
		c := abi.Chunk{Kind: abi.ChunkToolResult, CallID: p.callID, Text: p.text.String()}
		if p.part != nil {
			c = abi.Chunk{Kind: abi.ChunkPart, CallID: p.callID, Part: p.part}
		}
		out = append(out, c)
	}
	return out
}

// Equal reports whether chunks join to the same content as a. It ignores the indexes of tool calls
// and the call IDs of results.
func (a *Assembly) Equal(chunks []abi.Chunk) bool {
	var b Assembly
	b.Add(chunks...)
	return a.text.String() == b.text.String() && a.reasoning.String() == b.reasoning.String() &&
		slices.EqualFunc(a.calls, b.calls, func(p, q callPieces) bool {
			return p.id == q.id && p.name == q.name && p.arguments.String() == q.arguments.String()
		}) &&
		slices.EqualFunc(a.results, b.results, func(p, q resultPieces) bool {
			return p.text.String() == q.text.String() && sameParts(p.part, q.part)
		})
}

// sameParts reports whether p and q are both nil or have the same encoding.
func sameParts(p, q *abi.Part) bool {
	if p == nil || q == nil {
		return p == q
	}
	pb, _ := abijson.Marshal(p)
	qb, _ := abijson.Marshal(q)
	return string(pb) == string(qb)
}

// Message returns m with the assembled reasoning, content and tool calls. It keeps the fields of m
// that chunks cannot represent.
func (a *Assembly) Message(m abi.Message) abi.Message {
	m.ReasoningContent = a.reasoning.String()
	text := a.text.String()
	switch {
	case len(a.results) > 0:
		var parts []abi.Part
		if text != "" {
			parts = append(parts, abi.Part{Type: abi.PartText, Text: text})
		}
		for _, c := range a.results {
			if c.part != nil {
				parts = append(parts, *c.part)
			}
		}
		m.Content = abi.Parts(parts...)
	case text != "" || !m.Content.IsNull():
		m.Content = abi.Text(text)
	}
	calls := make([]abi.ToolCall, 0, len(a.calls))
	for i := range a.calls {
		p := &a.calls[i]
		c := abi.NewToolCall(p.id, p.name, p.arguments.String())
		if i := slices.IndexFunc(m.ToolCalls, func(t abi.ToolCall) bool { return t.ID == p.id }); i >= 0 {
			c.Type, c.Unknown = m.ToolCalls[i].Type, m.ToolCalls[i].Unknown
		}
		calls = append(calls, c)
	}
	m.ToolCalls = nil
	if len(calls) > 0 {
		m.ToolCalls = calls
	}
	return m
}

// Result returns r with the assembled text and parts as its content. It keeps the other fields of
// r.
func (a *Assembly) Result(r abi.Result) abi.Result {
	inParts := r.Content.IsParts()
	text, parts := "", []abi.Part(nil)
	for i := range a.results {
		c := &a.results[i]
		if c.part != nil {
			parts, inParts = append(parts, *c.part), true
			continue
		}
		text += c.text.String()
		parts = append(parts, abi.Part{Type: abi.PartText, Text: c.text.String()})
	}
	if r.Content = abi.Text(text); inParts {
		r.Content = abi.Parts(parts...)
	}
	return r
}

// OfResult returns chunks that represent result r of the call with ID callID: one tool_result chunk for a string or
// null, or one part chunk for each part.
func OfResult(r *abi.Result, callID string) []abi.Chunk {
	if !r.Content.IsParts() {
		return []abi.Chunk{{Kind: abi.ChunkToolResult, CallID: callID, Text: r.Content.String()}}
	}
	var out []abi.Chunk
	for _, p := range r.Content.Parts() {
		out = append(out, abi.Chunk{Kind: abi.ChunkPart, CallID: callID, Part: &p})
	}
	return out
}
