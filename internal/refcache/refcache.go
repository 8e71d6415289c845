// Package refcache caches values that are costly to make and must be closed, such as compiled
// modules. Its design follows Caddy's usage pool.
//
// The cache loads a value once per key, even if several callers request the key concurrently,
// and counts references to the value. It closes a value once, and never while references exist.
// The package imports no other package of this project.
package refcache

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// Options configure a [Cache].
type Options[V any] struct {
	// Close, if not nil, is called with each value that leaves the cache.
	Close func(V)
	// KeepIdle keeps values without references until [Cache.Evict] closes them. Otherwise
	// releasing the last reference closes a value.
	KeepIdle bool
	// Retry reports whether a caller that waited for the failed load of another caller tries
	// again. If Retry is nil, all callers fail with the error of the load.
	Retry func(error) bool
	// Now is the clock. The default is [time.Now].
	Now func() time.Time
}

// errAbandoned is the cause with which the context of a load is canceled when no caller waits for the load.
var errAbandoned = errors.New("refcache: all callers have left")

// A Cache holds values by key. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	options Options[V]

	mu      sync.Mutex
	entries map[K]*entry[K, V]
}

// An entry is a cached value, or a value that is being loaded.
type entry[K comparable, V any] struct {
	key    K
	loaded chan struct{} // closed when value or err is set
	cancel context.CancelCauseFunc
	value  V
	err    error

	// These are guarded by the cache's mu.
	refs  int
	ready bool      // value is set
	idle  time.Time // when the last reference was released
}

