package sandbox

import (
	"context"
	"sync"
	"sync/atomic"
)

// A callContext is the context that the imports of a call get. It has the values of the caller's
// context. It is canceled when the caller's context is, when the instance is closed and when the
// call is over. Most calls are over before anything waits on the context, so the cancelable context
// is made on demand.
type callContext struct {
	context.Context // the caller's context
	in              *Instance

	mu   sync.Mutex
	own  atomic.Pointer[cancelableContext] // made under mu; nil until it is needed
	over atomic.Bool                       // whether the call is over; set under mu
}

// A cancelableContext is a context and the function that cancels it.
type cancelableContext struct {
	context.Context
	cancel context.CancelCauseFunc
}

// cancelable returns the cancelable context, which it makes on the first call.
func (c *callContext) cancelable() *cancelableContext {
	if own := c.own.Load(); own != nil {
		return own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if own := c.own.Load(); own != nil {
		return own
	}
	own := &cancelableContext{}
	own.Context, own.cancel = context.WithCancelCause(c.Context)
	if c.over.Load() {
		own.cancel(nil)
	}
	c.own.Store(own)
	return own
}

// finish cancels the context, because the call is over.
func (c *callContext) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over.Store(true)
	if own := c.own.Load(); own != nil {
		own.cancel(nil)
	}
}

// Done returns a channel that is closed when the context is done.
func (c *callContext) Done() <-chan struct{} { return c.cancelable().Done() }

// Err returns nil until the context is done, and then the reason, as [context.Context] describes.
func (c *callContext) Err() error {
	if own := c.own.Load(); own != nil {
		return own.Err()
	}
	if err := c.Context.Err(); err != nil {
		return err
	}
	if c.over.Load() {
		return context.Canceled
	}
	return nil
}

// Value returns the instance for instanceKey, and the values of the caller's context.
// [context.Cause] uses it too.
func (c *callContext) Value(key any) any {
	if key == (instanceKey{}) {
		return c.in
	}
	if own := c.own.Load(); own != nil {
		return own.Value(key)
	}
	return c.Context.Value(key)
}

// A wazeroContext is the context that wazero gets. wazero looks up values for each call, and
// passes the context to host functions, which find the instance in it. It has no other
// values.
type wazeroContext struct {
	context.Context
	in *Instance
}

// Value returns the instance for instanceKey.
func (c *wazeroContext) Value(key any) any {
	if key == (instanceKey{}) {
		return c.in
	}
	return nil
}
