package durability_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestBloat stores runs in PostgreSQL, deletes those that finished, and stores as many again. It logs
// the size of the database and the number of dead rows after each step, and checks that autovacuum
// lets the new runs use the space of the deleted ones. docs/operations.md has the figures of 100,000
// runs.
func TestBloat(t *testing.T) {
	longtest.Skip(t)
	server := postgrestest.Start(t)
	require.NoError(t, server.Configure("autovacuum=on", "autovacuum_naptime=5s", "autovacuum_vacuum_scale_factor=0.02",
		"autovacuum_vacuum_cost_limit=2000", "shared_buffers=128MB"))
	s, err := store.Open(t.Context(), server.Create(t, "bloat"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	for i := range scaleTenants {
		_, err := s.CreateTenant(t.Context(), fmt.Sprintf("t%02d", i), "", store.TenantQuota{}, nil)
		require.NoError(t, err)
	}
	report := func(step string, began time.Time) (size int64) {
		out, err := server.Query("bloat", `SELECT pg_database_size('bloat'), sum(n_dead_tup), sum(n_live_tup),
			sum(autovacuum_count) FROM pg_stat_user_tables`)
		require.NoError(t, err)
		var dead, live, vacuums int64
		_, err = fmt.Sscanf(strings.ReplaceAll(out, "|", " "), "%d %d %d %d", &size, &dead, &live, &vacuums)
		require.NoError(t, err)
		t.Logf("%-32s %8v: %5d MB, %8d live rows, %8d dead rows, %d autovacuums", step,
			time.Since(began).Round(time.Second), size>>20, live, dead, vacuums)
		return size
	}
	fill := func(from int) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for i := int(next.Add(1)) - 1; i < scaleRuns(); i = int(next.Add(1)) - 1 {
					storeRun(t, s, from+i)
				}
			})
		}
		wg.Wait()
	}
	began := time.Now()
	fill(0)
	full := report("stored", began)
	began = time.Now()
	n, err := s.Prune(t.Context(), store.PruneOptions{})
	require.NoError(t, err)
	require.Greater(t, n, scaleRuns()/2)
	report(fmt.Sprintf("%d finished runs deleted", n), began)
	began = time.Now()
	require.Eventually(t, func() bool {
		dead, err := server.Query("bloat", `SELECT coalesce(max(n_dead_tup), 0) < 1000 + $$`+fmt.Sprint(scaleRuns()/20)+
			`$$::int FROM pg_stat_user_tables`)
		require.NoError(t, err)
		return dead == "t"
	}, 3*time.Minute, time.Second)
	report("autovacuum is done", began)
	began = time.Now()
	fill(1_000_000)
	again := report("as many runs stored again", began)
	require.Less(t, again, full*3/2, "new runs use the space of deleted ones")
}
