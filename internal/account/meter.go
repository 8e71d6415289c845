package account

import "sync"

// free is the part of a meter that is not reserved: most hook calls and streams
// hold less, and then cost no reservation.
const free = chunk

// A Meter counts the bytes of something short-lived that is often small: a hook call
// or a stream. It reserves from its account in chunks, and nothing for the first
// 32 KiB. The zero Meter counts nothing. Its methods may be called concurrently.
type Meter struct {
	Of *Account // nil counts nothing

	mu       sync.Mutex
	n        int64
	reserved int64
}

// Add makes the meter n bytes larger, or smaller if n is negative. It fails with a
// [*LimitError] and leaves the meter as it is if the account is full.
func (m *Meter) Add(n int64) error {
	if m.Of == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	to := max(0, m.n+n)
	need := max(0, to-free)
	switch {
	case need > m.reserved:
		more := (need - m.reserved + chunk - 1) / chunk * chunk
		if err := m.Of.TryReserve(more); err != nil {
			return err
		}
		m.reserved += more
	case m.reserved-need > 2*chunk:
		m.Of.Release(m.reserved - need)
		m.reserved = need
	}
	m.n = to
	return nil
}

// Release makes the meter empty.
func (m *Meter) Release() {
	if m.Of == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Of.Release(m.reserved)
	m.n, m.reserved = 0, 0
}
