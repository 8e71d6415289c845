// Package persist commits a run to its journal. A [Writer] takes the run's events and asks a
// [Source] for the changes of its state. It commits both together and then delivers the events to
// the caller. The package does not depend on the agent's loop or the contents of the log.
package persist

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

const (
	// gatherTime is the delay of a commit without waiters, so that further changes join it.
	gatherTime = 2 * time.Millisecond
	// heartbeatsPerLease is the number of renewals per lease period.
	heartbeatsPerLease = 5
	// maxRetryDelay is the maximum delay between two attempts to reach the journal.
	maxRetryDelay = time.Second
)

// ErrCanceled is the cause of a cancellation that was requested through the journal.
var ErrCanceled = errors.New("somebody canceled it")

// errEnded is the error of waiting for a commit of a run that has ended.
var errEnded = errors.New("the run has ended")

// A Source collects the changes of a run's state.
type Source interface {
	// Collect returns the changes since its last call. It calls take while the run records nothing,
	// so that the events that take collects belong to the changes. Before the run has begun, it
	// does not call take.
	Collect(take func() error) (Change, error)
}

// A Change is the change of a run's state that one commit persists.
type Change struct {
	Log      []byte             // the next entry of the run's log; nil if nothing changed
	Progress *journal.Progress  // the run's progress; nil if unchanged
	Rewrite  *journal.Rewrite   // erases from earlier entries, unless nil
	Thread   *journal.ThreadEnd // the change of the run's thread, unless nil
	Audit    *journal.Audit     // a record for the audit log, unless nil
	Pending  int64              // bytes to release from the pending memory once persisted
}

// A Position is the position of a run in its journal.
type Position struct {
	Epoch   int64 // the claim's epoch
	Entries int64 // number of entries in the log
	LastSeq int64 // number of the last event
	Bytes   int64 // bytes written so far, as [journal.Commit.Bytes] counts them
}

// A Writer commits the changes and events of a run in the background. A caller that must not
// continue before they are committed, for example because it calls a tool, calls [Writer.Flush].
//
// A commit is written when it survives the end of the process, and synced when it survives a power
// failure. The run continues after the write, and so do its commits. The run waits for the sync
// before an action that must not be repeated. The writer waits for the sync before it delivers an
// event, unless a resumed run would repeat the event.
//
// An event that reports a change is committed together with the change: the writer holds the event
// until the change is recorded.
type Writer struct {
	*journal.Options
	run    string
	epoch  int64
	source Source
	cancel context.CancelCauseFunc // cancels the run
	memory *delivery.Memory

	mu      sync.Mutex
	events  []delivery.Event // not committed yet
	ready   int              // number of events that are not held
	waiters []*waiter
	err     error // the journal's error, after which nothing is committed
	shedder shedder

	entries  int64        // number of entries in the log
	last     int64        // number of the last committed event
	unsynced bool         // the last commit was lazy
	previous *pendingSync // the last commit with events or waiters
	size     *size
	syncs    chan struct{} // has a token for each pending sync

	wake    chan struct{}
	closing chan struct{}
	done    chan struct{} // closed after the last commit
	backlog backlog
}

// NewWriter returns a writer of a claimed run. The run ends if it writes more than maxBytes bytes;
// 0 means no limit.
func NewWriter(o *journal.Options, run string, at Position, maxBytes int64, source Source) *Writer {
	return &Writer{Options: o, run: run, epoch: at.Epoch, entries: at.Entries, last: at.LastSeq, source: source,
		wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		previous: synced(), size: newSize(maxBytes, at.Bytes), syncs: make(chan struct{}, maxPendingSyncs),
		shedder: newShedder(), backlog: newBacklog()}
}

// Begin starts to commit, and to deliver events to the queue to. If the journal fails, the writer
// calls cancel, which must end the run.
func (w *Writer) Begin(cancel context.CancelCauseFunc, memory *delivery.Memory, to *delivery.Queue) {
	w.cancel, w.memory = cancel, memory
	go w.work()
	w.backlog.begin(to)
}

// Create stores a new run with the first entry of its log.
func (w *Writer) Create(ctx context.Context, c *journal.Creation) error {
	if err := w.Journal.Create(ctx, c); err != nil {
		return err
	}
	w.entries = 1
	w.size.add(c.Bytes(), nil, w.cancel)
	return nil
}

