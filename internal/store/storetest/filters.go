package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

// finish commits the last progress of a run and the given events.
func finish(t *testing.T, s store.Store, id string, p journal.Progress, events ...abi.Event) {
	t.Helper()
	var lines strings.Builder
	for i := range events {
		b, err := abijson.Marshal(&events[i])
		require.NoError(t, err)
		lines.Write(append(b, '\n'))
	}
	p.Status = journal.StatusFinished
	require.NoError(t, s.Commit(t.Context(), &journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: []byte("{}\n"), Lazy: true,
		Events: []byte(lines.String()), First: 1, Last: int64(len(events)), Progress: &p}))
}

// filterRuns stores runs of two tenants that differ in each property by which a filter selects runs.
func filterRuns(t *testing.T, s store.Store) {
	denied := abi.Event{Type: abi.EventDecision, Digest: "d1", Decision: &abi.Decision{Decision: abi.DecideDeny}}
	fault := abi.Event{Type: abi.EventFault, Entry: "e"}
	for _, tenant := range []string{"acme", "beta"} {
		for i, r := range []journal.Creation{
			{Title: "Refund order 4711", Agent: "clerk", Spec: []byte(`{"version":1}`), Metadata: []byte(`{"customer":"c1","n":1}`)},
			{Title: "refunds, please", Agent: "clerk", Spec: []byte(`{"version":2}`), Metadata: []byte(`{"customer":"c2","vip":true}`)},
			{Title: "退款 4711", Agent: "clerk", Spec: []byte(`{"version":2}`), Modules: []journal.Pin{{Entry: "e", Digest: "d1"}}},
			{Title: "An orderly exit", Agent: "other", Spec: []byte(`{"version":1}`), Metadata: []byte(`{"customer":"c1"}`)},
			{Title: "", Agent: "other", Metadata: []byte(`{"deep":{"customer":"c1"},"customer=c1":"x","customer":["c1"]}`)},
		} {
			r.ID, r.Tenant, r.Owner, r.Log, r.Lazy = fmt.Sprintf("%s%d", tenant, i), tenant, "me", []byte("{}\n"), true
			require.NoError(t, s.Create(t.Context(), &r))
		}
		finish(t, s, tenant+"0", journal.Progress{FinishReason: abi.RunStop}, fault)
		finish(t, s, tenant+"1", journal.Progress{FinishReason: abi.RunError}, denied, fault, denied)
		finish(t, s, tenant+"2", journal.Progress{FinishReason: abi.RunStop}, abi.Event{Type: abi.EventChild, Event: &denied},
			abi.Event{Type: abi.EventCustom, Data: abi.JSON(`{"type":"fault"}`)},
			abi.Event{Type: abi.EventLog, Text: `"type":"fault"`})
	}
}

