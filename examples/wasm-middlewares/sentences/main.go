// Command sentences is a middleware that hands the model's text on sentence by
// sentence: for a voice that reads it out, or a reader who is not to see words
// come and go.
package main

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

func init() {
	middleware.Register(middleware.Options{
		Name:        "sentences",
		Version:     "1.0.0",
		Description: "Hands the model's text on sentence by sentence.",
	}, newSentences())
}

func main() {}

func newSentences() *sentences { return &sentences{Longest: 400} }

type sentences struct {
	Longest int `json:"longest" doc:"how many characters are held at most; what is longer is cut between words"`
}

// Configure checks the length.
func (s *sentences) Configure(*middleware.Context) error {
	if s.Longest < 1 {
		return &abi.Error{Code: abi.CodeInvalid, Message: middleware.Sprintf("config: longest: %d is below 1", s.Longest)}
	}
	return nil
}

// WrapModel reads the answer as it comes. What is no text goes on as it is,
// behind the text that came before it.
func (s *sentences) WrapModel(ctx *middleware.Context, req *middleware.Request, next middleware.NextModel) (*abi.Response, error) {
	if !req.Stream {
		return next(req) // there is nobody who could hear it in pieces
	}
	text := &cutter{longest: s.Longest}
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
	// What was said before the model broke off is said.
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
