package durability_test

import (
	"database/sql"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

func requireKind(t *testing.T, want database.Kind, err error) {
	t.Helper()
	var failed *database.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, want, failed.Kind, "%v", err)
	require.Equal(t, want == database.Unavailable, failed.Retryable())
}

// envFill is the environment variable that makes the test binary write to a store until it fails.
const envFill = "AGENT_RUNNER_TEST_FILL"

// TestFill is a part of TestDiskFull, and runs in a process with envFill. It checks that the first
// commit that fails because the disk is full has no effect.
func TestFill(t *testing.T) {
	where := os.Getenv(envFill)
	if where == "" {
		t.Skip("part of TestDiskFull")
	}
	s, err := store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	require.NoError(
		t,
		s.Create(t.Context(), &journal.Creation{ID: "r", Owner: "me", LeaseTTL: time.Hour, Log: []byte("x")}),
	)
	for n := int64(1); ; n++ {
		require.Less(t, n, int64(1000), "the disk never fills up")
		err := s.Commit(
			t.Context(),
			&journal.Commit{Run: "r", Epoch: 1, Entry: n + 1, Log: make([]byte, 50_000), First: n, Last: n,
				Events: []byte("{\"type\":\"log\",\"seq\":1}\n")},
		)
		if err == nil {
			continue
		}
		requireKind(t, database.Full, err)
		stored, err2 := s.Load(t.Context(), "r")
		require.NoError(t, err2)
		require.Equal(t, []int64{n, n - 1}, []int64{stored.Entries, stored.LastSeq}, "all of a commit or nothing")
		t.Log(err)
		return
	}
}

// envFillGroups is the environment variable that makes the test binary start several writers that
// share transactions.
const envFillGroups = "AGENT_RUNNER_TEST_FILL_GROUPS"

// TestFillGroups is a part of TestDiskFullForMany, and runs in a process with envFillGroups. It
// checks that every writer of a transaction receives the error, whichever write caused the error.
func TestFillGroups(t *testing.T) {
	where := os.Getenv(envFillGroups)
	if where == "" {
		t.Skip("part of TestDiskFullForMany")
	}
	s, err := store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	runs := strings.Split("abcdefghijklmnop", "")
	for _, id := range runs {
		require.NoError(
			t,
			s.Create(t.Context(), &journal.Creation{ID: id, Owner: "me", LeaseTTL: time.Hour, Log: []byte("x")}),
		)
	}
	ended := make(chan error, len(runs))
	for _, id := range runs {
		go func() {
			for n := int64(1); ; n++ {
				if err := s.Commit(t.Context(), &journal.Commit{
					Run:    id,
					Epoch:  1,
					Entry:  n + 1,
					Log:    make([]byte, 700_000),
					First:  n,
					Last:   n,
					Events: []byte("{\"type\":\"log\",\"seq\":1}\n"),
				}); err != nil {
					ended <- err
					return
				}
			}
		}()
	}
	for range runs {
		requireKind(t, database.Full, <-ended)
	}
}

