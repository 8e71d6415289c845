package store_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/sqlite"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

var (
	// largeTables matches steps of query plans that read tables which grow with runs,
	// versions of agents or usage.
	largeTables = regexp.MustCompile(`^(SCAN|SEARCH) (runs|run_log|run_events|run_traces|agents|tenant_usage|pieces|` +
		`run_terms|run_series|run_latencies|threads|thread_messages|thread_metadata)\b`)
	// singleRun matches steps that read the rows of one run or agent by an index.
	singleRun = regexp.MustCompile(
		`^SEARCH (threads|thread_messages|thread_metadata|runs) .*(_autoindex_thread\w+_1|runs_thread_busy|runs_queued|runs_list_thread|runs_thread_seq) ` +
			`\(tenant=\? AND (id|thread)=\?|^SEARCH (runs|run_log|run_events|run_traces|agents|pieces) .*(_autoindex_\w+_1|_pieces) \((id=\?|run=\?|tenant=\? AND name=\?)`,
	)
	// page matches the start of statements that read a page of a list of runs, or count the first rows of
	// the indexes to read it from. They have a limit.
	page = regexp.MustCompile(
		`^SELECT (created_ms, (id|run) FROM|count\(\*\) FROM \(SELECT 1 FROM) (runs|run_terms) WHERE`,
	)
	// pageIndex matches the steps of these statements: an index that has the list's order, without the table.
	pageIndex = regexp.MustCompile(`^SEARCH (runs USING COVERING INDEX runs_list \(tenant=\?` +
		`|runs USING COVERING INDEX runs_list_agent \(tenant=\? AND agent=\?` +
		`|runs USING COVERING INDEX runs_list_thread \(tenant=\? AND thread=\?` +
		`|runs USING COVERING INDEX runs_list_status \(tenant=\? AND status=\?` +
		`|run_terms USING PRIMARY KEY \(tenant=\? AND term=\?)( AND created_ms>\?)?( AND created_ms<\?)?` +
		`( AND \(created_ms,(id|run)\)[<>]\(\?,\?\))?( AND created_ms<\?)?\)$`)
	// oneRow matches steps that read one row of the terms or series, or the terms of one run.
	oneRow = regexp.MustCompile(
		`^SEARCH (run_terms( EXISTS)? USING PRIMARY KEY \(tenant=\? AND term=\? AND created_ms=\? AND run=\?\)` +
			`|(run_series|run_latencies) USING PRIMARY KEY \(tenant=\? AND period=\? AND kind=\? AND start_ms=\? AND agent=\?.*name=\?)`,
	)
	// buckets matches steps that read a range of a tenant's series, which has few rows in each bucket.
	buckets = regexp.MustCompile(`^SEARCH (run_series|run_latencies) USING PRIMARY KEY ` +
		`\(tenant=\? AND period=\? AND kind=\? AND start_ms(=\?|[<>]\?.*)\)$`)
)

