package agent

import (
	"context"
	"maps"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/persist"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/record"
)

// A recorder collects the changes of a run's state as entries of the run's log. The writer commits
// them together with the run's events. A recorder implements [persist.Source].
//
// The record of the phase contains which events hooks have sent. An event of the loop belongs to
// the end of a phase or to the state of a tool call, and is held until that state is recorded.
type recorder struct {
	*persist.Writer
	run *run

	mu       sync.Mutex
	chain    *chain.Run     // the run's chain; nil before the run begins
	staged   []runlog.Entry // entries of phases that have ended
	pending  runlog.Entry   // entry of the current phase
	changed  bool           // staged or pending has a change
	phase    int64
	revision int64                   // revision of the messages when they were last recorded
	rounds   int                     // number of recorded rounds
	fixed    *runlog.Fixed           // the fixed fields as last recorded
	progress *journal.Progress       // the run's progress, without usage
	used     func() []abi.EntryStats // returns the entries' statistics so far
	thread   *journal.ThreadEnd      // change of the run's thread; set when the run ends
	audit    *journal.Audit          // a record for the audit log with the next change; nil for none
	bytes    int64                   // size of staged and pending, which counts as pending memory
	eraser   eraser
}

// newRecorder returns the recorder of a run. at is the position in the journal at which the run's
// log continues.
func newRecorder(o *journal.Options, r *run, at persist.Position) *recorder {
	c := &recorder{
		run:      r,
		pending:  runlog.NewEntry(),
		progress: &journal.Progress{Status: journal.StatusRunning, Step: r.state.Step},
		eraser:   eraser{entries: at.Entries, first: 1},
	}
	c.Writer = persist.NewWriter(o, r.state.ID, at, maxJournalBytes(o, r), c)
	return c
}

// maxJournalBytes returns the lower of the limits of journal bytes of the journal and of the agent.
func maxJournalBytes(o *journal.Options, r *run) int64 {
	if l := r.root.Limits.JournalBytes; l > 0 && (o.MaxBytes == 0 || l < o.MaxBytes) {
		return l
	}
	return o.MaxBytes
}

// attach sets the run's current chain.
func (k *recorder) attach(c *chain.Run) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.chain, k.used = c, k.run.meter()
}

// call records the state of call i of the round. Callers hold the chain's recording lock and have
// sent the events that report the state.
func (k *recorder) call(i int, c *runlog.CallState) {
	state := *c
	state.Child, state.Journaled = nil, nil // the run of a sub-agent has its own log
	b, err := abijson.Marshal(&state)
	if err != nil {
		_ = k.Fail(err)
	}
	k.mu.Lock()
	k.hold(len(b))
	k.pending.Calls[i], k.changed = b, true
	k.mu.Unlock()
	k.Ready()
}

