package server

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/quarantine"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A deadServer is a server whose process ended without a clean exit.
type deadServer struct {
	f     *fixture
	owner string
}

// run creates a run of acme that the server executes. Its lease expires at once.
func (d *deadServer) run(t *testing.T, id string) {
	t.Helper()
	err := d.f.store.Create(
		t.Context(),
		&journal.Creation{
			ID:     id,
			Tenant: "acme",
			Agent:  "greeter",
			Owner:  d.owner,
			Spec:   []byte(`{"agent":"greeter","version":1}`),
			Log:    []byte(`{"head":{"id":"` + id + `","phase":"start"},"fixed":{}}` + "\n"),
		},
	)
	require.NoError(t, err)
}

// dies stores the server's last heartbeat. It returns when the store treats the server as crashed, 3
// s later.
func (d *deadServer) dies(t *testing.T, pressure int64, runs ...store.RunAccount) {
	t.Helper()
	p := &store.Process{Owner: d.owner, Node: "node", Pressure: pressure, Used: pressure, Limit: 1000}
	require.NoError(t, d.f.store.Heartbeat(t.Context(), p, runs))
	require.Eventually(t, func() bool {
		death, err := d.f.store.CrashOf(t.Context(), d.owner, "")
		return err == nil && death != nil
	}, 20*time.Second, 20*time.Millisecond)
}

func (f *fixture) statusOf(id string) journal.Status {
	info, err := f.store.Run(f.t.Context(), id)
	require.NoError(f.t, err)
	return info.Status
}

// quarantined returns the ids of the quarantined runs.
func (f *fixture) quarantined() (ids []string) {
	var list struct{ Runs []api.QuarantinedRun }
	f.ok("GET", "/v1/quarantine", f.operator, nil, &list)
	for _, r := range list.Runs {
		ids = append(ids, r.Run)
	}
	return ids
}

// settles takes over runs and ends trials repeatedly until fn returns true.
func (f *fixture) settles(what string, fn func() bool) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		require.NoError(f.t, f.server.runs.TakeOverAll(f.t.Context()))
		f.server.quarantine.EndTrial(f.t.Context(), time.Now(), overload.State{})
		return fn()
	}, 20*time.Second, 20*time.Millisecond, what)
}

// TestQuarantine checks that runs that exceeded their share when their server ended are
// quarantined; others are resumed. The tenant sees the reason, the operator can release a run, and
// a canceled run ends.
func TestQuarantine(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello}, withOwner("here"))
	d := &deadServer{f, "dead"}
	for _, id := range []string{"run_honest", "run_flood", "run_large", "run_third"} {
		d.run(t, id)
	}
	d.dies(
		t,
		300,
		store.RunAccount{Run: "run_honest", Held: 99, Share: 100, Over: quarantine.ExcessTime - 1},
		store.RunAccount{Run: "run_flood", Held: 10, Share: 100, Over: quarantine.ExcessTime},
		store.RunAccount{Run: "run_large", Held: 101, Share: 100},
		store.RunAccount{Run: "run_third", Held: 101, Share: 100},
	)
	f.settles(
		"honest",
		func() bool { return f.statusOf("run_honest") == journal.StatusFinished && len(f.quarantined()) == 3 },
	)
	require.Equal(t, []string{"run_flood", "run_large", "run_third"}, f.quarantined())

	var run api.Run
	f.ok("GET", "/v1/runs/run_flood", f.acme, nil, &run)
	require.Equal(t, "quarantined", run.Status)
	require.Contains(t, run.Error, "its share of 100 bytes; cancel the run, or ask the operator")
	var list struct{ Runs []api.Run }
	f.ok("GET", "/v1/runs?status=quarantined", f.acme, nil, &list)
	require.Len(t, list.Runs, 3)
	f.send("POST", "/v1/runs", f.acme, api.StartRun{
		Run: "run_flood", Answers: map[string]json.RawMessage{"x": json.RawMessage("1")},
	}).
		problem(t, 409)
	f.send("GET", "/v1/quarantine", f.acme, nil).problem(t, 403)
	f.send("DELETE", "/v1/quarantine/run_flood", f.acme, nil).problem(t, 403)

	f.ok("DELETE", "/v1/quarantine/run_flood", f.operator, nil, nil)
	f.settles("released", func() bool { return f.statusOf("run_flood") == journal.StatusFinished })
	f.send("DELETE", "/v1/quarantine/run_flood", f.operator, nil).problem(t, 404)
	f.ok("POST", "/v1/runs/run_large/cancel", f.acme, nil, &run)
	require.Equal(t, "finished", run.Status)
	f.ok("DELETE", "/v1/runs/run_third", f.acme, nil, nil)
	require.Empty(t, f.quarantined())
}

