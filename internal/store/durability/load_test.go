package durability_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// scaleTenants is the number of tenants of TestManyRuns.
const scaleTenants = 100

// scaleRuns returns the number of runs of TestManyRuns: AGENT_RUNNER_SCALE_RUNS, or 5,000.
func scaleRuns() int {
	if n, err := strconv.Atoi(os.Getenv("AGENT_RUNNER_SCALE_RUNS")); err == nil {
		return n
	}
	return 5000
}

// storeRun stores run number i with a value for each filter of lists.
func storeRun(t *testing.T, s store.Store, i int) {
	tenant, words := fmt.Sprintf("t%02d", i%scaleTenants), []string{"refund", "order", "invoice", "address", "password"}
	n := i / scaleTenants // number of the run in its tenant
	id := fmt.Sprintf("run_%06d", i)
	digest := fmt.Sprintf("%064x", n%7)
	var thread *journal.ThreadStart
	if n%5 == 2 {
		h, err := s.Tenant(tenant).CreateThread(t.Context(), &store.Thread{ID: fmt.Sprintf("thr_%06d", i),
			Agent: fmt.Sprint(
				"agent",
				n%10,
			), Subject: fmt.Sprint("user", n%50), Metadata: map[string]string{"channel": fmt.Sprint("c", n%3)}})
		if err != nil {
			t.Error(err)
			return
		}
		thread = &journal.ThreadStart{Thread: h.ID, Version: h.Version}
	}
	if err := s.Create(t.Context(), &journal.Creation{
		Thread: thread,
		ID:     id, Tenant: tenant, Agent: fmt.Sprint("agent", n%10), Owner: "o", Lazy: true, LeaseTTL: -time.Second, Log: make([]byte, 500),
		Title:    fmt.Sprintf("Please handle the %s of customer %d number %d", words[n%5], n%50, n),
		Spec:     fmt.Appendf(nil, `{"agent":"a","version":%d}`, n%4+1),
		Metadata: fmt.Appendf(nil, `{"customer":"c%d","env":"prod","order":%d,"vip":%t}`, n%50, n, n%20 == 0),
		Modules:  []journal.Pin{{Entry: "guard", Ring: "tenant", Digest: digest}},
	}); err != nil {
		t.Error(err)
		return
	}
	if n%50 == 0 {
		return // still running
	}
	p := journal.Progress{Status: journal.StatusFinished, FinishReason: abi.RunStop, Step: 3,
		Usage:  abi.Usage{PromptTokens: 100, CompletionTokens: 10, TotalTokens: 110},
		Models: map[string]abi.Usage{"m": {PromptTokens: 100, CompletionTokens: 10}},
		Stats:  []abi.EntryStats{{Entry: "guard", Digest: digest, Calls: 3, WallUS: 1000}}}
	events := ""
	switch n % 25 {
	case 1:
		p.FinishReason, events = abi.RunError, `{"type":"fault","seq":1,"run":"r","time_ms":1}`+"\n"
	case 3:
		events = `{"type":"decision","seq":1,"run":"r","time_ms":1,"digest":"` + digest +
			`","decision":{"decision":"deny","call_id":"c","tool":"t","arguments_digest":""}}` + "\n"
	}
	c := &journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: make([]byte, 2000), First: 1, Lazy: true, Progress: &p}
	if events != "" {
		c.Events, c.Last = []byte(events), 1
	}
	if err := s.Commit(t.Context(), c); err != nil {
		t.Error(err)
	}
}

// storeNames stores 20 agents, modules and keys of a tenant.
func storeNames(t *testing.T, s store.Store, i int) {
	tenant := s.Tenant(fmt.Sprintf("t%02d", i))
	for n := range 20 {
		name := fmt.Sprintf("name%02d", n)
		_, _, err := tenant.CreateKey(t.Context(), &store.KeyOptions{Name: name})
		require.NoError(t, err)
		_, err = tenant.PutAgent(t.Context(), name, []byte("x"), nil)
		require.NoError(t, err)
		require.NoError(t, tenant.PutModule(t.Context(),
			&store.TenantModule{Digest: fmt.Sprintf("%064x", n), Kind: "wasm", Size: 1, About: []byte("{}")}, name, "1"))
	}
}

// TestManyRuns stores runs of 100 tenants in each kind of database, and logs how long lists and series
// take: the 95th percentile of 200 queries. docs/platform.md has the figures of 100,000 runs.
func TestManyRuns(t *testing.T) {
	longtest.Skip(t)
	for name, where := range map[string]func(t *testing.T) string{
		"SQLite":     func(t *testing.T) string { return filepath.Join(t.TempDir(), "s.db") },
		"PostgreSQL": func(t *testing.T) string { return postgrestest.Start(t).Create(t, "many") },
	} {
		t.Run(name, func(t *testing.T) {
			s, err := store.Open(t.Context(), where(t), nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			for i := range scaleTenants {
				_, err := s.CreateTenant(t.Context(), fmt.Sprintf("t%02d", i), "", store.TenantQuota{}, nil)
				require.NoError(t, err)
				storeNames(t, s, i)
			}
			var next atomic.Int64
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for i := int(next.Add(1)) - 1; i < scaleRuns(); i = int(next.Add(1)) - 1 {
						storeRun(t, s, i)
					}
				})
			}
			wg.Wait()
			measureLists(t, s)
		})
	}
}

