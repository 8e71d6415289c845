package agent

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// maxLandings is how many commits of a run may be on their way to the disk.
const maxLandings = 16

// A waiter waits until all that has happened is committed: so that it outlasts the
// process, or safe, so that it outlasts a failure of power.
type waiter struct {
	safe    bool
	written func() // called when it outlasts the process; nil: it is not
	kept    chan error
}

// wrote tells the waiter of the commit. It reports whether it waits for the disk.
func (w *waiter) wrote(err error) (waits bool) {
	if err == nil && w.written != nil {
		w.written()
	}
	if waits = err == nil && w.safe; !waits {
		w.kept <- err
	}
	return waits
}

// write returns once a commit is made that outlasts the process, with what tells when
// it outlasts a failure of power; nil: that is not waited for.
func (k *keeper) write(c *journal.Commit) (disk <-chan error, err error) {
	if c.Lazy {
		return nil, k.try(c)
	}
	written, safe := make(chan error, 1), make(chan error, 1)
	wrote := false
	c.Written = func() {
		wrote = true
		written <- nil
	}
	go func() {
		err := k.try(c)
		safe <- err
		if !wrote {
			written <- err
		}
	}()
	return safe, <-written
}

// A landing is a commit on its way to the disk.
type landing struct {
	before  *landing // its events come first
	disk    <-chan error
	events  []ClientEvent
	bytes   int64 // of changes, counted as pending memory
	waiters []*waiter
	done    chan struct{}
	err     error // once it is done
}

// landed returns a landing that has come to its end.
func landed() *landing {
	l := &landing{done: make(chan struct{})}
	close(l.done)
	return l
}

// land tells of what was committed, once that may be told: now, where the disk is not
// waited for.
func (k *keeper) land(l *landing) {
	if l.disk == nil && len(l.waiters) == 0 && len(l.events) == 0 {
		k.run.memory.pending.Release(l.bytes)
		return
	}
	k.landing = l
	select {
	case <-l.before.done:
		if l.disk == nil {
			k.landed(l)
			return
		}
	default:
	}
	k.landings <- struct{}{}
	go func() {
		if l.disk != nil {
			l.err = <-l.disk
		}
		<-l.before.done
		k.landed(l)
		<-k.landings
	}()
}

// landed tells of a commit behind which, and behind those before it, nothing is waited for.
func (k *keeper) landed(l *landing) {
	if l.before.err != nil {
		l.err = l.before.err
	}
	if l.err != nil {
		l.err = k.fail(l.err)
	} else {
		k.backlog.add(l.events)
	}
	k.run.memory.pending.Release(l.bytes)
	for _, w := range l.waiters {
		w.kept <- l.err
	}
	l.before, l.events = nil, nil
	close(l.done)
}

// light reports whether an event may be told before it is safe: after a failure of power
// it comes again, with another number perhaps. What it tells of is not lost by that.
func light(e *abi.Event) bool {
	if e.Type == abi.EventChild && e.Event != nil {
		e = e.Event
	}
	return e.Type == abi.EventChunk || e.Type == abi.EventStepStarted
}