// exceptions are statements that read more than the rows of one run: a part of their text,
// and the step that they may take.
var exceptions = []struct{ statement, step, purpose string }{
	{
		"WHERE tenant = $1 AND status = 'running'",
		"SEARCH runs USING INDEX runs_list_status (tenant=? AND status=?)",
		"counts a tenant's runs in progress",
	},
	{
		"owner = $1 AND cancel = 1 AND status = 'running'",
		"SEARCH runs USING INDEX runs_canceled (owner=?)",
		"finds runs to cancel",
	},
	{"status = 'running'", "SEARCH runs USING INDEX runs_status (status=?)", "reads runs in progress"},
	{
		"tenant = $1 LIMIT $2",
		"SEARCH runs USING COVERING INDEX runs_list_agent (tenant=?)",
		"reads a batch of runs of a tenant to delete",
	},
	{
		"tenant = $1 LIMIT $2",
		"SEARCH runs USING COVERING INDEX runs_list (tenant=?)",
		"reads a batch of runs of a tenant to delete",
	},
	{
		"FROM agents GROUP BY tenant, name",
		"SCAN agents USING INDEX sqlite_autoindex_agents_1",
		"migrates an older database",
	},
	{"JOIN tenant_modules ON", "SCAN agents", "migrates an older database"},
	{
		"DELETE FROM agents WHERE tenant = $1",
		"SEARCH agents USING INDEX sqlite_autoindex_agents_1 (tenant=?)",
		"deletes a tenant",
	},
	{
		"SELECT name, version, created_ms FROM agents",
		"SEARCH agents USING INDEX sqlite_autoindex_agents_1 (tenant=?)",
		"lists the names of a tenant's agents",
	},
	{
		"FROM agents WHERE tenant = $1 AND name > $2",
		"SEARCH agents USING INDEX sqlite_autoindex_agents_1 (tenant=? AND name>?)",
		"lists a tenant's agents",
	},
	{
		"DELETE FROM tenant_usage WHERE tenant = $1",
		"SEARCH tenant_usage USING INDEX sqlite_autoindex_tenant_usage_1 (tenant=?)",
		"deletes a tenant",
	},
	{
		"DELETE FROM run_series WHERE tenant = $1",
		"SEARCH run_series USING PRIMARY KEY (tenant=?)",
		"deletes a tenant",
	},
	{
		"DELETE FROM run_latencies WHERE tenant = $1",
		"SEARCH run_latencies USING PRIMARY KEY (tenant=?)",
		"deletes a tenant",
	},
	{
		"ORDER BY day, agent, module LIMIT $7",
		"SEARCH tenant_usage USING INDEX sqlite_autoindex_tenant_usage_1 (tenant=? AND day>? AND day<?)",
		"lists usage",
	},
	{
		"FROM tenant_usage WHERE tenant = $1 AND day >= $2 AND day <= $3",
		"SEARCH tenant_usage USING INDEX sqlite_autoindex_tenant_usage_1 (tenant=? AND day>? AND day<?)",
		"sums usage",
	},
	{
		"FROM tenant_usage GROUP BY tenant, day",
		"SCAN tenant_usage USING INDEX sqlite_autoindex_tenant_usage_1",
		"migrates an older database",
	},
	{"FROM runs WHERE tenant <> '' GROUP BY tenant", "SCAN runs USING INDEX runs_list", "migrates an older database"},
	{"UPDATE runs SET journal_bytes = 256", "SCAN runs", "migrates an older database"},
	{
		"status IN ('finished', $2, $3)",
		"SEARCH runs USING INDEX runs_status (status=? AND created_ms<?)",
		"finds runs to prune",
	},
	{
		"FROM threads WHERE threads.tenant = $1 AND (threads.created_ms, threads.id) < ($2, $3) AND threads.version",
		"SEARCH threads USING INDEX threads_list (tenant=? AND (created_ms,id)<(?,?))",
		"lists a page of a tenant's threads",
	},
	{
		"< ($2, $3) AND threads.agent = $4 AND threads.version",
		"SEARCH threads USING INDEX threads_list_agent (tenant=? AND agent=? AND (created_ms,id)<(?,?))",
		"lists a page of an agent's threads",
	},
	{
		"< ($2, $3) AND threads.subject = $4",
		"SEARCH threads USING INDEX threads_list_subject (tenant=? AND subject=? AND (created_ms,id)<(?,?))",
		"lists a page of an end user's threads",
	},
	{
		"AND thread_metadata.name = $4 AND thread_metadata.value = $5",
		"SEARCH thread_metadata USING COVERING INDEX thread_metadata_list " +
			"(name=? AND value=? AND tenant=? AND (created_ms,thread)<(?,?))",
		"lists a page of the threads with an entry in their metadata",
	},
	{
		"SELECT tenant, id FROM threads WHERE updated_ms <=",
		"SEARCH threads USING INDEX threads_updated (updated_ms<?)",
		"finds threads to prune",
	},
	{
		"SELECT DISTINCT tenant, thread FROM thread_messages WHERE removed > 0",
		"SCAN thread_messages USING INDEX thread_messages_removed",
		"finds messages to prune, concurrently with writers",
	},
	{
		"DELETE FROM threads WHERE tenant = $1",
		"SEARCH threads USING INDEX threads_tenant_updated (tenant=?)",
		"deletes a tenant",
	},
	{
		"SELECT id FROM threads WHERE tenant = $1 AND updated_ms <=",
		"SEARCH threads USING INDEX threads_tenant_updated (tenant=? AND updated_ms<?)",
		"finds old threads of a tenant",
	},
	{
		"SELECT tenant, id FROM threads WHERE version < 0",
		"SEARCH threads USING INDEX threads_hidden (updated_ms<?)",
		"finds threads whose deletion or fork was interrupted",
	},
	{
		"DELETE FROM thread_messages WHERE tenant = $1",
		"SEARCH thread_messages USING INDEX sqlite_autoindex_thread_messages_1 (tenant=?)",
		"deletes a tenant",
	},
	{
		"DELETE FROM thread_metadata WHERE tenant = $1",
		"SEARCH thread_metadata USING INDEX sqlite_autoindex_thread_metadata_1 (tenant=?)",
		"deletes a tenant",
	},
	{
		"tenant = $1 AND status = 'queued'",
		"SEARCH runs USING COVERING INDEX runs_list_status (tenant=? AND status=?)",
		"counts a tenant's queued runs",
	},
	{
		"tenant = $1 AND status = 'queued' AND subject = $2",
		"SEARCH runs USING INDEX runs_list_status (tenant=? AND status=?)",
		"counts an end user's queued runs, of at most 1,000 of the tenant",
	},
	{
		"WHERE status = 'queued' AND lease_ms <= NOW_MS",
		"SEARCH runs USING INDEX runs_status (status=?)",
		"reads queued runs",
	},
	{
		"SELECT id, modules FROM runs",
		"SEARCH runs USING INDEX sqlite_autoindex_runs_1 (id>?)",
		"finds unused modules, concurrently with writers",
	},
	{
		"SELECT modules FROM runs",
		"SEARCH runs USING INDEX runs_status (status=? AND created_ms>?)",
		"reads the modules of new runs",
	},
}

