package model

import (
	"context"
	"errors"

	"github.com/agent-runner/agent-runner/abi"
)

// A delivery is one answer on its way to a sink, over several attempts.
type delivery struct {
	sink  func(abi.Chunk) error
	begun bool // something of it reached the sink
}

// generate makes one attempt. It returns an error as *Error only if another
// attempt may make up for it: not if the context ended, the sink refused, or
// a part of the answer is out and cannot be taken back.
func (d *delivery) generate(ctx context.Context, m Model, req *Request) (*abi.Response, *Error, error) {
	var sinkErr error
	var sink func(abi.Chunk) error
	if d.sink != nil {
		sink = func(c abi.Chunk) error {
			d.begun = d.begun || says(c)
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

// says reports whether somebody who gets the chunk has got some of the answer.
func says(c abi.Chunk) bool {
	return c.Text != "" || c.Kind == abi.ChunkToolCall || c.Kind == abi.ChunkPart
}
