package hints

import (
	"slices"
	"sync"
)

// Subscribers are the subscribers of one server, by topic. The zero value has none. It is safe for
// concurrent use.
type Subscribers struct {
	mu sync.Mutex
	of map[string][]*func(hint []byte)
}

// Add adds a subscriber of a topic. cancel removes it, and does not wait for a call of receive that
// is in progress.
func (s *Subscribers) Add(topic string, receive func(hint []byte)) (cancel func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string][]*func([]byte){}
	}
	s.of[topic] = append(slices.Clone(s.of[topic]), &receive)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		left := slices.DeleteFunc(slices.Clone(s.of[topic]), func(f *func([]byte)) bool { return f == &receive })
		if len(left) == 0 {
			delete(s.of, topic)
			return
		}
		s.of[topic] = left
	}
}

// Send calls the subscribers of a topic, one after the other.
func (s *Subscribers) Send(topic string, hint []byte) {
	s.mu.Lock()
	list := s.of[topic] // never changed in place
	s.mu.Unlock()
	for _, receive := range list {
		(*receive)(hint)
	}
}
