package sandbox

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Reserve waits until that much of Options.MemoryBytes is free and takes it.
// Whoever starts work reserves the most that it can come to use (the sum of
// [Image.WorstCase] of all instances it may hold at once) before it makes any,
// so that nobody waits for memory while he holds some. Those who wait are served
// in their order, so that large reservations do not starve.
//
// The error is a *TooLargeError at once if it can never be had, ctx's cause, or
// ErrClosed. The caller calls release when the work is done; twice is once.
func (s *Sandbox) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	return s.admission.reserve(ctx, max(0, bytes))
}

// TooLargeError says that more memory was to be reserved than there is in all.
type TooLargeError struct {
	Bytes, All int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("needs up to %s of memory for its modules, of %s in all; lower the memory limits of its modules, or how many calls run at once",
		bytesText(e.Bytes), bytesText(e.All))
}

// WorstCase is the most memory in bytes that one instance can come to hold:
// linear memory, stack, and what belongs to it.
func (im *Image) WorstCase() int64 {
	const rest = 1 << 20 // tables within their limit, and wazero's own bookkeeping
	_, memory := im.Memory()
	return memory + 2*im.limits.StackBytes + rest // a stack grows by doubling
}

// admission gives out memory in the order in which it was asked for.
type admission struct {
	mu      sync.Mutex
	all     int64
	free    int64      // guarded by mu
	waiting []*waiting // guarded by mu
	closed  bool       // guarded by mu
}

// waiting is one who waits. Its channel is closed when it was served, or when
// the sandbox is closed.
type waiting struct {
	bytes  int64
	served bool // guarded by admission.mu
	done   chan struct{}
}

func (a *admission) reserve(ctx context.Context, bytes int64) (func(), error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		return nil, ErrClosed
	case bytes > a.all:
		a.mu.Unlock()
		return nil, &TooLargeError{Bytes: bytes, All: a.all}
	}
	w := &waiting{bytes: bytes, done: make(chan struct{})}
	a.waiting = append(a.waiting, w)
	a.serve()
	a.mu.Unlock()

	select {
	case <-w.done:
	case <-ctx.Done():
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case w.served:
		return sync.OnceFunc(func() { a.give(bytes) }), nil
	case a.closed:
		return nil, ErrClosed
	default:
		a.waiting = slices.DeleteFunc(a.waiting, func(o *waiting) bool { return o == w })
		a.serve() // those behind may have waited for this one only
		return nil, context.Cause(ctx)
	}
}

// serve gives to those who wait, the first first. The caller holds mu.
func (a *admission) serve() {
	for len(a.waiting) > 0 && a.waiting[0].bytes <= a.free {
		w := a.waiting[0]
		a.waiting = a.waiting[1:]
		a.free -= w.bytes
		w.served = true
		close(w.done)
	}
}

func (a *admission) give(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free += bytes
	if !a.closed {
		a.serve()
	}
}

// close sends away those who wait.
func (a *admission) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, w := range a.waiting {
		close(w.done)
	}
	a.waiting = nil
}
