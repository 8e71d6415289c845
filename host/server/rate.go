package server

import (
	"sync"
	"time"
)

// maxRates is how many keys are counted before those that are idle are
// forgotten.
const maxRates = 10_000

// rates are the requests of keys: each has a minute's worth at once at most,
// and gets it back evenly over a minute.
type rates struct {
	now  func() time.Time
	mu   sync.Mutex
	keys map[string]*bucket
}

// A bucket is what a key has left.
type bucket struct {
	left float64
	at   time.Time
}

func newRates(now func() time.Time) *rates { return &rates{now: now, keys: map[string]*bucket{}} }

// take counts a request; perMinute 0 is no limit.
func (r *rates) take(key string, perMinute int64) error {
	if perMinute <= 0 {
		return nil
	}
	now, rate := r.now(), float64(perMinute)/60
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.keys[key]
	if b == nil {
		r.forget(now)
		b = &bucket{left: float64(perMinute), at: now}
		r.keys[key] = b
	}
	b.left = min(float64(perMinute), b.left+now.Sub(b.at).Seconds()*rate)
	b.at = now
	if b.left >= 1 {
		b.left--
		return nil
	}
	wait := time.Duration((1 - b.left) / rate * float64(time.Second))
	return quotaProblem("requests_per_minute", wait, "key %s may send %d requests a minute", key, perMinute)
}

// forget drops keys that are full again, so that the table has a bound.
func (r *rates) forget(now time.Time) {
	if len(r.keys) < maxRates {
		return
	}
	for key, b := range r.keys {
		if now.Sub(b.at) > time.Minute {
			delete(r.keys, key)
		}
	}
}
