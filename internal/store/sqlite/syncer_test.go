package sqlite

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// openTest opens an empty database, and closes it after the test.
func openTest(t *testing.T) *DB {
	t.Helper()
	d, err := Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, d.Close()) })
	return d
}

// TestWritesDoNotWaitForFsync checks that writes continue during an fsync, and that only lazy ones
// complete before their fsync has ended.
func TestWritesDoNotWaitForFsync(t *testing.T) {
	t.Parallel()
	syncs, proceed := make(chan struct{}, 16), make(chan struct{})
	s := newSyncer()
	for range concurrentSyncs {
		s.start(func() error {
			syncs <- struct{}{}
			<-proceed
			return nil
		})
	}
	durable, written := make([]*write, 99), 0
	for i := range durable {
		w := &write{done: make(chan struct{})}
		w.Written = func() { written++ }
		durable[i] = w
		s.await([]*write{w})
		require.Equal(t, i+1, written)
		if i < concurrentSyncs { // later writes wait until one of these fsyncs ends
			<-syncs
		}
	}
	lazy := &write{TxOptions: database.TxOptions{Lazy: true}, done: make(chan struct{})}
	s.await([]*write{lazy})
	<-lazy.done
	for _, w := range durable {
		select {
		case <-w.done:
			require.Fail(t, "a write completed before its fsync")
		default:
		}
	}
	close(proceed)
	for _, w := range durable {
		<-w.done
		require.NoError(t, w.err)
	}
	s.end()
	require.LessOrEqual(t, len(syncs), 2, "the writes share the next fsync")
}

// TestFailedFsyncFailsLaterWrites checks that every write fails after a failed fsync, even if a
// later fsync succeeds.
func TestFailedFsyncFailsLaterWrites(t *testing.T) {
	t.Parallel()
	s := newSyncer()
	broken := true
	s.start(func() error {
		if broken {
			return syscall.EIO
		}
		return nil
	})
	for range 3 {
		w := &write{done: make(chan struct{})}
		s.await([]*write{w})
		<-w.done
		require.ErrorIs(t, w.err, syscall.EIO)
		require.ErrorContains(t, w.err, "check the disk")
		broken = false
	}
	s.end()
}

// TestSyncerCheckpoints checks that the syncer moves more than checkpointPages pages of a large WAL
// into the database.
func TestSyncerCheckpoints(t *testing.T) {
	t.Parallel()
	d := openTest(t)
	require.NoError(t, d.Update(t.Context(), database.TxOptions{}, func(t database.Tx) error {
		_, err := t.Exec("CREATE TABLE things (body BYTES)")
		return err
	}))
	require.NoError(t, d.Update(t.Context(), database.TxOptions{}, func(t database.Tx) error {
		_, err := t.Exec("INSERT INTO things (body) VALUES ($1)", make([]byte, 2*checkpointPages<<12))
		return err
	}))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var busy, log, moved int64
		require.NoError(c, d.View(context.Background(), func(t database.Tx) error {
			_, err := database.One(t, "PRAGMA wal_checkpoint(NOOP)", nil, &busy, &log, &moved)
			return err
		}))
		require.Greater(c, moved, int64(checkpointPages))
	}, time.Minute, 20*time.Millisecond)
}
