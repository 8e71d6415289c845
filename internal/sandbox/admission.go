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
// in their order, so that large reservations do not starve; but of those with
// names, see [Sharing], nobody has more than what is left to all others.
//
// The error is a *TooLargeError at once if it can never be had, a *NoRoomError
// at once if ctx is of work that holds memory already and it cannot be had now,
// ctx's cause, or ErrClosed. The caller calls release when the work is done;
// twice is once.
func (s *Sandbox) Reserve(ctx context.Context, bytes int64) (release func(), err error) {
	_, release, err = s.ReserveOneOf(ctx, []int64{bytes})
	return release, err
}

// ReserveOneOf is Reserve for work that can make do with less: sizes ascend, and
// it waits for the first of them. It takes the largest that leaves as much as it
// takes to others, and tells which.
func (s *Sandbox) ReserveOneOf(ctx context.Context, sizes []int64) (n int, release func(), err error) {
	return s.admission.reserve(ctx, sizes)
}

// Holding marks ctx as that of work that holds a reservation. A reservation that
// is asked for within it does not wait: what holds memory would wait for those
// who wait for it.
func Holding(ctx context.Context) context.Context { return context.WithValue(ctx, holdingKey{}, true) }

type holdingKey struct{}

// holds reports whether ctx is of work that holds memory: a reservation, or the
// frame of a guest whose import runs.
func holds(ctx context.Context) bool {
	return ctx.Value(holdingKey{}) != nil || ctx.Value(instanceKey{}) != nil
}

// TooLargeError says that more memory was to be reserved than there is in all.
type TooLargeError struct {
	Bytes, All int64
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("needs up to %s of memory for its modules, of %s that the host may use; lower the memory limits of its modules, or let the host use more",
		bytesText(e.Bytes), bytesText(e.All))
}

// NoRoomError says that there was not enough memory free for work within other
// work, which cannot wait for it.
type NoRoomError struct {
	Bytes, Free, All int64
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("needs up to %s of memory for its modules; %s of the %s that the host may use is free, and what runs within another run cannot wait for more",
		bytesText(e.Bytes), bytesText(e.Free), bytesText(e.All))
}

// Retryable says that another try may succeed.
func (*NoRoomError) Retryable() bool { return true }

// ImageRoomError says that there was no memory for another image: those of all
// modules together have as much as they may.
type ImageRoomError struct {
	Bytes, All int64
}

func (e *ImageRoomError) Error() string {
	return fmt.Sprintf("what its instances begin with takes %s, for which there is no room beside other images in the %s that all may have, of which nobody has more than is left to others; close agents and modules that nobody uses, or let this one begin with less",
		bytesText(e.Bytes), bytesText(e.All))
}

// Retryable says that another try may succeed.
func (*ImageRoomError) Retryable() bool { return true }

// otherMachine is what a machine has that does not tell.
const otherMachine = 4 << 30

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
	free    int64            // guarded by mu
	held    map[string]int64 // by sharers with names; guarded by mu
	waiting []*waiting       // guarded by mu
	closed  bool             // guarded by mu
}

// waiting is one who waits. Its channel is closed when it was served, or when
// the sandbox is closed.
type waiting struct {
	sizes  []int64
	name   string // whose it is; may be empty
	inner  bool   // it is within work that holds memory already, so it must not wait for a share
	served bool   // guarded by admission.mu
	n      int    // which of the sizes it was given; guarded by admission.mu
	done   chan struct{}
}

func (a *admission) reserve(ctx context.Context, sizes []int64) (int, func(), error) {
	if ctx.Err() != nil {
		return 0, nil, context.Cause(ctx)
	}
	least := sizes[0]
	a.mu.Lock()
	switch {
	case a.closed:
		a.mu.Unlock()
		return 0, nil, ErrClosed
	case least > a.all:
		a.mu.Unlock()
		return 0, nil, &TooLargeError{Bytes: least, All: a.all}
	case holds(ctx) && (a.queue() || least > a.free):
		defer a.mu.Unlock()
		return 0, nil, &NoRoomError{Bytes: least, Free: a.free, All: a.all}
	}
	w := &waiting{sizes: sizes, inner: holds(ctx), done: make(chan struct{})}
	if s := sharerOf(ctx); s != nil {
		w.name = s.Name
	}
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
		return w.n, sync.OnceFunc(func() { a.give(w.name, sizes[w.n]) }), nil
	case a.closed:
		return 0, nil, ErrClosed
	default:
		a.waiting = slices.DeleteFunc(a.waiting, func(o *waiting) bool { return o == w })
		a.serve() // those behind may have waited for this one only
		return 0, nil, context.Cause(ctx)
	}
}

// serve gives to those who wait, the first first, but for those who have their share:
// they keep nobody else waiting. The caller holds mu.
func (a *admission) serve() {
	for i := 0; i < len(a.waiting); {
		w := a.waiting[i]
		if !w.inner && !a.within(w.name, w.sizes[0]) {
			i++
			continue
		}
		if w.sizes[0] > a.free {
			return
		}
		a.waiting = slices.Delete(a.waiting, i, i+1)
		for w.n+1 < len(w.sizes) && w.sizes[w.n+1] <= a.free/2 && a.within(w.name, w.sizes[w.n+1]) {
			w.n++
		}
		a.take(w.name, w.sizes[w.n])
		w.served = true
		close(w.done)
	}
}

// queue reports whether somebody waits for memory, and not for a share. The caller
// holds mu.
func (a *admission) queue() bool {
	return slices.ContainsFunc(a.waiting, func(w *waiting) bool { return a.within(w.name, w.sizes[0]) })
}

// within reports whether a sharer that takes so much more has no more than it leaves to
// all others. So there is always something left: the first has half at most, a second
// one half of the rest. Who has nothing yet may have what there is.
func (a *admission) within(name string, bytes int64) bool {
	held := a.held[name]
	return name == "" || held == 0 || held+bytes <= a.free-bytes
}

func (a *admission) take(name string, bytes int64) {
	a.free -= bytes
	if name == "" {
		return
	}
	if a.held == nil {
		a.held = map[string]int64{}
	}
	a.held[name] += bytes
}

// try takes so much at once, or not at all.
func (a *admission) try(name string, bytes int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if bytes > a.free || !a.within(name, bytes) {
		return false
	}
	a.take(name, bytes)
	return true
}

func (a *admission) give(name string, bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.free += bytes
	if name != "" {
		if a.held[name] -= bytes; a.held[name] <= 0 {
			delete(a.held, name)
		}
	}
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
