package storetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// File returns the path of an empty SQLite store for a test of another package. It is a copy of one
// that is made once per process, because executing all migrations takes longer than many tests.
func File(t *testing.T) string {
	t.Helper()
	b, err := empty()
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "s.db")
	require.NoError(t, os.WriteFile(path, b, 0o600))
	return path
}

// empty returns the content of the file of an empty store.
var empty = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "empty-store")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s.db")
	s, err := store.Open(context.Background(), path, nil)
	if err != nil {
		return nil, err
	}
	err = s.Close()
	b, failed := os.ReadFile(path)
	return b, errors.Join(err, failed)
})
