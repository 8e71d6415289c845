// Package size estimates the memory of messages, results, events and chunks, for accounts and
// limits. The estimates avoid encoding, except for the parts in chunks.
package size

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// Overhead is the estimated size in bytes of a message, a part or a similar value without its text.
const Overhead = 256

// Message returns the approximate size of a message in bytes, without its cached JSON.
func Message(m *abi.Message) int64 {
	n := int64(Overhead+len(m.ReasoningContent)+len(m.Extra)) + Content(&m.Content) + fields(m.Unknown)
	for i := range m.ToolCalls {
		n += int64(Overhead + len(m.ToolCalls[i].Function.Arguments))
	}
	n += labels(m.Labels)
	for i := range m.PartLabels {
		n += labels(m.PartLabels[i].Labels)
	}
	return n
}

// labels returns the approximate size in bytes of a list of labels. It does not include the texts,
// because lists share them.
func labels(list []string) int64 { return int64(16 * len(list)) }

// Content returns the approximate size of content in bytes.
func Content(c *abi.Content) int64 {
	if !c.IsParts() {
		return int64(len(c.String()))
	}
	var n int64
	parts := c.Parts()
	for i := range parts {
		n += Part(&parts[i])
	}
	return n
}

// Part returns the approximate size of a part of content in bytes.
func Part(p *abi.Part) int64 {
	return int64(Overhead+len(p.Text)+len(p.ImageURL)+len(p.InputAudio)+len(p.File)) + fields(p.Unknown)
}

// Result returns the approximate size of a tool's result in bytes.
func Result(r *abi.Result) int64 {
	if r == nil {
		return 0
	}
	return int64(Overhead+len(r.Extra)) + Content(&r.Content)
}

// Event returns the approximate size of an event in bytes.
func Event(e *abi.Event) int64 {
	n := int64(2*Overhead + len(e.Data) + len(e.Text) + len(e.Reason) + len(e.Cause))
	for _, line := range e.Stderr {
		n += int64(len(line))
	}
	if e.Message != nil {
		n += Message(e.Message)
	}
	if e.Chunk != nil {
		n += int64(len(e.Chunk.Text) + len(e.Chunk.Arguments))
		if e.Chunk.Part != nil {
			n += Part(e.Chunk.Part)
		}
	}
	if e.Call != nil {
		n += int64(len(e.Call.Arguments))
	}
	if d := e.Decision; d != nil {
		n += int64(Overhead + len(d.CallID) + len(d.Tool) + len(d.Reason) + len(d.Approver) + len(d.AnsweredBy))
	}
	if e.Error != nil {
		n += int64(len(e.Error.Message))
	}
	for i := range e.Interrupts {
		n += int64(Overhead + len(e.Interrupts[i].Payload) + len(e.Interrupts[i].Reason))
	}
	if e.Event != nil {
		n += Event(e.Event)
	}
	return n + Result(e.Result)
}

// Params returns the approximate size of parameters, in bytes.
func Params(params abi.Params) int64 {
	n := int64(0)
	for name, value := range params {
		n += int64(len(name) + len(value))
	}
	return n
}

// fields returns the size in bytes of the names and values of unknown fields.
func fields(fields abi.Fields) int64 {
	var n int64
	for i := range fields {
		n += int64(len(fields[i].Name) + len(fields[i].Value))
	}
	return n
}

// Chunks returns the approximate size of chunks in bytes.
func Chunks(chunks []abi.Chunk) int64 {
	n := 0
	for i := range chunks {
		n += Chunk(&chunks[i])
	}
	return int64(n)
}

// Chunk returns the approximate size of a chunk in bytes.
func Chunk(c *abi.Chunk) int {
	const base = 128
	n := base + len(c.Text) + len(c.ID) + len(c.Name) + len(c.Arguments) + len(c.CallID)
	if c.Part != nil {
		b, _ := abijson.Marshal(c.Part)
		n += len(b)
	}
	return n
}
