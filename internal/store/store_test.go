package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
