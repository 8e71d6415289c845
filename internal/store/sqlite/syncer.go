package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

const (
	checkpointPages    = 1000                   // pages of the WAL at which a checkpoint starts
	maxWALPages        = 16384                  // pages of the WAL at which the writer itself checkpoints
	checkpointInterval = 100 * time.Millisecond // minimum time between two checks whether the WAL needs a checkpoint
	concurrentSyncs    = 2                      // maximum number of concurrent fsyncs
)

// A syncer makes committed writes durable. SQLite appends commits to its write-ahead log without an
// fsync. The syncer calls fsync concurrently with later writes, and then completes the writes that
// the fsync covers. Readers may see a commit that is not durable yet. The syncer also moves pages
// from the log into the database concurrently with writes. Otherwise writes would wait several times
// a second until a thousand pages are moved.
type syncer struct {
	active      bool          // whether the syncer calls fsync; otherwise SQLite does
	written     chan struct{} // signals that something was written
	checkpoints *conn
	stop        chan struct{}
	workers     sync.WaitGroup
	close       func() error

	mu      sync.Mutex
	wake    *sync.Cond // uses mu; signals that pending or ended has changed
	pending []*write   // writes that are committed but not synced
	ended   bool
	failed  error // the error of a failed fsync, with which all later writes fail; nil if none failed
}

func newSyncer() *syncer {
	s := &syncer{written: make(chan struct{}, 1), stop: make(chan struct{}), close: func() error { return nil }}
	s.wake = sync.NewCond(&s.mu)
	return s
}

// openSyncer starts the syncer of a database. If the database cannot use a write-ahead log, the
// syncer has no workers, and SQLite itself calls fsync.
func (d *DB) openSyncer(ctx context.Context) (*syncer, error) {
	s := newSyncer()
	var mode string
	if _, err := database.One(d.writer, "PRAGMA journal_mode", nil, &mode); err != nil {
		return nil, err
	}
	if mode != "wal" { // the file system does not support shared memory
		_, err := d.writer.Exec("PRAGMA synchronous = FULL")
		return s, err
	}
	var logs [concurrentSyncs]*os.File // the kernel reports a failed write once to each open file
	closeLogs := func() (err error) {
		for _, log := range logs {
			if log != nil {
				err = errors.Join(err, log.Close())
			}
		}
		return err
	}
	for i := range logs {
		var err error
		if logs[i], err = os.OpenFile(d.path+"-wal", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return nil, errors.Join(err, closeLogs())
		}
	}
	var err error
	if s.checkpoints, err = newConn(ctx, d.writes); err != nil {
		return nil, errors.Join(err, closeLogs())
	}
	for _, log := range logs {
		s.start(func() error { return syncData(log) })
	}
	s.workers.Go(s.checkpoint)
	s.close = func() error {
		close(s.stop)
		s.end()
		return errors.Join(s.checkpoints.close(), closeLogs())
	}
	return s, nil
}

// start makes the syncer active, and starts a worker that calls sync for pending writes.
func (s *syncer) start(sync func() error) {
	s.active = true
	s.workers.Go(func() { s.work(sync) })
}

// end stops the workers after they have synced all writes.
func (s *syncer) end() {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.wake.Broadcast()
	s.workers.Wait()
}

// await completes the executed writes that failed or are lazy, or all of them if the syncer is not
// active. It leaves the others to the workers, which complete them after an fsync.
func (s *syncer) await(group []*write) {
	var pending []*write
	failed := s.failure()
	for _, w := range group {
		if w.err == nil {
			w.err = failed
		}
		if w.err != nil || w.Lazy || !s.active {
			close(w.done)
			continue
		}
		if w.Written != nil {
			w.Written()
		}
		pending = append(pending, w)
	}
	if len(pending) > 0 {
		s.mu.Lock()
		s.pending = append(s.pending, pending...)
		s.mu.Unlock()
		s.wake.Signal()
	}
	select {
	case s.written <- struct{}{}:
	default:
	}
}

// take waits for pending writes and returns them. It returns nil once end was called and no
// writes are pending.
func (s *syncer) take() (group []*write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.pending) == 0 && !s.ended {
		s.wake.Wait()
	}
	group, s.pending = s.pending, nil
	return group
}

// work syncs pending writes and completes them, until end is called and no writes are pending.
func (s *syncer) work(sync func() error) {
	for group := s.take(); group != nil; group = s.take() {
		err := sync()
		if err != nil {
			err = s.fail(err)
		} else {
			err = s.failure() // the failure of the other worker, whose sync may have covered these writes
		}
		for _, w := range group {
			w.err = err
			close(w.done)
		}
	}
}

func (s *syncer) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// fail records that a sync failed, and returns the error of all further writes. The kernel drops
// pages that it could not write, so that a second sync would succeed without them.
func (s *syncer) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = fmt.Errorf("fsync failed, and the last writes may be lost; check the disk, and restart this program: %w",
			err)
	}
	return s.failed
}

// checkpoint moves the WAL's pages into the database whenever at least checkpointPages are not in
// it yet, until stop is closed.
func (s *syncer) checkpoint() {
	for {
		select {
		case <-s.stop:
			return
		case <-s.written:
		}
		if log, moved, err := s.runCheckpoint("NOOP"); err == nil && log-moved >= checkpointPages {
			_, _, _ = s.runCheckpoint("PASSIVE") // if it fails, the writer checkpoints at maxWALPages
		}
		select {
		case <-s.stop:
			return
		case <-time.After(checkpointInterval):
		}
	}
}

// runCheckpoint runs a checkpoint of a mode. It returns the number of pages in the WAL, and
// the number of those that are also in the database.
func (s *syncer) runCheckpoint(mode string) (log, moved int64, err error) {
	var busy int64
	_, err = database.One(s.checkpoints, "PRAGMA wal_checkpoint("+mode+")", nil, &busy, &log, &moved)
	return log, moved, err
}
