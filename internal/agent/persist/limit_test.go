package persist_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/store"
)

// flooder returns a chain whose middleware emits 255 events of 8 KiB in each before_model and in
// after_agent.
func flooder(t *testing.T) *chain.Chain {
	t.Helper()
	data := json.RawMessage(`"` + strings.Repeat("x", 8<<10) + `"`)
	flood := func(c *hook.Call) error {
		for range 255 {
			if err := c.Emit("flood", data); err != nil {
				return err
			}
		}
		return nil
	}
	return with(t, nativeEntry("flooder", &inproc.Middleware{
		BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			return nil, flood(c)
		},
		AfterAgent: func(_ context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			return nil, flood(c)
		},
	}))
}

// busyTool returns the tool that busyModel calls.
func busyTool() tool.Tool {
	return tool.Func(
		abi.Tool{Name: "t"},
		func(context.Context, abi.Call) (*abi.Result, error) { return abi.TextResult("ok"), nil },
	)
}

// requireJournalFull requires that a run ended at its limit of journal bytes, with one limit event
// before run_finished. It returns the stored run.
func requireJournalFull(t *testing.T, s store.Store, run string, limit int64, err error) *journal.RunInfo {
	t.Helper()
	var full *journal.FullError
	require.ErrorAs(t, err, &full)
	require.Equal(t, []any{journal.LimitBytes, limit, false}, []any{full.Limit, full.Max, full.Quota})
	var ended *agent.Error
	require.ErrorAs(t, err, &ended)
	require.Equal(t, abi.RunLimit, ended.FinishReason)
	info, err := s.Run(t.Context(), run)
	require.NoError(t, err)
	require.Equal(t, []any{journal.StatusFinished, abi.RunLimit}, []any{info.Status, info.FinishReason})
	var kinds []abi.EventType
	events, err := s.Events(t.Context(), run, 0, 1<<20)
	require.NoError(t, err)
	require.Len(t, events, int(info.LastSeq))
	for i := range events {
		switch e := &events[i]; e.Type {
		case abi.EventLimit:
			require.Equal(t, []any{journal.LimitBytes, limit}, []any{e.Limit, e.Value})
			kinds = append(kinds, e.Type)
		case abi.EventRunFinished:
			require.Equal(t, abi.CodeLimit, e.Error.Code)
			require.Contains(t, e.Error.Message, "limits.journal_bytes")
			kinds = append(kinds, e.Type)
		}
	}
	require.Equal(t, []abi.EventType{abi.EventLimit, abi.EventRunFinished}, kinds)
	return info
}

// hookBytes is an upper bound of the bytes that one flood writes to the journal.
const hookBytes = 3 << 20

// TestAFloodEndsAtItsLimit checks a module that emits 2 MiB of events in each of a hundred steps.
// The run must end at its limit of journal bytes.
func TestAFloodEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	const limit = 2 << 20
	flood := func(t *testing.T, s store.Store, o *agent.Options) error {
		a, err := agent.New(o)
		require.NoError(t, err)
		_, err = eventsOf(t, a, agent.Input{})
		return err
	}
	t.Run("options", func(t *testing.T) {
		t.Parallel()
		s := openStore(t)
		err := flood(
			t,
			s,
			&agent.Options{
				Model:    &busyModel{history: 1, steps: 100},
				MaxSteps: 200,
				Chain:    flooder(t),
				Tools:    []tool.Tool{busyTool()},
				Journal:  &journal.Options{Journal: s, MaxBytes: limit},
			},
		)
		info := requireJournalFull(t, s, "r", limit, err)
		require.Greater(t, info.JournalBytes, int64(limit))
		require.Less(
			t,
			info.JournalBytes,
			int64(limit+2*hookBytes),
			"the journal exceeds its limit by less than two hooks emit",
		)
	})
	t.Run("limits", func(t *testing.T) {
		t.Parallel()
		s := openStore(t)
		err := flood(
			t,
			s,
			&agent.Options{
				Model:    &busyModel{history: 1, steps: 100},
				MaxSteps: 200,
				Chain:    flooder(t),
				Tools:    []tool.Tool{busyTool()},
				Limits:   agent.Limits{JournalBytes: limit, OnLimit: agent.LimitEnd},
				Journal:  &journal.Options{Journal: s},
			},
		)
		requireJournalFull(t, s, "r", limit, err)
	})
	t.Run("a limit only lowers", func(t *testing.T) {
		t.Parallel()
		s := openStore(t)
		err := flood(
			t,
			s,
			&agent.Options{
				Model:    &busyModel{history: 1, steps: 100},
				MaxSteps: 200,
				Chain:    flooder(t),
				Tools:    []tool.Tool{busyTool()},
				Limits:   agent.Limits{JournalBytes: 1 << 40},
				Journal:  &journal.Options{Journal: s, MaxBytes: limit},
			},
		)
		requireJournalFull(t, s, "r", limit, err)
	})
	t.Run("sub-agent", func(t *testing.T) {
		t.Parallel()
		s := openStore(t)
		child, err := agent.New(
			&agent.Options{
				Name:     "researcher",
				Model:    &busyModel{history: 1, steps: 100},
				MaxSteps: 200,
				Chain:    flooder(t),
				Tools:    []tool.Tool{busyTool()},
			},
		)
		require.NoError(t, err)
		parent, _ := agentOf(t, agent.Options{Name: "boss", Tools: []tool.Tool{agent.Tool(child, nil)},
			Journal: &journal.Options{Journal: s, MaxBytes: limit}}, researcher("1", "what is it?"))
		_, err = eventsOf(t, parent, agent.Input{})
		info := requireJournalFull(t, s, "r", limit, err)
		require.Less(t, info.JournalBytes, int64(limit+3*hookBytes))
	})
	t.Run("negative", func(t *testing.T) {
		t.Parallel()
		_, err := agent.New(&agent.Options{Model: &busyModel{}, Limits: agent.Limits{JournalBytes: -1}})
		require.ErrorContains(t, err, "journal bytes")
	})
}