// testFilters checks which runs each filter selects, alone and with others.
func testFilters(t *testing.T, open Opener) {
	s, _ := open(t, nil)
	filterRuns(t, s)
	yes, no := true, false
	all := []string{"4", "3", "2", "1", "0"}
	finished, running := []journal.Status{journal.StatusFinished}, []journal.Status{journal.StatusRunning}
	for _, c := range []struct {
		f    store.Filter
		want []string
	}{
		{store.Filter{}, all},
		{store.Filter{Oldest: true}, []string{"0", "1", "2", "3", "4"}},
		{store.Filter{Agent: "clerk", Oldest: true}, []string{"0", "1", "2"}},
		{store.Filter{Agent: "clerk", Version: 2}, []string{"2", "1"}},
		{store.Filter{Agent: "other", Version: 2}, nil},
		{store.Filter{Statuses: running}, []string{"4", "3"}},
		{store.Filter{Statuses: slices.Concat(running, finished)}, all},
		{store.Filter{Statuses: finished, FinishReason: abi.RunStop}, []string{"2", "0"}},
		{store.Filter{FinishReason: abi.RunError}, []string{"1"}},
		{store.Filter{Module: "d1"}, []string{"2"}},
		{store.Filter{Metadata: map[string]string{"customer": "c1"}}, []string{"3", "0"}},
		{store.Filter{Metadata: map[string]string{"customer": "c1", "n": "1"}}, []string{"0"}},
		{store.Filter{Metadata: map[string]string{"vip": "true"}, Agent: "clerk", Statuses: finished}, []string{"1"}},
		{store.Filter{Metadata: map[string]string{"customer": "c"}}, nil},
		{store.Filter{Title: "REFUND"}, []string{"1", "0"}},
		{store.Filter{Title: "ref ord"}, []string{"0"}},
		{store.Filter{Title: "or"}, []string{"3", "0"}},
		{store.Filter{Title: "款"}, []string{"2"}},
		{store.Filter{Title: "4711 退款"}, []string{"2"}},
		{store.Filter{Title: "refundable"}, nil},
		{store.Filter{Title: "und"}, nil},
		{store.Filter{Faults: &yes}, []string{"1", "0"}},
		{store.Filter{Faults: &no}, []string{"4", "3", "2"}},
		{store.Filter{Denials: &yes}, []string{"2", "1"}},
		{store.Filter{Denials: &yes, Faults: &no}, []string{"2"}},
		{store.Filter{CreatedFrom: time.Now().Add(time.Hour)}, nil},
		{store.Filter{CreatedTo: time.Now().Add(time.Hour), UpdatedFrom: time.Now().Add(-time.Hour)}, all},
		{store.Filter{CreatedTo: time.Now().Add(-time.Hour)}, nil},
		{store.Filter{UpdatedTo: time.Now().Add(-time.Hour), Oldest: true}, nil},
	} {
		for _, tenant := range []string{"acme", "beta"} {
			c.f.Tenant = tenant
			for _, limit := range []int{1, 2, 5, 100} {
				got := collectRuns(t, s, c.f, limit, nil)
				var want []string
				for _, n := range c.want {
					want = append(want, tenant+n)
				}
				// Runs of one millisecond are ordered by their ids, so the order is as expected.
				require.Equal(t, want, got, "%+v in pages of %d", c.f, limit)
			}
		}
	}

	info, err := s.Run(t.Context(), "acme1")
	require.NoError(t, err)
	require.Equal(t, []int64{1, 2, 2}, []int64{info.Faults, info.Denials, info.Denied["d1"]})
	require.Equal(t, int64(2), info.Version)
	require.JSONEq(t, `{"customer":"c2","vip":true}`, string(info.Metadata))
}

// testTerms checks that the terms of a run change with its title, and are deleted with the run.
func testTerms(t *testing.T, open Opener) {
	s, where := open(t, nil)
	filterRuns(t, s)
	title := "Refund [ORDER]"
	require.NoError(
		t,
		s.Commit(t.Context(), &journal.Commit{Run: "acme3", Epoch: 1, Entry: 2, Log: []byte("{}\n"), First: 1,
			Rewrite: &journal.Rewrite{First: 2, Title: &title}}),
	)
	find := func(title string) []string {
		return collectRuns(t, s, store.Filter{Tenant: "acme", Title: title}, 10, nil)
	}
	require.Equal(t, []string{"acme3", "acme1", "acme0"}, find("refund"))
	require.Empty(t, find("exit"))
	require.Equal(t, int64(0), count(t, where, `SELECT count(*) FROM run_terms WHERE tenant = 'acme' AND term = 'wexi'`))
	require.NoError(t, s.Delete(t.Context(), "acme0"))
	n, err := s.Prune(t.Context(), store.PruneOptions{OlderThan: -time.Hour})
	require.NoError(t, err)
	require.Positive(t, n)
	_, err = s.Prune(t.Context(), store.PruneOptions{OlderThan: -time.Hour, Unfinished: true})
	require.NoError(t, err)
	require.Equal(t, int64(0), count(t, where, `SELECT count(*) FROM runs`))
	require.Equal(t, int64(0), count(t, where, `SELECT count(*) FROM run_terms`))
}

