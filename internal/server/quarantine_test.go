package server_test

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
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A deadServer is a server whose process ended without a clean exit.
type deadServer struct {
	f     *servertest.Fixture
	owner string
}

// run creates a run of acme that the server executes. Its lease expires at once.
func (d *deadServer) run(t *testing.T, id string) {
	t.Helper()
	err := d.f.Store.Create(
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
	require.NoError(t, d.f.Store.Heartbeat(t.Context(), p, runs))
	require.Eventually(t, func() bool {
		death, err := d.f.Store.CrashOf(t.Context(), d.owner, "")
		return err == nil && death != nil
	}, 20*time.Second, 20*time.Millisecond)
}

func statusOf(f *servertest.Fixture, id string) journal.Status {
	info, err := f.Store.Run(f.T.Context(), id)
	require.NoError(f.T, err)
	return info.Status
}

// quarantined returns the ids of the quarantined runs.
func quarantined(f *servertest.Fixture) (ids []string) {
	var list struct{ Runs []api.QuarantinedRun }
	f.OK("GET", "/v1/quarantine", f.Operator, nil, &list)
	for _, r := range list.Runs {
		ids = append(ids, r.Run)
	}
	return ids
}

// settles takes over runs and ends trials repeatedly until fn returns true.
func settles(f *servertest.Fixture, what string, fn func() bool) {
	f.T.Helper()
	require.Eventually(f.T, func() bool {
		require.NoError(f.T, f.Services.Runs.TakeOverAll(f.T.Context()))
		f.Services.Quarantine.EndTrial(f.T.Context(), time.Now(), overload.State{})
		return fn()
	}, 20*time.Second, 20*time.Millisecond, what)
}

// TestQuarantine checks that runs that exceeded their share when their server ended are
// quarantined; others are resumed. The tenant sees the reason, the operator can release a run, and
// a canceled run ends.
func TestQuarantine(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		servertest.WithOwner("here"),
	)
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
	settles(f,
		"honest",
		func() bool { return statusOf(f, "run_honest") == journal.StatusFinished && len(quarantined(f)) == 3 },
	)
	require.Equal(t, []string{"run_flood", "run_large", "run_third"}, quarantined(f))

	var run api.Run
	f.OK("GET", "/v1/runs/run_flood", f.Acme, nil, &run)
	require.Equal(t, "quarantined", run.Status)
	require.Contains(t, run.Error, "its share of 100 bytes; cancel the run, or ask the operator")
	var list struct{ Runs []api.Run }
	f.OK("GET", "/v1/runs?status=quarantined", f.Acme, nil, &list)
	require.Len(t, list.Runs, 3)
	f.Send("POST", "/v1/runs", f.Acme, api.StartRun{
		Run: "run_flood", Answers: map[string]json.RawMessage{"x": json.RawMessage("1")},
	}).
		Problem(t, 409)
	f.Send("GET", "/v1/quarantine", f.Acme, nil).Problem(t, 403)
	f.Send("DELETE", "/v1/quarantine/run_flood", f.Acme, nil).Problem(t, 403)

	f.OK("DELETE", "/v1/quarantine/run_flood", f.Operator, nil, nil)
	settles(f, "released", func() bool { return statusOf(f, "run_flood") == journal.StatusFinished })
	f.Send("DELETE", "/v1/quarantine/run_flood", f.Operator, nil).Problem(t, 404)
	f.OK("POST", "/v1/runs/run_large/cancel", f.Acme, nil, &run)
	require.Equal(t, "finished", run.Status)
	f.OK("DELETE", "/v1/runs/run_third", f.Acme, nil, nil)
	require.Empty(t, quarantined(f))
}

// TestSuspectsAreResumedAlone checks that the runs of a server that ran out of memory are resumed
// one at a time. The run that was alone and the largest when the next server ran out of memory is
// quarantined.
func TestSuspectsAreResumedAlone(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		servertest.WithOwner("here"),
	)
	first := &deadServer{f, "first"}
	first.run(t, "run_a")
	first.run(t, "run_b")
	first.dies(
		t,
		900,
		store.RunAccount{Run: "run_a", Held: 50, Share: 100},
		store.RunAccount{Run: "run_b", Held: 40, Share: 100},
	)
	q := f.Services.Quarantine
	info := func(id string) *journal.RunInfo {
		i, err := f.Store.Run(t.Context(), id)
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
			require.NoError(t, f.Store.Suspect(t.Context(), id, d.owner, false))
		}
		d.dies(t, c.pressure, store.RunAccount{Run: id, Held: 50, Share: 100}, other)
		q.EndTrial(t.Context(), time.Now().Add(quarantine.TrialTime), overload.State{}) // ends the trial of the previous run
		require.Equal(t, c.want == journal.StatusRunning, judge(id), "%d", i)
		require.Equal(t, c.want, statusOf(f, id), "%d", i)
	}
}

