package agent_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent"
)

func TestAnAnswerThatComesTooLate(t *testing.T) {
	t.Parallel()
	a := askingAgent(t, calls("t#1"))
	before := time.Now()
	events, err := eventsOf(t, a, agent.Input{})
	var paused *agent.PausedError
	require.ErrorAs(t, err, &paused)
	at := time.UnixMilli(lastOf(events).ExpiresMS)
	require.WithinRange(
		t,
		at,
		before.Add(agent.DefaultPauseTimeout).Truncate(time.Millisecond),
		time.Now().Add(agent.DefaultPauseTimeout),
	)

	state := *paused.State
	state.Expires = before // simulate that a week has passed
	seq, err := a.Resume(t.Context(), &state, map[string]json.RawMessage{paused.Interrupts[0].ID: json.RawMessage("true")})
	require.NoError(t, err)
	var end abi.Event
	var results []string
	for end, err = range seq {
		if end.Type == abi.EventToolResult {
			results = append(results, end.Result.Content.String())
		}
	}
	var late *agent.ExpiredError
	require.ErrorAs(t, err, &late)
	require.Equal(t, abi.RunError, end.FinishReason)
	require.Equal(t, abi.CodeLimit, end.Error.Code)
	require.Contains(t, end.Error.Message, "waited longer for an answer than it may (168h0m0s, until ")
	require.Equal(
		t,
		[]string{"The call of t was not run: " + late.Error() + "."},
		results,
		"its call has an end",
	)
}

func TestAPauseWithoutALimit(t *testing.T) {
	t.Parallel()
	b := askingAgent(t, calls("t#1"))
	o := b.Options
	o.PauseTimeout = -1
	a, err := agent.New(&o)
	require.NoError(t, err)
	events, err := eventsOf(t, a, agent.Input{})
	var paused *agent.PausedError
	require.ErrorAs(t, err, &paused)
	require.Zero(t, lastOf(events).ExpiresMS)
	require.True(t, paused.State.Expires.IsZero())
}
