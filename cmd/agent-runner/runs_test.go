package main

import (
	"bytes"
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/store"
)

// TestFailedDatabaseIsNotWrongUsage checks that a command exits with 1 if its database fails after
// it was opened, and with 2 if the usage is wrong.
func TestFailedDatabaseIsNotWrongUsage(t *testing.T) {
	t.Parallel()
	where := filepath.Join(t.TempDir(), "runs.db")
	s, err := store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sql.Open("sqlite", where)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec("ALTER TABLE runs RENAME TO lost")
	require.NoError(t, err)
	exit := func(args ...string) (code int, message string) {
		var stderr bytes.Buffer
		e := &cli.Env{Out: &bytes.Buffer{}, Err: &stderr, Getenv: func(string) string { return "" }}
		code = execute(t.Context(), e, append(append([]string{"runs"}, args...), "--store", where))
		return code, stderr.String()
	}
	for _, args := range [][]string{{"list"}, {"prune", "--older-than", "1d"}, {"show", "run_1"}} {
		code, message := exit(args...)
		require.Contains(t, message, "the database failed", args)
		require.Equal(t, cli.ExitFailed, code, args)
	}
	code, message := exit("prune")
	require.Contains(t, message, "want an age")
	require.Equal(t, cli.ExitUsage, code)
}