// TestSuspectsAreResumedAlone checks that the runs of a server that ran out of memory are resumed
// one at a time. The run that was alone and the largest when the next server ran out of memory is
// quarantined.
func TestSuspectsAreResumedAlone(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello}, withOwner("here"))
	first := &deadServer{f, "first"}
	first.run(t, "run_a")
	first.run(t, "run_b")
	first.dies(
		t,
		900,
		store.RunAccount{Run: "run_a", Held: 50, Share: 100},
		store.RunAccount{Run: "run_b", Held: 40, Share: 100},
	)
	q := f.server.quarantine
	info := func(id string) *journal.RunInfo {
		i, err := f.store.Run(t.Context(), id)
		require.NoError(t, err)
		return i
	}
	judge := func(id string) bool {
		resume, err := q.Judge(t.Context(), info(id))
		require.NoError(t, err)
		return resume
	}
	require.True(t, judge("run_a"))
	require.False(t, judge("run_b"), "one at a time")
	q.EndTrial(t.Context(), time.Now(), overload.State{Rejecting: true})
	require.False(t, judge("run_b"), "memory is short")
	q.EndTrial(t.Context(), time.Now().Add(quarantine.TrialTime), overload.State{})
	require.True(t, judge("run_b"), "the first one is cleared")

	for i, c := range []struct {
		pressure int64
		largest  bool
		suspect  bool
		want     journal.Status
	}{
		{pressure: 400, largest: true, suspect: true, want: journal.StatusRunning}, // killed for another reason
		{pressure: 900, largest: false, suspect: true, want: journal.StatusRunning},
		{pressure: 900, largest: true, suspect: false, want: journal.StatusRunning},
		{pressure: 900, largest: true, suspect: true, want: journal.StatusQuarantined},
	} {
		d := &deadServer{f, fmt.Sprint("second", i)}
		id := fmt.Sprint("run_c", i)
		d.run(t, id)
		other := store.RunAccount{Run: "run_other", Held: 60, Share: 100}
		if c.largest {
			other.Held = 40
		}
		if c.suspect {
			require.NoError(t, f.store.Suspect(t.Context(), id, d.owner, false))
		}
		d.dies(t, c.pressure, store.RunAccount{Run: id, Held: 50, Share: 100}, other)
		q.EndTrial(t.Context(), time.Now().Add(quarantine.TrialTime), overload.State{}) // ends the trial of the previous run
		require.Equal(t, c.want == journal.StatusRunning, judge(id), "%d", i)
		require.Equal(t, c.want, f.statusOf(id), "%d", i)
	}
}

// TestRunsWithinTheirShareAreNotQuarantined checks that runs that hold exactly their share are
// resumed, and not quarantined, if each of their servers dies while its memory usage is just below
// overload.RejectAt.
func TestRunsWithinTheirShareAreNotQuarantined(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello}, withOwner("here"))
	for i := range 20 {
		d := &deadServer{f, fmt.Sprint("dead", i)}
		d.run(t, fmt.Sprint("run_", i))
		require.NoError(t, f.store.Heartbeat(t.Context(), &store.Process{Owner: d.owner, Pressure: 849, Limit: 1000},
			[]store.RunAccount{{Run: fmt.Sprint("run_", i), Held: 100, Share: 100}}))
	}
	(&deadServer{f, "last"}).dies(t, 100)
	f.settles("all", func() bool {
		for i := range 20 {
			if f.statusOf(fmt.Sprint("run_", i)) != journal.StatusFinished {
				return false
			}
		}
		return true
	})
	require.Empty(t, f.quarantined())
}

// TestCleanExitIsNoEvidence checks that the runs of a server are not suspects after its clean exit.
func TestCleanExitIsNoEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f := newFixture(t, withOwner("clean"))
	require.NoError(
		t,
		f.store.Heartbeat(
			t.Context(),
			&store.Process{Owner: "clean", Pressure: 999},
			[]store.RunAccount{{Run: "r", Over: time.Hour}},
		),
	)
	death, err := f.store.CrashOf(t.Context(), "clean", "r")
	require.NoError(t, err)
	require.Nil(t, death, "its heartbeats continue")
	f.server.quarantine.End()
	time.Sleep(3100 * time.Millisecond)
	death, err = f.store.CrashOf(t.Context(), "clean", "r")
	require.NoError(t, err)
	require.Nil(t, death)
}

// TestOOMKillLeavesSuspects checks that the runs of a server are suspects if the OOM killer ended a
// process in its cgroup after its last heartbeat, even if the server used little memory. Kills
// before that heartbeat, and those in other cgroups, do not count.
func TestOOMKillLeavesSuspects(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello}, withOwner("here"))
	ctx := t.Context()
	for owner, p := range map[string]store.Process{
		"killed": {Cgroup: "/a", OOMKills: 1}, "ended": {Cgroup: "/a", OOMKills: 2}, "elsewhere": {Cgroup: "/b", OOMKills: 1},
	} {
		(&deadServer{f, owner}).run(t, "run_"+owner)
		p.Owner, p.Node, p.Pressure, p.Limit = owner, "node", 300, 1000
		require.NoError(t, f.store.Heartbeat(ctx, &p, []store.RunAccount{{Run: "run_" + owner, Held: 50, Share: 100}}))
	}
	require.NoError(t, f.store.StartProcess(ctx, &store.Process{Owner: "second", Node: "node", Cgroup: "/a", OOMKills: 2}))
	require.NoError(t, f.store.EndProcess(ctx, "second"))
	(&deadServer{f, "last"}).dies(t, 100)
	killed := func(owner string) bool {
		d, err := f.store.CrashOf(ctx, owner, "run_"+owner)
		require.NoError(t, err)
		return d.Killed
	}
	require.True(t, killed("killed"))
	require.False(t, killed("ended"))
	require.False(t, killed("elsewhere"))
	info, err := f.store.Run(ctx, "run_killed")
	require.NoError(t, err)
	resume, err := f.server.quarantine.Judge(ctx, info)
	require.NoError(t, err)
	require.True(t, resume)
	require.True(t, f.server.quarantine.OnTrial())
}
