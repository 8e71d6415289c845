// Package delivery passes the events of a run to its caller. A [Queue] stores events until the
// caller takes them, and makes the run wait while the queue is full. A [Memory] counts the bytes of
// pending events in the run's account. The package does not depend on agents.
package delivery

import (
	"encoding/json"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// An Event is an event of a run with its encoding in the client's protocol.
type Event struct {
	Event abi.Event
	// Encoded has the events of the client's protocol into which the run's middlewares translated
	// Event, in order. It is empty if events are not translated or if a middleware dropped the
	// event.
	Encoded []json.RawMessage

	held int64 // bytes counted as pending
}

// Copies is the number of copies of pending data in the host's memory: the data itself, its
// encoding in a commit, and the encoding in the journal.
const Copies = 3

// A Memory counts the bytes of pending events, which are not persisted or not taken by the caller
// yet. The runs of sub-agents share the Memory of the run that called them.
type Memory struct {
	Pending *account.Account
	// Emitted counts the bytes of Pending that modules emitted or logged.
	Emitted *atomic.Int64
}

// Hold counts an event as pending until Release. It never waits.
func (m *Memory) Hold(e *Event) {
	e.held = size.Event(&e.Event)
	for _, b := range e.Encoded {
		e.held += int64(len(b))
	}
	e.held *= Copies
	m.Pending.Force(e.held)
	if Droppable(&e.Event) {
		m.Emitted.Add(e.held)
	}
}

// Release stops counting an event as pending. Further calls for the same event have no effect.
func (m *Memory) Release(e *Event) {
	if e.held == 0 {
		return
	}
	m.Pending.Release(e.held)
	if Droppable(&e.Event) {
		m.Emitted.Add(-e.held)
	}
	e.held = 0
}

// Droppable reports whether a stopped run may drop an event that is not persisted yet: a custom
// event, a log line, or a child event with one of them.
func Droppable(e *abi.Event) bool {
	if e.Type == abi.EventChild && e.Event != nil {
		e = e.Event
	}
	return e.Type == abi.EventCustom || e.Type == abi.EventLog
}
