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

// prices returns 2 for each prompt token of the model m, and 3 for each completion token.
func prices(model string, prompt, completion int64) int64 {
	if model != "m" {
		return 0
	}
	return 2*prompt + 3*completion
}

// testCosts checks that the tokens of each commit are priced once.
func testCosts(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Cost: prices})
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	require.NoError(
		t,
		s.Create(
			ctx,
			&journal.Creation{ID: "r", Tenant: "acme", Agent: "a", Owner: "me", LeaseTTL: time.Minute, Log: []byte("x")},
		),
	)
	for entry, tokens := range []int64{10, 10, 30} {
		c := &journal.Commit{
			Run:   "r",
			Epoch: 1,
			Log:   []byte("x"),
			Entry: int64(entry) + 2,
			First: 1,
			Progress: &journal.Progress{
				Status: journal.StatusRunning, Models: map[string]abi.Usage{"m": {PromptTokens: tokens, CompletionTokens: 1}, "free": {PromptTokens: 9}}},
		}
		require.NoError(t, s.Commit(ctx, c))
		require.NoError(t, s.Commit(ctx, c), "the response was lost, and the commit is repeated")
	}
	info, err := s.Run(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, int64(63), info.CostNano)
	require.Equal(t, int64(30), info.Models["m"].PromptTokens)
	total, err := acme.UsageTotal(ctx, "2000-01-01", "2100-01-01")
	require.NoError(t, err)
	require.Equal(t, int64(63), total.CostNano)
}

// testSeries checks the counts of finished runs by agent, version, module and model.
func testSeries(t *testing.T, open Opener) {
	s, _ := open(t, &store.Options{Cost: prices})
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	newTenant(t, s, "beta", store.TenantQuota{})
	start := func(id, tenant, agent string, version int) {
		require.NoError(
			t,
			s.Create(ctx, &journal.Creation{ID: id, Tenant: tenant, Agent: agent, Owner: "me", LeaseTTL: -time.Second,
				Log: []byte("x"), Lazy: true, Spec: fmt.Appendf(nil, `{"version":%d}`, version), Modules: []journal.Pin{
					{Entry: "own", Ring: "tenant", Digest: "d1"}, {Entry: "guard", Ring: "outer", Digest: "d2"}}}),
		)
	}
	used := journal.Progress{FinishReason: abi.RunStop, Usage: abi.Usage{PromptTokens: 10, CompletionTokens: 2},
		Models: map[string]abi.Usage{"m": {PromptTokens: 10, CompletionTokens: 2}},
		Stats: []abi.EntryStats{{Entry: "own", Digest: "d1", Calls: 3, Faults: 1, WallUS: 5000},
			{Entry: "guard", Digest: "d2", Calls: 1, WallUS: 1000}}}
	denied := abi.Event{Type: abi.EventDecision, Digest: "d1", Decision: &abi.Decision{Decision: abi.DecideDeny}}
	for i, version := range []int{1, 1, 2} {
		id := fmt.Sprint("r", i)
		start(id, "acme", "a", version)
		finish(t, s, id, used, denied, abi.Event{Type: abi.EventFault})
	}
	start("b", "acme", "b", 1)
	failed := used
	failed.FinishReason = abi.RunError
	finish(t, s, "b", failed)
	start("c", "acme", "b", 1)
	require.NoError(t, s.Abandon(ctx, "c", "gone"))
	start("going", "acme", "b", 1)
	start("others", "beta", "a", 1)
	finish(t, s, "others", used)

	for _, period := range []store.SeriesPeriod{store.SeriesHour, store.SeriesDay} {
		read := func(q store.SeriesQuery) (got []string) {
			q.Period, q.From, q.To = period, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
			groups, more, err := acme.Series(ctx, &q)
			require.NoError(t, err)
			require.Zero(t, more)
			for _, g := range groups {
				require.NotEmpty(t, g.Points)
				c := g.Total.SeriesCounts
				got = append(
					got,
					fmt.Sprintf(
						"%s/%d/%s runs=%d/%d/%d tokens=%d/%d cost=%d faults=%d denials=%d calls=%d hooks=%d",
						g.Agent,
						g.Version,
						g.Name,
						c.Runs,
						c.Failed,
						c.Canceled,
						c.PromptTokens,
						c.CompletionTokens,
						c.CostNano,
						c.Faults,
						c.Denials,
						c.Calls,
						c.HookMS,
					),
				)
			}
			return got
		}
		require.Equal(t, []string{"/0/ runs=5/1/1 tokens=40/8 cost=104 faults=3 denials=3 calls=16 hooks=24"},
			read(store.SeriesQuery{Kind: store.SeriesAgents}))
		require.Equal(t, []string{
			"a/0/ runs=3/0/0 tokens=30/6 cost=78 faults=3 denials=3 calls=12 hooks=18",
			"b/0/ runs=2/1/1 tokens=10/2 cost=26 faults=0 denials=0 calls=4 hooks=6",
		}, read(store.SeriesQuery{Kind: store.SeriesAgents, ByAgent: true}))
		require.Equal(t, []string{
			"a/1/ runs=2/0/0 tokens=20/4 cost=52 faults=2 denials=2 calls=8 hooks=12",
			"a/2/ runs=1/0/0 tokens=10/2 cost=26 faults=1 denials=1 calls=4 hooks=6",
		}, read(store.SeriesQuery{Kind: store.SeriesAgents, ByVersion: true, Agent: "a"}))
		require.Equal(t, []string{"/0/d1 runs=4/1/0 tokens=40/8 cost=104 faults=4 denials=3 calls=12 hooks=20"},
			read(store.SeriesQuery{Kind: store.SeriesModules, ByName: true}), "the operator's modules are not counted")
		require.Equal(t, []string{"a/0/ runs=3/0/0 tokens=30/6 cost=78 faults=3 denials=3 calls=9 hooks=15"},
			read(store.SeriesQuery{Kind: store.SeriesModules, ByAgent: true, Name: "d1", Agent: "a"}))
		require.Equal(t, []string{"/0/m runs=4/0/0 tokens=40/8 cost=104 faults=0 denials=0 calls=0 hooks=0"},
			read(store.SeriesQuery{Kind: store.SeriesModels, ByName: true}))
	}
}

