// Package hook calls single hooks of middlewares.
//
// A [Run] is the state that the hook calls of an agent's run share. A [Member] is an entry in that
// run. A [Call] is one hook call, with the requests that a middleware can make to the host while
// its hook runs. [Control] is the host's side of the same call. Calling a hook records its answer,
// or replays the recorded one. It counts faults in the entry's circuit breaker, reports to the
// tracer, and persists the hook's writes together with its answer.
// The package does not import package chain.
package hook

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// Parameters of a circuit breaker.
	breakAfter   = 5               // number of consecutive faults that open the breaker
	breakFirst   = time.Second     // duration of the first opening
	breakLongest = 5 * time.Minute // maximum duration; each opening lasts twice as long as the previous one
)

// A breaker stops calls of an entry that faults repeatedly. Such calls would cost runs time and the
// host resources. A breaker belongs to one entry of one chain, and all runs of the chain share it.
//
// A breaker opens for breakFirst after breakAfter consecutive faults. When the time has passed, it
// allows one trial call. If the trial faults, it opens for twice as long; otherwise it closes.
type breaker struct {
	troubled atomic.Bool // the last call faulted or the breaker is open; false saves calls the lock

	mu      sync.Mutex
	faults  int           // number of consecutive faults
	pause   time.Duration // duration of the last opening
	opened  time.Time     // time of the last opening; zero while closed
	trying  bool
	nowFunc func() time.Time
}

// An openBreakerError is the error of a call that an open breaker rejects.
type openBreakerError struct {
	faults int
	wait   time.Duration
}

func (o *openBreakerError) Error() string {
	return fmt.Sprintf("switched off after %d consecutive faults; it is tried again in %v",
		o.faults, o.wait.Round(time.Millisecond))
}

func (b *breaker) now() time.Time {
	if b.nowFunc != nil {
		return b.nowFunc()
	}
	return time.Now()
}

// allow returns an *openBreakerError if the entry must not be called. After an allowed call, the
// caller must call done or release.
func (b *breaker) allow() error {
	if !b.troubled.Load() {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened.IsZero() {
		return nil
	}
	left := b.pause - b.now().Sub(b.opened)
	if left > 0 || b.trying {
		return &openBreakerError{b.faults, max(left, 0)}
	}
	b.trying = true
	return nil
}

// done ends an allowed call that may have faulted. If the breaker opens or closes, done returns a
// predicate that says so, such as "is switched off for 1s after 5 faults in a row". Otherwise it
// returns "".
func (b *breaker) done(faulted bool) (change string) {
	if !faulted && !b.troubled.Load() {
		return ""
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubled.Store(faulted)
	tried := b.trying
	b.trying = false
	switch {
	case !faulted && tried:
		change = fmt.Sprintf("is called again after %d faults in a row", b.faults)
		fallthrough
	case !faulted:
		b.faults, b.pause, b.opened = 0, 0, time.Time{}
		return change
	}
	b.faults++
	if b.faults < breakAfter && !tried {
		return ""
	}
	b.pause = min(max(breakFirst, 2*b.pause), breakLongest)
	b.opened = b.now()
	return fmt.Sprintf("is switched off for %v after %d faults in a row", b.pause, b.faults)
}

// release ends an allowed call whose outcome says nothing about the entry, for example because the
// run was canceled.
func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}
