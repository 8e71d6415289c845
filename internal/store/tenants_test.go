package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// openWithRuns opens a store with a tenant that has n runs with expired leases. The last
// run uses a module.
func openWithRuns(t *testing.T, n int, digest string) *store {
	t.Helper()
	opened, err := Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	s := opened.(*store)
	_, err = s.CreateTenant(t.Context(), "acme", "", TenantQuota{}, nil)
	require.NoError(t, err)
	require.NoError(t, s.db.Update(t.Context(), database.TxOptions{Lazy: true}, func(t database.Tx) error {
		for i := range n {
			r := &journal.Creation{ID: fmt.Sprintf("run-%05d", i), Tenant: "acme", LeaseTTL: -time.Second, Log: []byte("{}")}
			if i == n-1 {
				r.Modules = []journal.Pin{{Entry: "e", Digest: digest}}
			}
			insert, err := runInsertion(r)
			if err != nil {
				return err
			}
			if err := insert(t, &blob.Body{InRow: r.Log}, threadPlace{}); err != nil {
				return err
			}
		}
		return nil
	}))
	return s
}

// TestTenantIsDeletedInBatches checks that many runs are deleted in several transactions, and their
// tenant in the last one.
func TestTenantIsDeletedInBatches(t *testing.T) {
	t.Parallel()
	s := openWithRuns(t, database.BatchRows+1, "")
	more, batches := true, 0
	for ; more; batches++ {
		_, err := s.TenantInfo(t.Context(), "acme")
		require.NoError(t, err)
		require.NoError(t, s.db.Update(t.Context(), database.TxOptions{Lazy: true}, func(t database.Tx) (err error) {
			more, err = deleteTenant(t, "acme")
			return err
		}))
	}
	require.Greater(t, batches, 1)
	_, err := s.TenantInfo(t.Context(), "acme")
	require.ErrorIs(t, err, ErrNoTenant)
	require.NoError(t, s.db.View(t.Context(), func(tx database.Tx) error {
		for _, table := range []string{"runs", "run_log"} {
			var left int64
			_, err := database.One(tx, "SELECT count(*) FROM "+table, nil, &left)
			require.NoError(t, err)
			require.Zero(t, left, table)
		}
		return nil
	}))
}

// TestModulesOfRunsAreUsed checks that a module counts as used if the last of many runs uses it, and
// if a run uses it that started after the search began. The status of the run must not matter.
func TestModulesOfRunsAreUsed(t *testing.T) {
	t.Parallel()
	const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	s := openWithRuns(t, unusedRunsPage+1, digest)
	used, err := s.usedByRuns(t.Context(), []string{digest})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{digest: true}, used)

	now, err := s.Now(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.db.Update(t.Context(), database.TxOptions{Lazy: true}, func(t database.Tx) error {
		_, err := t.Exec(`INSERT INTO modules (digest, size, created_ms, wasm) VALUES ($1, 1, 1, $2)`, digest, []byte("x"))
		return err
	}))
	deleteSince := func(since time.Time) (n int64) {
		require.NoError(t, s.db.Update(t.Context(), database.TxOptions{Lazy: true}, func(tx database.Tx) (err error) {
			var rest []string
			n, rest, err = deleteUnused(tx, []string{digest}, time.Hour, since.UnixMilli())
			require.Empty(t, rest)
			return err
		}))
		return n
	}
	for _, status := range []journal.Status{
		journal.StatusRunning, journal.StatusPaused, journal.StatusFinished, journal.StatusQuarantined,
	} {
		require.NoError(t, s.db.Update(t.Context(), database.TxOptions{Lazy: true}, func(t database.Tx) error {
			_, err := t.Exec(`UPDATE runs SET status = $1`, string(status))
			return err
		}))
		require.Zero(t, deleteSince(now), "a new run that is %s uses the module", status)
	}
	require.Equal(t, int64(1), deleteSince(now.Add(time.Hour)))
}

// TestUnscopedStatementsFail checks that a tenant's statements fail unless they select the rows of
// the tenant.
func TestUnscopedStatementsFail(t *testing.T) {
	t.Parallel()
	opened, err := Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), nil)
	require.NoError(t, err)
	defer opened.Close()
	for _, sql := range []string{`SELECT name FROM agents`, `SELECT name FROM agents WHERE tenant = $2`, `SELECT name FROM agents WHERE name = $1`} {
		err := opened.Tenant(Operator).view(t.Context(), func(t scoped) error {
			return t.Query(func(func(...any) error) error { return nil }, sql, "x")
		})
		require.ErrorContains(t, err, "not scoped", sql)
	}
	err = opened.Tenant(Operator).update(context.Background(), func(t scoped) error {
		_, err := t.Exec(`DELETE FROM agents`)
		return err
	})
	require.ErrorContains(t, err, "not scoped")
}
