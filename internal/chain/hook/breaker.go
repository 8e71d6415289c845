package hook

import (
	"fmt"
	"sync"
	"time"
)

// When a breaker opens, and for how long.
const (
	breakAfter   = 5               // faults in a row
	breakFirst   = time.Second     // the first time
	breakLongest = 5 * time.Minute // twice as long each time, up to this
)

// A breaker keeps an entry that faults again and again from being called: a
// module in a crash loop costs its runs time and the host its patience. It
// belongs to one entry of one chain and is shared by all its runs.
//
// After some faults in a row it opens. Once its time is up it lets one call
// try: if that faults too it opens for twice as long, otherwise it closes.
type breaker struct {
	mu      sync.Mutex
	faults  int           // in a row
	pause   time.Duration // of the last opening
	opened  time.Time     // zero while closed
	trying  bool
	nowFunc func() time.Time
}

// An openBreaker says that an entry is not called for now.
type openBreaker struct {
	faults int
	wait   time.Duration
}

func (o *openBreaker) Error() string {
	return fmt.Sprintf("switched off after %d faults in a row; the next call that may try it comes in %v", o.faults, o.wait.Round(time.Millisecond))
}

func (b *breaker) now() time.Time {
	if b.nowFunc != nil {
		return b.nowFunc()
	}
	return time.Now()
}

// allow reports whether the entry may be called, as an *openBreaker if not.
// A call that it lets pass must be told to done.
func (b *breaker) allow() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.opened.IsZero() {
		return nil
	}
	left := b.pause - b.now().Sub(b.opened)
	if left > 0 || b.trying {
		return &openBreaker{b.faults, max(left, 0)}
	}
	b.trying = true
	return nil
}

// done notes how a call ended, and says in words if the breaker opens or closes.
func (b *breaker) done(faulted bool) (change string) {
	b.mu.Lock()
	defer b.mu.Unlock()
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

// release gives back a try that came to no end of its own.
func (b *breaker) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
}
