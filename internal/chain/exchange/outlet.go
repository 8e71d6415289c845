package exchange

import (
	"context"
	"errors"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/chunk"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// An outlet is where a part of the chain hands chunks outward as they come:
// the on_chunk hooks of a ring, a wrapper that lets them pass or reads them,
// the caller. nil: nobody takes them before the answer is there.
type outlet interface {
	// push hands chunks on and returns once there is room for more. final marks
	// the last of a message. The error is an ending, or a *Failed by which the
	// call fails.
	push(ctx context.Context, chunks []abi.Chunk, final bool) error
	// pushes is how often that was done since the beginning, or the last anew.
	pushes() int
	// anew forgets what was handed on, for another attempt; false if somebody
	// may have seen it.
	anew() bool
}

// A caller is the outlet of the outermost ring.
type caller struct {
	sink      chunk.Sink
	delivered func() bool
	n         int
}

func (c *caller) push(ctx context.Context, chunks []abi.Chunk, final bool) error {
	c.n++
	return c.sink(ctx, chunks, final)
}

func (c *caller) pushes() int { return c.n }

func (c *caller) anew() bool {
	if c.delivered() {
		return false
	}
	c.n = 0
	return true
}

// outletOf is the caller's outlet, nil if there is no sink.
func outletOf(sink chunk.Sink, delivered func() bool) outlet {
	if sink == nil {
		return nil
	}
	return &caller{sink: sink, delivered: delivered}
}

// sinkOf is an outlet as a sink.
func sinkOf(out outlet) chunk.Sink {
	if out == nil {
		return nil
	}
	return out.push
}

// A passage is the outlet of what a wrapper calls with next: the chunks pass
// it by. The message has come to its end when the wrapper has, which may send
// more.
type passage struct {
	to outlet
	n  int
}

func (p *passage) push(ctx context.Context, chunks []abi.Chunk, _ bool) error {
	if len(chunks) == 0 {
		return nil
	}
	p.n++
	return p.to.push(ctx, chunks, false)
}

func (p *passage) pushes() int { return p.n }

// anew is for the next attempt of the wrapper, whose own chunks are not
// forgotten with those of the attempt.
func (p *passage) anew() bool {
	if p.n == 0 {
		return true
	}
	if p.to.pushes() != p.n || !p.to.anew() {
		return false
	}
	p.n = 0
	return true
}

// A tap is the outlet of what a wrapper reads.
type tap struct {
	feed *chunk.Pipe
	n    int
}

func (t *tap) push(ctx context.Context, chunks []abi.Chunk, _ bool) error {
	if len(chunks) == 0 {
		return nil
	}
	t.n++
	if err := t.feed.Put(ctx, chunks...); err != nil {
		return &ending.AbortedError{Cause: err}
	}
	return nil
}

func (t *tap) pushes() int { return t.n }

func (t *tap) anew() bool { return t.n == 0 }

// failedBy returns the failure by which a call fails, if err is one.
func FailedBy[R any](err error) (Reply[R], bool) {
	failed, ok := errors.AsType[*ending.HookError](err)
	if !ok {
		return Reply[R]{}, false
	}
	return Reply[R]{Err: failed.Err, Source: failed.Entry}, true
}
