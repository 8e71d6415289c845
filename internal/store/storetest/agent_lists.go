package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// testPagesOfAgents checks that the pages of aliases, their moves, rollouts, replays and the results of replays
// have each row that exists throughout exactly once, while rows are added and changed concurrently.
func testPagesOfAgents(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	for _, body := range []string{"x", "y"} {
		_, err := acme.PutAgent(ctx, "a", []byte(body), nil)
		require.NoError(t, err)
	}
	const n, limit = 8, 3
	var aliases, rolls, replays, runs []string
	for i := range n {
		alias := fmt.Sprint("m", i)
		aliases = append(aliases, alias)
		_, err := acme.SetAlias(ctx, "a", alias, 1, store.AliasChange{})
		require.NoError(t, err)
		r := &store.Rollout{ID: fmt.Sprint("ro_", i), Agent: "a", Alias: alias, Canary: 2, Plan: []byte(`{}`)}
		require.NoError(t, acme.CreateRollout(ctx, r))
		rolls = append(rolls, r.ID)
		runs = append(runs, fmt.Sprint("run_", i))
	}
	for i := range n {
		id := fmt.Sprint("rp_", i)
		replays = append(replays, id)
		require.NoError(t, acme.CreateReplay(ctx, &store.Replay{ID: id, Agent: "a", Candidate: []byte(`{}`)}, runs))
	}
	replay, err := s.ClaimReplay(ctx, time.Minute)
	require.NoError(t, err)
	for range n {
		run, _, err := s.NextReplayRun(ctx, replay, time.Minute)
		require.NoError(t, err)
		run.Outcome, run.Body = "same", []byte("{}")
		require.NoError(t, s.FinishReplayRun(ctx, replay, run))
	}
	_, err = acme.SetAlias(ctx, "a", "moved", 1, store.AliasChange{})
	require.NoError(t, err)
	var moves []string
	for i := range n {
		moves = append(moves, fmt.Sprint(i))
		_, err := acme.SetAlias(ctx, "a", "moved", int64(2-i%2), store.AliasChange{Reason: fmt.Sprint(i)})
		require.NoError(t, err)
	}
	slices.Reverse(moves)

	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 200 { // the last 1,000 moves are stored
			select {
			case <-stop:
				return
			default:
			}
			_, err := acme.SetAlias(ctx, "a", "moved", int64(1+i%2), store.AliasChange{Reason: "meanwhile"})
			if err == nil {
				_, err = acme.SetAlias(ctx, "a", fmt.Sprint("added", i%20), 1, store.AliasChange{})
			}
			if err == nil {
				err = acme.DeleteAlias(ctx, "a", fmt.Sprint("added", i%20), store.AliasChange{})
			}
			if err == nil {
				_, err = acme.UpdateRollout(ctx, rolls[i%n],
					func(r *store.Rollout, _ func(store.Arm, int) ([]store.RolloutRun, error)) error {
						r.Percent = int64(i % 100)
						return nil
					})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	original := func(ids, want []string) []string {
		return slices.DeleteFunc(ids, func(id string) bool { return !slices.Contains(want, id) })
	}
	for range 5 {
		got := collect(
			t,
			limit,
			nil,
			func(p store.Page) ([]store.Alias, *store.Position, error) { return acme.Aliases(ctx, "a", p) },
			func(a store.Alias) string { return a.Name },
		)
		require.Equal(t, aliases, original(got, aliases))
		got = collect(t, limit, nil, func(p store.Page) ([]store.AliasMove, *store.Position, error) {
			return acme.AliasMoves(ctx, "a", "moved", p)
		}, func(m store.AliasMove) string { return m.Reason })
		require.Equal(t, moves, original(got, moves))
		for _, read := range []func(store.Page) ([]store.Rollout, *store.Position, error){
			func(p store.Page) ([]store.Rollout, *store.Position, error) { return acme.ActiveRollouts(ctx, p) },
			func(p store.Page) ([]store.Rollout, *store.Position, error) { return acme.Rollouts(ctx, "a", p) },
		} {
			require.ElementsMatch(t, rolls, collect(t, limit, nil, read, func(r store.Rollout) string { return r.ID }))
		}
		for _, agent := range []string{"", "a"} {
			require.ElementsMatch(t, replays, collect(t, limit, nil,
				func(p store.Page) ([]store.Replay, *store.Position, error) { return acme.Replays(ctx, agent, p) },
				func(r store.Replay) string { return r.ID }))
		}
		require.Equal(t, runs, collect(t, limit, nil, func(p store.Page) ([]store.ReplayRun, *store.Position, error) {
			return acme.ReplayRuns(ctx, replay.ID, "", p)
		}, func(r store.ReplayRun) string { return r.Run }))
	}
	close(stop)
	writer.Wait()
}
