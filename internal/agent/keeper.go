package agent

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// How a keeper works.
const (
	// gather is how long a change that nobody waits for waits for others.
	gather = 2 * time.Millisecond
	// maxBacklog is how many events may be kept and not yet taken by the caller
	// before the run waits for it.
	maxBacklog = 256
	// beats is how many signs of life there are in a lease.
	beats = 5
)

// A keeper keeps a run in a journal. What the run does it gathers: events, and
// the changes of the state that belong to them. A goroutine commits all of it
// that is there, and only then hands the events to the caller. Who must not go
// on before that, such as a tool call that is about to be made, waits for it.
//
// What is committed outlasts the process. That it outlasts a failure of power as well
// is waited for before something is done that must not be done twice, and before the
// caller learns of it; the run goes on meanwhile, and so do the commits.
//
// An event that tells of a change is never committed without it, nor the other
// way round. Events of hooks are noted in the record of the phase; those of the
// loop itself belong to the end of a phase, or to the state of a tool call, and
// are held until that is there too.
type keeper struct {
	*journal.Options
	run    *run
	id     string
	epoch  int64
	cancel context.CancelCauseFunc // of the run

	mu       sync.Mutex
	chain    *chain.Run
	staged   []entry // of phases that have ended
	pending  entry   // of the phase that the run is in
	changed  bool    // there is something in them
	phase    int64
	revision int64                   // of the messages, when they were last kept
	events   []ClientEvent           // not kept
	safe     int                     // how many of them may be
	rounds   int                     // how many are kept
	fixed    *fixed                  // when it was last kept
	progress *journal.Progress       // but for what has been used since
	used     func() []abi.EntryStats // by the entries, so far
	waiters  []*waiter
	err      error // of the journal: nothing is kept any more
	bytes    int64 // of staged and pending, counted as pending memory

	collected int64            // bytes of changes in the last commit
	given     given            // messages that a rewrite may replace; nil after the first model call
	rewrite   *journal.Rewrite // for the next commit

	entries int64    // of the log
	last    int64    // number of the last event that is kept
	unsafe  bool     // the last commit was lazy
	landing *landing // of the last commit that was waited for

	size     *journalSize
	landings chan struct{} // holds a token for each that has not come to its end

	wake    chan struct{}
	closing chan struct{}
	done    chan struct{} // the commits have ended
	backlog backlog
	shedder shedder
}

// newKeeper returns a keeper of a run that is claimed.
func newKeeper(o *journal.Options, r *run, epoch, entries, last int64) *keeper {
	return &keeper{Options: o, run: r, id: r.state.ID, epoch: epoch, entries: entries, last: last,
		pending: newEntry(), progress: &journal.Progress{Status: journal.StatusRunning, Step: r.state.Step},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), done: make(chan struct{}),
		landing: landed(), size: newJournalSize(maxJournalBytes(o, r)), landings: make(chan struct{}, maxLandings),
		shedder: newShedder(), backlog: backlog{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}}
}

// maxJournalBytes is the lower one of the limits of a journal and of an agent.
func maxJournalBytes(o *journal.Options, r *run) int64 {
	if l := r.root.Limits.JournalBytes; l > 0 && (o.MaxBytes == 0 || l < o.MaxBytes) {
		return l
	}
	return o.MaxBytes
}

// begin starts to keep. The run is ended by cancel if that fails.
func (k *keeper) begin(cancel context.CancelCauseFunc) {
	k.cancel = cancel
	k.backlog.gone.Add(1)
	go k.work()
	go k.backlog.deliver(k.run.events)
}

// attach says which chain the run goes through from now on.
func (k *keeper) attach(c *chain.Run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.chain, k.used = c, k.run.meter()
}

// end commits what is there, and waits until the caller has all events.
func (k *keeper) end() error {
	close(k.closing)
	<-k.done
	k.backlog.close()
	if k.Dropped != nil {
		k.Dropped.Add(k.shed())
	}
	return k.failed()
}

func (k *keeper) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// hand takes an event; held ones wait for the change that they tell of.
func (k *keeper) hand(e ClientEvent, held bool) {
	k.mu.Lock()
	if k.shedder.drops(&e.Event) {
		k.run.free(&e)
		k.mu.Unlock()
		return
	}
	k.events = append(k.events, e)
	if !held {
		k.safe = len(k.events)
	}
	k.mu.Unlock()
	signal(k.wake)
}

// room waits while the caller is far behind.
func (k *keeper) room(ctx context.Context) { k.backlog.wait(ctx) }

