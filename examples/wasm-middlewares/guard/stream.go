package main

import (
	"strconv"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A held is the text of one kind in a stream that is not released yet: unchecked text, and the last
// window of checked text before it.
type held struct {
	Kind    string `json:"kind"`
	CallID  string `json:"call_id,omitempty"`
	Text    string `json:"text,omitempty"`
	Blocked bool   `json:"blocked,omitempty"` // the rest is not shown
}

// OnChunk releases text after checking it together with at least a window of the text that follows,
// or with all of it at the end of the stream. Withheld text is stored as a run-local value, because
// the host may discard the module's memory before the next chunk.
func (g *guard) OnChunk(ctx *middleware.Context, chunks *middleware.Chunks) error {
	stream := middleware.Local[[]*held]("stream/" + strconv.FormatInt(chunks.Stream, 10))
	texts, there, err := stream.Get(ctx)
	if err != nil {
		return err
	}
	var out []abi.Chunk
	for _, c := range chunks.Items {
		if !g.looksAt(&c) {
			out = append(out, c)
			continue
		}
		if c.Part != nil { // a whole part
			what := g.find(c.Part.Text)
			if what == "" {
				out = append(out, c)
				continue
			}
			if c.CallID != "" {
				err = blocked(c.CallID).Set(ctx, what)
			} else {
				c.Part = &abi.Part{Type: abi.PartText, Text: g.Refusal}
				out = append(out, c)
				err = report(ctx, "output", what)
			}
			if err != nil {
				return err
			}
			continue
		}
		var h *held
		texts, h = holder(texts, &c)
		h.Text += c.Text
		if c.Text, err = g.show(ctx, h, 2*g.Window); err != nil {
			return err
		}
		if c.Text != "" {
			out = append(out, c)
		}
	}
	if chunks.Final {
		for _, h := range texts {
			text, err := g.show(ctx, h, 0)
			if err != nil {
				return err
			}
			if text != "" {
				out = append(out, abi.Chunk{Kind: h.Kind, CallID: h.CallID, Text: text})
			}
		}
	}
	chunks.Items = out
	switch {
	case !chunks.Final && len(texts) > 0:
		return stream.Set(ctx, texts)
	case chunks.Final && there:
		return stream.Delete(ctx)
	}
	return nil
}

func (g *guard) looksAt(c *abi.Chunk) bool {
	switch c.Kind {
	case abi.ChunkText, abi.ChunkReasoning:
		return g.Output
	case abi.ChunkToolResult:
		return g.ToolResults == resultsWithhold
	case abi.ChunkPart:
		return c.Part != nil && (c.CallID == "" && g.Output || c.CallID != "" && g.ToolResults == resultsWithhold)
	default:
		return false
	}
}

// show checks the held text if it has at least minimum bytes, and returns the text to release.
// Without an attack, that is all but the last window, or everything if minimum is 0. With an
// attack, show blocks the rest of the text, and returns the refusal, or nothing for a tool's
// result.
func (g *guard) show(ctx *middleware.Context, h *held, minimum int) (string, error) {
	if h.Blocked {
		h.Text = ""
		return "", nil
	}
	if len(h.Text) < minimum {
		return "", nil
	}
	if what := g.find(h.Text); what != "" {
		h.Blocked, h.Text = true, ""
		if h.Kind == abi.ChunkToolResult {
			return "", blocked(h.CallID).Set(ctx, what) // AfterTool emits the event
		}
		return g.Refusal, report(ctx, "output", what)
	}
	cut := len(h.Text)
	if minimum > 0 {
		for cut -= g.Window; cut > 0 && !utf8.RuneStart(h.Text[cut]); {
			cut--
		}
	}
	text := h.Text[:cut]
	h.Text = h.Text[cut:]
	return text, nil
}

// blocked returns the run-local value for the kind of attack found in a call's result while it
// streamed. AfterTool needs this value, because the remaining result no longer contains the attack.
func blocked(call string) middleware.Local[string] {
	return middleware.Local[string]("blocked/" + call)
}

// holder finds the element of texts that holds the text of the chunk c, or appends a new one. It
// returns the list and the element.
func holder(texts []*held, c *abi.Chunk) ([]*held, *held) {
	for _, h := range texts {
		if h.Kind == c.Kind && h.CallID == c.CallID {
			return texts, h
		}
	}
	h := &held{Kind: c.Kind, CallID: c.CallID}
	return append(texts, h), h
}
