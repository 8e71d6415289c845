package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// testMeter checks that each commit adds the run's counters to its tenant's usage once.
func testMeter(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	require.NoError(
		t,
		s.Create(
			ctx,
			&journal.Creation{ID: "r", Tenant: "acme", Agent: "a", Owner: "me", LeaseTTL: time.Minute, Log: []byte("x"),
				Modules: []journal.Pin{
					{Entry: "own", Ring: "tenant", Digest: "d1"},
					{Entry: "guard", Ring: "outer", Digest: "d2"},
					{Entry: "native", Ring: "tenant"},
					{Entry: "sub/own", Ring: "tenant", Digest: "d1"},
				}},
		),
	)
	step := func(entry int64, p *journal.Progress) error {
		return s.Commit(ctx,
			&journal.Commit{Run: "r", Epoch: 1, Log: []byte("x"), Entry: entry, First: 1, Progress: p, LeaseTTL: time.Minute})
	}
	at := func(tokens, fuel int64, steps int, status journal.Status) *journal.Progress {
		return &journal.Progress{
			Status: status,
			Step:   steps,
			Usage:  abi.Usage{PromptTokens: tokens, CompletionTokens: tokens / 10, TotalTokens: tokens + tokens/10},
			Stats: []abi.EntryStats{{Entry: "own", Digest: "d1", Calls: fuel / 10, Fuel: fuel, WallUS: fuel * 1000},
				{Entry: "guard", Digest: "d2", Calls: 9, Fuel: 900}, {Entry: "native", Calls: 9},
				{Agent: "sub", Entry: "own", Digest: "d1", Calls: 1, Fuel: 1}},
		}
	}
	first, second := at(100, 50, 1, journal.StatusRunning), at(300, 70, 2, journal.StatusFinished)
	require.NoError(t, step(2, first))
	require.NoError(t, step(2, first), "the response was lost, and the commit is repeated")
	require.NoError(t, step(3, second))
	require.NoError(t, step(3, second))

	info, err := s.Run(ctx, "r")
	require.NoError(t, err)
	today := store.Day(time.Now())
	rows, _, err := acme.Usage(ctx, today, today, store.Page{})
	require.NoError(t, err)
	require.Len(t, rows, 2, "the tenant does not see the operator's modules")
	require.GreaterOrEqual(t, rows[0].WallMS, int64(0))
	rows[0].WallMS = 0
	require.Equal(t, []store.Usage{
		{Day: today, Agent: "a", PromptTokens: 300, CompletionTokens: 30, Calls: 2, JournalBytes: info.JournalBytes},
		{Day: today, Agent: "a", Module: "d1", Fuel: 71, Calls: 8, WallMS: 70},
	}, rows)
}

// testExpiredRuns checks that ExpiredRuns omits live runs, runs of sub-agents and runs of commands,
// and returns at most the given number of runs of each tenant.
func testExpiredRuns(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	ctx := t.Context()
	newTenant(t, s, "acme", store.TenantQuota{})
	for id, run := range map[string]journal.Creation{
		"lives":      {Tenant: "acme", LeaseTTL: time.Minute},
		"gone":       {Tenant: "acme", LeaseTTL: -time.Second},
		"child":      {Tenant: "acme", Parent: "gone"},
		"command":    {Spec: []byte(`{"version":1}`)},
		"bare":       {},
		"operator's": {Spec: []byte(`{"agent":"a"}`)},
	} {
		run.ID, run.Agent, run.Owner, run.Log = id, "a", "me", []byte("x")
		require.NoError(t, s.Create(ctx, &run))
	}
	list, err := s.ExpiredRuns(ctx, []byte(`{"agent":"`), 10, 10)
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, []string{"gone", "operator's"}, []string{list[0].ID, list[1].ID}, "not those of commands")

	newTenant(t, s, "beta", store.TenantQuota{})
	for i := range 5 {
		require.NoError(
			t,
			s.Create(ctx,
				&journal.Creation{ID: fmt.Sprint("more", i), Tenant: "acme", Agent: "a", Owner: "me", Log: []byte("x")}),
		)
	}
	require.NoError(t,
		s.Create(ctx, &journal.Creation{ID: "its", Tenant: "beta", Agent: "a", Owner: "me", Log: []byte("x")}))
	list, err = s.ExpiredRuns(ctx, []byte("{no spec"), 10, 2)
	require.NoError(t, err)
	require.Len(t, list, 3, "at most two of each tenant")
	require.Equal(t, "its", list[1].ID, "after the first run of the other tenant")
}