// Created reports whether the run is stored in the journal.
func (w *Writer) Created() bool { return w.entries > 0 }

// LastSeq returns the number of the last committed event.
func (w *Writer) LastSeq() int64 { return w.last }

// End commits the remaining changes and waits until all events are in the caller's queue. It
// returns the error of the journal, or nil.
func (w *Writer) End() error {
	close(w.closing)
	<-w.done
	w.backlog.close()
	if w.Dropped != nil {
		w.Dropped.Add(w.shed())
	}
	return w.Err()
}

// Cancel ends the run as if its cancellation had been requested through the journal.
func (w *Writer) Cancel() { w.cancel(ErrCanceled) }

// ReleaseLease ends the lease, so that another process can claim the run at once.
func (w *Writer) ReleaseLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.LeaseTTL)
	defer cancel()
	_, _ = w.Journal.Renew(ctx, w.run, w.epoch, 0)
}

// Err returns the error of the journal after which the writer commits nothing, or nil.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Send queues an event. After the run has been stopped, it drops the events that [shedder] names. A
// held event is committed after the next call of [Writer.Ready] or the next event that is not held.
// Other events are committed as soon as possible.
func (w *Writer) Send(e delivery.Event, held bool) {
	w.mu.Lock()
	if w.shedder.drops(&e.Event) {
		w.memory.Release(&e)
		w.mu.Unlock()
		return
	}
	w.events = append(w.events, e)
	if !held {
		w.ready = len(w.events)
	}
	w.mu.Unlock()
	signal(w.wake)
}

// Ready releases all held events. The source must have recorded the changes that the events report.
func (w *Writer) Ready() {
	w.mu.Lock()
	w.ready = len(w.events)
	w.mu.Unlock()
	signal(w.wake)
}

// AwaitCaller waits while maxBacklog or more committed events wait for the caller.
func (w *Writer) AwaitCaller(ctx context.Context) { w.backlog.wait(ctx) }

// Flush waits until all earlier changes and events are written or, if synced is set, synced. It
// calls written, if not nil, when they are written. It returns an error if the journal fails, if
// ctx is done or if the run has ended.
func (w *Writer) Flush(ctx context.Context, synced bool, written func()) error {
	wait := &waiter{synced: synced, written: written, done: make(chan error, 1)}
	w.mu.Lock()
	if err := w.err; err != nil {
		w.mu.Unlock()
		return err
	}
	w.waiters = append(w.waiters, wait)
	w.mu.Unlock()
	signal(w.wake)
	select {
	case err := <-wait.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.done:
		return errEnded
	}
}

// work commits and renews the lease until the run has ended.
func (w *Writer) work() {
	defer close(w.done)
	heartbeat := time.NewTicker(w.LeaseTTL / heartbeatsPerLease)
	defer heartbeat.Stop()
	abort := w.Abort
	for {
		select {
		case <-abort:
			abort = nil
			_ = w.Fail(journal.ErrReleased)
		case <-w.wake:
			w.gather()
			w.commit()
		case <-heartbeat.C:
			w.renew()
		case <-w.closing:
			w.commit()
			<-w.previous.done
			return
		}
	}
}

// gather waits gatherTime for further changes. It returns earlier if there are waiters or the
// writer is closed.
func (w *Writer) gather() {
	if w.hasWaiters() {
		return
	}
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-w.closing:
			return
		case <-w.wake:
			if w.hasWaiters() {
				return
			}
		}
	}
}

func (w *Writer) hasWaiters() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.waiters) > 0
}

// commit commits the gathered changes and events and notifies the waiters.
func (w *Writer) commit() {
	g, err := w.collect()
	c, events := g.commit, g.events
	var sync <-chan error
	if err == nil && c != nil {
		if sync, err = w.write(c); errors.Is(err, journal.ErrAborted) {
			events, sync, err = w.retry(c, events)
		}
	}
	if err != nil {
		err = w.Fail(err)
	} else if c != nil {
		w.entries, w.last, w.unsynced = c.Entry, c.Last, c.Lazy
		w.size.add(c.Bytes(), c.Full, w.cancel)
	}
	waiters := slices.DeleteFunc(g.waiters, func(wait *waiter) bool { return !wait.wrote(err) })
	if err != nil {
		w.memory.Pending.Release(g.bytes)
		return
	}
	w.await(&pendingSync{
		previous: w.previous,
		synced:   sync,
		events:   events,
		bytes:    g.bytes,
		waiters:  waiters,
		done:     make(chan struct{}),
	})
}

