package sqlite

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOpenCreatesOneDirectory checks that Open creates the directory of a database, but not the directories above it.
func TestOpenCreatesOneDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for range 2 {
		db, err := Open(t.Context(), filepath.Join(dir, "data", "runs.db"))
		require.NoError(t, err)
		require.NoError(t, db.Close())
	}
	missing := filepath.Join(dir, "missing")
	_, err := Open(t.Context(), filepath.Join(missing, "data", "runs.db"))
	require.ErrorContains(t, err, "the directory "+missing+" does not exist; create it, or use another path")
	require.NoDirExists(t, missing)
}
