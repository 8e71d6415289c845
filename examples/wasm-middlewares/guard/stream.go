package main

import (
	"strconv"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// A held is what of one text in a stream was not looked at yet, or is still
// needed to look at what follows.
type held struct {
	Kind    string `json:"kind"`
	CallID  string `json:"call_id,omitempty"`
	Text    string `json:"text,omitempty"`
	Blocked bool   `json:"blocked,omitempty"` // nothing more of it is shown
}

// OnChunk shows of a stream what was looked at together with at least a window of
// what follows it. What it holds lies in a run-local value: the module's memory may
// be gone when the next chunk comes.
func (g *guard) OnChunk(ctx *middleware.Context, chunks *middleware.Chunks) error {
	kept := middleware.Local[[]*held]("stream/" + strconv.FormatInt(chunks.Stream, 10))
	texts, there, err := kept.Get(ctx)
	if err != nil {
		return err
	}
	var out []abi.Chunk
	for _, c := range chunks.Items {
		if !g.looksAt(&c) {
			out = append(out, c)
			continue
		}
		if c.Part != nil { // it comes whole
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
				err = tell(ctx, "output", what)
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
		return kept.Set(ctx, texts)
	case chunks.Final && there:
		return kept.Delete(ctx)
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

// show looks at what is held if it is as long as least, and returns what of it can be
// shown: all but the last window, or, at the end, with least 0, everything.
func (g *guard) show(ctx *middleware.Context, h *held, least int) (string, error) {
	if h.Blocked {
		h.Text = ""
		return "", nil
	}
	if len(h.Text) < least {
		return "", nil
	}
	if what := g.find(h.Text); what != "" {
		h.Blocked, h.Text = true, ""
		if h.Kind == abi.ChunkToolResult {
			return "", blocked(h.CallID).Set(ctx, what) // AfterTool says it
		}
		return g.Refusal, tell(ctx, "output", what)
	}
	cut := len(h.Text)
	if least > 0 {
		for cut -= g.Window; cut > 0 && !utf8.RuneStart(h.Text[cut]); {
			cut--
		}
	}
	text := h.Text[:cut]
	h.Text = h.Text[cut:]
	return text, nil
}

// blocked is what was found in the result of a call while it streamed: what is left
// of it shows nothing of that.
func blocked(call string) middleware.Local[string] {
	return middleware.Local[string]("blocked/" + call)
}

func holder(texts []*held, c *abi.Chunk) ([]*held, *held) {
	for _, h := range texts {
		if h.Kind == c.Kind && h.CallID == c.CallID {
			return texts, h
		}
	}
	h := &held{Kind: c.Kind, CallID: c.CallID}
	return append(texts, h), h
}
