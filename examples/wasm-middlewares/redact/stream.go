package main

import (
	"cmp"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A held is the text that is held back from one part of a stream: the answer, the reasoning,
// the arguments of a call, or a tool's result.
type held struct {
	Kind   string       `json:"kind"`
	Index  int          `json:"index,omitempty"`
	CallID string       `json:"call_id,omitempty"`
	Tail   tail         `json:"tail"`
	Back   *restoration `json:"back,omitempty"` // nil if nothing is restored
}

// OnChunk releases text that cannot become part of a match any more. Held text is stored as a
// run-local value, because the host may discard the module's memory before the next chunk.
func (r *redact) OnChunk(ctx *middleware.Context, chunks *middleware.Chunks) error {
	if err := r.unlock(ctx); err != nil {
		return err
	}
	r.book = book{ctx: ctx}
	stream := middleware.Local[[]*held]("stream/" + strconv.FormatInt(chunks.Stream, 10))
	texts, there, err := stream.Get(ctx)
	if err != nil {
		return err
	}
	results, output := finds{}, finds{}
	var out []abi.Chunk
	for _, c := range chunks.Items {
		found := output
		if c.CallID != "" {
			found = results
		}
		out = flush(out, texts, c.Kind)
		if c.Part != nil && (r.Output && c.CallID == "" || r.ToolResults && c.CallID != "") {
			c.Part.Text = r.pass(&held{Back: r.restores(&c)}, &c, c.Part.Text, true, found) // parts arrive whole
		}
		if text := r.text(&c); text != nil {
			var h *held
			texts, h = r.holder(texts, &c)
			was := *text
			if *text = r.pass(h, &c, was, false, found); *text == "" && was != "" && c.ID == "" && c.Name == "" {
				continue
			}
		}
		out = append(out, c)
	}
	if chunks.Final {
		for _, h := range texts {
			found := output
			if h.CallID != "" {
				found = results
			}
			c := abi.Chunk{Kind: h.Kind, Index: h.Index, CallID: h.CallID}
			if text := r.text(&c); text != nil {
				if *text = r.pass(h, &c, "", true, found); *text != "" {
					out = append(out, c)
				}
			}
		}
	}
	chunks.Items = out
	switch {
	case !chunks.Final && len(texts) > 0:
		err = stream.Set(ctx, texts)
	case chunks.Final && there:
		err = stream.Delete(ctx)
	}
	if err == nil {
		err = output.report(ctx, "output")
	}
	if err == nil {
		err = results.report(ctx, "tool_result")
	}
	return cmp.Or(err, r.vault.err, r.book.report(ctx))
}

// flush appends the possible beginning of a placeholder with which a text ended before a chunk of
// another kind. Other held text may still become part of a match, and stays.
func flush(out []abi.Chunk, texts []*held, kind string) []abi.Chunk {
	for _, h := range texts {
		if h.Kind == abi.ChunkText && h.Kind != kind && h.Back != nil && h.Back.Text != "" {
			out = append(out, abi.Chunk{Kind: h.Kind, Text: h.Back.Text})
			h.Back.Text = ""
		}
	}
	return out
}

// pass redacts text, which belongs to the chunk c, and returns the part to release. h has the text
// that was held back from earlier chunks.
func (r *redact) pass(h *held, c *abi.Chunk, text string, last bool, found finds) string {
	if c.Kind != abi.ChunkToolCall || r.ToolArguments {
		text = r.scanner(c).next(&h.Tail, text, last, found)
	}
	if h.Back == nil {
		return text
	}
	h.Back.Tool = cmp.Or(h.Back.Tool, c.Name)
	return r.restored(h.Back, text, last)
}

// restores returns a new restoration for the text to which a chunk belongs, or nil if the
// placeholders in that text stay.
func (r *redact) restores(c *abi.Chunk) *restoration {
	call := c.Kind == abi.ChunkToolCall
	if !r.Reversible || c.CallID != "" || c.Kind == abi.ChunkReasoning ||
		call && !r.RestoreArguments || !call && !r.RestoreOutput {
		return nil
	}
	return &restoration{JSON: call}
}

// scanner returns the scanner for the text of a chunk.
func (r *redact) scanner(c *abi.Chunk) *scanner {
	if c.CallID == "" && c.Kind != abi.ChunkToolCall {
		return &r.answers
	}
	return &r.rest
}

// text returns the text of a chunk to redact, or nil if the configuration excludes it.
func (r *redact) text(c *abi.Chunk) *string {
	switch {
	case (c.Kind == abi.ChunkText || c.Kind == abi.ChunkReasoning) && r.Output:
		return &c.Text
	case c.Kind == abi.ChunkToolResult && r.ToolResults:
		return &c.Text
	case c.Kind == abi.ChunkToolCall && (r.ToolArguments || r.Reversible && r.RestoreArguments):
		return &c.Arguments
	default:
		return nil
	}
}

// holder finds the element of texts that holds the text of the chunk c, or appends a new one. It
// returns the list and the element.
func (r *redact) holder(texts []*held, c *abi.Chunk) ([]*held, *held) {
	for _, h := range texts {
		if h.Kind == c.Kind && h.Index == c.Index && h.CallID == c.CallID {
			return texts, h
		}
	}
	h := &held{Kind: c.Kind, Index: c.Index, CallID: c.CallID, Tail: tail{JSON: c.Kind == abi.ChunkToolCall}}
	h.Back = r.restores(c)
	return append(texts, h), h
}
