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
		s.Commit(ctx,
			&journal.Commit{Run: "run_1", Epoch: 2, Entry: 3, Log: []byte("third"), First: 2, Last: 1, LeaseTTL: time.Minute}),
	)
}