// TestRunsWithinTheirShareAreNotQuarantined checks that runs that hold exactly their share are
// resumed, and not quarantined, if each of their servers dies while its memory usage is just below
// overload.RejectAt.
func TestRunsWithinTheirShareAreNotQuarantined(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		servertest.WithOwner("here"),
	)
	for i := range 20 {
		d := &deadServer{f, fmt.Sprint("dead", i)}
		d.run(t, fmt.Sprint("run_", i))
		require.NoError(t, f.Store.Heartbeat(t.Context(), &store.Process{Owner: d.owner, Pressure: 849, Limit: 1000},
			[]store.RunAccount{{Run: fmt.Sprint("run_", i), Held: 100, Share: 100}}))
	}
	(&deadServer{f, "last"}).dies(t, 100)
	settles(f, "all", func() bool {
		for i := range 20 {
			if statusOf(f, fmt.Sprint("run_", i)) != journal.StatusFinished {
				return false
			}
		}
		return true
	})
	require.Empty(t, quarantined(f))
}

// TestCleanExitIsNoEvidence checks that the runs of a server are not suspects after its clean exit.
func TestCleanExitIsNoEvidence(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f := servertest.New(t, servertest.WithOwner("clean"))
	require.NoError(
		t,
		f.Store.Heartbeat(
			t.Context(),
			&store.Process{Owner: "clean", Pressure: 999},
			[]store.RunAccount{{Run: "r", Over: time.Hour}},
		),
	)
	death, err := f.Store.CrashOf(t.Context(), "clean", "r")
	require.NoError(t, err)
	require.Nil(t, death, "its heartbeats continue")
	f.Services.Quarantine.End()
	time.Sleep(3100 * time.Millisecond)
	death, err = f.Store.CrashOf(t.Context(), "clean", "r")
	require.NoError(t, err)
	require.Nil(t, death)
}

// TestOOMKillLeavesSuspects checks that the runs of a server are suspects if the OOM killer ended a
// process in its cgroup after its last heartbeat, even if the server used little memory. Kills
// before that heartbeat, and those in other cgroups, do not count.
func TestOOMKillLeavesSuspects(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent},
		servertest.WithOwner("here"),
	)
	ctx := t.Context()
	for owner, p := range map[string]store.Process{
		"killed": {Cgroup: "/a", OOMKills: 1}, "ended": {Cgroup: "/a", OOMKills: 2}, "elsewhere": {Cgroup: "/b", OOMKills: 1},
	} {
		(&deadServer{f, owner}).run(t, "run_"+owner)
		p.Owner, p.Node, p.Pressure, p.Limit = owner, "node", 300, 1000
		require.NoError(t, f.Store.Heartbeat(ctx, &p, []store.RunAccount{{Run: "run_" + owner, Held: 50, Share: 100}}))
	}
	require.NoError(t, f.Store.StartProcess(ctx, &store.Process{Owner: "second", Node: "node", Cgroup: "/a", OOMKills: 2}))
	require.NoError(t, f.Store.EndProcess(ctx, "second"))
	(&deadServer{f, "last"}).dies(t, 100)
	killed := func(owner string) bool {
		d, err := f.Store.CrashOf(ctx, owner, "run_"+owner)
		require.NoError(t, err)
		return d.Killed
	}
	require.True(t, killed("killed"))
	require.False(t, killed("ended"))
	require.False(t, killed("elsewhere"))
	info, err := f.Store.Run(ctx, "run_killed")
	require.NoError(t, err)
	resume, err := f.Services.Quarantine.Judge(ctx, info)
	require.NoError(t, err)
	require.True(t, resume)
	require.True(t, f.Services.Quarantine.OnTrial())
}
