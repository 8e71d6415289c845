package account

import (
	"sync"
	"time"
)

// A stopwatch measures the time during which at least one activity was in progress.
type stopwatch struct {
	mu     sync.Mutex
	active int
	since  time.Time
	total  time.Duration
}

// BeginExcess marks the start of a period in which the account's owner requests more than its share. Each call needs
// a matching EndExcess.
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

// EndExcess ends a period that BeginExcess began.
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

// Excess returns the total time for which the account's owner has requested more than its share.
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