// measureNames logs the times of the lists of agents, modules, keys, tenants, threads and the audit log.
func measureNames(t *testing.T, s store.Store, measure func(name string, query func(tenant string) error)) {
	ctx, p := t.Context(), store.Page{Name: "AME07", Limit: 50}
	measure("agents by name", func(tenant string) error {
		_, _, err := s.Tenant(tenant).Agents(ctx, p)
		return err
	})
	measure("modules by name", func(tenant string) error {
		_, _, err := s.Tenant(tenant).Modules(ctx, p)
		return err
	})
	measure("keys by name", func(tenant string) error {
		_, _, err := s.Tenant(tenant).Keys(ctx, p)
		return err
	})
	measure("tenants by name", func(string) error {
		_, _, err := s.Tenants(ctx, p)
		return err
	})
	for name, f := range map[string]store.ThreadFilter{
		"": {}, " by agent": {Agent: "agent2"}, " by end user": {Subject: "user7"},
		" by metadata": {Name: "channel", Value: "c1"},
	} {
		f.Limit = 50
		measure("threads"+name, func(tenant string) error {
			_, _, err := s.Tenant(tenant).Threads(ctx, &f)
			return err
		})
	}
	for name, f := range map[string]store.AuditFilter{"": {}, " by target, no match": {Target: "none"}} {
		measure("audit log"+name, func(tenant string) error {
			_, _, err := s.Tenant(tenant).AuditLog(ctx, &f)
			return err
		})
	}
}

// measureLists logs the times of lists and series.
func measureLists(t *testing.T, s store.Store) {
	yes, no := true, false
	finished := []journal.Status{journal.StatusFinished}
	random := rand.New(rand.NewPCG(1, 2))
	measure := func(name string, query func(tenant string) error) {
		var times []time.Duration
		for range 200 {
			tenant := fmt.Sprintf("t%02d", random.IntN(scaleTenants))
			start := time.Now()
			require.NoError(t, query(tenant))
			times = append(times, time.Since(start))
		}
		slices.Sort(times)
		t.Logf("%-28s p50 %7.2f ms  p95 %7.2f ms", name, times[100].Seconds()*1000, times[190].Seconds()*1000)
	}
	for _, c := range []struct {
		name string
		f    store.Filter
	}{
		{"all", store.Filter{}},
		{"oldest first", store.Filter{Oldest: true}},
		{"agent", store.Filter{Agent: "agent3"}},
		{"agent and version", store.Filter{Agent: "agent3", Version: 4}},
		{"status finished", store.Filter{Statuses: finished}},
		{"status running", store.Filter{Statuses: []journal.Status{journal.StatusRunning}}},
		{"two statuses", store.Filter{Statuses: []journal.Status{journal.StatusRunning, journal.StatusPaused}}},
		{"finish reason", store.Filter{FinishReason: abi.RunError}},
		{"module", store.Filter{Module: fmt.Sprintf("%064x", 3)}},
		{"metadata", store.Filter{Metadata: map[string]string{"customer": "c7"}}},
		{"metadata, no match", store.Filter{Metadata: map[string]string{"customer": "nobody", "env": "prod"}}},
		{"title", store.Filter{Title: "refund custom"}},
		{"title, short word", store.Filter{Title: "zz"}},
		{"faults", store.Filter{Faults: &yes}},
		{"denials", store.Filter{Denials: &yes}},
		{"thread, no match", store.Filter{Thread: "thr_none"}},
		{"faults and metadata", store.Filter{Faults: &yes, Metadata: map[string]string{"vip": "false", "env": "prod"}}},
		{"without faults", store.Filter{Faults: &no}},
		{"created", store.Filter{CreatedFrom: time.Now().Add(-time.Hour), CreatedTo: time.Now()}},
		{"updated, no match", store.Filter{UpdatedFrom: time.Now().Add(time.Hour)}},
		{"combination", store.Filter{Agent: "agent3", Statuses: finished, Metadata: map[string]string{"env": "prod"}, Title: "cust"}},
		{"combination, no match", store.Filter{Agent: "agent3", FinishReason: abi.RunError, Faults: &no,
			Metadata: map[string]string{"env": "prod"}}},
	} {
		measure("runs: "+c.name, func(tenant string) error {
			f := c.f
			f.Tenant, f.Limit = tenant, 50
			_, next, err := s.Runs(t.Context(), &f)
			if err == nil && next != nil && random.IntN(2) == 0 { // the second page
				f.After = next
				_, _, err = s.Runs(t.Context(), &f)
			}
			return err
		})
	}
	measureNames(t, s, measure)
	for _, q := range []store.SeriesQuery{
		{Kind: store.SeriesAgents}, {Kind: store.SeriesAgents, ByVersion: true}, {Kind: store.SeriesModules, ByName: true},
		{Kind: store.SeriesModels, ByName: true},
	} {
		q.Period, q.From, q.To = store.SeriesHour, time.Now().Add(-24*time.Hour), time.Now()
		measure("series: "+string(q.Kind), func(tenant string) error {
			_, _, err := s.Tenant(tenant).Series(t.Context(), &q)
			return err
		})
	}
	measure("usage", func(tenant string) error {
		_, _, err := s.Tenant(tenant).Usage(t.Context(), "2000-01-01", "2100-01-01", store.Page{})
		return err
	})
	measure("tenants", func(string) error {
		_, _, err := s.Tenants(t.Context(), store.Page{})
		return err
	})
}
