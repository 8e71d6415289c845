package model

import (
	"context"
	"errors"

	"github.com/agent-runner/agent-runner/abi"
)

// A delivery forwards one answer to a sink, over several attempts.
type delivery struct {
	sink  func(abi.Chunk) error
	begun bool // a part of the answer reached the sink
}

// generate makes one attempt. The error is an *Error only if another attempt may follow. No attempt
// may follow if the context is done, the sink failed, or a part of the answer was delivered.
func (d *delivery) generate(ctx context.Context, m Model, req *Request) (*abi.Response, *Error, error) {
	var sinkErr error
	var sink func(abi.Chunk) error
	if d.sink != nil {
		sink = func(c abi.Chunk) error {
			d.begun = d.begun || hasContent(c)
			sinkErr = d.sink(c)
			return sinkErr
		}
	}
	res, err := m.Generate(ctx, req, sink)
	var e *Error
	switch {
	case err == nil:
		return res, nil, nil
	case sinkErr == nil && ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case sinkErr != nil || d.begun || !errors.As(err, &e):
		return nil, nil, err
	}
	return nil, e, err
}

// hasContent reports whether a chunk contains a part of the answer.
func hasContent(c abi.Chunk) bool {
	return c.Text != "" || c.Kind == abi.ChunkToolCall || c.Kind == abi.ChunkPart
}
