package delivery

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// TestQueue checks that Take returns all events in order, whichever side is slower. It must also
// return an event that no other event follows.
func TestQueue(t *testing.T) {
	t.Parallel()
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		const n = 10 * capacity
		q := NewQueue()
		go func() {
			defer q.Close()
			for i := range int64(n) {
				q.Send(&Event{Event: abi.Event{Seq: i}})
			}
		}()
		for i := range int64(n) {
			var e Event
			require.True(t, q.Take(&e))
			require.Equal(t, i, e.Event.Seq)
		}
		require.False(t, q.Take(&Event{}))
		require.False(t, q.Take(&Event{}))
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		q := NewQueue()
		for i := range int64(10) {
			go q.Send(&Event{Event: abi.Event{Seq: i}})
			var e Event
			require.True(t, q.Take(&e))
			require.Equal(t, i, e.Event.Seq)
		}
		q.Close()
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		q := NewQueue()
		var sent sync.WaitGroup
		for i := range int64(capacity) {
			q.Send(&Event{Event: abi.Event{Seq: i}})
		}
		sent.Go(func() { q.Send(&Event{Event: abi.Event{Seq: capacity}}) })
		for i := range int64(capacity + 1) {
			var e Event
			require.True(t, q.Take(&e))
			require.Equal(t, i, e.Event.Seq)
		}
		sent.Wait()
		q.Close()
	})
}
