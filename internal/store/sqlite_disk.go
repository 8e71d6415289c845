package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// How what is written comes to the disk.
const (
	someLog   = 1000  // pages of the log that are put where they belong
	mostLog   = 16384 // pages beyond which writers wait for that
	restLog   = 100 * time.Millisecond
	diskWaits = 2 // at once: what is written meanwhile waits for the next, which need not wait for this one
)

// A disk sees to it that what was written outlasts a failure of power. SQLite writes to
// its log and does not wait for the disk. That is done here, beside the writes that
// follow, and who wrote is told afterwards; who reads may see what is not safe yet. The
// pages of the log are put where they belong beside the writes as well, which otherwise
// would wait for a thousand of them several times a second.
type disk struct {
	waits   bool          // here; else SQLite waits itself
	written chan struct{} // there was something
	moves   *sqliteConn   // of pages
	stop    chan struct{}
	gone    sync.WaitGroup
	close   func() error

	mu     sync.Mutex
	more   *sync.Cond // of mu: unsafe or ended has changed
	unsafe []*write   // each with somebody who waits for it
	ended  bool
	failed error // what was written before may be lost: nothing is written any more
}

func newDisk() *disk {
	k := &disk{written: make(chan struct{}, 1), stop: make(chan struct{}), close: func() error { return nil }}
	k.more = sync.NewCond(&k.mu)
	return k
}

// openDisk begins to see to it.
func (d *sqliteDB) openDisk(ctx context.Context) (*disk, error) {
	k := newDisk()
	var mode string
	if _, err := one(d.writer, "PRAGMA journal_mode", nil, &mode); err != nil {
		return nil, err
	}
	if mode != "wal" { // its file system shares no memory
		_, err := d.writer.exec("PRAGMA synchronous = FULL")
		return k, err
	}
	var logs [diskWaits]*os.File // whose failures the system tells of once in each
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
		if logs[i], err = os.OpenFile(d.where+"-wal", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
			return nil, errors.Join(err, closeLogs())
		}
	}
	var err error
	if k.moves, err = d.newConn(ctx, d.writes); err != nil {
		return nil, errors.Join(err, closeLogs())
	}
	for _, log := range logs {
		k.begin(func() error { return syncData(log) })
	}
	k.gone.Go(k.move)
	k.close = func() error {
		close(k.stop)
		k.end()
		return errors.Join(k.moves.close(), closeLogs())
	}
	return k, nil
}

// begin lets one more than SQLite wait for the disk.
func (k *disk) begin(sync func() error) {
	k.waits = true
	k.gone.Go(func() { k.wait(sync) })
}

// end returns once all is safe that was written.
func (k *disk) end() {
	k.mu.Lock()
	k.ended = true
	k.mu.Unlock()
	k.more.Broadcast()
	k.gone.Wait()
}

// await tells those who made writes when these are safe, or that they have failed. Those
// that are lazy are not waited for.
func (k *disk) await(group []*write) {
	var unsafe []*write
	failed := k.failure()
	for _, w := range group {
		if w.err == nil {
			w.err = failed
		}
		if w.err != nil || w.lazy || !k.waits {
			close(w.done)
			continue
		}
		if w.written != nil {
			w.written()
		}
		unsafe = append(unsafe, w)
	}
	if len(unsafe) > 0 {
		k.mu.Lock()
		k.unsafe = append(k.unsafe, unsafe...)
		k.mu.Unlock()
		k.more.Signal()
	}
	select {
	case k.written <- struct{}{}:
	default:
	}
}

// take returns the writes that are not safe, for which it waits; none at the end.
func (k *disk) take() (group []*write) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.unsafe) == 0 && !k.ended {
		k.more.Wait()
	}
	group, k.unsafe = k.unsafe, nil
	return group
}

// wait waits for the disk, for all that was written until then, again and again.
func (k *disk) wait(sync func() error) {
	for group := k.take(); group != nil; group = k.take() {
		err := sync()
		if err != nil {
			err = k.fail(err)
		} else {
			err = k.failure() // of another wait, which was perhaps for the same
		}
		for _, w := range group {
			w.err = err
			close(w.done)
		}
	}
}

func (k *disk) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// fail keeps why the disk cannot be relied on. The system forgets what it could not put
// there: another try would say that all is well.
func (k *disk) fail(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed == nil {
		k.failed = fmt.Errorf("the disk did not keep what was written, and nothing more is; look after the disk, and start this program again: %w", err)
	}
	return k.failed
}

// move puts the log's pages where they belong, when there are some, until stop.
func (k *disk) move() {
	for {
		select {
		case <-k.stop:
			return
		case <-k.written:
		}
		if log, moved, err := k.checkpoint("NOOP"); err == nil && log-moved >= someLog {
			_, _, _ = k.checkpoint("PASSIVE") // or the writer does, when there are many
		}
		select {
		case <-k.stop:
			return
		case <-time.After(restLog):
		}
	}
}

// checkpoint returns how many pages the log has, and how many of them are where they
// belong.
func (k *disk) checkpoint(how string) (log, moved int64, err error) {
	var busy int64
	_, err = one(k.moves, "PRAGMA wal_checkpoint("+how+")", nil, &busy, &log, &moved)
	return log, moved, err
}
