package persist

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
)

// TestStopShedsEvents checks that a stopped run drops the custom events and log lines of modules
// and keeps its other events in order. The hooks at its end may emit maxLastBytes of further
// events.
func TestStopShedsEvents(t *testing.T) {
	w := &Writer{shedder: newShedder(), wake: make(chan struct{}, 1)}
	send := func(kind abi.EventType, held bool) {
		w.Send(delivery.Event{Event: abi.Event{Type: kind, Data: []byte(`1`)}}, held)
	}
	send(abi.EventStepStarted, false)
	send(abi.EventCustom, false)
	send(abi.EventMessage, false)
	send(abi.EventLog, true)
	send(abi.EventToolCall, true)
	w.Stop()
	w.Stop()
	send(abi.EventCustom, false)
	kinds := func() (out []abi.EventType) {
		for _, e := range w.events {
			out = append(out, e.Event.Type)
		}
		return out
	}
	require.Equal(t, []abi.EventType{abi.EventStepStarted, abi.EventMessage, abi.EventToolCall}, kinds())
	require.Equal(t, 2, w.ready, "tool_call is still held")
	require.EqualValues(t, 3, w.shed())

	w.Ending()
	send(abi.EventCustom, false)
	w.Send(delivery.Event{Event: abi.Event{Type: abi.EventCustom, Data: make([]byte, maxLastBytes)}}, false)
	child := abi.Event{Type: abi.EventCustom, Data: make([]byte, maxLastBytes)}
	w.Send(delivery.Event{Event: abi.Event{Type: abi.EventChild, Event: &child}}, false)
	require.Equal(
		t,
		[]abi.EventType{abi.EventStepStarted, abi.EventMessage, abi.EventToolCall, abi.EventCustom},
		kinds(),
		"after_agent has %d bytes",
		maxLastBytes,
	)
	require.EqualValues(t, 5, w.shed())

	number(w.events, 7)
	require.EqualValues(t, 10, w.events[3].Event.Seq)
}
