package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// testRollouts checks the assignment of runs and threads, the figures of finished runs, and that several
// processes end a rollout once.
func testRollouts(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme, beta := newTenant(t, s, "acme", store.TenantQuota{}), newTenant(t, s, "beta", store.TenantQuota{})
	for _, body := range []string{"x", "y"} {
		_, err := acme.PutAgent(ctx, "a", []byte(body), nil)
		require.NoError(t, err)
	}
	r := &store.Rollout{
		ID:       "ro_1",
		Agent:    "a",
		Alias:    "stable",
		Canary:   2,
		Plan:     []byte(`{}`),
		ByThread: true,
		Percent:  30,
	}
	require.ErrorIs(t, acme.CreateRollout(ctx, r), store.ErrNoAlias)
	_, err := acme.SetAlias(ctx, "a", "stable", 1, store.AliasChange{})
	require.NoError(t, err)
	require.ErrorIs(t, beta.CreateRollout(ctx, r), store.ErrNoAgent)
	require.ErrorIs(
		t,
		acme.CreateRollout(ctx, &store.Rollout{ID: "ro_0", Agent: "a", Alias: "stable", Plan: []byte(`{}`)}),
		store.ErrNoAgent,
	)
	require.NoError(t, acme.CreateRollout(ctx, r))
	again1 := *r
	again1.ID = "ro_2"
	require.ErrorIs(t, acme.CreateRollout(ctx, &again1), store.ErrInUse)

	arms := map[store.Arm]int{}
	assigned := func(ref store.AgentRef) *store.AgentSnapshot {
		ref.Name = "a"
		got, err := acme.AgentSnapshot(ctx, ref, "", 0)
		require.NoError(t, err)
		return got
	}
	for i := range 500 {
		arms[assigned(store.AgentRef{Run: fmt.Sprint("run_", i)}).Arm]++
	}
	require.InDelta(t, 150, arms[store.ArmCanary], 60)
	require.Empty(t, assigned(store.AgentRef{Version: 1, Run: "run_1"}).Rollout, "an explicit version is not assigned")
	thread := ""
	for i := 0; thread == ""; i++ { // find a thread that a larger percentage would move
		if id := fmt.Sprint("thread", i); !store.InCanary("ro_1", id, 30) && store.InCanary("ro_1", id, 60) {
			thread = id
		}
	}
	require.Equal(t, store.ArmStable, assigned(store.AgentRef{Thread: thread, Run: "run_1"}).Arm)
	require.NoError(t, acme.KeepThread(ctx, "ro_1", thread))
	_, err = acme.UpdateRollout(
		ctx,
		"ro_1",
		func(r *store.Rollout, _ func(store.Arm, int) ([]store.RolloutRun, error)) error {
			r.Percent = 60
			return nil
		},
	)
	require.NoError(t, err)
	require.Equal(
		t,
		store.ArmStable,
		assigned(store.AgentRef{Thread: thread, Run: "run_2"}).Arm,
		"a thread keeps its version",
	)

	finishRollout(t, s, "acme", "run_1", `{"agent":"a","version":2,"rollout":"ro_1","arm":"canary"}`, abi.RunError)
	finishRollout(t, s, "acme", "run_2", `{"agent":"a","version":2,"rollout":"ro_1","arm":"canary"}`, abi.RunCanceled)
	runs, err := acme.RolloutRuns(ctx, "ro_1", store.ArmCanary, 10)
	require.NoError(t, err)
	require.Len(t, runs, 1, "a canceled run does not count")
	require.Equal(t, []any{"run_1", int64(3), int64(1), true, int64(7)},
		[]any{runs[0].Run, runs[0].Faults, runs[0].Denials, runs[0].Failed, runs[0].PromptTokens})

	active, next, err := acme.ActiveRollouts(ctx, store.Page{})
	require.NoError(t, err)
	require.Nil(t, next)
	require.Equal(t, []string{"ro_1", "a"}, []string{active[0].ID, active[0].Agent})
	active, _, err = beta.ActiveRollouts(ctx, store.Page{})
	require.NoError(t, err)
	require.Empty(t, active)
	_, err = beta.UpdateRollout(ctx, "ro_1", nil)
	require.ErrorIs(t, err, store.ErrNoRollout)
	changed := make([]bool, 4)
	var wg sync.WaitGroup
	for i := range changed {
		other := again(t, where).Tenant("acme")
		wg.Go(func() {
			_, _ = other.UpdateRollout(
				ctx,
				"ro_1",
				func(r *store.Rollout, _ func(store.Arm, int) ([]store.RolloutRun, error)) error {
					changed[i] = true
					r.Status, r.Reason = store.RolloutPromoted, "done"
					return nil
				},
			)
		})
	}
	wg.Wait()
	n := 0
	for _, c := range changed {
		if c {
			n++
		}
	}
	require.Equal(t, 1, n, "a rollout ends once")
	moves, _, err := acme.AliasMoves(ctx, "a", "stable", store.Page{})
	require.NoError(t, err)
	require.Len(t, moves, 2)
	require.Equal(t, []any{int64(2), "rollout ro_1"}, []any{moves[0].To, moves[0].By})
	active, err = s.ActiveRollouts(ctx, time.Now().Add(time.Hour), 10)
	require.NoError(t, err)
	require.Empty(t, active)
}

// finishRollout creates a run with a spec, and finishes it with three faults, a denial and tokens.
func finishRollout(t *testing.T, s store.Store, tenant, id, spec, reason string) {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: id, Tenant: tenant, Agent: "a", Owner: "me", LeaseTTL: lease,
		Spec: json.RawMessage(spec), Log: []byte("x")}))
	events := `{"type":"decision","seq":1,"run":"r","time_ms":1,"decision":{"decision":"deny","call_id":"c","tool":"t","arguments_digest":""}}` +
		"\n" + `{"type":"custom","seq":2,"run":"r","time_ms":1,"data":{"type":"decision"}}` + "\n"
	require.NoError(t, s.Commit(ctx, &journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: []byte("x"), First: 1, Last: 2,
		Events: []byte(events), LeaseTTL: lease, Progress: &journal.Progress{Status: journal.StatusFinished,
			FinishReason: reason, Usage: abi.Usage{PromptTokens: 7}, Stats: []abi.EntryStats{{Entry: "m", Faults: 3}}}}))
}
