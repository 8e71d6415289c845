package sandbox

import (
	"context"
	"sync"
	"sync/atomic"
)

// A callContext is what the imports of a call work under: the caller's context, which
// also ends when the instance is closed, and when the call is over. Most calls are
// over before anybody has waited for that, so what can be waited for is made when
// somebody does.
type callContext struct {
	context.Context // the caller's
	in              *Instance

	mu   sync.Mutex
	own  atomic.Pointer[endable] // made under mu; nil until it is needed
	over atomic.Bool             // the call is; set under mu
}

// An endable is a context with what ends it.
type endable struct {
	context.Context
	end context.CancelCauseFunc
}

// needed is the context that can be waited for.
func (c *callContext) needed() *endable {
	if own := c.own.Load(); own != nil {
		return own
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if own := c.own.Load(); own != nil {
		return own
	}
	own := &endable{}
	own.Context, own.end = context.WithCancelCause(c.Context)
	if c.over.Load() {
		own.end(nil)
	}
	c.own.Store(own)
	return own
}

// finish says that the call is over.
func (c *callContext) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over.Store(true)
	if own := c.own.Load(); own != nil {
		own.end(nil)
	}
}

// Done is closed when the context ends.
func (c *callContext) Done() <-chan struct{} { return c.needed().Done() }

// Err says whether the context has ended.
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

// Value finds the instance, and whatever the caller's context has. The causes of ends
// are found by it, too.
func (c *callContext) Value(key any) any {
	if key == (instanceKey{}) {
		return c.in
	}
	if own := c.own.Load(); own != nil {
		return own.Value(key)
	}
	return c.Context.Value(key)
}

// An inContext is what wazero is called under. It looks for values with each call,
// and hands the context on to imports, which find the instance in it; there is nothing
// else in it.
type inContext struct {
	context.Context
	in *Instance
}

// Value finds the instance.
func (c *inContext) Value(key any) any {
	if key == (instanceKey{}) {
		return c.in
	}
	return nil
}
