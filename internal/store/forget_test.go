package store

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// withRuns opens a store that has a tenant with so many runs, whose time to be shown a
// sign of life is over. The last one has a module.
func withRuns(t *testing.T, n int, digest string) *store {
	t.Helper()
	made, err := Open(t.Context(), filepath.Join(t.TempDir(), "s.db"), nil)
	require.NoError(t, err)
	s := made.(*store)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	_, err = s.CreateTenant(t.Context(), "acme", "", TenantQuota{}, nil)
	require.NoError(t, err)
	require.NoError(t, s.update(t.Context(), true, func(t tx) error {
		for i := range n {
			r := &journal.Creation{ID: fmt.Sprintf("run-%05d", i), Tenant: "acme", Lease: -time.Second, Log: []byte("{}")}
			if i == n-1 {
				r.Modules = []journal.Pin{{Entry: "e", Digest: digest}}
			}
			insert, err := inserted(r)
			if err != nil {
				return err
			}
			if err := insert(t, &body{inRow: r.Log}); err != nil {
				return err
			}
		}
		return nil
	}))
	return s
}

// Of many runs some are forgotten at a time, so that others write in between; the tenant
// goes with the last.
func TestManyRunsAreForgottenByTurns(t *testing.T) {
	t.Parallel()
	s := withRuns(t, forgetBatch+1, "")
	more, turns := true, 0
	for ; more; turns++ {
		_, err := s.TenantInfo(t.Context(), "acme")
		require.NoError(t, err)
		require.NoError(t, s.update(t.Context(), true, func(t tx) (err error) {
			more, err = deleteTenant(t, "acme")
			return err
		}))
	}
	require.Greater(t, turns, 1)
	_, err := s.TenantInfo(t.Context(), "acme")
	require.ErrorIs(t, err, ErrNoTenant)
	require.NoError(t, s.view(t.Context(), func(tx tx) error {
		for _, table := range []string{"runs", "run_log"} {
			var left int64
			_, err := one(tx, "SELECT count(*) FROM "+table, nil, &left)
			require.NoError(t, err)
			require.Zero(t, left, table)
		}
		return nil
	}))
}

// A module that a run has is found in the last of many, and in one that began after they
// were looked through.
func TestModulesOfRunsAreNoOrphans(t *testing.T) {
	t.Parallel()
	const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	s := withRuns(t, orphanRuns+1, digest)
	had, err := s.inRuns(t.Context(), []string{digest})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{digest: true}, had)

	now, err := s.Now(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.update(t.Context(), true, func(t tx) error {
		_, err := t.exec(`INSERT INTO modules (digest, size, created_ms, wasm) VALUES ($1, 1, 1, $2)`, digest, []byte("x"))
		return err
	}))
	look := func(since time.Time) (n int64) {
		require.NoError(t, s.update(t.Context(), true, func(tx tx) (err error) {
			var rest []string
			n, rest, err = deleteOrphans(tx, []string{digest}, time.Hour, since.UnixMilli())
			require.Empty(t, rest)
			return err
		}))
		return n
	}
	require.Zero(t, look(now), "a run that began a moment ago has it")
	require.Equal(t, int64(1), look(now.Add(time.Hour)))
}
