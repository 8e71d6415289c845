package account

import "sync"

// free is the number of bytes that a meter does not reserve: most hook calls and streams hold less,
// and so need no reservation.
const free = chunk

// A Meter counts the bytes of a short-lived and often small object, such as a hook call or a
// stream. It reserves from its account in chunks, and nothing for the first 32 KiB. The zero Meter
// counts nothing. Its methods may be called concurrently.
type Meter struct {
	Of *Account // the account to reserve from; if nil, the meter counts nothing

	mu       sync.Mutex
	n        int64
	reserved int64
}

// Add adds n bytes, or subtracts them if n is negative, down to zero. It fails as [Account.TryReserve] does, and then
// changes nothing.
func (m *Meter) Add(n int64) error {
	if m.Of == nil || n == 0 {
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

// Release resets the meter to zero and releases its reservation.
func (m *Meter) Release() {
	if m.Of == nil {
		return
	}
	m.mu.Lock()
	reserved := m.reserved
	m.n, m.reserved = 0, 0
	m.mu.Unlock()
	m.Of.Release(reserved)
}
