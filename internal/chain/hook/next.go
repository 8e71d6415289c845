package hook

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Next makes the call that the hook wraps, with a patch of the request. In wrap_model it takes an
// *abi.RequestPatch and returns an *abi.Response; in wrap_tool_call it takes an *abi.CallPatch and
// returns an *abi.Result. It fails in other hooks. One hook call can call Next and NextStream 64
// times together.
func (c *Control) Next(ctx context.Context, patch any) (any, error) {
	if c.next == nil {
		return nil, denied("next is for wrap_model and wrap_tool_call, not for %s", c.Hook)
	}
	if err := c.call().countNext(); err != nil {
		return nil, err
	}
	var reply any
	err := c.call().waitFor(func() (err error) {
		reply, err = c.next(ctx, patch)
		return err
	})
	return reply, err
}

// NextStream is like Next, but does not wait for the answer: Recv reads the answer as it arrives.
// One stream is open at a time. Next, another NextStream and the end of the hook close it, which
// cancels the wrapped call and waits for it to return.
func (c *Control) NextStream(ctx context.Context, patch any) error {
	if c.open == nil {
		return denied("next_stream is for wrap_model and wrap_tool_call, not for %s", c.Hook)
	}
	if err := c.call().countNext(); err != nil {
		return err
	}
	return c.call().waitFor(func() error { return c.open(ctx, patch) })
}

// Recv waits for chunks of the stream that NextStream opened, and returns those available, up to
// the given number of bytes but at least one chunk. At the end it returns the end of the stream
// once, or the error of the wrapped call, and then an empty value.
func (c *Control) Recv(ctx context.Context, limit int) (contract.Received, error) {
	if c.recv == nil {
		return contract.Received{}, denied("recv is for wrap_model and wrap_tool_call, not for %s", c.Hook)
	}
	var got contract.Received
	err := c.call().waitFor(func() (err error) {
		got, err = c.recv(ctx, limit)
		return err
	})
	return got, err
}

// Send sends chunks outward, through the wrappers and on_chunk hooks further out, and returns once the
// receiver can take more. If the hook returns no answer, the chunks are the answer. If the call is not
// streamed, they only become the answer.
//
// Send fails with an [*abi.Error]: [abi.CodeDenied] in a hook that cannot send, [abi.CodeInvalid]
// for malformed chunks, [abi.CodeLimit] beyond the limits of a hook call or of the run's memory, or
// the error of an on_chunk hook that rejected the chunks. Any other error ends the run.
func (c *Call) Send(ctx context.Context, chunks ...abi.Chunk) error {
	if c.sender == nil {
		return denied("send is for wrap_model, wrap_tool_call and call_tool, not for %s", c.Hook)
	}
	return c.waitFor(func() error { return c.sender(ctx, chunks) })
}

// countNext counts a call of next or next_stream. It fails if there are too many, or if the run's
// memory is full.
func (c *Call) countNext() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.run.mayHold("next"); err != nil {
		return err
	}
	if c.nexts++; c.nexts > maxNext {
		return &abi.Error{
			Code:    abi.CodeLimit,
			Message: fmt.Sprintf("next and next_stream may be called %d times in a hook", maxNext),
		}
	}
	return nil
}

// NextModel makes the call that a wrap_model hook wraps, with a patch of its request. A hook may
// call NextModel and StreamModel up to 64 times together.
func (c *Call) NextModel(ctx context.Context, patch abi.RequestPatch) (*abi.Response, error) {
	reply, err := ControlOf(c).Next(ctx, &patch)
	res, _ := reply.(*abi.Response)
	return res, err
}

// NextTool makes the call that a wrap_tool_call hook wraps, with a patch of its arguments. A hook
// may call NextTool and StreamTool up to 64 times together.
func (c *Call) NextTool(ctx context.Context, patch abi.CallPatch) (*abi.Result, error) {
	reply, err := ControlOf(c).Next(ctx, &patch)
	res, _ := reply.(*abi.Result)
	return res, err
}
