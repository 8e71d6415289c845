package message

import (
	"slices"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
)

// A Flat returns the messages of lists as slices, and caches the last one. It is for callers that
// ask for successive lists that differ only at the end. The messages have no labels.
type Flat struct {
	mu       sync.Mutex
	rev      int64
	messages []abi.Message
}

// All returns the messages of l. Results share memory and must not be changed.
func (f *Flat) All(l *List) []abi.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.messages)
	if f.rev == 0 || l.Changed(f.rev) != n || len(l.items) < n {
		f.messages, n = make([]abi.Message, 0, len(l.items)+len(l.items)/4+8), 0
	}
	for _, it := range l.items[n:] {
		f.messages = append(f.messages, Unlabelled(it.message))
	}
	f.rev = l.rev
	return slices.Clip(f.messages)
}
