package durability_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TestRestoreFences checks that a server which claimed a run after the backup cannot write to the run
// in the restored database, although the run has been claimed as often there.
func TestRestoreFences(t *testing.T) {
	t.Parallel()
	restored := map[string]func(t *testing.T) (where string, restore func() string){
		"SQLite": func(t *testing.T) (string, func() string) {
			where := filepath.Join(t.TempDir(), "s.db")
			return where, func() string {
				require.NoError(t, store.Backup(t.Context(), where, where+".copy"))
				return where + ".copy"
			}
		},
		"PostgreSQL": func(t *testing.T) (string, func() string) {
			server := postgrestest.Start(t)
			return server.Create(t, "before"), func() string {
				_, err := server.Query(
					"postgres",
					"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'before'",
				)
				require.NoError(t, err)
				_, err = server.Query("postgres", "CREATE DATABASE restored TEMPLATE before")
				require.NoError(t, err)
				return server.URL("restored")
			}
		},
	}
	for name, database := range restored {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			where, restore := database(t)
			before := open(t, where, nil)
			ctx := t.Context()
			require.NoError(
				t,
				before.Create(ctx, &journal.Creation{ID: "r", Owner: "a", LeaseTTL: -time.Second, Log: []byte("x")}),
			)
			after := open(t, restore(), nil)
			claim := func(s store.Store, owner string) int64 {
				var stored *journal.StoredRun
				require.Eventually(t, func() (ok bool) {
					var err error
					stored, err = s.Claim(ctx, &journal.Claim{Run: "r", Epoch: 1, Owner: owner, LeaseTTL: time.Minute})
					return err == nil
				}, 10*time.Second, time.Millisecond)
				return stored.Epoch
			}
			survivor := claim(before, "survivor")
			time.Sleep(2 * time.Millisecond)
			next := claim(after, "next")
			commit := func(epoch int64) error {
				return after.Commit(
					ctx,
					&journal.Commit{Run: "r", Epoch: epoch, Entry: 2, Log: []byte("y"), First: 1, LeaseTTL: time.Minute},
				)
			}
			require.ErrorIs(t, commit(survivor), journal.ErrFenced)
			_, err := after.Renew(ctx, "r", survivor, time.Minute)
			require.ErrorIs(t, err, journal.ErrFenced)
			require.NoError(t, commit(next))
		})
	}
}

// TestBackup checks that a backup that is written while runs are stored is a snapshot. It has everything that was
// stored before some time, and nothing that was stored later.
func TestBackup(t *testing.T) {
	t.Parallel()
	where := filepath.Join(t.TempDir(), "s.db")
	s := open(t, where, nil)
	var stored atomic.Int64 // the runs up to this number are stored
	stop := make(chan struct{})
	var writers sync.WaitGroup
	writers.Go(func() {
		for n := 1; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			id := fmt.Sprintf("r%06d", n)
			c := &journal.Creation{ID: id, Owner: "a", LeaseTTL: time.Minute, Log: make([]byte, 10_000)}
			if err := s.Create(t.Context(), c); err != nil {
				t.Error(err)
				return
			}
			if err := s.Commit(t.Context(), &journal.Commit{Run: id, Epoch: 1, Entry: 2, Log: []byte("y"), First: 1, Last: 1,
				Events: []byte("{\"type\":\"log\",\"seq\":1}\n"), LeaseTTL: time.Minute}); err != nil {
				t.Error(err)
				return
			}
			stored.Store(int64(n))
		}
	})
	require.Eventually(t, func() bool { return stored.Load() > 50 }, 30*time.Second, time.Millisecond)
	for i := range 3 {
		to := fmt.Sprint(where, ".copy", i)
		least := stored.Load()
		require.NoError(t, store.Backup(t.Context(), where, to))
		most := stored.Load() + 1
		info, err := os.Stat(to)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm())
		requireSnapshot(t, open(t, to, nil), least, most)
	}
	close(stop)
	writers.Wait()
}

// requireSnapshot checks that a store has a number of consecutive runs from least to most, of which
// only the last may lack its second entry.
func requireSnapshot(t *testing.T, s store.Store, least, most int64) {
	t.Helper()
	var ids []string
	f := &store.Filter{Oldest: true, Page: store.Page{Limit: 500}}
	for next := (*store.Position)(nil); ; f.After = next {
		runs, more, err := s.Runs(t.Context(), f)
		require.NoError(t, err)
		for i := range runs {
			ids = append(ids, runs[i].ID)
		}
		if next = more; next == nil {
			break
		}
	}
	require.GreaterOrEqual(t, int64(len(ids)), least)
	require.LessOrEqual(t, int64(len(ids)), most)
	for _, id := range ids {
		run, err := s.Load(t.Context(), id)
		require.NoError(t, err)
		if run.Entries == 2 {
			events, err := s.Events(t.Context(), id, 0, 10)
			require.NoError(t, err)
			require.Len(t, events, 1)
		} else {
			require.Equal(t, fmt.Sprintf("r%06d", len(ids)), id, "only the last run is incomplete")
		}
	}
}

// TestBackupRejects checks that a backup replaces no file, and that a failed backup leaves no file.
func TestBackupRejects(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	where := filepath.Join(dir, "s.db")
	open(t, where, nil)
	to := filepath.Join(dir, "copy.db")
	require.NoError(t, os.WriteFile(to, []byte("something else"), 0o600))
	require.ErrorIs(t, store.Backup(t.Context(), where, to), fs.ErrExist)
	require.ErrorIs(t, store.Backup(t.Context(), "postgres://localhost/x", filepath.Join(dir, "b")), store.ErrNoBackup)
	require.Error(t, store.Backup(t.Context(), filepath.Join(dir, "none.db"), filepath.Join(dir, "b")))
	require.Error(t, store.Backup(t.Context(), to, filepath.Join(dir, "b")), "no database")
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range left {
		require.False(t, strings.HasPrefix(f.Name(), "b"), f.Name())
	}
}
