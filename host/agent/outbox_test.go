package agent

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
)

// Events come in their order and all of them, whoever of both is slower, and before
// the next one is sent.
func TestOutbox(t *testing.T) {
	t.Parallel()
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		const n = 10 * maxOut
		o := newOutbox()
		go func() {
			defer o.close()
			for i := range int64(n) {
				o.send(ClientEvent{Event: abi.Event{Seq: i}})
			}
		}()
		for i := range int64(n) {
			e, ok := o.take()
			require.True(t, ok)
			require.Equal(t, i, e.Event.Seq)
		}
		_, ok := o.take()
		require.False(t, ok)
		_, ok = o.take()
		require.False(t, ok)
	})
	t.Run("alone", func(t *testing.T) {
		t.Parallel()
		o := newOutbox()
		for i := range int64(10) {
			go o.send(ClientEvent{Event: abi.Event{Seq: i}})
			e, ok := o.take()
			require.True(t, ok)
			require.Equal(t, i, e.Event.Seq)
		}
		o.close()
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		o := newOutbox()
		var sent sync.WaitGroup
		for i := range int64(maxOut) {
			o.send(ClientEvent{Event: abi.Event{Seq: i}})
		}
		sent.Go(func() { o.send(ClientEvent{Event: abi.Event{Seq: maxOut}}) })
		for i := range int64(maxOut + 1) {
			e, _ := o.take()
			require.Equal(t, i, e.Event.Seq)
		}
		sent.Wait()
		o.close()
	})
}