// release says that the events so far tell of nothing that is still to come.
func (k *keeper) release() {
	k.mu.Lock()
	k.safe = len(k.events)
	k.mu.Unlock()
	signal(k.wake)
}

// call takes the state of a tool call. Callers have told of it while nothing is
// collected.
func (k *keeper) call(i int, c *CallState) {
	state := *c
	state.Child, state.Kept = nil, nil // it has a log of its own
	b, err := abijson.Marshal(&state)
	if err != nil {
		_ = k.fail(err)
	}
	k.mu.Lock()
	k.hold(len(b))
	k.pending.Calls[i], k.changed = b, true
	k.safe = len(k.events)
	k.mu.Unlock()
	signal(k.wake)
}

// round keeps the calls of a round that begins.
func (k *keeper) round() {
	s := &k.run.state
	k.run.mu.Lock()
	head := headOf(s)
	k.run.mu.Unlock()
	k.run.chain.Recording(func() {
		for i := range s.Calls {
			k.call(i, &s.Calls[i])
		}
		k.mu.Lock()
		k.pending.Head = head
		k.takeRounds()
		k.mu.Unlock()
	})
}

// head keeps the state in the middle of a phase.
func (k *keeper) head() {
	k.run.mu.Lock()
	head := headOf(&k.run.state)
	k.run.mu.Unlock()
	k.mu.Lock()
	k.pending.Head, k.changed = head, true
	k.mu.Unlock()
}

// stage takes the state at the end of a phase, and begins the next one's record.
func (k *keeper) stage() {
	r := k.run
	r.state.StepOpen, r.state.Streams, r.state.Revisions = r.stepOpen, r.chain.Streams().Load(), r.revs.Last()
	r.mu.Lock()
	head := headOf(&r.state)
	r.mu.Unlock()
	progress := k.look(journal.StatusRunning)
	err := r.chain.Delta(true, func(d *record.Delta) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.addDelta(d)
		k.phase++
		k.takeState(head)
		k.pending.Phase = k.phase
		k.staged = append(k.staged, k.pending)
		k.pending = newEntry()
		k.progress, k.changed = progress, true
		k.safe = len(k.events)
		return nil
	})
	if err != nil {
		_ = k.fail(err)
	}
	r.chain.Begin(r.state.Record)
	signal(k.wake)
}

// takeState takes the parts of the state. Callers hold the lock.
func (k *keeper) takeState(head *State) {
	s := &k.run.state
	p := &k.pending
	if now := (&fixed{s.Instruction, s.Tools, s.Input}); !now.same(k.fixed) {
		p.Fixed, k.fixed = now, now
	}
	p.Head = head
	if rev := s.Messages.Revision(); rev != k.revision {
		from := s.Messages.Changed(k.revision)
		items, _ := s.Messages.JSON(from, s.Messages.Len(), int(^uint(0)>>1))
		k.hold(len(items))
		p.Messages, k.revision = &journal.MessagesChange{From: from, Items: items}, rev
		k.takeRewritten(from)
	}
	if s.ModelCalls > 0 || s.Phase == PhaseModel {
		k.given = nil
	}
	p.NoCalls = s.Calls == nil
	k.takeRounds()
}

// takeGiven takes the messages that the run began with. Callers hold the lock.
func (k *keeper) takeGiven() {
	if !k.Originals {
		k.given = givenOf(&k.run.state)
	}
}

// takeRewritten notes which of the messages that the run began with were changed. Callers
// hold the lock.
func (k *keeper) takeRewritten(from int) {
	r, err := k.given.rewritten(k.run.state.Messages, from)
	switch {
	case err != nil:
		_ = k.failLocked(err)
	case r != nil && k.rewrite != nil:
		maps.Copy(k.rewrite.Messages, r.Messages)
		k.rewrite.Title = r.Title
	case r != nil:
		k.rewrite = r
	}
}

// takeRounds takes the rounds that were added. Callers hold the lock.
func (k *keeper) takeRounds() {
	rounds := k.run.state.Rounds
	k.pending.Rounds = append(k.pending.Rounds, rounds[k.rounds:]...)
	k.rounds = len(rounds)
}

func (k *keeper) addDelta(d *record.Delta) {
	if !d.Empty() {
		k.hold(d.Size())
		k.pending.Records = append(k.pending.Records, phaseDelta{k.phase, *d})
		k.changed = true
	}
}

// hold counts bytes of a change as pending until they are persisted. Callers hold the
// lock.
func (k *keeper) hold(n int) {
	k.bytes += copies * int64(n)
	k.run.memory.pending.Force(copies * int64(n))
}

