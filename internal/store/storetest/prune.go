package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// newRuns creates a finished run, a paused one, one whose lease has expired, and one in
// progress.
func newRuns(t *testing.T, s store.Store) {
	t.Helper()
	for id, r := range map[string]struct {
		status journal.Status
		lease  time.Duration
	}{
		"finished": {journal.StatusFinished, lease},
		"paused":   {journal.StatusPaused, lease},
		"expired":  {journal.StatusRunning, -time.Second},
		"running":  {journal.StatusRunning, lease},
	} {
		newRun(t, s, id)
		require.NoError(
			t,
			s.Commit(
				t.Context(),
				&journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: []byte(`{}`), First: 1, Last: 1, Events: event(id, 1),
					LeaseTTL: r.lease, Progress: &journal.Progress{Status: r.status, FinishReason: abi.RunStop}},
			),
		)
	}
}

func remaining(t *testing.T, s store.Store) []string {
	t.Helper()
	runs, _, err := s.Runs(t.Context(), nil)
	require.NoError(t, err)
	var ids []string
	for _, r := range runs {
		ids = append(ids, r.ID)
	}
	return ids
}

func testPrune(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	newRuns(t, s)
	prune := func(o store.PruneOptions) int {
		n, err := s.Prune(t.Context(), o)
		require.NoError(t, err)
		return n
	}
	require.Zero(t, prune(store.PruneOptions{OlderThan: time.Hour, Unfinished: true}), "the runs have just changed")
	require.Equal(t, 1, prune(store.PruneOptions{DryRun: true}))
	require.Equal(t, 3, prune(store.PruneOptions{DryRun: true, Unfinished: true}))
	require.Len(t, remaining(t, s), 4)
	require.Equal(t, 1, prune(store.PruneOptions{}))
	require.ElementsMatch(t, []string{"paused", "expired", "running"}, remaining(t, s))
	require.Equal(t, 2, prune(store.PruneOptions{Unfinished: true}))
	require.Equal(t, []string{"running"}, remaining(t, s))
	newRun(t, s, "finished")
	events, err := s.Events(t.Context(), "finished", 0, 10)
	require.NoError(t, err)
	require.Empty(t, events, "they were deleted with the run")

	for i := range 120 {
		require.NoError(
			t,
			s.Create(
				t.Context(),
				&journal.Creation{ID: "many " + string(rune('0'+i)), LeaseTTL: -time.Second, Log: []byte(`{}`)},
			),
		)
	}
	require.Equal(t, 120, prune(store.PruneOptions{Unfinished: true}))
}

func testRetention(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Retention: time.Millisecond})
	newRuns(t, s)
	require.Eventually(t, func() bool {
		_, err := s.Run(t.Context(), "finished")
		return errors.Is(err, journal.ErrNoRun)
	}, time.Minute, 10*time.Millisecond)
	require.Len(t, remaining(t, s), 3, "other runs are not pruned")
}
