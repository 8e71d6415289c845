package quarantine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

// TestTrialElsewhere checks that a server which began a trial, but whose claim of the run came too late,
// does not clear the run, and does not count as a server that executed the run.
func TestTrialElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	ctx := t.Context()
	s, err := store.Open(ctx, storetest.File(t), nil)
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: "run", Owner: "first", Log: []byte("{}")}))
	log := slog.New(slog.DiscardHandler)
	running := false
	q := New(&Options{
		Store:      s,
		Overload:   overload.New(overload.Options{Logger: log}),
		Logger:     log,
		Owner:      "late",
		InProgress: func(string, string) bool { return running },
		Waiting:    func() {},
	})
	info := func() *journal.RunInfo {
		i, err := s.Run(ctx, "run")
		require.NoError(t, err)
		return i
	}
	try := func(owner string) {
		require.NoError(t, s.StartProcess(ctx, &store.Process{Owner: owner, Node: "node"}))
		require.NoError(t, s.Resuming(ctx, "run", owner))
		require.NoError(t, s.Suspect(ctx, "run", owner, true))
	}
	try("first")
	try("winner")
	try("late")
	q.trial, q.limit = info(), time.Minute
	after := func(d time.Duration) bool {
		q.began = time.Now().Add(-d)
		q.EndTrial(ctx, time.Now(), overload.State{})
		return q.OnTrial()
	}
	require.True(t, after(heartbeatInterval), "no server has claimed the run yet")
	_, err = s.Claim(ctx, &journal.Claim{
		Run: "run", Epoch: info().Epoch, Owner: "winner", LeaseTTL: time.Millisecond, Steal: true,
	})
	require.NoError(t, err)
	require.False(t, after(heartbeatInterval), "another server has claimed it")

	time.Sleep(store.HeartbeatTimeout + 100*time.Millisecond)
	crashes := func() (owners []string) {
		list, err := s.RunCrashes(ctx, "run", "winner")
		require.NoError(t, err)
		for _, c := range list {
			owners = append(owners, c.Owner)
		}
		return owners
	}
	require.ElementsMatch(t, []string{"first", "winner"}, crashes())

	q.trial, running = info(), true
	require.True(t, after(q.limit-time.Second))
	require.False(t, after(q.limit+time.Second), "the run has outlasted its trial")
	require.Equal(t, []string{"winner"}, crashes(), "this call records it again")
}
