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
	sync    func() error // waits for the log; nil: SQLite waits itself
	unsafe  chan []*write
	written chan struct{} // there was something
	moves   *sqliteConn   // of pages
	stop    chan struct{}
	gone    sync.WaitGroup
	close   func() error

	mu     sync.Mutex
	failed error // what was written before may be lost: nothing is written any more
}

// openDisk begins to see to it.
func (d *sqliteDB) openDisk(ctx context.Context) (*disk, error) {
	k := &disk{unsafe: make(chan []*write, diskWaits), written: make(chan struct{}, 1), stop: make(chan struct{}), close: func() error { return nil }}
	var mode string
	if _, err := one(d.writer, "PRAGMA journal_mode", nil, &mode); err != nil {
		return nil, err
	}
	if mode != "wal" { // its file system shares no memory
		_, err := d.writer.exec("PRAGMA synchronous = FULL")
		return k, err
	}
	log, err := os.OpenFile(d.where+"-wal", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if k.moves, err = d.newConn(ctx, d.writes); err != nil {
		return nil, errors.Join(err, log.Close())
	}
	k.begin(func() error { return syncData(log) })
	k.gone.Go(k.move)
	k.close = func() error {
		close(k.unsafe)
		close(k.stop)
		k.gone.Wait()
		return errors.Join(k.moves.close(), log.Close())
	}
	return k, nil
}

// begin lets others than SQLite wait for the disk.
func (k *disk) begin(sync func() error) {
	k.sync = sync
	for range diskWaits {
		k.gone.Go(k.wait)
	}
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
		if w.err == nil && !w.lazy && k.sync != nil {
			unsafe = append(unsafe, w)
		} else {
			close(w.done)
		}
	}
	if len(unsafe) > 0 {
		k.unsafe <- unsafe
	}
	select {
	case k.written <- struct{}{}:
	default:
	}
}

// wait waits for the disk, for all that was written until then.
func (k *disk) wait() {
	for group := range k.unsafe {
		for more := true; more; {
			select {
			case others := <-k.unsafe:
				group, more = append(group, others...), others != nil
			default:
				more = false
			}
		}
		err := k.sync()
		if err != nil {
			err = k.fail(err)
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
