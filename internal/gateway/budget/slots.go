package budget

import (
	"fmt"
	"sync"
)

// Slots limit the number of requests that are in progress at the same time. They are safe for concurrent use.
type Slots struct {
	total, perKey int

	mu   sync.Mutex
	used int
	of   map[string]int // by key
}

// NewSlots returns total slots. If several keys share them, one key takes at most half.
func NewSlots(total int, shared bool) *Slots {
	s := &Slots{total: total, perKey: total, of: map[string]int{}}
	if shared {
		s.perKey = max(1, total/2)
	}
	return s
}

// Take takes a slot for a key. The error says which limit is reached. The caller calls free once.
func (s *Slots) Take(key string) (free func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.used >= s.total:
		return nil, fmt.Errorf("%d are in progress, the limit", s.total)
	case s.of[key] >= s.perKey:
		return nil, fmt.Errorf("%d of the key %s are in progress, the limit of one key", s.perKey, key)
	}
	s.used++
	s.of[key]++
	return func() { s.free(key) }, nil
}

func (s *Slots) free(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	if s.of[key]--; s.of[key] == 0 {
		delete(s.of, key)
	}
}
