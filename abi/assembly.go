package abi

import (
	"cmp"
	"slices"
	"strings"
)

// An Assembly puts chunks together: those of a model's answer, or those of a
// tool's result. The zero value is empty; it must not be copied.
type Assembly struct {
	text, reasoning strings.Builder
	calls           []*callPieces
	results         []*resultPieces
}

// resultPieces are tool_result chunks put together, or a part.
type resultPieces struct {
	callID string
	text   strings.Builder
	part   *Part
}

type callPieces struct {
	index     int
	id, name  string
	arguments strings.Builder
}

// Add adds chunks that follow on those before.
func (a *Assembly) Add(chunks ...Chunk) {
	for _, c := range chunks {
		switch c.Kind {
		case ChunkText:
			a.text.WriteString(c.Text)
		case ChunkReasoning:
			a.reasoning.WriteString(c.Text)
		case ChunkToolCall:
			a.call(c)
		case ChunkToolResult:
			n := len(a.results)
			if n == 0 || a.results[n-1].part != nil {
				a.results = append(a.results, &resultPieces{callID: c.CallID})
				n++
			}
			a.results[n-1].text.WriteString(c.Text)
		case ChunkPart:
			a.results = append(a.results, &resultPieces{callID: c.CallID, part: c.Part})
		}
	}
}

func (a *Assembly) call(c Chunk) {
	for _, p := range a.calls {
		if p.index == c.Index {
			p.id, p.name = cmp.Or(p.id, c.ID), cmp.Or(p.name, c.Name)
			p.arguments.WriteString(c.Arguments)
			return
		}
	}
	p := &callPieces{index: c.Index, id: c.ID, name: c.Name}
	p.arguments.WriteString(c.Arguments)
	a.calls = append(a.calls, p)
}

// Chunks returns what was put together: one chunk for each thing.
func (a *Assembly) Chunks() []Chunk {
	var out []Chunk
	if a.reasoning.Len() > 0 {
		out = append(out, Chunk{Kind: ChunkReasoning, Text: a.reasoning.String()})
	}
	if a.text.Len() > 0 {
		out = append(out, Chunk{Kind: ChunkText, Text: a.text.String()})
	}
	for _, p := range a.calls {
		out = append(out, Chunk{Kind: ChunkToolCall, Index: p.index, ID: p.id, Name: p.name, Arguments: p.arguments.String()})
	}
	for _, p := range a.results {
		c := Chunk{Kind: ChunkToolResult, CallID: p.callID, Text: p.text.String()}
		if p.part != nil {
			c = Chunk{Kind: ChunkPart, CallID: p.callID, Part: p.part}
		}
		out = append(out, c)
	}
	return out
}

// Says reports whether other chunks say the same, however they are cut.
func (a *Assembly) Says(chunks []Chunk) bool {
	var b Assembly
	b.Add(chunks...)
	x, y := a.Chunks(), b.Chunks()
	if len(x) != len(y) {
		return false
	}
	for i := range x {
		p, q := x[i], y[i]
		p.Seq, q.Seq, p.CallID, q.CallID, p.Index, q.Index = 0, 0, "", "", 0, 0
		if p.Part != nil && q.Part != nil {
			pb, _ := Marshal(p.Part)
			qb, _ := Marshal(q.Part)
			if string(pb) != string(qb) {
				return false
			}
			p.Part, q.Part = nil, nil
		}
		if p != q {
			return false
		}
	}
	return true
}

// Message is what was put together, with whatever of m chunks cannot say.
func (a *Assembly) Message(m Message) Message {
	m.ReasoningContent = a.reasoning.String()
	text := a.text.String()
	switch {
	case len(a.results) > 0:
		var parts []Part
		if text != "" {
			parts = append(parts, Part{Type: PartText, Text: text})
		}
		for _, c := range a.results {
			if c.part != nil {
				parts = append(parts, *c.part)
			}
		}
		m.Content = Parts(parts...)
	case text != "" || !m.Content.IsNull():
		m.Content = Text(text)
	}
	calls := make([]ToolCall, 0, len(a.calls))
	for _, p := range a.calls {
		c := NewToolCall(p.id, p.name, p.arguments.String())
		if i := slices.IndexFunc(m.ToolCalls, func(t ToolCall) bool { return t.ID == p.id }); i >= 0 {
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

// Result is what was put together, with whatever of r chunks cannot say.
func (a *Assembly) Result(r Result) Result {
	inParts := r.Content.IsParts()
	text, parts := "", []Part(nil)
	for _, c := range a.results {
		if c.part != nil {
			parts, inParts = append(parts, *c.part), true
			continue
		}
		text += c.text.String()
		parts = append(parts, Part{Type: PartText, Text: c.text.String()})
	}
	if r.Content = Text(text); inParts {
		r.Content = Parts(parts...)
	}
	return r
}

// Chunks are those that say what a whole result of a call says.
func (r *Result) Chunks(callID string) []Chunk {
	if !r.Content.IsParts() {
		return []Chunk{{Kind: ChunkToolResult, CallID: callID, Text: r.Content.String()}}
	}
	var out []Chunk
	for _, p := range r.Content.Parts() {
		out = append(out, Chunk{Kind: ChunkPart, CallID: callID, Part: &p})
	}
	return out
}