// TestDiskFullForMany checks that all writers that share a transaction fail if one of them exceeds
// the limit on the file's size and SQLite rolls the transaction back.
func TestDiskFullForMany(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	cmd := exec.Command("sh", "-c", `ulimit -f 30000; exec "$0" -test.run '^TestFillGroups$'`, os.Args[0])
	cmd.Env = append(os.Environ(), envFillGroups+"="+filepath.Join(t.TempDir(), "runs.db"))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// TestDiskFull checks that a run continues once the full disk has space again. A limit on the
// size of files has the same effect as a full disk.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	where := filepath.Join(t.TempDir(), "runs.db")
	cmd := exec.Command("sh", "-c", `ulimit -f 2048; exec "$0" -test.run '^TestFill$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), envFill+"="+where)
	out, err := cmd.Output()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "no space left for the database; free some, and resume the run")

	s := open(t, where, nil) // without the limit
	stored, err := s.Load(t.Context(), "r")
	require.NoError(t, err)
	require.NoError(
		t,
		s.Commit(t.Context(), &journal.Commit{
			Run:   "r",
			Epoch: 1,
			Entry: stored.Entries + 1,
			Log:   []byte("x"),
			First: stored.LastSeq + 1,
			Last:  stored.LastSeq,
		}),
	)
}

func TestNotWritable(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	_, err := store.Open(t.Context(), "/proc/runs.db", nil)
	require.Error(t, err)
	require.ErrorContains(t, err, "/proc/runs.db")

	server := postgrestest.Start(t)
	where := server.Create(t, "readonly")
	open(t, where, nil)
	s := open(t, where+"&default_transaction_read_only=on", nil)
	err = s.Create(t.Context(), &journal.Creation{ID: "r", Log: []byte("x")})
	requireKind(t, database.ReadOnly, err)
	require.ErrorContains(t, err, "cannot be written to")
}

func TestCorrupt(t *testing.T) {
	t.Parallel()
	where := filepath.Join(t.TempDir(), "runs.db")
	require.NoError(t, os.WriteFile(where, []byte(strings.Repeat("this is no database ", 1000)), 0o600))
	_, err := store.Open(t.Context(), where, nil)
	requireKind(t, database.Corrupt, err)
	require.ErrorContains(t, err, "restore it from a backup")

	where = filepath.Join(t.TempDir(), "runs.db")
	s, err := store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	require.NoError(t, s.Create(t.Context(), &journal.Creation{ID: "r", Log: make([]byte, 200_000)}))
	require.NoError(t, s.Close())
	b, err := os.ReadFile(where)
	require.NoError(t, err)
	for i := 4096; i < len(b); i++ {
		b[i] ^= 0xa5
	}
	require.NoError(t, os.WriteFile(where, b, 0o600))
	_, err = openAndLoad(t, where)
	requireKind(t, database.Corrupt, err)

	// A log with a gap is reported although the database is intact.
	where = filepath.Join(t.TempDir(), "runs.db")
	s = open(t, where, nil)
	require.NoError(t, s.Create(t.Context(), &journal.Creation{ID: "r", Log: []byte("x")}))
	execSQL(t, where, "DELETE FROM run_log")
	_, err = s.Load(t.Context(), "r")
	requireKind(t, database.Corrupt, err)
}

func openAndLoad(t *testing.T, where string) (*journal.StoredRun, error) {
	s, err := store.Open(t.Context(), where, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Load(t.Context(), "r")
}

func execSQL(t *testing.T, where, text string) {
	t.Helper()
	db, err := sql.Open("sqlite", where)
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(text)
	require.NoError(t, err)
}

func TestNewer(t *testing.T) {
	t.Parallel()
	where := filepath.Join(t.TempDir(), "runs.db")
	s, err := store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	require.NoError(t, s.Close())
	execSQL(t, where, "INSERT INTO migrations (name, contract) VALUES ('9999_next.sql', 1)")
	_, err = store.Open(t.Context(), where, nil)
	requireKind(t, database.Newer, err)
	require.ErrorContains(t, err, "a newer version of agent-runner created the database")
}

// TestPostgreSQLRestarts checks that commits fail while PostgreSQL is down, and succeed after its
// restart.
func TestPostgreSQLRestarts(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	s := open(t, server.Create(t, "gone"), nil)
	require.NoError(t, s.Create(t.Context(), &journal.Creation{ID: "r", LeaseTTL: time.Hour, Log: []byte("x")}))
	c := &journal.Commit{
		Run:    "r",
		Epoch:  1,
		Entry:  2,
		Log:    []byte("y"),
		First:  1,
		Last:   1,
		Events: []byte("{\"type\":\"log\",\"seq\":1}\n"),
	}
	server.Kill()
	for range 3 {
		err := s.Commit(t.Context(), c)
		requireKind(t, database.Unavailable, err)
	}
	require.NoError(t, server.Start())
	require.Eventually(t, func() bool {
		err := s.Commit(t.Context(), c)
		if err != nil {
			requireKind(t, database.Unavailable, err)
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	stored, err := s.Load(t.Context(), "r")
	require.NoError(t, err)
	require.EqualValues(t, 2, stored.Entries)
	events, err := s.Events(t.Context(), "r", 0, 10)
	require.NoError(t, err)
	require.Equal(t, []abi.Event{{Type: abi.EventLog, Seq: 1}}, events)
}
