package record

import (
	"hash/fnv"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// WasSent is called when a call sends an event for the nth time in this pass. It reports whether an
// earlier pass sent the event at least nth times; if not, it records that the event is sent. sum is the
// event's hash. Events are compared by content, since a resumed hook may send different ones.
func (r *Record) WasSent(key string, sum uint64, nth int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.at(key)
	for _, reported := range e.Told {
		if reported == sum {
			nth--
		}
	}
	if nth <= 0 {
		return true
	}
	e.Told = append(e.Told, sum)
	r.change(key)
	return false
}

// HasSent reports whether the call of key sent an event with the hash sum, in this pass or an
// earlier one.
func (r *Record) HasSent(key string, sum uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.entries[key]
	return e != nil && slices.Contains(e.Told, sum)
}

// EventSum returns a hash of an event's type, level, name, text and data.
func EventSum(e *abi.Event) uint64 {
	h := fnv.New64a()
	for _, part := range []string{string(e.Type), e.Level, e.Name, e.Text} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	h.Write(e.Data)
	return h.Sum64()
}

// WasReported records event n about a call and reports whether an earlier pass sent it.
func (r *Record) WasReported(key string, n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.at(key)
	if n <= e.Events {
		return true
	}
	e.Events = n
	r.change(key)
	return false
}
