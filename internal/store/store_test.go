package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

func open(t *testing.T, where string, o *store.Options) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), where, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func TestPostgreSQL(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	// Each test gets a copy of an empty store, because executing all migrations takes longer than many tests.
	empty, err := store.Open(t.Context(), server.Create(t, "empty"), nil)
	require.NoError(t, err)
	require.NoError(t, empty.Close())
	var n atomic.Int64
	storetest.Run(t, func(t *testing.T, o *store.Options) (store.Store, string) {
		where := server.CreateFrom(t, "empty", fmt.Sprint("test", n.Add(1)))
		return open(t, where, o), where
	})
}

// TestNewerSchema checks that the store works in a database that a server of a newer version has
// expanded, as it does during an upgrade.
func TestNewerSchema(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	storetest.Run(t, func(t *testing.T, o *store.Options) (store.Store, string) {
		where := storetest.File(t)
		s := open(t, where, o)
		db, err := sql.Open("sqlite", "file:"+where+"?_pragma=busy_timeout(60000)")
		require.NoError(t, err)
		defer db.Close()
		rows, err := db.QueryContext(
			t.Context(),
			"SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%'",
		)
		require.NoError(t, err)
		var expand strings.Builder
		for rows.Next() {
			var table string
			require.NoError(t, rows.Scan(&table))
			fmt.Fprintf(&expand, "ALTER TABLE %s ADD COLUMN newer TEXT NOT NULL DEFAULT 'x';\n", table)
		}
		require.NoError(t, rows.Err())
		expand.WriteString("INSERT INTO migrations (name, contract) VALUES ('9999_next.sql', 0)")
		_, err = db.ExecContext(t.Context(), expand.String())
		require.NoError(t, err)
		return s, where
	})
}

func TestOpenRejects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for where, want := range map[string]string{
		"":                   "want the path",
		"mysql://localhost/": "mysql://",
		"postgres://127.0.0.1:1/none?sslmode=disable": "unreachable",
		dir: "store " + dir,
	} {
		_, err := store.Open(t.Context(), where, nil)
		require.ErrorContains(t, err, want, where)
	}
}