// look is how far the run has come.
func (k *keeper) look(status journal.Status) *journal.Progress {
	s := &k.run.state
	return &journal.Progress{Status: status, Step: s.Step}
}

// progressed is how far the run has come, with what has been used. Callers hold
// the lock.
func (k *keeper) progressed(now *live) *journal.Progress {
	p := *k.progress
	p.Usage, p.Stats, p.Fuel = now.Usage, k.used(), 0
	for _, e := range p.Stats {
		p.Fuel += e.Fuel
	}
	p.HeldBytes, p.PeakBytes = k.run.memory.run.Used(), k.run.memory.run.Peak()
	return &p
}

// finish keeps how the run ended, or paused, together with its last event.
func (k *keeper) finish(e ClientEvent, p *journal.Progress) error {
	k.run.hold(&e)
	k.mu.Lock()
	k.events = append(k.events, e)
	k.safe, k.progress, k.changed = len(k.events), p, true
	k.mu.Unlock()
	return k.keep(context.Background(), true)
}

// keep returns once all that has happened is committed.
func (k *keeper) keep(ctx context.Context, safe bool) error {
	return k.await(ctx, &waiter{safe: safe})
}

// await is keep for a waiter.
func (k *keeper) await(ctx context.Context, w *waiter) error {
	w.kept = make(chan error, 1)
	k.mu.Lock()
	if err := k.err; err != nil {
		k.mu.Unlock()
		return err
	}
	k.waiters = append(k.waiters, w)
	k.mu.Unlock()
	signal(k.wake)
	select {
	case err := <-w.kept:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-k.done:
		return errEnded
	}
}

// errEnded is the error of what a run is left to keep when it is over.
var errEnded = errors.New("the run has ended")

// work commits until the run has ended.
func (k *keeper) work() {
	defer close(k.done)
	beat := time.NewTicker(k.LeaseTTL / beats)
	defer beat.Stop()
	leave := k.Abort
	for {
		select {
		case <-leave:
			leave = nil
			_ = k.fail(journal.ErrReleased)
		case <-k.wake:
			k.hesitate()
			k.commit()
		case <-beat.C:
			k.renew()
		case <-k.closing:
			k.commit()
			<-k.landing.done
			return
		}
	}
}

// hesitate lets changes gather that nobody waits for.
func (k *keeper) hesitate() {
	k.mu.Lock()
	urgent := len(k.waiters) > 0
	k.mu.Unlock()
	if urgent {
		return
	}
	timer := time.NewTimer(gather)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-k.closing:
			return
		case <-k.wake:
			k.mu.Lock()
			urgent = len(k.waiters) > 0
			k.mu.Unlock()
			if urgent {
				return
			}
		}
	}
}

// commit commits what has gathered.
func (k *keeper) commit() {
	c, events, waiters, err := k.collect()
	bytes := k.collected
	k.collected = 0
	var disk <-chan error
	if err == nil && c != nil {
		if disk, err = k.write(c); errors.Is(err, journal.ErrAborted) {
			events, disk, err = k.retry(c, events)
		}
	}
	if err != nil {
		err = k.fail(err)
	} else if c != nil {
		k.entries, k.last, k.unsafe = c.Entry, c.Last, c.Lazy
		k.size.add(c.Bytes(), c.Full, k.cancel)
	}
	waiters = slices.DeleteFunc(waiters, func(w *waiter) bool { return !w.wrote(err) })
	if err != nil {
		k.run.memory.pending.Release(bytes)
		return
	}
	k.land(&landing{before: k.landing, disk: disk, events: events, bytes: bytes, waiters: waiters, done: make(chan struct{})})
}

