package durability_test

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
	"github.com/agent-runner/agent-runner/internal/store/migrations"
	"github.com/agent-runner/agent-runner/internal/store/postgres"
	"github.com/agent-runner/agent-runner/internal/store/sqlite"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
)

// TestOpenDatabaseOfOlderVersion checks that a database of an older version is migrated, and that
// all of its data stays readable. That version wrote the dump; see its first line.
func TestOpenDatabaseOfOlderVersion(t *testing.T) {
	t.Parallel()
	ctx, path := t.Context(), filepath.Join(t.TempDir(), "s.db")
	dump, err := os.ReadFile("testdata/d17eeae.sql")
	require.NoError(t, err)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(ctx, string(dump))
	require.NoError(t, err)
	require.NoError(t, db.Close())

	keyring, err := keyring.Parse("main:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
	require.NoError(t, err)
	s := open(t, path, &store.Options{Keyring: keyring})
	acme := s.Tenant("acme")
	key, info, err := s.Authenticate(ctx, "ar_fno4l6cf2c_aakuyana62kevjbz7ratou7on4cupbhvcz56h4idumwaeh3kjjlq")
	require.NoError(t, err)
	require.Equal(t, "ci", key.Name)
	require.Equal(t, store.TenantQuota{Modules: 3, RunsPerDay: 9}, info.Quota)
	require.JSONEq(t, `{"grants":["*"]}`, string(info.Policy))
	name, err := acme.ModuleName(ctx, "redact", "1.0")
	require.NoError(t, err)
	module, err := s.Module(ctx, name.Digest)
	require.NoError(t, err)
	require.True(t, bytes.Equal(make([]byte, 200_000), module), "a module in pieces")
	blocks, err := s.Blocked(ctx)
	require.NoError(t, err)
	require.Equal(t, "it leaks", blocks[0].Reason)
	clerk, err := acme.Agent(ctx, "clerk", 0)
	require.NoError(t, err)
	require.Equal(t, []string{name.Digest}, clerk.Modules)
	secret, err := acme.Secret(ctx, "OPENAI_API_KEY")
	require.NoError(t, err)
	require.Equal(t, "sk-1", string(secret))
	usage, err := acme.UsageTotal(ctx, "2026-01-31", "2026-01-31")
	require.NoError(t, err)
	require.Equal(t, store.Usage{Runs: 2, PromptTokens: 5, Fuel: 7}, usage)
	value, _, err := s.GetValue(ctx, hook.ValueScope{Tenant: "acme", Entry: "redact"}, "seen")
	require.NoError(t, err)
	require.Equal(t, "3", string(value.Value))

	run, err := s.Claim(ctx, &journal.Claim{Run: "run_1", Epoch: 1, Owner: "you", LeaseTTL: time.Minute})
	require.NoError(t, err)
	require.Equal(t, "hello", run.Title)
	require.Equal(t, [][]byte{[]byte("first"), make([]byte, 150_000)}, run.Log)
	require.Greater(t, run.JournalBytes, int64(150_000), "the migration counts the journal")
	events, err := s.Events(ctx, "run_1", 0, 10)
	require.NoError(t, err)
	require.Equal(t, "event 1", events[0].Text)
	_, sizes, err := acme.Traces(ctx, "run_1")
	require.NoError(t, err)
	require.Equal(t, []int64{0}, sizes)
	trace, err := acme.Trace(ctx, "run_1", 0)
	require.NoError(t, err)
	require.Equal(t, "a timeline", string(trace))
	require.NoError(
		t,
		s.Commit(
			ctx,
			&journal.Commit{
				Run:      "run_1",
				Epoch:    run.Epoch,
				Entry:    3,
				Log:      []byte("third"),
				First:    2,
				Last:     1,
				LeaseTTL: time.Minute,
			},
		),
	)
}

// TestMigrationCountsJournals checks that the migration counts the bytes of journals that a version
// without the counters wrote.
func TestMigrationCountsJournals(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	for driver, where := range map[string]func(t *testing.T) string{
		"sqlite": func(t *testing.T) string { return filepath.Join(t.TempDir(), "s.db") },
		"pgx":    func(t *testing.T) string { return postgrestest.Start(t).Create(t, "older") },
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			ctx, where := t.Context(), where(t)
			s, err := store.Open(ctx, where, nil)
			require.NoError(t, err)
			_, err = s.CreateTenant(ctx, "acme", "", store.TenantQuota{}, nil)
			require.NoError(t, err)
			const large, small, trace = 300 << 10, 1000, 500
			for _, id := range []string{"1", "2"} {
				require.NoError(
					t,
					s.Create(
						ctx,
						&journal.Creation{
							ID:       id,
							Tenant:   "acme",
							Agent:    "a",
							Owner:    "me",
							Log:      make([]byte, large),
							LeaseTTL: time.Minute,
						},
					),
				)
				require.NoError(
					t,
					s.Commit(ctx, &journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: make([]byte, small), First: 1, Last: 1,
						Events: bytes.Repeat([]byte("\n"), large), Progress: &journal.Progress{Status: journal.StatusPaused}}),
				)
				require.NoError(t, s.Tenant("acme").AddTrace(ctx, id, make([]byte, trace), 0))
			}
			require.NoError(t, s.Create(ctx, &journal.Creation{ID: "own", Agent: "a", Owner: "me", Log: make([]byte, small)}))
			require.NoError(t, s.Close())
			db, err := sql.Open(driver, where)
			require.NoError(t, err)
			for _, undo := range []string{"DROP TABLE journal_room", "ALTER TABLE runs DROP COLUMN journal_bytes", "ALTER TABLE runs DROP COLUMN journal_due",
				"ALTER TABLE tenant_usage DROP COLUMN journal_bytes", "ALTER TABLE usage_days DROP COLUMN journal_bytes"} {
				_, err = db.Exec(undo)
				require.NoError(t, err)
			}
			require.NoError(t, db.Close())

			var opened database.DB
			if driver == "sqlite" {
				opened, err = sqlite.Open(ctx, where)
			} else {
				opened, err = postgres.Open(ctx, where)
			}
			require.NoError(t, err)
			s, err = store.New(ctx, opened, nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, s.Close()) })
			require.NoError(t, opened.Exclusive(ctx, func(t database.Tx) error {
				return migrations.Execute(t, "0010_journal_bytes.sql")
			}))
			const rows = 4*128 + trace // rows of the log, the events and the timeline
			one, err := s.Run(ctx, "1")
			require.NoError(t, err)
			require.GreaterOrEqual(t, one.JournalBytes, int64(2*large+small+rows))
			require.Less(t, one.JournalBytes, int64(2*large+small+rows+512))
			stored, err := s.Tenant("acme").JournalBytes(ctx)
			require.NoError(t, err)
			require.Equal(t, 2*one.JournalBytes, stored)
			require.NoError(t, s.Delete(ctx, "1"))
			require.NoError(t, s.Delete(ctx, "2"))
			stored, err = s.Tenant("acme").JournalBytes(ctx)
			require.NoError(t, err)
			require.Zero(t, stored)
			own, err := s.Run(ctx, "own")
			require.NoError(t, err)
			require.GreaterOrEqual(t, own.JournalBytes, int64(small))
		})
	}
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
