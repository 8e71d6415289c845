package exchange

import (
	"context"
	"errors"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
)

// An outlet takes chunks on their way outward: the on_chunk hooks of a ring, a wrapper
// that passes or reads them, or the caller. It is nil if chunks are not needed before the
// answer is complete.
type outlet interface {
	// push passes chunks on and returns once the outlet can take more. final marks the last chunks of a
	// message. The error is an *ending.HookError that fails the call, or ends or pauses the run.
	push(ctx context.Context, chunks []abi.Chunk, final bool) error
	// pushes returns the number of pushes since the start or the last successful restart.
	pushes() int
	// restart discards what was pushed, for another attempt. It returns false if a part may
	// already have been seen.
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

// restart succeeds if the caller has received no content.
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

// sinkOf returns an outlet as a sink.
func sinkOf(out outlet) pipe.Sink {
	if out == nil {
		return nil
	}
	return out.push
}

// A passage is the outlet of a call that a wrapper makes with next: the chunks bypass the wrapper.
// It never pushes the end of the message, since the wrapper may still send more.
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

// restart prepares the wrapper's next attempt: it discards the chunks of the last one. It returns
// false if a part of them may already have been seen, or if the wrapper itself has sent chunks too,
// since those would be discarded as well.
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

// push writes chunks to the pipe and waits while it is full. The end of the message follows when the
// wrapped call returns.
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

// FailedBy returns the reply of a call that failed with err. The bool is false unless err wraps an
// [*ending.HookError].
func FailedBy[R any](err error) (Reply[R], bool) {
	failed, ok := errors.AsType[*ending.HookError](err)
	if !ok {
		return Reply[R]{}, false
	}
	return Reply[R]{Err: failed.Err, Source: failed.Entry}, true
}
