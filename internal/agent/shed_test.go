package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// A stopped run keeps its events in their order, but for what modules emitted and logged.
func TestStopShedsEvents(t *testing.T) {
	k := &keeper{shedder: newShedder(), wake: make(chan struct{}, 1)}
	hand := func(kind abi.EventType, held bool) {
		k.hand(ClientEvent{Event: abi.Event{Type: kind, Data: []byte(`1`)}}, held)
	}
	hand(abi.EventStepStarted, false)
	hand(abi.EventCustom, false)
	hand(abi.EventMessage, false)
	hand(abi.EventLog, true)
	hand(abi.EventToolCall, true)
	k.stop()
	k.stop()
	hand(abi.EventCustom, false)
	kinds := func() (out []abi.EventType) {
		for _, e := range k.events {
			out = append(out, e.Event.Type)
		}
		return out
	}
	require.Equal(t, []abi.EventType{abi.EventStepStarted, abi.EventMessage, abi.EventToolCall}, kinds())
	require.Equal(t, 2, k.safe, "tool_call is still held")
	require.EqualValues(t, 3, k.shed())

	k.settle()
	hand(abi.EventCustom, false)
	k.hand(ClientEvent{Event: abi.Event{Type: abi.EventCustom, Data: make([]byte, maxLastBytes)}}, false)
	child := abi.Event{Type: abi.EventCustom, Data: make([]byte, maxLastBytes)}
	k.hand(ClientEvent{Event: abi.Event{Type: abi.EventChild, Event: &child}}, false)
	require.Equal(t, []abi.EventType{abi.EventStepStarted, abi.EventMessage, abi.EventToolCall, abi.EventCustom}, kinds(), "after_agent has %d bytes", maxLastBytes)
	require.EqualValues(t, 5, k.shed())

	number(k.events, 7)
	require.EqualValues(t, 10, k.events[3].Event.Seq)
}
