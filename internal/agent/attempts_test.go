package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// attempted runs an agent that tries its model up to three times and then falls back to a model
// named "other" with the same replies. It returns the events.
func attempted(t *testing.T, entries []hook.Entry, replies ...scripted.Reply) []abi.Event {
	t.Helper()
	m := scripted.New(replies...)
	first := model.WithRetry(m, &model.RetryOptions{Sleep: func(context.Context, time.Duration) error { return nil }})
	a, err := agent.New(
		&agent.Options{
			Model:     model.WithFallback([]model.Choice{{Model: first}, {Model: m, Name: "other"}}, nil),
			ModelName: "one",
			Chain:     with(t, entries...),
		},
	)
	require.NoError(t, err)
	var events []abi.Event
	for e := range a.Run(t.Context(), agent.Input{Messages: []abi.Message{abi.User("hi")}}) {
		events = append(events, e)
	}
	return events
}

func busy(after time.Duration) scripted.Reply {
	return scripted.Reply{
		Err: &model.Error{Code: abi.CodeModel, Message: "busy", Status: 503, Retryable: true, RetryAfter: after},
	}

}

func TestAttemptsAreEvents(t *testing.T) {
	t.Parallel()
	hooks := 0
	look := nativeEntry(
		"look",
		&inproc.Middleware{
			BeforeModel: func(context.Context, *hook.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
				hooks++
				return nil, nil
			},
		},
	)
	var got []abi.Event
	for _, e := range attempted(t, []hook.Entry{look}, busy(time.Second), busy(2*time.Second),
		busy(3*time.Second), scripted.Text("done")) {
		if e.Type == abi.EventModelAttempt {
			require.Equal(t, "step_1", e.StepID)
			got = append(got, abi.Event{Model: e.Model, Attempt: e.Attempt, Next: e.Next, DelayMS: e.DelayMS, Error: e.Error})
		}
	}
	failed := func(after int64) *abi.Error {
		return &abi.Error{Code: abi.CodeModel, Message: "busy", Status: 503, Retryable: true, RetryAfterMS: after}
	}
	last := failed(3000)
	last.Message = "busy (tried 3 times)"
	require.Equal(t, []abi.Event{
		{Model: "one", Attempt: 1, Next: "one", DelayMS: 1000, Error: failed(1000)},
		{Model: "one", Attempt: 2, Next: "one", DelayMS: 2000, Error: failed(2000)},
		{Model: "one", Attempt: 3, Next: "other", Error: last},
	}, got)
	require.Equal(t, 1, hooks, "a call passes the hooks once")
}

func TestNoAttemptAfterDelivery(t *testing.T) {
	t.Parallel()
	broken := busy(0)
	broken.Chunks = []abi.Chunk{{Kind: abi.ChunkText, Text: "half an ans"}}
	events := attempted(t, nil, broken, scripted.Text("done"))
	for _, e := range events {
		require.NotEqual(t, abi.EventModelAttempt, e.Type)
	}
	require.Equal(t, abi.RunError, events[len(events)-1].FinishReason)
}
