// Command sentences is a middleware that forwards the model's text sentence by sentence, for
// example for speech output, or for a page that should not show partial sentences.
package main

import (
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() { middleware.Serve(declare()) }

func main() {}

func declare() *middleware.Declaration {
	s := &sentences{longest: 400}
	d := middleware.Declare(middleware.Options{
		Name:        "sentences",
		Version:     "1.0.0",
		Description: "Hands the model's text on sentence by sentence.",
	})
	d.Int(&s.longest, "longest", "how many characters are held at most; what is longer is cut between words")
	d.Configure(s)
	d.WrapModel(s)
	return d
}

type sentences struct{ longest int }

// Configure validates the limit.
func (s *sentences) Configure(*middleware.Context) error {
	if s.longest < 1 {
		return &abi.Error{Code: abi.CodeInvalid, Message: "config: longest: " + strconv.Itoa(s.longest) + " is below 1"}
	}
	return nil
}

// WrapModel forwards the text of a streamed answer sentence by sentence as it arrives. Chunks other
// than text and reasoning follow the text before them.
func (s *sentences) WrapModel(
	ctx *middleware.Context,
	req *middleware.Request,
	next middleware.NextModel,
) (*abi.Response, error) {
	if !req.Stream {
		return next(req) // there is nothing to forward
	}
	text := &cutter{longest: s.longest}
	stream := next.Stream(req)
	for batch := range stream.Batches() {
		var out []abi.Chunk
		for _, c := range batch {
			switch c.Kind {
			case abi.ChunkText:
				out = append(out, chunks(text.add(c.Text)...)...)
			case abi.ChunkReasoning:
				out = append(out, c)
			default:
				out = append(append(out, chunks(text.rest()...)...), c)
			}
		}
		if err := ctx.Send(out...); err != nil {
			return nil, err
		}
	}
	// Even if the model failed, forward the text that preceded the failure.
	failed := stream.End()
	if err := ctx.Send(chunks(text.rest()...)...); err != nil {
		return nil, err
	}
	return nil, failed
}

func chunks(texts ...string) []abi.Chunk {
	out := make([]abi.Chunk, len(texts))
	for i, t := range texts {
		out[i] = abi.Chunk{Kind: abi.ChunkText, Text: t}
	}
	return out
}