// TestAResumedRunGoesOnCounting checks that a resumed run continues the count of journal bytes. A
// run that pauses below the limit must reach the limit after it is resumed.
func TestAResumedRunGoesOnCounting(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	data := json.RawMessage(`"` + strings.Repeat("x", 200<<10) + `"`)
	each := asks("t")
	each.BeforeModel = func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
		return nil, errors.Join(c.Emit("large", data), c.Emit("large", data), c.Emit("large", data))
	}
	a, err := agent.New(
		&agent.Options{
			Model:   &busyModel{history: 1, steps: 10},
			Chain:   with(t, nativeEntry("asks", each)),
			Tools:   []tool.Tool{busyTool()},
			Journal: &journal.Options{Journal: s, MaxBytes: 1 << 20},
		},
	)
	require.NoError(t, err)
	_, err = eventsOf(t, a, agent.Input{})
	for range 5 {
		var paused *agent.PausedError
		if !errors.As(err, &paused) {
			break
		}
		info, err2 := s.Run(t.Context(), "r")
		require.NoError(t, err2)
		require.Less(t, info.JournalBytes, int64(1<<20+700<<10))
		answers := map[string]json.RawMessage{}
		for _, p := range info.Pending {
			answers[p.ID] = json.RawMessage("true")
		}
		events, err2 := a.Continue(t.Context(), "r", answers)
		require.NoError(t, err2)
		for _, e := range events {
			err = e
		}
	}
	requireJournalFull(t, s, "r", 1<<20, err)
}

// A quotaJournal reports from commit number from on that a quota is used up, in each commit of a
// run in progress.
type quotaJournal struct {
	journal.Journal
	commits, from int
}

func (q *quotaJournal) Commit(ctx context.Context, c *journal.Commit) error {
	written := c.Written
	if q.commits++; q.commits >= q.from && c.Progress != nil && c.Progress.Status == journal.StatusRunning {
		full := &journal.FullError{Limit: "journal_bytes_per_day", Max: 10, Used: 11, Quota: true}
		c.Full = full
		if written != nil {
			c.Written = func() { c.Full = full; written() }
		}
		defer func() { c.Full = full }()
	}
	return q.Journal.Commit(ctx, c)
}

// TestAQuotaEndsARun checks that a run ends when its journal reports that a quota is used up. The
// error must name the quota.
func TestAQuotaEndsARun(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	a, err := agent.New(
		&agent.Options{
			Model:    &busyModel{history: 1, steps: 100},
			MaxSteps: 200,
			Tools:    []tool.Tool{busyTool()},
			Timeout:  time.Minute,
			Journal:  &journal.Options{Journal: &quotaJournal{Journal: s, from: 10}},
		},
	)
	require.NoError(t, err)
	events, err := eventsOf(t, a, agent.Input{})
	var full *journal.FullError
	require.ErrorAs(t, err, &full)
	require.True(t, full.Quota)
	last := events[len(events)-1]
	require.Equal(
		t,
		[]any{abi.EventRunFinished, abi.RunLimit, abi.CodeLimit},
		[]any{last.Type, last.FinishReason, last.Error.Code},
	)
	require.Contains(t, last.Error.Message, "journal_bytes_per_day")
	info, err := s.Run(t.Context(), "r")
	require.NoError(t, err)
	require.Equal(t, journal.StatusFinished, info.Status)
	require.Less(t, info.Step, 100)
}
