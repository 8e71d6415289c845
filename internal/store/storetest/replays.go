package storetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// testReplays checks that several processes execute each run of a replay once, that a tenant has one replay
// in progress, and the limits on replays.
func testReplays(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	create := func(n *store.Tenant, id string, runs ...string) error {
		return n.CreateReplay(ctx, &store.Replay{ID: id, Agent: "a", Candidate: []byte(`{"version":2}`), By: "key k"}, runs)
	}
	_, err := acme.PutAgent(ctx, "a", []byte("x"), nil)
	require.NoError(t, err)
	for _, id := range []string{"run_1", "run_2", "run_3", "run_4"} {
		require.NoError(t, s.Create(ctx, &journal.Creation{ID: id, Tenant: "acme", Agent: "a", Log: []byte("x")}))
	}
	require.NoError(t, create(acme, "rp_1", "run_1", "run_2", "run_3"))
	require.NoError(t, create(acme, "rp_2", "run_1"))
	require.NoError(t, create(beta, "rp_3", "run_9"))

	var claimed atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		other := again(t, where)
		wg.Go(func() {
			if r, err := other.ClaimReplay(ctx, time.Minute); err == nil && r != nil {
				claimed.Add(1)
			}
		})
	}
	wg.Wait()
	require.LessOrEqual(t, claimed.Load(), int64(3), "each is claimed once")
	require.Positive(t, claimed.Load())

	r, err := acme.Replay(ctx, "rp_1")
	require.NoError(t, err)
	stale := *r
	stale.Epoch--
	_, _, err = s.NextReplayRun(ctx, &stale, time.Minute)
	require.ErrorIs(t, err, store.ErrReplayLost)
	for i := range 3 {
		run, cancel, err := s.NextReplayRun(ctx, r, time.Minute)
		require.NoError(t, err)
		require.False(t, cancel)
		require.Equal(t, []any{fmt.Sprint("run_", i+1), int64(1)}, []any{run.Run, run.Attempts})
		run.Outcome, run.Body = []string{"same", "failed", "same"}[i], make([]byte, 3<<20)
		require.NoError(t, s.FinishReplayRun(ctx, r, run))
	}
	run, _, err := s.NextReplayRun(ctx, r, time.Minute)
	require.NoError(t, err)
	require.Nil(t, run)
	require.ErrorIs(t, acme.DeleteReplay(ctx, "rp_1"), store.ErrInUse)
	require.NoError(t, s.EndReplay(ctx, r, store.ReplayFinished))
	require.ErrorIs(t, s.EndReplay(ctx, r, store.ReplayFinished), store.ErrReplayLost)
	r, err = acme.Replay(ctx, "rp_1")
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"same": 2, "failed": 1}, r.Counts)
	all, next, err := acme.ReplayRuns(ctx, "rp_1", "same", store.Page{})
	require.NoError(t, err)
	require.Nil(t, next)
	require.Equal(t, []int{3 << 20, 0}, []int{len(all[0].Body), len(all[1].Body)}, "4 MiB of details are stored")
	require.NoError(t, s.Delete(ctx, "run_1"))
	all, _, err = acme.ReplayRuns(ctx, "rp_1", "same", store.Page{})
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{len(all[0].Body), len(all[1].Body)}, "details are erased with their run")

	list, _, err := acme.Replays(ctx, "", store.Page{})
	require.NoError(t, err)
	require.Len(t, list, 2, "of all agents of the tenant")
	list, _, err = acme.Replays(ctx, "a", store.Page{Limit: 1})
	require.NoError(t, err)
	require.Len(t, list, 1)
	_, _, err = acme.Replays(ctx, "b", store.Page{})
	require.ErrorIs(t, err, store.ErrNoAgent)
	_, err = beta.Replay(ctx, "rp_1")
	require.ErrorIs(t, err, store.ErrNoReplay)
	require.ErrorIs(t, beta.DeleteReplay(ctx, "rp_1"), store.ErrNoReplay)
	_, err = beta.CancelReplay(ctx, "rp_1")
	require.ErrorIs(t, err, store.ErrNoReplay)
	_, _, err = beta.ReplayRuns(ctx, "rp_1", "", store.Page{})
	require.ErrorIs(t, err, store.ErrNoReplay)
	testReplayOfDeletedRun(ctx, t, s, acme)
	var full *store.QuotaError
	for i := range 11 {
		if err = create(acme, fmt.Sprint("rp_more_", i), "run_1"); err != nil {
			break
		}
	}
	require.ErrorAs(t, err, &full)
	require.Equal(t, "replays", full.Quota)
	n, err := s.DeleteOldReplays(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, 3, n, "those that have ended")
}

// testReplayOfDeletedRun checks that a replay stores no details of a run that was deleted in the
// meantime.
func testReplayOfDeletedRun(ctx context.Context, t *testing.T, s store.Store, acme *store.Tenant) {
	r, err := acme.Replay(ctx, "rp_2")
	require.NoError(t, err)
	require.NoError(t, s.EndReplay(ctx, r, store.ReplayFinished))
	require.NoError(
		t,
		acme.CreateReplay(ctx, &store.Replay{ID: "rp_4", Agent: "a", Candidate: []byte(`{}`)}, []string{"run_4"}),
	)
	require.Eventually(t, func() bool {
		r, err = s.ClaimReplay(ctx, time.Minute)
		return err != nil || r != nil && r.ID == "rp_4"
	}, time.Minute, time.Millisecond)
	require.NoError(t, err)
	run, _, err := s.NextReplayRun(ctx, r, time.Minute)
	require.NoError(t, err)
	require.NoError(t, s.Delete(ctx, "run_4"))
	run.Outcome, run.Body = "same", []byte("a secret")
	require.NoError(t, s.FinishReplayRun(ctx, r, run))
	require.NoError(t, s.EndReplay(ctx, r, store.ReplayFinished))
	all, _, err := acme.ReplayRuns(ctx, "rp_4", "", store.Page{})
	require.NoError(t, err)
	require.Empty(t, all[0].Body)
}
