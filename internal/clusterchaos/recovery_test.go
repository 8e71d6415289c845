package clusterchaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
)

// TestPointInTimeRecovery restores a PostgreSQL database to a time at which runs were in progress,
// from a base backup and archived WAL, as docs/operations.md says. All servers are stopped before a
// server starts on the restored database.
func TestPointInTimeRecovery(t *testing.T) {
	longtest.Skip(t)
	primary := postgrestest.Start(t)
	archive, err := primary.Folder("archive")
	require.NoError(t, err)
	require.NoError(t, primary.Configure("wal_level=replica", "max_wal_senders=4", "archive_mode=on",
		"archive_command=test ! -f "+archive+"/%f && cp %p "+archive+"/%f", "fsync=on", "full_page_writes=on"))
	where := primary.Create(t, "platform")
	l := newLocal(t)
	before := l.serve(where)
	key := l.prepare()
	stop := l.load(6)
	l.await(10)
	backup, err := primary.Copy()
	require.NoError(t, err)
	t.Cleanup(backup.Close)
	l.await(10)

	// The time to which the database is restored.
	at, err := primary.Query("platform", "SELECT clock_timestamp()")
	require.NoError(t, err)
	target := time.Now()
	l.await(10)
	stop()
	before.kill()
	_, err = primary.Query("platform", "SELECT pg_switch_wal()")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		done, err := primary.Query("platform",
			"SELECT last_archived_wal >= pg_walfile_name(pg_current_wal_lsn() - 1) FROM pg_stat_archiver")
		return err == nil && done == "t"
	}, 20*time.Second, 50*time.Millisecond)
	primary.Kill()

	require.NoError(t, backup.Signal("recovery.signal"))
	began := time.Now()
	require.NoError(t, backup.Configure("archive_mode=off", "restore_command=cp "+archive+"/%f %p",
		"recovery_target_time="+at, "recovery_target_action=promote"))
	require.Eventually(t, func() bool {
		recovering, err := backup.Query("platform", "SELECT pg_is_in_recovery()")
		return err == nil && recovering == "f"
	}, 20*time.Second, 50*time.Millisecond)
	t.Logf("PostgreSQL recovered in %v", time.Since(began).Round(time.Millisecond))
	l.requireRestored(backup.URL("platform"), key, target, target)
}

// TestBackupUnderLoad backs up the SQLite database of a server with runs in progress, and starts a
// server on the copy.
func TestBackupUnderLoad(t *testing.T) {
	longtest.Skip(t)
	l := newLocal(t)
	where, to := filepath.Join(l.dir, "platform.db"), filepath.Join(l.dir, "restored.db")
	before := l.serve(where)
	key := l.prepare()
	stop := l.load(6)
	l.await(10)
	began := time.Now()
	out, err := exec.Command(l.program, "store", "backup", "--store", where, to).CombinedOutput()
	require.NoError(t, err, "%s", out)
	ended := time.Now()
	l.await(10)
	stop()
	before.kill()
	l.requireRestored(to, key, began, ended)
}

// requireRestored starts a server on a database that was restored to a time between from and to, and
// checks what became of the runs of the load, which has ended.
func (l *local) requireRestored(where, key string, from, to time.Time) {
	t := l.t
	began := time.Now()
	ring, err := os.ReadFile(l.keys)
	require.NoError(t, err)
	keyring, err := keyring.Parse(string(ring))
	require.NoError(t, err)
	s, err := store.Open(t.Context(), where, &store.Options{Keyring: keyring})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	l.servers = nil
	server := l.serve(where)
	l.use(key)
	restored := atRest(t, s)
	t.Logf("all runs of the restored database ended %v after the start", time.Since(began).Round(time.Millisecond))

	require.Greater(t, l.ledger.made(), 2*len(l.runs), "each run calls the tool")
	repeated := l.ledger.twice()
	complete, resumed, absent := 0, 0, 0
	for _, r := range l.runs {
		_, there := restored[r.id]
		again := 0
		for _, call := range repeated {
			if strings.HasPrefix(call, r.token+"/") {
				again++
			}
		}
		switch {
		case !r.ended.IsZero() && r.ended.Before(from):
			complete++
			require.True(t, there, "%s ended before the time of the backup", r.id)
			require.Zero(t, again, "no call of a finished run is repeated")
			events := journalOf(t, s, r.id)
			require.Len(t, events, len(r.events))
			for i := range events {
				require.Equal(t, r.events[i].Type, events[i].Type)
			}
		case r.first.After(to):
			absent++
			require.False(t, there, "%s began after the time of the backup", r.id)
			require.Zero(t, again)
		case there:
			resumed++
			journalOf(t, s, r.id)
		}
	}
	require.Positive(t, complete)
	require.Positive(t, resumed)
	require.Positive(t, absent)
	requireUsage(t, s, l.clients[0], restored)
	secret, err := s.Tenant("acme").Secret(t.Context(), "BANK_KEY")
	require.NoError(t, err)
	require.Equal(t, "the secret of the bank", string(secret))

	status := exec.Command(l.program, "cluster", "status")
	status.Env = append(os.Environ(), "AGENT_RUNNER_SERVER="+server.url, "AGENT_RUNNER_KEY="+l.key, "HOME="+l.dir)
	out, err := status.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf(
		"%d runs had ended before, %d were in progress, %d began later and are not there; %d calls of tools were repeated",
		complete,
		resumed,
		absent,
		len(repeated),
	)
}
