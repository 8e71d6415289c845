// Package delivery passes the events of a run to its caller. A [Queue] holds events until the
// caller takes them, and makes the run wait while it is full. A [Memory] counts the bytes of
// pending events against the run's account. The package does not depend on agents.
package delivery

import (
	"encoding/json"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// An Event is an event of a run and its encoding in the client's protocol.
type Event struct {
	Event abi.Event
	// Encoded holds the event as the run's middlewares translated it: none, one or several events
	// of the client's protocol, in order. It is empty if events are not translated.
	Encoded []json.RawMessage

	held int64 // bytes counted as pending
}

// Copies is the number of copies of pending data that the host holds: the data itself, its
// encoding in a commit, and the encoding in the journal.
const Copies = 3

// A Memory counts the bytes of events that are not yet persisted or not yet taken by the
// caller. The runs of sub-agents share it with the run around them.
type Memory struct {
	Pending *account.Account
	// Emitted counts the bytes of Pending that modules emitted or logged.
	Emitted *atomic.Int64
}

// Hold counts an event as pending until it is released. It never waits.
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

// Release stops counting an event as pending. Releasing it again has no effect.
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

// Droppable reports whether an event is a custom event or a log line, or forwards one from the run
// of a sub-agent. A stopped run drops those that are not persisted yet.
func Droppable(e *abi.Event) bool {
	if e.Type == abi.EventChild && e.Event != nil {
		e = e.Event
	}
	return e.Type == abi.EventCustom || e.Type == abi.EventLog
}
