package record

import (
	"hash/fnv"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// WasSent reports whether earlier passes have sent an event of the call of key at least nth times.
// If not, it records that the event is sent. The caller calls WasSent when the call sends the event
// for the nth time in this pass. sum is the event's hash: events are compared by content, since a
// repeated hook may send different ones.
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

// HasSent reports whether the call of key has sent an event with the hash sum, in this pass or an
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

// WasReported reports whether an earlier pass sent event n of the call of key. If not, it records
// that the event is sent. n starts at 1.
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
