package store_test

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestMigrationCountsJournals checks that the migration counts the bytes of journals that a version
// without the counters wrote.
func TestMigrationCountsJournals(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
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