func allowed(statement, step string) bool {
	for _, e := range exceptions {
		if strings.Contains(statement, e.statement) && step == e.step {
			return true
		}
	}
	return singleRun.MatchString(step) || oneRow.MatchString(step) || buckets.MatchString(step) ||
		page.MatchString(statement) && pageIndex.MatchString(step)
}

// A planRecorder collects the query plans of the statements that stores execute.
type planRecorder struct {
	mu    sync.Mutex
	plans map[string]string // query plans by statement
}

// open opens an empty SQLite store whose plans are collected when it closes.
func (r *planRecorder) open(t *testing.T, o *store.Options) (store.Store, string) {
	t.Helper()
	where := storetest.File(t)
	db, err := sqlite.Open(t.Context(), where)
	require.NoError(t, err)
	d := &explainedDB{DB: db, statements: map[string]bool{}}
	s, err := store.New(t.Context(), d, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if got, err := d.explain(); err == nil { // some tests close their store
			maps.Copy(r.plans, got)
		}
		require.NoError(t, s.Close())
	})
	return s, where
}

// TestSQLite runs the tests of all stores. Then it checks that the cost of a run does not grow with
// the number of stored runs. SQLite may choose an index that matches only a part of a condition: it
// may, for example, read all timelines of a tenant to count the timelines of one run.
func TestSQLite(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it tests a database for seconds")
	}
	t.Parallel()
	require.False(
		t,
		allowed("SELECT count(*) FROM run_traces WHERE tenant = $1 AND run = $2",
			"SEARCH run_traces USING INDEX run_traces_tenant (tenant=?)"),
	)
	recorder := &planRecorder{plans: map[string]string{}}
	t.Run("store", func(t *testing.T) { storetest.Run(t, recorder.open) })
	require.Greater(t, len(recorder.plans), 100)
	for statement, plan := range recorder.plans {
		for step := range strings.Lines(plan) {
			step = strings.TrimSpace(step)
			require.True(t, !largeTables.MatchString(step) || allowed(statement, step),
				"%s\nreads more than the rows of a run: %s", statement, step)
		}
	}
}

// An explainedDB collects the statements of its transactions.
type explainedDB struct {
	database.DB
	mu         sync.Mutex
	statements map[string]bool
}

func (d *explainedDB) Update(ctx context.Context, o database.TxOptions, fn func(database.Tx) error) error {
	return d.DB.Update(ctx, o, func(t database.Tx) error { return fn(explainedTx{t, d}) })
}

func (d *explainedDB) View(ctx context.Context, fn func(database.Tx) error) error {
	return d.DB.View(ctx, func(t database.Tx) error { return fn(explainedTx{t, d}) })
}

func (d *explainedDB) Exclusive(ctx context.Context, fn func(database.Tx) error) error {
	return d.DB.Exclusive(ctx, func(t database.Tx) error { return fn(explainedTx{t, d}) })
}

type explainedTx struct {
	database.Tx
	db *explainedDB
}

func (t explainedTx) Exec(sql string, args ...any) (int64, error) {
	n, err := t.Tx.Exec(sql, args...)
	t.db.add(sql, err)
	return n, err
}

func (t explainedTx) Query(scan func(scan func(...any) error) error, sql string, args ...any) error {
	err := t.Tx.Query(scan, sql, args...)
	t.db.add(sql, err)
	return err
}

func (d *explainedDB) add(sql string, err error) {
	verb, _, _ := strings.Cut(strings.TrimSpace(sql), " ")
	if err == nil && (verb == "SELECT" || verb == "INSERT" || verb == "UPDATE" || verb == "DELETE") {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.statements[sql] = true
	}
}

// explain returns the query plan of each statement, with one line for each step.
func (d *explainedDB) explain() (map[string]string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	plans := map[string]string{}
	return plans, d.DB.View(context.Background(), func(t database.Tx) error {
		for sql := range d.statements {
			var steps []string
			if err := t.Query(func(scan func(...any) error) error {
				var id, parent, unused int64
				var step string
				err := scan(&id, &parent, &unused, &step)
				steps = append(steps, step)
				return err
			}, "EXPLAIN QUERY PLAN "+sql, make([]any, 32)...); err != nil {
				return err
			}
			plans[sql] = strings.Join(steps, "\n")
		}
		return nil
	})
}

// untyped matches a parameter that is compared with a number. PostgreSQL gives such a parameter 32 bits,
// and then rejects the statement for times in milliseconds.
var untyped = regexp.MustCompile(`(^|[^(])\$\d+ *(=|<>|[<>]=?) *\d`)

// TestParametersHaveTypes checks that no statement has a parameter of 32 bits.
func TestParametersHaveTypes(t *testing.T) {
	t.Parallel()
	require.Regexp(t, untyped, "WHERE $2 > 0 AND x")
	require.NotRegexp(t, untyped, "WHERE CAST($2 AS BIGINT) > 0")
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	below, err := filepath.Glob("*/*.go")
	require.NoError(t, err)
	files = append(files, below...)
	for _, file := range files {
		if matched, _ := filepath.Match("*_test.go", filepath.Base(file)); matched {
			continue
		}
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Empty(t, untyped.FindString(string(text)), "%s: write CAST($N AS BIGINT)", file)
	}
}
