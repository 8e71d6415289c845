package store_test

import (
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

// The steps of a plan that read tables which grow with each run, and each version of an
// agent, that is kept, or with what is used, and those of them that find its own rows.
var (
	growing = regexp.MustCompile(`^(SCAN|SEARCH) (runs|run_log|run_events|run_traces|agents|tenant_usage|pieces)\b`)
	ownRows = regexp.MustCompile(`^SEARCH (runs|run_log|run_events|run_traces|agents|pieces) .*(_autoindex_\w+_1|_pieces) \((id=\?|run=\?|tenant=\? AND name=\?)`)
)

// otherwise are statements that look at more than a run's own rows, by how they begin or
// what they say, with the step that they may take.
var otherwise = []struct{ statement, step, why string }{
	{"runs WHERE tenant = $1 AND (created_ms, id) < ($2, $3) ORDER BY created_ms DESC, id DESC LIMIT", "SEARCH runs USING INDEX runs_list (tenant=? AND (created_ms,id)<(?,?))", "lists a page of a tenant's runs"},
	{"< ($2, $3) AND status = $4 ORDER BY", "SEARCH runs USING INDEX runs_list_status (tenant=? AND status=? AND (created_ms,id)<(?,?))", "lists a page of a tenant's runs"},
	{"< ($2, $3) AND agent = $4 ORDER BY", "SEARCH runs USING INDEX runs_list_agent (tenant=? AND agent=? AND (created_ms,id)<(?,?))", "lists a page of a tenant's runs"},
	{"< ($2, $3) AND agent = $4 AND status || '' = $5 ORDER BY", "SEARCH runs USING INDEX runs_list_agent (tenant=? AND agent=? AND (created_ms,id)<(?,?))", "lists a page of an agent's finished runs"},
	{"< ($2, $3) AND status = $4 AND agent || '' = $5 ORDER BY", "SEARCH runs USING INDEX runs_list_status (tenant=? AND status=? AND (created_ms,id)<(?,?))", "lists a page of an agent's runs that have not finished"},
	{"WHERE tenant = $1 AND status = 'running'", "SEARCH runs USING INDEX runs_list_status (tenant=? AND status=?)", "counts a tenant's runs under way"},
	{"owner = $1 AND cancel = 1 AND status = 'running'", "SEARCH runs USING INDEX runs_canceled (owner=?)", "looks for runs to cancel"},
	{"status = 'running'", "SEARCH runs USING INDEX runs_status (status=?)", "looks at runs under way"},
	{"tenant = $1 LIMIT $2", "SEARCH runs USING COVERING INDEX runs_list_agent (tenant=?)", "takes some runs of a tenant that is deleted"},
	{"FROM agents GROUP BY tenant, name", "SCAN agents USING INDEX sqlite_autoindex_agents_1", "brings an older database up to date"},
	{"JOIN tenant_modules ON", "SCAN agents", "brings an older database up to date"},
	{"DELETE FROM agents WHERE tenant = $1", "SEARCH agents USING INDEX sqlite_autoindex_agents_1 (tenant=?)", "deletes a tenant"},
	{"SELECT name, version, created_ms FROM agents", "SEARCH agents USING INDEX sqlite_autoindex_agents_1 (tenant=?)", "lists the names of a tenant's agents"},
	{"ORDER BY name LIMIT $3", "SEARCH agents USING INDEX sqlite_autoindex_agents_1 (tenant=? AND name>?)", "lists a tenant's agents"},
	{"DELETE FROM tenant_usage WHERE tenant = $1", "SEARCH tenant_usage USING INDEX sqlite_autoindex_tenant_usage_1 (tenant=?)", "deletes a tenant"},
	{"ORDER BY day, agent, module LIMIT $7", "SEARCH tenant_usage USING INDEX sqlite_autoindex_tenant_usage_1 (tenant=? AND day>? AND day<?)", "lists what was used"},
	{"FROM tenant_usage WHERE tenant = $1 AND day >= $2 AND day <= $3", "SEARCH tenant_usage USING INDEX sqlite_autoindex_tenant_usage_1 (tenant=? AND day>? AND day<?)", "adds up what was used"},
	{"FROM tenant_usage GROUP BY tenant, day", "SCAN tenant_usage USING INDEX sqlite_autoindex_tenant_usage_1", "brings an older database up to date"},
	{"FROM runs WHERE tenant <> '' GROUP BY tenant", "SCAN runs USING INDEX runs_list", "brings an older database up to date"},
	{"UPDATE runs SET journal_bytes = 256", "SCAN runs", "brings an older database up to date"},
	{"status IN ('finished', $2, $3)", "SEARCH runs USING INDEX runs_status (status=? AND created_ms<?)", "looks for runs that are kept no longer"},
	{"SELECT id, modules FROM runs", "SEARCH runs USING INDEX sqlite_autoindex_runs_1 (id>?)", "looks for modules that no run has, some runs at a time, beside those who write"},
	{"SELECT modules FROM runs", "SEARCH runs USING INDEX runs_status (status=? AND created_ms>?)", "looks whether runs that have just begun have a module"},
}

func allowed(statement, step string) bool {
	for _, o := range otherwise {
		if strings.Contains(statement, o.statement) && step == o.step {
			return true
		}
	}
	return ownRows.MatchString(step)
}

// TestRunsAreFound keeps what a run costs from growing with the runs that are kept: of an
// index that fits half of a condition SQLite reads all that it has, as of all timelines of
// a tenant to count those of one run.
func TestRunsAreFound(t *testing.T) {
	t.Parallel()
	require.False(t, allowed("SELECT count(*) FROM run_traces WHERE tenant = $1 AND run = $2", "SEARCH run_traces USING INDEX run_traces_tenant (tenant=?)"))
	var mu sync.Mutex
	plans := map[string]string{}
	t.Run("statements", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T, o *store.Options) (store.Store, string) {
			where := filepath.Join(t.TempDir(), "s.db")
			s := open(t, where, o)
			t.Cleanup(func() {
				mu.Lock()
				defer mu.Unlock()
				if got, err := store.Plans(context.WithoutCancel(t.Context()), s); err == nil { // some are closed by then
					maps.Copy(plans, got)
				}
			})
			return s, where
		})
	})
	require.NotEmpty(t, plans)
	for statement, plan := range plans {
		for step := range strings.Lines(plan) {
			step = strings.TrimSpace(step)
			require.True(t, !growing.MatchString(step) || allowed(statement, step), "%s\nreads more than a run's rows: %s", statement, step)
		}
	}
}
