package store

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func openTest(t *testing.T) *sqliteDB {
	t.Helper()
	made, err := openSQLite(t.Context(), filepath.Join(t.TempDir(), "runs.db"))
	require.NoError(t, err)
	d := made.(*sqliteDB)
	t.Cleanup(func() { require.NoError(t, d.close()) })
	require.NoError(t, d.update(t.Context(), false, func(t tx) error {
		_, err := t.exec("CREATE TABLE things (body BYTES)")
		return err
	}))
	return d
}

func putThing(body []byte) func(tx) error {
	return func(t tx) error {
		_, err := t.exec("INSERT INTO things (body) VALUES ($1)", body)
		return err
	}
}

// Writes go on while the disk is waited for, and who made them is told when it is done:
// but for lazy ones, at once.
func TestWritesDoNotWaitForTheDisk(t *testing.T) {
	t.Parallel()
	asked, goOn := make(chan struct{}, 16), make(chan struct{})
	slow := newDisk()
	for range diskWaits {
		slow.begin(func() error {
			asked <- struct{}{}
			<-goOn
			return nil
		})
	}
	told, written := make([]*write, 99), 0
	for i := range told {
		told[i] = &write{written: func() { written++ }, done: make(chan struct{})}
		slow.await([]*write{told[i]})
		require.Equal(t, i+1, written)
		if i < diskWaits { // the others wait for these to end
			<-asked
		}
	}
	lazy := &write{lazy: true, done: make(chan struct{})}
	slow.await([]*write{lazy})
	<-lazy.done
	for _, w := range told {
		select {
		case <-w.done:
			require.Fail(t, "a write is told to be safe before it is")
		default:
		}
	}
	close(goOn)
	for _, w := range told {
		<-w.done
		require.NoError(t, w.err)
	}
	slow.end()
	require.LessOrEqual(t, len(asked), 2, "they share the next wait")
}

// Where the disk fails no write is said to have succeeded, then or later.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	k := newDisk()
	broken := true
	k.begin(func() error {
		if broken {
			return syscall.EIO
		}
		return nil
	})
	for range 3 {
		w := &write{done: make(chan struct{})}
		k.await([]*write{w})
		<-w.done
		require.ErrorIs(t, w.err, syscall.EIO)
		require.ErrorContains(t, w.err, "look after the disk")
		broken = false // as it seems to the next one who asks
	}
	k.end()
}

// The log's pages are put where they belong without a writer that waits for it.
func TestLogIsMoved(t *testing.T) {
	t.Parallel()
	d := openTest(t)
	require.NoError(t, d.update(t.Context(), false, putThing(make([]byte, 2*someLog<<12))))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var busy, log, moved int64
		require.NoError(c, d.view(context.Background(), func(t tx) error {
			_, err := one(t, "PRAGMA wal_checkpoint(NOOP)", nil, &busy, &log, &moved)
			return err
		}))
		require.Greater(c, moved, int64(someLog))
	}, time.Minute, 20*time.Millisecond)
}