// round records the calls of a new round.
func (k *recorder) round() {
	s := &k.run.state
	k.run.mu.Lock()
	head := runlog.HeadOf(s)
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

// head records the head of the state within a phase.
func (k *recorder) head() {
	k.run.mu.Lock()
	head := runlog.HeadOf(&k.run.state)
	k.run.mu.Unlock()
	k.mu.Lock()
	k.pending.Head, k.changed = head, true
	k.mu.Unlock()
}

// stage records the state at the end of a phase and starts the record of the next one.
func (k *recorder) stage() {
	r := k.run
	r.state.StepOpen, r.state.Streams, r.state.Revisions = r.stepOpen, r.chain.Streams().Load(), r.revs.Last()
	r.mu.Lock()
	head := runlog.HeadOf(&r.state)
	r.mu.Unlock()
	progress := k.look(journal.StatusRunning)
	err := r.chain.Delta(true, func(d *record.Delta) error {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.addDelta(d)
		k.phase++
		k.endPhase(head)
		k.takeState(head)
		k.pending.Phase = k.phase
		k.staged = append(k.staged, k.pending)
		k.pending = runlog.NewEntry()
		k.progress, k.changed = progress, true
		k.Ready()
		return nil
	})
	if err != nil {
		_ = k.Fail(err)
	}
	r.chain.Begin(r.state.Record)
}

// takeState records the changed parts of the state. Callers hold mu.
func (k *recorder) takeState(head *runlog.State) {
	s := &k.run.state
	p := &k.pending
	if now := runlog.FixedOf(s); !now.Same(k.fixed) {
		p.Fixed, k.fixed = now, now
	}
	p.Head = head
	if rev := s.Messages.Revision(); rev != k.revision {
		from := s.Messages.Changed(k.revision)
		items := s.Messages.JSON(from, s.Messages.Len())
		k.hold(len(items))
		s.Unchanged = min(s.Unchanged, from)
		head.Unchanged = s.Unchanged
		p.Messages, k.revision = &journal.MessagesChange{From: from, Items: items}, rev
	}
	p.NoCalls = s.Calls == nil
	k.takeRounds()
}

// takeRounds records new rounds. Callers hold mu.
func (k *recorder) takeRounds() {
	rounds := k.run.state.Rounds
	k.pending.Rounds = append(k.pending.Rounds, rounds[k.rounds:]...)
	k.rounds = len(rounds)
}

// addDelta adds a change of the phase's record to the pending entry. Callers hold mu.
func (k *recorder) addDelta(d *record.Delta) {
	if !d.Empty() {
		k.hold(d.Size())
		k.pending.Records = append(k.pending.Records, runlog.PhaseDelta{Phase: k.phase, Delta: *d})
		k.changed = true
	}
}

// hold counts a change of n bytes, with all its copies, as pending until it is persisted. Callers
// hold mu.
func (k *recorder) hold(n int) {
	k.bytes += delivery.Copies * int64(n)
	k.run.memory.Pending.Force(delivery.Copies * int64(n))
}

// look returns the run's progress with the given status, without usage.
func (k *recorder) look(status journal.Status) *journal.Progress {
	s := &k.run.state
	return &journal.Progress{Status: status, Step: s.Step}
}

// progressed returns the run's progress with usage. Callers hold mu.
func (k *recorder) progressed(now *runlog.Live) *journal.Progress {
	p := *k.progress
	p.Usage, p.Models, p.Stats, p.Fuel = now.Usage, now.Models, k.used(), 0
	for _, e := range p.Stats {
		p.Fuel += e.Fuel
	}
	p.HeldBytes, p.PeakBytes = k.run.memory.run.Used(), k.run.memory.run.Peak()
	return &p
}

// Collect implements [persist.Source].
func (k *recorder) Collect(take func() error) (persist.Change, error) {
	var out persist.Change
	k.mu.Lock()
	ch := k.chain
	k.mu.Unlock()
	if ch == nil {
		return out, nil
	}
	var log []runlog.Entry
	err := ch.Delta(false, func(d *record.Delta) error {
		k.run.mu.Lock()
		s := &k.run.state
		now := runlog.Live{
			Usage:      s.Usage,
			Models:     maps.Clone(s.Models),
			LastID:     s.LastID,
			ModelCalls: s.ModelCalls,
			ToolCalls:  s.ToolCalls,
			Streams:    ch.Streams().Load(),
			Observed:   s.Observed,
			Revisions:  k.run.revs.Last(),
		}
		k.run.mu.Unlock()
		k.mu.Lock()
		defer k.mu.Unlock()
		k.addDelta(d)
		out.Pending, k.bytes = k.bytes, 0
		if k.changed {
			out.Rewrite = k.eraser.commit()
			k.pending.Phase, k.pending.Live = k.phase, &now
			log = append(k.staged, k.pending)
			out.Progress = k.progressed(&now)
			out.Thread, k.thread = k.thread, nil
			out.Audit, k.audit = k.audit, nil
		}
		k.staged, k.pending, k.changed = nil, runlog.NewEntry(), false
		return take()
	})
	if err != nil || log == nil {
		return out, err
	}
	if out.Log, err = runlog.LogLines(log); err == nil && out.Rewrite != nil {
		out.Log, err = out.Rewrite.Entry(out.Log)
	}
	return out, err
}

// finish commits the final or paused status together with the last event.
func (k *recorder) finish(e delivery.Event, p *journal.Progress) error {
	k.run.memory.Hold(&e)
	k.run.chain.Recording(func() {
		k.mu.Lock()
		k.progress, k.changed = p, true
		if p.Status == journal.StatusFinished {
			k.thread = k.run.endThread(&e.Event)
		}
		k.endPart(p.Status)
		k.mu.Unlock()
		k.Send(e, false)
	})
	return k.Flush(context.Background(), true, nil)
}
