package agent

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// TestShortagesPass checks that the error of a run is retryable if a temporary shortage of the host
// ended the run. It must not be retryable if a module made a mistake or if the run can never fit.
func TestShortagesPass(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		err  error
		want abi.Error
	}{
		"no room for an image":    {&sandbox.ImageRoomError{Bytes: 1 << 20, All: 1 << 20}, abi.Error{Code: abi.CodeUnavailable, Retryable: true, RetryAfterMS: 60_000}},
		"no room for an instance": {&sandbox.NoRoomError{Bytes: 1 << 20, All: 1 << 20}, abi.Error{Code: abi.CodeUnavailable, Retryable: true, RetryAfterMS: 60_000}},
		"more than there ever is": {&sandbox.TooLargeError{Bytes: 1 << 20, All: 1 << 10}, abi.Error{Code: abi.CodeInternal}},
		"a mistake of the module": {errors.New("unreachable"), abi.Error{Code: abi.CodeInternal}},
	} {
		got := runError(&ending.FaultError{Entry: "guard", Hook: contract.HookBeforeAgent, Cause: test.err})
		require.Contains(t, got.Message, "guard: before_agent: "+test.err.Error(), name)
		require.Equal(t, test.want.Retryable, strings.Contains(got.Message, "run it again in a minute"), name)
		got.Message = ""
		require.Equal(t, test.want, *got, name)
	}
	late := runError(&AdmissionError{&sandbox.NoRoomError{Bytes: 1 << 20, All: 1 << 20}})
	require.Equal(t, abi.CodeLimit, late.Code)
	require.True(t, late.Retryable)
	require.False(t, runError(&AdmissionError{&sandbox.TooLargeError{Bytes: 1 << 20, All: 1 << 10}}).Retryable)
}

// TestExcessIsWhatModulesEmit checks which waits for memory count as the run's excess: those during
// which events of modules take most of the pending memory, and not those for the run's own large
// messages.
func TestExcessIsWhatModulesEmit(t *testing.T) {
	for name, c := range map[string]struct {
		event  abi.Event
		excess bool
	}{
		"emitted": {abi.Event{Type: abi.EventCustom}, true},
		"logged":  {abi.Event{Type: abi.EventLog}, true},
		"child":   {abi.Event{Type: abi.EventChild, Event: &abi.Event{Type: abi.EventCustom}}, true},
		"message": {abi.Event{Type: abi.EventMessage}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{root: &Agent{Options: Options{Memory: DefaultMemory}}}
			r.state.Locals = local.New()
			r.openMemory(account.WithContext(t.Context(), account.New(account.LevelTenant, "t", nil, 0)), func(error) {})
			e := delivery.Event{Event: c.event}
			e.Event.Data = make([]byte, DefaultPending/delivery.Copies)
			r.memory.Hold(&e)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			require.Error(t, r.AwaitMemory(ctx, DefaultPending))
			require.Equal(t, c.excess, r.memory.run.Excess() >= 25*time.Millisecond)
			r.memory.Release(&e)
			require.NoError(t, r.AwaitMemory(t.Context(), 1))
			require.Zero(t, r.memory.Emitted.Load())
		})
	}
}

func TestJournalLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ options, limits, want int64 }{
		"default":             {0, 0, journal.DefaultMaxBytes},
		"options":             {1 << 40, 0, 1 << 40},
		"limits lower":        {0, 1000, 1000},
		"limits do not raise": {1000, 1 << 40, 1000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := journal.WithDefaults(&journal.Options{Journal: struct{ journal.Journal }{}, MaxBytes: tc.options})
			require.Equal(
				t,
				tc.want,
				maxJournalBytes(o, &run{root: &Agent{Options: Options{Limits: Limits{JournalBytes: tc.limits}}}}),
			)
		})
	}
}

// TestNothingToRepair checks that repair does not allocate if there is nothing to repair, because
// it examines the messages before each model call.
func TestNothingToRepair(t *testing.T) {
	r := &run{}
	r.state.Messages = message.NewList(message.NewRevisions(), []abi.Message{
		abi.User("hi"),
		{Role: abi.RoleAssistant, ToolCalls: []abi.ToolCall{abi.NewToolCall("c", "t", "{}")}},
		abi.ToolMessage("c", "t", abi.Text("ok")),
	})
	require.Zero(t, testing.AllocsPerRun(10, func() {
		r.repaired = 0
		r.repair(wentOn)
	}))
}

// TestIDPart checks that call IDs that differ only where idPart cuts or changes them have different
// parts, and that other call IDs, which stored runs use, are kept.
func TestIDPart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 40)
	parts := map[string]string{}
	for _, id := range []string{"", "call_1", "a_b", "a.b", "a:b", "ä", "ö", long, long + "1", long + "2"} {
		part := idPart(id)
		require.NotContains(t, parts, part, "%q has the part of %q", id, parts[part])
		require.LessOrEqual(t, len(part), 40)
		require.Regexp(t, `^[A-Za-z0-9_.-]*$`, part)
		parts[part] = id
	}
	for _, id := range []string{"call_1", long} {
		require.Equal(t, id, idPart(id))
	}
}