// testTermLimits checks that a run has few terms, whatever its metadata, title and modules are.
func testTermLimits(t *testing.T, open Opener) {
	s, where := open(t, nil)
	var metadata strings.Builder
	for i := range 100 {
		fmt.Fprintf(&metadata, `,"k%03d":%q`, i, strings.Repeat("v", i*4))
	}
	r := &journal.Creation{ID: "r", Tenant: "acme", Agent: "a", Log: []byte("x"), Lazy: true,
		Metadata: []byte(
			`{"bad key":"x","nul":"\u0000","half":"\ud800","long":"` + strings.Repeat("x", 257) + `"` + metadata.String() + `}`,
		)}
	for i := range 500 {
		r.Title += fmt.Sprintf("w%dx ", 1000+i*1000)
		r.Modules = append(r.Modules, journal.Pin{Entry: "e", Digest: fmt.Sprint("d", i)})
	}
	require.NoError(t, s.Create(t.Context(), r))
	require.LessOrEqual(
		t,
		count(t, where, `SELECT count(*) FROM run_terms`),
		int64(terms.MaxMetadata+terms.MaxTitleWords+64),
	)
	require.Len(
		t,
		collectRuns(t, s, store.Filter{Tenant: "acme", Metadata: map[string]string{"k014": strings.Repeat("v", 56)}}, 1, nil),
		1,
	)
	require.Empty(
		t,
		collectRuns(t, s, store.Filter{Tenant: "acme", Metadata: map[string]string{"k017": strings.Repeat("v", 68)}}, 1, nil),
	)
}

// testFiltersAndWriters checks that filtered pages list each run that matches throughout exactly once,
// in both orders, while runs start, finish and are deleted.
func testFiltersAndWriters(t *testing.T, open Opener) {
	s, where := open(t, nil)
	other := again(t, where)
	create := func(s store.Store, ctx context.Context, id string, i int) error {
		return s.Create(
			ctx,
			&journal.Creation{ID: id, Tenant: "acme", Agent: fmt.Sprint("a", i%2), Lazy: true, Log: []byte("x"),
				Title: fmt.Sprint(
					"order ",
					i%3,
				), Spec: []byte(`{"version":1}`), Metadata: fmt.Appendf(nil, `{"k":%d,"all":true}`, i%5)},
		)
	}
	var stay []int
	for i := range 150 {
		require.NoError(t, create(s, t.Context(), fmt.Sprintf("stay%03d", i), i))
		stay = append(stay, i)
		if i%3 == 0 {
			require.NoError(t, create(s, t.Context(), fmt.Sprintf("gone%03d", i), i))
		}
	}
	time.Sleep(3 * time.Millisecond) // all of them are older than the times of the filters
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 2 {
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := fmt.Sprintf("new%d-%06d", w, i)
				if err := create(other, ctx, id, i); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				if old := fmt.Sprintf("new%d-%06d", w, i-40); i >= 40 && ctx.Err() == nil {
					if err := other.Delete(ctx, old); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 2))
	deleted := 0
	for range 40 {
		f := store.Filter{Tenant: "acme", Oldest: random.IntN(2) == 0}
		want := stay
		narrow := func(keep func(i int) bool) {
			want = slices.DeleteFunc(slices.Clone(want), func(i int) bool { return !keep(i) })
		}
		if random.IntN(2) == 0 {
			f.Agent = "a1"
			narrow(func(i int) bool { return i%2 == 1 })
		}
		if random.IntN(2) == 0 {
			f.Metadata = map[string]string{"k": "3", "all": "true"}
			narrow(func(i int) bool { return i%5 == 3 })
		}
		if random.IntN(2) == 0 {
			f.Title = "order 2"
			narrow(func(i int) bool { return i%3 == 2 })
		}
		f.CreatedTo = time.Now().Add(-time.Millisecond) // so that a list that starts with the oldest run ends
		seen := map[string]int{}
		for _, id := range collectRuns(t, s, f, 1+random.IntN(20), func(*store.Position) {
			if id := fmt.Sprintf("gone%03d", deleted*3); deleted < 50 {
				require.NoError(t, s.Delete(t.Context(), id))
				deleted++
			}
		}) {
			seen[id]++
			require.Equal(t, 1, seen[id], "%s is listed twice by %+v", id, f)
		}
		for _, i := range want {
			require.Equal(t, 1, seen[fmt.Sprintf("stay%03d", i)], "run %d is not listed by %+v", i, f)
		}
	}
	stop()
	wg.Wait()
}