// A gathered is the content of one commit.
type gathered struct {
	commit  *journal.Commit // the commit of the changes and events; nil if there are none
	events  []delivery.Event
	waiters []*waiter
	bytes   int64 // size of the changes, which counts as pending memory
}

// collect takes the source's changes, the events that are not held, and the waiters, and builds the
// commit for them.
func (w *Writer) collect() (g gathered, err error) {
	change, err := w.source.Collect(func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		g.waiters, w.waiters = w.waiters, nil
		if w.err != nil {
			return w.err
		}
		g.events = w.events[:w.ready:w.ready]
		w.events, w.ready = w.events[w.ready:], 0
		return nil
	})
	g.bytes = change.Pending
	sync := slices.ContainsFunc(g.waiters, func(wait *waiter) bool { return wait.synced })
	if err != nil || change.Log == nil && len(g.events) == 0 && (!sync || !w.unsynced) {
		g.events = nil
		return g, err
	}
	c := &journal.Commit{Run: w.run, Epoch: w.epoch, Entry: w.entries, First: w.last + 1, LeaseTTL: w.LeaseTTL,
		Log: change.Log, Progress: change.Progress, Rewrite: change.Rewrite, Thread: change.Thread, Audit: change.Audit,
		Lazy:  !sync && !slices.ContainsFunc(g.events, func(e delivery.Event) bool { return !repeatable(&e.Event) }),
		Abort: w.shedder.stopped, Urgent: w.shedder.isStopped()}
	if c.Log != nil {
		c.Entry++
	}
	number(g.events, c.First)
	c.Last = w.last + int64(len(g.events))
	c.Events, err = lines(g.events)
	g.commit = c
	return g, err
}

// repeatable reports whether an event may reach the caller before it is synced. After a power
// failure, the resumed run sends the event again, perhaps with another number.
func repeatable(e *abi.Event) bool {
	if e.Type == abi.EventChild && e.Event != nil {
		e = e.Event
	}
	return e.Type == abi.EventChunk || e.Type == abi.EventStepStarted
}

// number numbers events consecutively, starting with first.
func number(events []delivery.Event, first int64) {
	for i := range events {
		events[i].Event.Seq = first + int64(i)
	}
}

// lines encodes events as JSON, one per line.
func lines(events []delivery.Event) ([]byte, error) {
	var out bytes.Buffer
	for i := range events {
		b, err := abijson.Marshal(&events[i].Event)
		if err != nil {
			return nil, err
		}
		out.Write(b)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

// try commits c and retries retryable errors until RetryTimeout has passed.
func (w *Writer) try(c *journal.Commit) error {
	deadline := time.Now().Add(w.RetryTimeout)
	for delay := 20 * time.Millisecond; ; delay = min(2*delay, maxRetryDelay) {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		err := w.Journal.Commit(ctx, c)
		cancel()
		var again interface{ Retryable() bool }
		if err == nil || !errors.As(err, &again) || !again.Retryable() || time.Now().Add(delay).After(deadline) {
			return err
		}
		time.Sleep(delay)
	}
}

// renew renews the lease. It ends the run if the run's cancellation was requested or if another
// process has claimed the run. It ignores other errors, because the next heartbeat tries again.
func (w *Writer) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), w.LeaseTTL/heartbeatsPerLease)
	defer cancel()
	stop, err := w.Journal.Renew(ctx, w.run, w.epoch, w.LeaseTTL)
	switch {
	case errors.Is(err, journal.ErrFenced):
		_ = w.Fail(err)
	case err == nil && stop:
		w.cancel(ErrCanceled)
	}
}

// Fail ends the run with a [*journal.Error] that wraps err. The writer then commits nothing more.
// If the writer has already failed, Fail only returns the first error.
func (w *Writer) Fail(err error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = &journal.Error{Run: w.run, Err: err}
		w.cancel(w.err)
	}
	return w.err
}

// signal sends a token unless there is one already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
