package clusterchaos

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestFailover kills a PostgreSQL primary while two servers execute runs, and promotes its synchronous
// standby. The servers reach both through one URL. Each run must end once, and each call of the tool
// must happen at most once. docs/operations.md has the result.
func TestFailover(t *testing.T) {
	longtest.Skip(t)
	primary := postgrestest.Start(t)
	require.NoError(t, primary.Configure("wal_level=replica", "max_wal_senders=4", "fsync=on", "full_page_writes=on"))
	primary.Create(t, "platform")
	standby, err := primary.Copy()
	require.NoError(t, err)
	t.Cleanup(standby.Close)
	require.NoError(t, standby.Signal("standby.signal"))
	require.NoError(t, standby.Configure(primary.Upstream("standby"), "hot_standby=on"))
	_, err = primary.Query("postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'")
	require.NoError(t, err)
	_, err = primary.Query("postgres", "SELECT pg_reload_conf()")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		state, err := primary.Query("postgres", "SELECT sync_state FROM pg_stat_replication")
		return err == nil && state == "sync"
	}, 20*time.Second, 50*time.Millisecond)

	l := newLocal(t)
	where := fmt.Sprintf("postgres://postgres@%s,%s/platform?sslmode=disable&target_session_attrs=read-write",
		primary.Host(), standby.Host())
	l.serve(where)
	l.serve(where)
	l.prepare()
	stop := l.load(8)
	l.await(15)

	killed := time.Now()
	require.NoError(t, primary.KillHard())
	require.NoError(t, standby.Promote())
	promoted := time.Now()
	l.await(30)
	stop()

	s, err := store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	runs := atRest(t, s)
	l.requireFailedOver(s, runs, killed, promoted)
	requireUsage(t, s, l.any(), runs)
}

// requireFailedOver checks the runs of the load, and logs the times from the failure to the next event
// of each run that was in progress.
func (l *local) requireFailedOver(s store.Store, runs map[string]string, killed, promoted time.Time) {
	t := l.t
	require.Empty(t, l.ledger.twice(), "calls that were made twice")
	require.Len(t, runs, len(l.runs))
	var first time.Time
	var waits []time.Duration
	lost := 0
	for _, r := range l.runs {
		require.Contains(t, runs, r.id)
		events := journalOf(t, s, r.id)
		require.False(t, r.ended.IsZero(), "the follower of %s has its end", r.id)
		stored := map[int64]string{}
		for i := range events {
			stored[events[i].Seq] = string(events[i].Type)
		}
		next := time.Time{}
		for i := range r.events {
			if stored[r.events[i].Seq] != string(r.events[i].Type) {
				lost++
				t.Logf(
					"%s: the follower got event %d as %s, the journal has %s",
					r.id,
					r.events[i].Seq,
					r.events[i].Type,
					stored[r.events[i].Seq],
				)
			}
			if r.events[i].at.After(promoted) && next.IsZero() {
				next = r.events[i].at
			}
		}
		if r.started.Before(killed) && r.ended.After(killed) && !next.IsZero() {
			waits = append(waits, next.Sub(killed))
		}
		if !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	require.NotEmpty(t, waits)
	slices.Sort(waits)
	round := func(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
	t.Logf(
		"%d runs, %d in progress at the failure; promoted after %v, first event after %v; next event of a run: p50 %v, max %v; %d events of followers differ",
		len(l.runs),
		len(waits),
		round(promoted.Sub(killed)),
		round(first.Sub(killed)),
		round(waits[len(waits)/2]),
		round(waits[len(waits)-1]),
		lost,
	)
}