// New returns an empty cache.
func New[K comparable, V any](o Options[V]) *Cache[K, V] {
	if o.Close == nil {
		o.Close = func(V) {}
	}
	if o.Retry == nil {
		o.Retry = func(error) bool { return false }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Cache[K, V]{options: o, entries: map[K]*entry[K, V]{}}
}

// A Ref is a reference to a cached value.
type Ref[K comparable, V any] struct {
	Value V

	cache *Cache[K, V]
	entry *entry[K, V]
	once  sync.Once
}

// Acquire returns a reference to the value of a key. If the key has no value, Acquire calls load with a context that
// has the values of ctx, but not its deadline or cancellation. That context is canceled when the contexts of all
// callers that wait for the load are done. Acquire fails with load's error unless Options.Retry makes it try again,
// with a [*PanicError] if load panics, or with the cause of ctx if ctx is done first.
func (c *Cache[K, V]) Acquire(ctx context.Context, key K, load func(context.Context) (V, error)) (*Ref[K, V], error) {
	for {
		e, own := c.reference(ctx, key, load)
		select {
		case <-e.loaded:
		case <-ctx.Done():
			c.release(e)
			return nil, context.Cause(ctx)
		}
		if e.err == nil {
			return &Ref[K, V]{Value: e.value, cache: c, entry: e}, nil
		}
		if own || !c.options.Retry(e.err) {
			return nil, e.err
		}
	}
}

// reference adds a reference to the entry of a key. Without an entry, it adds one, starts the
// load, and returns true for own.
func (c *Cache[K, V]) reference(
	ctx context.Context,
	key K,
	load func(context.Context) (V, error),
) (e *entry[K, V], own bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e = c.entries[key]
	if own = e == nil; own {
		e = &entry[K, V]{key: key, loaded: make(chan struct{})}
		c.entries[key] = e
		ctx, e.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
		go func() {
			defer e.cancel(nil)
			value, err := protect(ctx, load)
			c.finish(e, value, err)
		}()
	}
	e.refs++
	return e, own
}

// A PanicError reports that a load panicked.
type PanicError struct {
	Value any    // of the panic
	Stack []byte // of the goroutine that panicked
}

// Error returns the value of the panic, without its stack.
func (e *PanicError) Error() string { return fmt.Sprintf("refcache: load panicked: %v", e.Value) }

// protect calls load and returns a panic as a [*PanicError]. Callers cannot recover the panic
// themselves, because they wait in other goroutines.
func protect[V any](ctx context.Context, load func(context.Context) (V, error)) (value V, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return load(ctx)
}

// finish records the result of a load and wakes its waiters. It removes the entry if the load failed, and closes a
// value that no caller waits for.
func (c *Cache[K, V]) finish(e *entry[K, V], value V, err error) {
	c.mu.Lock()
	e.value, e.err, e.ready = value, err, err == nil
	if err != nil {
		c.remove(e)
	}
	unused := e.refs == 0 && c.unused(e)
	c.mu.Unlock()
	close(e.loaded)
	if unused {
		c.options.Close(value)
	}
}

// release drops a reference.
func (c *Cache[K, V]) release(e *entry[K, V]) {
	c.mu.Lock()
	e.refs--
	abandoned := e.refs == 0 && !e.ready
	if abandoned {
		c.remove(e) // the next caller starts a load of its own
	}
	unused := e.refs == 0 && c.unused(e)
	c.mu.Unlock()
	if abandoned {
		e.cancel(errAbandoned)
	}
	if unused {
		c.options.Close(e.value)
	}
}

// unused handles an entry whose last reference has been released. If the entry has a value, unused
// either removes the entry or records that it is idle. It reports whether the caller must close the
// value. The caller holds mu.
func (c *Cache[K, V]) unused(e *entry[K, V]) bool {
	if !e.ready {
		return false
	}
	if c.options.KeepIdle && c.entries[e.key] == e {
		e.idle = c.options.Now()
		return false
	}
	c.remove(e)
	return true
}

// remove removes an entry. The caller holds mu.
func (c *Cache[K, V]) remove(e *entry[K, V]) {
	if c.entries[e.key] == e {
		delete(c.entries, e.key)
	}
}

// Release drops the reference. Only the first call has an effect.
func (r *Ref[K, V]) Release() { r.once.Do(func() { r.cache.release(r.entry) }) }

// Retain returns another reference to the value. The caller releases it separately, before or after
// r. The caller must not have released r yet.
func (r *Ref[K, V]) Retain() *Ref[K, V] {
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	r.entry.refs++
	return &Ref[K, V]{Value: r.Value, cache: r.cache, entry: r.entry}
}

// An Idle is a value without references.
type Idle[K comparable, V any] struct {
	Key   K
	Value V
	Since time.Time
}

// Evict closes the idle values that choose returns, and returns their number. choose receives
// all idle values, the least recently used first. It must not call methods of the cache.
func (c *Cache[K, V]) Evict(choose func(idle []Idle[K, V]) []Idle[K, V]) int {
	c.mu.Lock()
	var idle []Idle[K, V]
	for _, e := range c.entries {
		if e.refs == 0 && e.ready {
			idle = append(idle, Idle[K, V]{e.key, e.value, e.idle})
		}
	}
	slices.SortFunc(idle, func(a, b Idle[K, V]) int { return a.Since.Compare(b.Since) })
	chosen := choose(idle)
	for _, i := range chosen {
		delete(c.entries, i.Key)
	}
	c.mu.Unlock()
	for _, i := range chosen {
		c.options.Close(i.Value)
	}
	return len(chosen)
}

// EvictAll closes all idle values, and returns their number.
func (c *Cache[K, V]) EvictAll() int {
	return c.Evict(func(idle []Idle[K, V]) []Idle[K, V] { return idle })
}

// Refs returns the number of references to the value of a key, including those of callers that
// wait for the value.
func (c *Cache[K, V]) Refs(key K) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		return e.refs
	}
	return 0
}

// Keys returns the keys of all values, including those that are being loaded, in no particular
// order.
func (c *Cache[K, V]) Keys() []K {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]K, 0, len(c.entries))
	for key := range c.entries {
		keys = append(keys, key)
	}
	return keys
}
