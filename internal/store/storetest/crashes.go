package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// testRunCrashes checks which processes count as ended by a run: those without heartbeats since, also
// if they had not claimed the run yet. A process that is alive must never count.
func testRunCrashes(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	for _, id := range []string{"run", "other"} {
		require.NoError(t, s.Create(ctx, &journal.Creation{ID: id, Owner: "first", Log: []byte("{}")}))
	}
	start := func(owners ...string) {
		for _, owner := range owners {
			require.NoError(t, s.StartProcess(ctx, &store.Process{Owner: owner, Node: "node of " + owner}))
		}
	}
	crashes := func(run, owner string) (owners []string, list []store.RunCrash) {
		list, err := s.RunCrashes(ctx, run, owner)
		require.NoError(t, err)
		for _, c := range list {
			owners = append(owners, c.Owner)
			require.Equal(t, "node of "+c.Owner, c.Node)
			require.Greater(t, c.Silent, store.HeartbeatTimeout)
			require.Less(t, c.Lived, time.Second)
		}
		return owners, list
	}
	suspects := func(node string) (owners []string) {
		list, err := s.SuspectOwners(ctx, node)
		require.NoError(t, err)
		for _, c := range list {
			owners = append(owners, c.Owner)
		}
		return owners
	}
	start("first", "paused", "second", "winner")
	owners, _ := crashes("run", "first")
	require.Empty(t, owners, "a process with heartbeats")
	require.NoError(t, s.Resuming(ctx, "run", "second"))
	require.NoError(t, s.Resuming(ctx, "other", "second"))

	time.Sleep(store.HeartbeatTimeout + 100*time.Millisecond)
	start("winner")
	owners, _ = crashes("other", "first")
	require.Equal(t, []string{"second", "first"}, owners)
	owners, _ = crashes("run", "paused")
	require.Equal(t, []string{"second", "paused"}, owners)
	require.Equal(t, []string{"first"}, suspects("node of first"))
	require.Equal(t, []string{"first"}, suspects("node of second"))
	require.Empty(t, suspects("elsewhere"))
	start("paused", "second")
	owners, _ = crashes("run", "paused")
	require.Empty(t, owners, "heartbeats arrive again")
	require.NoError(t, s.ReportCrash(ctx, "run", "unknown"))
	require.NoError(t, s.ReportCrash(ctx, "", "first"))
	owners, list := crashes("run", "first")
	require.Equal(t, []string{"first"}, owners)
	require.True(t, list[0].Reported && !list[0].Named && !list[0].Alone)
	require.NoError(t, s.ReportCrash(ctx, "unknown", "first"))
	require.NoError(t, s.ReportCrash(ctx, "run", "first"))
	require.NoError(t, s.Suspect(ctx, "run", "first", true))
	owners, list = crashes("run", "first")
	require.Equal(t, []string{"first"}, owners)
	require.True(t, list[0].Named && list[0].Alone)
	require.Equal(t, []string{"first"}, suspects("node of first"), "named once")
	require.NoError(t, s.EndProcess(ctx, "first"))
	owners, _ = crashes("run", "first")
	require.Empty(t, owners, "a clean end")

	quarantine := func(id, owner string) {
		info, err := s.Run(ctx, id)
		require.NoError(t, err)
		require.NoError(t, s.Quarantine(ctx, info, &store.Evidence{Owner: owner}))
	}
	quarantine("run", "second")
	quarantine("other", "first")
	released, err := s.ReleaseUnfounded(ctx)
	require.NoError(t, err)
	require.Empty(t, released)
	time.Sleep(5 * time.Millisecond) // heartbeats have milliseconds
	start("second")
	released, err = s.ReleaseUnfounded(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"run"}, released)
	info, err := s.Run(ctx, "run")
	require.NoError(t, err)
	require.Equal(t, journal.StatusRunning, info.Status)
}

// testTrials checks that the store keeps all processes that executed nothing but a run, and which other
// processes count as unrelated to the run.
func testTrials(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	start := func(owners ...string) {
		for _, owner := range owners {
			require.NoError(t, s.StartProcess(ctx, &store.Process{Owner: owner, Node: "node"}))
		}
	}
	try := func(run, owner string, alone bool) {
		require.NoError(t, s.Resuming(ctx, run, owner))
		require.NoError(t, s.Suspect(ctx, run, owner, alone))
	}
	unrelated := func(run string) bool {
		found, err := s.UnrelatedCrash(ctx, run)
		require.NoError(t, err)
		return found
	}
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: "run", Owner: "first", Log: []byte("{}")}))
	start("first", "second", "third", "busy", "other")
	try("run", "first", true)
	try("run", "second", true)
	try("run", "busy", false)
	try("run", "third", true)
	try("another", "other", true)
	require.False(t, unrelated("run"), "all processes are alive")

	time.Sleep(store.HeartbeatTimeout + 100*time.Millisecond)
	list, err := s.RunCrashes(ctx, "run", "third")
	require.NoError(t, err)
	alone := map[string]bool{}
	for _, c := range list {
		alone[c.Owner] = c.Alone
		require.False(t, c.Back)
	}
	require.Equal(t, map[string]bool{"first": true, "second": true, "third": true, "busy": false}, alone)
	for owner, want := range map[string]bool{"first": false, "third": true} {
		d, err := s.CrashOf(ctx, owner, "run")
		require.NoError(t, err)
		require.Equal(t, want, d.Isolated, "the last process only")
	}
	require.False(t, unrelated("run"), "the trial of another run")
	require.True(t, unrelated("another"), "a process that executed a run beside others")
	start("more")
	require.False(t, unrelated("run"), "alive")
	require.NoError(t, s.EndProcess(ctx, "busy"))
	require.False(t, unrelated("another"), "a clean end")

	require.NoError(t, s.NotResumed(ctx, "run", "third"))
	list, err = s.RunCrashes(ctx, "run", "second")
	require.NoError(t, err)
	require.Len(t, list, 2)
	for _, c := range list {
		require.True(t, c.Back, "more is alive on the same machine")
	}
	d, err := s.CrashOf(ctx, "third", "run")
	require.NoError(t, err)
	require.False(t, d.Alone || d.Isolated)
}
