package persist

import (
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// maxPendingSyncs is the maximum number of commits of a run that wait for their sync.
const maxPendingSyncs = 16

// A waiter waits until all earlier changes and events are written or synced.
type waiter struct {
	synced  bool
	written func() // called when the changes and events are written; optional
	done    chan error
}

// wrote tells the waiter that the commit was written or failed with err. It reports whether the
// waiter still waits for the sync.
func (w *waiter) wrote(err error) (waits bool) {
	if err == nil && w.written != nil {
		w.written()
	}
	if waits = err == nil && w.synced; !waits {
		w.done <- err
	}
	return waits
}

// write commits c and returns when c is written. The channel sync yields the result of the sync. It
// is nil if the commit is lazy.
func (w *Writer) write(c *journal.Commit) (sync <-chan error, err error) {
	if c.Lazy {
		return nil, w.try(c)
	}
	written, synced := make(chan error, 1), make(chan error, 1)
	wrote := false
	c.Written = func() {
		wrote = true
		written <- nil
	}
	go func() {
		err := w.try(c)
		synced <- err
		if !wrote {
			written <- err
		}
	}()
	return synced, <-written
}

// A pendingSync is a commit that is written, but perhaps not synced yet.
type pendingSync struct {
	previous *pendingSync // the preceding commit, whose events must be delivered first
	synced   <-chan error // yields the result of the sync; nil if the commit is lazy
	events   []delivery.Event
	bytes    int64 // size of the changes, which counts as pending memory
	waiters  []*waiter
	done     chan struct{}
	err      error // result of the sync; set before done is closed
}

// synced returns a pendingSync that is done.
func synced() *pendingSync {
	p := &pendingSync{done: make(chan struct{})}
	close(p.done)
	return p
}

// await delivers the events of a commit and notifies its waiters, after the commit and all earlier
// ones are synced. It does so in a goroutine, unless the commit needs no sync and all earlier
// commits are done. await blocks while maxPendingSyncs commits wait for their sync.
func (w *Writer) await(p *pendingSync) {
	if p.synced == nil && len(p.waiters) == 0 && len(p.events) == 0 {
		w.memory.Pending.Release(p.bytes)
		return
	}
	w.previous = p
	select {
	case <-p.previous.done:
		if p.synced == nil {
			w.finish(p)
			return
		}
	default:
	}
	w.syncs <- struct{}{}
	go func() {
		if p.synced != nil {
			p.err = <-p.synced
		}
		<-p.previous.done
		w.finish(p)
		<-w.syncs
	}()
}

// finish delivers the events of a commit and notifies its waiters, after the syncs of the commit
// and of all earlier ones. If one of the syncs failed, it ends the run and drops the events.
func (w *Writer) finish(p *pendingSync) {
	if p.previous.err != nil {
		p.err = p.previous.err
	}
	if p.err != nil {
		p.err = w.Fail(p.err)
	} else {
		w.backlog.add(p.events)
	}
	w.memory.Pending.Release(p.bytes)
	for _, wait := range p.waiters {
		wait.done <- p.err
	}
	p.previous, p.events = nil, nil
	close(p.done)
}
