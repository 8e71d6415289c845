package store_test

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
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

	keyring, err := store.ParseKeyring("main:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32)))
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

			s = open(t, where, nil)
			require.NoError(t, store.Execute(ctx, s, "0010_journal_bytes.sql"))
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
