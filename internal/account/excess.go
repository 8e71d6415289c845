package account

import (
	"sync"
	"time"
)

// A stopwatch measures for how long at least one of several activities was in progress.
type stopwatch struct {
	mu     sync.Mutex
	active int
	since  time.Time
	total  time.Duration
}

// BeginExcess says that the account's owner wants more than its share from now on, until
// EndExcess is called as often.
func (a *Account) BeginExcess() {
	if a == nil {
		return
	}
	a.excess.mu.Lock()
	defer a.excess.mu.Unlock()
	if a.excess.active++; a.excess.active == 1 {
		a.excess.since = time.Now()
	}
}

// EndExcess ends what BeginExcess began.
func (a *Account) EndExcess() {
	if a == nil {
		return
	}
	a.excess.mu.Lock()
	defer a.excess.mu.Unlock()
	if a.excess.active--; a.excess.active == 0 {
		a.excess.total += time.Since(a.excess.since)
	}
}

// Excess returns for how long the account's owner wanted more than its share so far.
func (a *Account) Excess() time.Duration {
	if a == nil {
		return 0
	}
	a.excess.mu.Lock()
	defer a.excess.mu.Unlock()
	if a.excess.active > 0 {
		return a.excess.total + time.Since(a.excess.since)
	}
	return a.excess.total
}