// TestSQLiteIsPrivate checks that only the user can read a new database. The database is in a new
// folder, and its path has characters that are special in addresses.
func TestSQLiteIsPrivate(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new folder")
	s := open(t, filepath.Join(folder, "run?s#%20.db"), nil)
	_, err := s.PutModule(t.Context(), []byte("stored"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	require.NoError(t, err)
	require.Contains(t, files, filepath.Join(folder, "run?s#%20.db"))
	for _, f := range files {
		info, err := os.Stat(f)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, f)
	}
}

// TestStoringModuleAgainRenewsIt checks that storing a module again renews its age, so that its
// caller can refer to it before it is deleted as unused.
func TestStoringModuleAgainRenewsIt(t *testing.T) {
	t.Parallel()
	where := filepath.Join(t.TempDir(), "s.db")
	s := open(t, where, nil)
	var digests []string
	for _, content := range []string{"stored again", "stored once"} {
		d, err := s.PutModule(t.Context(), []byte(content))
		require.NoError(t, err)
		digests = append(digests, d)
	}
	db, err := sql.Open("sqlite", where)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(`UPDATE modules SET created_ms = 1`)
	require.NoError(t, err)

	same, err := s.PutModule(t.Context(), []byte("stored again"))
	require.NoError(t, err)
	require.Equal(t, digests[0], same)
	n, err := s.DeleteUnusedModules(t.Context(), time.Hour)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	_, err = s.Module(t.Context(), digests[0])
	require.NoError(t, err)
	_, err = s.Module(t.Context(), digests[1])
	require.ErrorIs(t, err, store.ErrNoModule)
}

// TestMigrationsFillTables checks that migrations fill the tables of agents' sizes and modules and
// of daily usage, and leave large bytes in their rows.
func TestMigrationsFillTables(t *testing.T) {
	t.Parallel()
	ctx, where := t.Context(), filepath.Join(t.TempDir(), "s.db")
	s, err := store.Open(ctx, where, nil)
	require.NoError(t, err)
	_, err = s.CreateTenant(ctx, "acme", "", store.TenantQuota{StorageBytes: 30, FuelPerDay: 12}, nil)
	require.NoError(t, err)
	acme := s.Tenant("acme")
	var digests []string
	for _, content := range []string{"old", "new"} {
		d, err := s.PutModule(ctx, []byte(content))
		require.NoError(t, err)
		require.NoError(t, acme.PutModule(ctx, &store.TenantModule{Digest: d, Kind: "wasm", About: []byte("{}")}, "", ""))
		_, err = acme.PutAgent(ctx, "a", []byte("0123456789"), []string{d})
		require.NoError(t, err)
		digests = append(digests, d)
	}
	require.NoError(t, s.Create(ctx, &journal.Creation{ID: "r", Log: []byte("x")}))
	now, err := s.Now(ctx)
	require.NoError(t, err)
	for _, agent := range []string{"a", "b"} {
		require.NoError(t, acme.AddUsage(ctx, store.Usage{Day: store.Day(now), Agent: agent, Module: "m", Fuel: 6}))
	}
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", where)
	require.NoError(t, err)
	_, err = db.Exec(
		`DROP TABLE agent_room; DROP TABLE agent_modules; DROP TABLE usage_days; DROP TABLE journal_room;
		DROP TABLE pieces; DROP TABLE staged;
		DROP TABLE tenant_gateways; DROP TABLE processes; DROP TABLE run_accounts; DROP TABLE suspects; DROP TABLE quarantine;
		DROP TABLE run_crashes;
		DROP INDEX run_log_pieces; DROP INDEX run_events_pieces;
		ALTER TABLE run_log DROP COLUMN pieces; ALTER TABLE run_events DROP COLUMN pieces;
		ALTER TABLE runs DROP COLUMN journal_bytes; ALTER TABLE runs DROP COLUMN journal_due;
		ALTER TABLE tenant_usage DROP COLUMN journal_bytes; ALTER TABLE modules DROP COLUMN pieces;
		ALTER TABLE run_traces DROP COLUMN size;
		ALTER TABLE runs DROP COLUMN version; ALTER TABLE runs DROP COLUMN metadata; ALTER TABLE runs DROP COLUMN faults;
		ALTER TABLE runs DROP COLUMN denied; ALTER TABLE runs DROP COLUMN models;
		ALTER TABLE runs DROP COLUMN cost_nano; ALTER TABLE runs DROP COLUMN terms;
		ALTER TABLE tenant_usage DROP COLUMN cost_nano; DROP TABLE run_terms; DROP TABLE run_series; DROP TABLE run_latencies;
		DROP INDEX runs_list; DROP INDEX runs_list_status; DROP INDEX runs_list_agent;
		DROP TABLE members; DROP TABLE group_roles; DROP TABLE audit_log; ALTER TABLE api_keys DROP COLUMN role;
		DROP TABLE tokens; DROP TABLE origins; ALTER TABLE runs DROP COLUMN subject; ALTER TABLE runs DROP COLUMN token;
		DROP TABLE sessions; DROP TABLE used_states;
		DROP TABLE thread_retention; DROP TABLE threads; DROP TABLE thread_metadata; DROP TABLE thread_messages;
		DROP INDEX runs_list_thread; DROP INDEX runs_thread_seq; DROP INDEX runs_queued; DROP INDEX runs_thread_busy;
		ALTER TABLE runs DROP COLUMN thread; ALTER TABLE runs DROP COLUMN thread_seq; ALTER TABLE runs DROP COLUMN base;
		ALTER TABLE runs DROP COLUMN base_erased;
		DROP INDEX tenant_modules_list; DROP INDEX module_names_digest; DROP INDEX runs_canceled;
		DROP TABLE agent_aliases; DROP TABLE agent_alias_moves; DROP TABLE rollouts;
		DROP TABLE rollout_runs; DROP TABLE rollout_threads; DROP TABLE replays; DROP TABLE replay_runs;
		ALTER TABLE runs DROP COLUMN active_ms; ALTER TABLE runs DROP COLUMN denials;
		UPDATE run_log SET body = zeroblob(1000000); DROP TABLE migrations; UPDATE schema_version SET version = 6`,
	)
	require.NoError(t, err)
	require.NoError(t, db.Close())

	s = open(t, where, nil)
	stored, err := s.Load(ctx, "r")
	require.NoError(t, err)
	require.Equal(t, [][]byte{make([]byte, 1_000_000)}, stored.Log, "large bytes stay in their row")
	acme = s.Tenant("acme")
	require.ErrorIs(t, acme.DeleteModule(ctx, digests[1]), store.ErrInUse)
	require.NoError(t, acme.DeleteModule(ctx, digests[0]), "only an older version refers to it")
	_, err = acme.PutAgent(ctx, "b", []byte("0123456789"), nil)
	require.NoError(t, err)
	var full *store.QuotaError
	_, err = acme.PutAgent(ctx, "c", []byte("0"), nil)
	require.ErrorAs(t, err, &full)
	require.EqualValues(t, 30, full.Used)
	if later, err := s.Now(ctx); err == nil && store.Day(later) == store.Day(now) {
		require.ErrorAs(t, acme.CheckRunQuotas(ctx), &full)
		require.EqualValues(t, 12, full.Used)
	}
}
