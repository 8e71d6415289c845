package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A database's clock that is set forward makes runs that live look cut off: nobody takes
// them over until their servers have given another sign of life.
func TestLeasesAreNotTrustedBehindAJump(t *testing.T) {
	t.Parallel()
	const lease = 15 * time.Second
	begin := time.Date(2026, 11, 21, 23, 59, 0, 0, time.UTC)
	type look struct {
		theirs, ours time.Duration // since the begin
		want         bool
	}
	for name, looks := range map[string][]look{
		"it goes on":        {{0, 0, true}, {3 * time.Second, 3 * time.Second, true}, {6 * time.Second, 7 * time.Second, true}},
		"who begins":        {{time.Hour, 0, true}},
		"forward":           {{0, 0, true}, {time.Hour, 3 * time.Second, false}, {time.Hour + 3*time.Second, 6 * time.Second, false}, {time.Hour + 15*time.Second, 18 * time.Second, true}},
		"back":              {{0, 0, true}, {-time.Hour, 3 * time.Second, true}, {3*time.Second - time.Hour, 6 * time.Second, true}},
		"back, and forward": {{0, 0, true}, {-time.Hour, 3 * time.Second, true}, {6 * time.Second, 6 * time.Second, false}, {21 * time.Second, 21 * time.Second, true}},
		"it was slow":       {{0, 0, true}, {time.Minute, time.Minute, true}},
	} {
		clock := &leaseClock{}
		for i, l := range looks {
			require.Equal(t, l.want, clock.trusts(begin.Add(l.theirs), begin.Add(l.ours), lease), "%s: look %d", name, i+1)
		}
	}
}

// A run whose agent cannot be made is tried for an hour by this server's own clock: that
// the database's was set forward ends none.
func TestGivingUpIsNotByTheLease(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	f.server.runs.fleet = agentSourceFunc(func(context.Context, *store.Tenant, runSpec) (*opened, error) { return nil, errors.New("not now") })
	var ahead atomic.Int64
	began := time.Now()
	f.server.now = func() time.Time { return began.Add(time.Duration(ahead.Load())) }
	require.NoError(t, f.store.Create(t.Context(), &journal.Creation{ID: "run_a", Tenant: "acme", Agent: "greeter", Owner: "gone", Lease: -2 * giveUp,
		Spec: []byte(`{"agent":"greeter","version":1}`), Log: []byte(`{"head":{"id":"run_a","phase":"start"},"fixed":{}}` + "\n")}))
	take := func() journal.Status {
		info, err := f.store.Run(t.Context(), "run_a")
		require.NoError(t, err)
		f.server.runs.take(t.Context(), info)
		info, err = f.store.Run(t.Context(), "run_a")
		require.NoError(t, err)
		return info.Status
	}
	require.Equal(t, journal.StatusRunning, take())
	ahead.Store(int64(giveUp))
	require.Equal(t, journal.StatusRunning, take())
	ahead.Store(int64(giveUp + time.Second))
	require.Equal(t, journal.StatusFinished, take())
}

// Whether a run is held is asked of the database, whose clock leases are by: one that another
// server runs is canceled there, however far ahead this one's clock is.
func TestTheDatabasesClockJudgesLeases(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	f.server.now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	require.NoError(t, f.store.Create(t.Context(), &journal.Creation{ID: "run_a", Tenant: "acme", Agent: "greeter", Owner: "another server", Lease: time.Hour,
		Spec: []byte(`{"agent":"greeter","version":1}`), Log: []byte(`{"head":{"id":"run_a","phase":"start"},"fixed":{}}` + "\n")}))
	f.ok("POST", "/v1/runs/run_a/cancel", f.acme, nil, nil)
	info, err := f.store.Run(t.Context(), "run_a")
	require.NoError(t, err)
	require.True(t, info.Cancel)
	require.Equal(t, int64(1), info.Epoch, "nobody else has claimed it")
	now, err := f.store.Now(t.Context())
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), now, time.Hour)
}
