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
				q.Send(Event{Event: abi.Event{Seq: i}})
			}
		}()
		for i := range int64(n) {
			e, ok := q.Take()
			require.True(t, ok)
			require.Equal(t, i, e.Event.Seq)
		}
		_, ok := q.Take()
		require.False(t, ok)
		_, ok = q.Take()
		require.False(t, ok)
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		q := NewQueue()
		for i := range int64(10) {
			go q.Send(Event{Event: abi.Event{Seq: i}})
			e, ok := q.Take()
			require.True(t, ok)
			require.Equal(t, i, e.Event.Seq)
		}
		q.Close()
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		q := NewQueue()
		var sent sync.WaitGroup
		for i := range int64(capacity) {
			q.Send(Event{Event: abi.Event{Seq: i}})
		}
		sent.Go(func() { q.Send(Event{Event: abi.Event{Seq: capacity}}) })
		for i := range int64(capacity + 1) {
			e, _ := q.Take()
			require.Equal(t, i, e.Event.Seq)
		}
		sent.Wait()
		q.Close()
	})
}
