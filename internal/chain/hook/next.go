package hook

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Next makes the wrapped call with a patch of the request. In wrap_model, patch is an
// *abi.RequestPatch and the reply an *abi.Response. In wrap_tool_call, patch is an *abi.CallPatch
// and the reply an *abi.Result. In other hooks, Next returns an error. One hook call can call Next
// and NextStream 64 times together.
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
// Only one stream is open at a time. Another call of Next or NextStream and the end of the hook
// close the stream: they cancel the wrapped call and wait until it has returned.
func (c *Control) NextStream(ctx context.Context, patch any) error {
	if c.open == nil {
		return denied("next_stream is for wrap_model and wrap_tool_call, not for %s", c.Hook)
	}
	if err := c.call().countNext(); err != nil {
		return err
	}
	return c.call().waitFor(func() error { return c.open(ctx, patch) })
}

// Recv waits for chunks of the stream that NextStream opened, and returns the available ones: at
// most limit bytes, but at least one chunk. After the last chunk, it returns the end of the stream
// once, or the error of the wrapped call. Further calls return an empty value.
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

// Send sends chunks outward through the wrappers and on_chunk hooks further out. It returns when
// the receiver can take more. If the call is not streamed, Send only collects the chunks. If the
// hook returns no answer, the chunks are its answer.
//
// The error is an [*abi.Error] with the code [abi.CodeDenied] in a hook that cannot send,
// [abi.CodeInvalid] for malformed chunks, or [abi.CodeLimit] beyond the limits of a hook call or of
// the run's memory. If an on_chunk hook rejected the chunks, it is that hook's error. Any other
// error ends or pauses the run.
func (c *Call) Send(ctx context.Context, chunks ...abi.Chunk) error {
	if c.sender == nil {
		return denied("send is for wrap_model, wrap_tool_call and call_tool, not for %s", c.Hook)
	}
	return c.waitFor(func() error { return c.sender(ctx, chunks) })
}

// countNext counts a call of next or next_stream. It returns an error if there are too many, or if
// the run's memory is full.
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

// NextModel makes the call that a wrap_model hook wraps, with a patch of the request. One hook call
// can call NextModel and StreamModel 64 times together.
func (c *Call) NextModel(ctx context.Context, patch abi.RequestPatch) (*abi.Response, error) {
	reply, err := ControlOf(c).Next(ctx, &patch)
	res, _ := reply.(*abi.Response)
	return res, err
}

// NextTool makes the call that a wrap_tool_call hook wraps, with a patch of the arguments. One hook
// call can call NextTool and StreamTool 64 times together.
func (c *Call) NextTool(ctx context.Context, patch abi.CallPatch) (*abi.Result, error) {
	reply, err := ControlOf(c).Next(ctx, &patch)
	res, _ := reply.(*abi.Result)
	return res, err
}