// testSeriesLimits checks that a bucket has few rows, however many agents and models a tenant uses, and
// that the counts remain complete.
func testSeriesLimits(t *testing.T, open Opener) {
	s, where := open(t, nil)
	ctx := t.Context()
	acme := newTenant(t, s, "acme", store.TenantQuota{})
	const n = 220
	for i := range n {
		id := fmt.Sprint("r", i)
		require.NoError(
			t,
			s.Create(ctx, &journal.Creation{ID: id, Tenant: "acme", Agent: "a", Owner: "me", LeaseTTL: -time.Second,
				Log: []byte("x"), Lazy: true, Spec: fmt.Appendf(nil, `{"version":%d}`, i+1)}),
		)
		finish(t, s, id, journal.Progress{FinishReason: abi.RunStop, Models: map[string]abi.Usage{id: {PromptTokens: 1}}})
	}
	require.LessOrEqual(t, count(t, where, `SELECT count(*) FROM run_series`), int64(2*2*2*201))
	groups, more, err := acme.Series(
		ctx,
		&store.SeriesQuery{Kind: store.SeriesAgents, Period: store.SeriesDay, ByVersion: true,
			From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(time.Hour), Groups: 5},
	)
	require.NoError(t, err)
	require.Len(t, groups, 5)
	require.Greater(t, more, 100)
	require.Empty(t, groups[0].Agent, "versions beyond the limit are counted together")
	groups, _, err = acme.Series(ctx, &store.SeriesQuery{Kind: store.SeriesAgents, Period: store.SeriesDay,
		From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(time.Hour)})
	require.NoError(t, err)
	require.Equal(t, int64(n), groups[0].Total.Runs)
	require.NoError(t, s.DeleteTenant(ctx, "acme"))
	require.Zero(t, count(t, where, `SELECT count(*) FROM run_latencies`))
}
