package agent

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
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

// A modelFunc is a model that is a function.
type modelFunc func(put func(abi.Chunk) error) (*abi.Response, error)

func (f modelFunc) Generate(_ context.Context, _ *model.Request, put func(abi.Chunk) error) (*abi.Response, error) {
	return f(put)
}

// What a run has told reaches its caller while the run waits, be it for the model
// between two chunks, after many that came at once, or for a tool.
func TestEventsReachACallerWhoseRunWaits(t *testing.T) {
	t.Parallel()
	seen := make(chan abi.EventType)
	await := func(typ abi.EventType, n int) {
		for range n {
			for got := range seen {
				if got == typ {
					break
				}
			}
		}
	}
	asked := 0
	answer := modelFunc(func(put func(abi.Chunk) error) (*abi.Response, error) {
		await(abi.EventStepStarted, 1)
		asked++
		if asked == 1 {
			m := abi.Assistant("")
			m.ToolCalls = []abi.ToolCall{abi.NewToolCall("call", "wait", "{}")}
			return &abi.Response{Message: m}, nil
		}
		text := ""
		for _, n := range []int{1, 1, 3, 1, 2 * maxOut, 1} {
			for range n {
				text += "a"
				require.NoError(t, put(abi.Chunk{Kind: abi.ChunkText, Text: "a"}))
			}
			await(abi.EventChunk, n)
		}
		return &abi.Response{Message: abi.Assistant(text)}, nil
	})
	wait := tool.Func(abi.Tool{Name: "wait", Parameters: []byte(`{"type":"object"}`)}, func(context.Context, abi.Call) (*abi.Result, error) {
		await(abi.EventToolCall, 1)
		return abi.TextResult("done"), nil
	})
	a, err := New(&Options{Model: answer, Tools: []tool.Tool{wait}})
	require.NoError(t, err)
	ended := make(chan struct{})
	go func() { // what nobody waits for any more
		<-ended
		for range seen {
		}
	}()
	for e, err := range a.Run(t.Context(), Input{Messages: []abi.Message{abi.User("go")}}) {
		require.NoError(t, err)
		if e.Type == abi.EventMessage && e.Message.Content.String() != "" {
			close(ended)
		}
		select {
		case seen <- e.Type:
		case <-t.Context().Done():
		}
	}
	close(seen)
}