// collect takes what has gathered; nil if nothing has.
func (k *keeper) collect() (c *journal.Commit, events []ClientEvent, waiters []*waiter, err error) {
	k.mu.Lock()
	ch := k.chain
	k.mu.Unlock()
	if ch == nil {
		return nil, nil, nil, nil // the run has not begun
	}
	var log []entry
	var changed bool
	err = ch.Delta(false, func(d *record.Delta) error {
		k.run.mu.Lock()
		s := &k.run.state
		now := live{Usage: s.Usage, LastID: s.LastID, ModelCalls: s.ModelCalls, ToolCalls: s.ToolCalls, Streams: ch.Streams().Load(), Observed: s.Observed,
			Revisions: k.run.revs.Last()}
		k.run.mu.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		if waiters, k.waiters = k.waiters, nil; k.err != nil {
			return k.err
		}
		k.addDelta(d)
		k.pending.Phase, k.pending.Live = k.phase, &now
		events = k.events[:k.safe:k.safe]
		k.events, k.safe = k.events[k.safe:], 0
		log, changed = append(k.staged, k.pending), k.changed
		k.staged, k.pending, k.changed = nil, newEntry(), false
		k.collected, k.bytes = k.bytes, 0
		c = &journal.Commit{Run: k.id, Epoch: k.epoch, Entry: k.entries, First: k.last + 1, Last: k.last, Lease: k.LeaseTTL}
		if changed {
			c.Progress = k.progressed(&now)
			c.Rewrite, k.rewrite = k.rewrite, nil
		}
		return nil
	})
	safe := slices.ContainsFunc(waiters, func(w *waiter) bool { return w.safe })
	if err != nil || !changed && len(events) == 0 && (!safe || !k.unsafe) {
		return nil, nil, waiters, err
	}
	c.Lazy = !safe && !slices.ContainsFunc(events, func(e ClientEvent) bool { return !light(&e.Event) })
	if changed {
		c.Entry++
		if c.Log, err = logLines(log); err == nil && c.Rewrite != nil {
			c.Log, err = c.Rewrite.Entry(c.Log)
		}
		if err != nil {
			return nil, nil, waiters, err
		}
	}
	number(events, c.First)
	c.Last += int64(len(events))
	c.Abort, c.Urgent = k.shedder.stopped, k.shedder.isStopped()
	c.Events, err = lines(events)
	return c, events, waiters, err
}

// logLines writes entries of the log, a line each.
func logLines(log []entry) ([]byte, error) {
	var out bytes.Buffer
	for i := range log {
		b, err := abijson.Marshal(&log[i])
		if err != nil {
			return nil, err
		}
		out.Write(b)
		out.WriteByte('\n')
	}
	return out.Bytes(), nil
}

func lines(events []ClientEvent) ([]byte, error) {
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

// try commits, again and again while the journal is not reached.
func (k *keeper) try(c *journal.Commit) error {
	deadline := time.Now().Add(k.RetryTimeout)
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		err := k.Journal.Commit(ctx, c)
		cancel()
		var again interface{ Retryable() bool }
		if err == nil || !errors.As(err, &again) || !again.Retryable() || time.Now().Add(wait).After(deadline) {
			return err
		}
		time.Sleep(wait)
	}
}

// renew gives a sign of life.
func (k *keeper) renew() {
	ctx, cancel := context.WithTimeout(context.Background(), k.LeaseTTL/beats)
	defer cancel()
	stop, err := k.Journal.Renew(ctx, k.id, k.epoch, k.LeaseTTL)
	switch {
	case errors.Is(err, journal.ErrFenced):
		_ = k.fail(err)
	case err == nil && stop:
		k.cancel(errCanceledByJournal)
	}
}

// errCanceledByJournal is the cause of a run's end that somebody asked for.
var errCanceledByJournal = errors.New("somebody canceled it")

// fail ends the run, which can be kept no longer.
func (k *keeper) fail(err error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failLocked(err)
}

func (k *keeper) failLocked(err error) error {
	if k.err == nil {
		k.err = &journal.Error{Run: k.id, Err: err}
		k.cancel(k.err)
	}
	return k.err
}

// A backlog is between a keeper and the run's caller.
type backlog struct {
	mu     sync.Mutex
	events []ClientEvent
	closed bool
	more   chan struct{}
	room   chan struct{}
	gone   sync.WaitGroup
}

func (b *backlog) add(events []ClientEvent) {
	b.mu.Lock()
	b.events = append(b.events, events...)
	b.mu.Unlock()
	signal(b.more)
}

func (b *backlog) wait(ctx context.Context) {
	for {
		b.mu.Lock()
		n := len(b.events)
		b.mu.Unlock()
		if n < maxBacklog {
			return
		}
		select {
		case <-b.room:
		case <-ctx.Done():
			return
		}
	}
}

// close waits until all events are delivered.
func (b *backlog) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	signal(b.more)
	b.gone.Wait()
}

func (b *backlog) deliver(to *outbox) {
	for {
		<-b.more
		b.mu.Lock()
		events, closed := b.events, b.closed
		b.events = nil
		b.mu.Unlock()
		signal(b.room)
		for _, e := range events {
			to.send(e)
		}
		if closed && len(events) == 0 {
			b.gone.Done()
			return
		}
		if closed {
			signal(b.more)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
