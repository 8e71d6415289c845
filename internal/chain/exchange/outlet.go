package exchange

import (
	"context"
	"errors"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
)

// An outlet receives the chunks of a reply on their way from the inside out. It is a ring's stream,
// a wrapper that passes on or reads the chunks, or the caller. A nil outlet means that chunks are
// not needed before the answer is complete.
type outlet interface {
	// push passes chunks on, and returns when the outlet can take more. final marks the last chunks
	// of a message. The error is an *ending.HookError that fails the call, or ends or pauses the
	// run.
	push(ctx context.Context, chunks []abi.Chunk, final bool) error
	// pushes returns the number of pushes since the start or the last successful restart.
	pushes() int
	// restart discards the chunks so far, for another attempt. It returns false if a part of them
	// may have been seen.
	restart() bool
}

// A caller is the outlet of the outermost ring.
type caller struct {
	sink      pipe.Sink
	delivered func() bool
	n         int
}

func (c *caller) push(ctx context.Context, chunks []abi.Chunk, final bool) error {
	c.n++
	return c.sink(ctx, chunks, final)
}

func (c *caller) pushes() int { return c.n }

// restart returns true if the caller has received no content.
func (c *caller) restart() bool {
	if c.delivered() {
		return false
	}
	c.n = 0
	return true
}

// outletOf returns the caller's outlet, or nil if there is no sink.
func outletOf(sink pipe.Sink, delivered func() bool) outlet {
	if sink == nil {
		return nil
	}
	return &caller{sink: sink, delivered: delivered}
}

// sinkOf returns a sink that pushes to out, or nil if out is nil.
func sinkOf(out outlet) pipe.Sink {
	if out == nil {
		return nil
	}
	return out.push
}

// A passage is the outlet of a call that a wrapper makes with next. The chunks bypass the wrapper.
// A passage never marks chunks as the last ones of the message, since the wrapper may send more.
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

// restart discards the chunks of the wrapper's last attempt. It returns false if a part of them may
// have been seen, or if the wrapper itself has sent chunks, since restart would discard those too.
func (p *passage) restart() bool {
	if p.n == 0 {
		return true
	}
	if p.to.pushes() != p.n || !p.to.restart() {
		return false
	}
	p.n = 0
	return true
}

// A tap is the outlet of a call whose chunks a wrapper reads.
type tap struct {
	feed *pipe.Pipe
	n    int
}

// push writes chunks to the pipe, and waits while the pipe is full. It ignores final, because the
// message ends when the wrapped call returns.
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

func (t *tap) restart() bool { return t.n == 0 }

// FailedBy returns the reply of a call that failed with err. It reports false if err does not wrap
// an [*ending.HookError].
func FailedBy[R any](err error) (Reply[R], bool) {
	failed, ok := errors.AsType[*ending.HookError](err)
	if !ok {
		return Reply[R]{}, false
	}
	return Reply[R]{Err: failed.Err, Source: failed.Entry}, true
}
