package message

import (
	"slices"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
)

// A Flat is the messages of a list that was asked for last, for who asks for one
// list after the other of which only the end is new.
type Flat struct {
	mu       sync.Mutex
	rev      int64
	messages []abi.Message
}

// All returns the messages of l. They are shared with earlier and later answers,
// and must not be changed.
func (f *Flat) All(l *List) []abi.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.messages)
	if f.rev == 0 || l.Changed(f.rev) != n || len(l.items) < n {
		f.messages, n = make([]abi.Message, 0, len(l.items)+len(l.items)/4+8), 0
	}
	for _, it := range l.items[n:] {
		f.messages = append(f.messages, it.message)
	}
	f.rev = l.rev
	return slices.Clip(f.messages)
}
