package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/persist"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// Continue resumes a run from the agent's journal. The run is paused, and answers has answers by
// interrupt ID, or the run's process has ended, and there are no answers. The journal answers
// completed tool and model calls. A tool call that had started is repeated if it is idempotent.
// Otherwise an event and the result for the model report an unknown outcome.
//
// The first event of a run whose process ended is run_resumed. Continue returns an error if the
// agent has no journal or the answers do not fit the run's interrupts. The error is
// [journal.ErrNoRun] if the journal has no such run, [journal.ErrBusy] if another process executes
// it, [journal.ErrFinished] if it has ended, a [*journal.WaitingError] if it waits for answers and
// there are none, or a [*journal.PinError] if the modules differ. Any other error comes from the
// journal.
func (a *Agent) Continue(
	ctx context.Context,
	id string,
	answers map[string]json.RawMessage,
) (iter.Seq2[abi.Event, error], error) {
	r, err := a.reclaim(ctx, id, answers, false)
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	return events(stream(ctx, r)), nil
}

// Cancel ends a run of the agent's journal that no process is executing: a paused run, or a run
// whose process has ended. It calls the run's after_agent hooks and observers. The errors are those
// of [Agent.Continue], except that a paused run needs no answers.
func (a *Agent) Cancel(ctx context.Context, id string) (iter.Seq2[abi.Event, error], error) {
	r, err := a.reclaim(ctx, id, nil, true)
	if err != nil {
		return nil, fmt.Errorf("cancel: %w", err)
	}
	return events(stream(ctx, r)), nil
}

func isWaiting(err error) bool {
	var waits *journal.WaitingError
	return errors.As(err, &waits)
}

// ContinueFor is like [Agent.Continue], and also translates the events with enc like
// [Agent.RunFor].
func (a *Agent) ContinueFor(
	ctx context.Context,
	id string,
	answers map[string]json.RawMessage,
	enc chain.Encoder,
) (iter.Seq2[delivery.Event, error], error) {
	r, err := a.reclaim(ctx, id, answers, false)
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	r.client.encoder = enc
	return stream(ctx, r), nil
}

// reclaim claims a run from the journal. If cancel is set, a paused run needs no answers.
func (a *Agent) reclaim(ctx context.Context, id string, answers map[string]json.RawMessage, cancel bool) (*run, error) {
	o := a.Journal
	if o == nil {
		return nil, errors.New("the agent has no journal")
	}
	stored, err := o.Journal.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := a.checkContinue(stored, answers); err != nil && (!cancel || !isWaiting(err)) {
		return nil, err
	}
	claim := &journal.Claim{Run: id, Epoch: stored.Epoch, Owner: o.Owner, LeaseTTL: o.LeaseTTL}
	claim.Steal = stored.Status == journal.StatusRunning && o.Gone != nil && o.Gone(stored.Owner)
	wasRunning := !waits(stored)
	var expires time.Time
	if limit := a.PauseTimeout; stored.Status == journal.StatusPaused && limit > 0 {
		expires = stored.Updated.Add(limit)
	}
	if stored, err = o.Journal.Claim(ctx, claim); err != nil {
		return nil, err
	}
	state, phase, err := runlog.Restore(stored.Log)
	if err != nil {
		return nil, err
	}
	state.LastSeq, state.Expires, state.Used = stored.LastSeq, expires, stored.Stats
	r, err := resumed(a, state)
	if err != nil {
		return nil, err
	}
	if len(answers) > 0 {
		if err := r.state.Answer(answers, answererOf(ctx)); err != nil {
			return nil, err
		}
	}
	r.crashed, r.canceled = wasRunning, cancel
	r.restore(o, stored, phase)
	if len(answers) > 0 {
		r.recorder.pending.Answered = r.noteAnswers(ctx, answers)
		r.recorder.audit, _ = ctx.Value(auditKey{}).(*journal.Audit)
	}
	return r, nil
}

// restore gives the run a recorder that continues the stored run, and marks the calls whose tools
// had begun as started.
func (r *run) restore(o *journal.Options, stored *journal.StoredRun, phase int64) {
	for i := range r.state.Calls {
		c := &r.state.Calls[i]
		c.Started = c.Started || r.state.Record.ToolBegun(c.Call.ID)
	}
	r.journal = o
	if stored.Thread != "" {
		r.thread = &journal.ThreadStart{Thread: stored.Thread, Messages: r.state.Base}
	}
	r.recorder = newRecorder(o, r,
		persist.Position{Epoch: stored.Epoch, Entries: stored.Entries, LastSeq: stored.LastSeq, Bytes: stored.JournalBytes})
	r.recorder.phase = phase
	r.recorder.revision = r.state.Messages.Revision()
	r.recorder.eraser.seen = r.state.Messages
	r.recorder.eraser.first = runlog.EntryBefore(stored.Log, r.state.Window.Phase)
	r.recorder.rounds = len(r.state.Rounds)
	r.recorder.fixed = runlog.FixedOf(&r.state)
	if r.root.requested != nil {
		r.recorder.fixed.Requested = &runlog.Requested{} // the log has the parameters of an earlier request
	}
}

// checkContinue returns an error if a run cannot be resumed with the given answers. It is called
// before the claim.
func (a *Agent) checkContinue(stored *journal.StoredRun, answers map[string]json.RawMessage) error {
	if stored.Status == journal.StatusFinished {
		return fmt.Errorf("run %s: %w: %s", stored.ID, journal.ErrFinished, stored.FinishReason)
	}
	if err := a.checkPins(stored.ID, stored.Modules); err != nil {
		return err
	}
	switch {
	case waits(stored) && len(answers) == 0:
		return &journal.WaitingError{Run: stored.ID, Pending: stored.Pending}
	case !waits(stored) && len(answers) > 0:
		return fmt.Errorf("run %s does not wait for an answer", stored.ID)
	case len(answers) == 0:
		return nil
	}
	state, _, err := runlog.Restore(stored.Log)
	if err != nil {
		return err
	}
	return state.Answer(answers, "") // validates the answers on this copy of the state
}

// waits reports whether a run waits for answers. It also returns true if the run's process received
// answers but ended before it used them.
func waits(stored *journal.StoredRun) bool {
	return stored.Status == journal.StatusPaused || len(stored.Pending) > 0
}

// openJournal starts to write to the run's journal, if it has one. The returned context is canceled
// when the journal fails, or when the run is canceled through the journal. The returned function
// commits the remaining changes, and sets r.lost if the journal failed. If another process must
// resume the run, the function releases the lease.
func (r *run) openJournal(ctx context.Context) (context.Context, func()) {
	o := r.journal
	if o == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if r.recorder == nil {
		r.recorder = newRecorder(o, r, persist.Position{Epoch: 1})
	}
	k := r.recorder
	k.Begin(cancel, &r.memory.Memory, r.events)
	return ctx, func() {
		if err := k.End(); err != nil {
			r.lost = err
		}
		if errors.Is(r.lost, journal.ErrReleased) || errors.Is(r.lost, journal.ErrLost) {
			k.ReleaseLease(ctx) // the next process does not have to wait until the lease expires
		}
		cancel(nil)
	}
}

// persistBegin stores a new run in the journal, or records that a stored run is resumed. It reports
// whether the run may continue.
func (r *run) persistBegin(ctx context.Context) bool {
	k := r.recorder
	if k == nil {
		return true
	}
	if !k.Created() {
		if err := r.create(ctx); err != nil {
			_ = k.Fail(err)
			return false
		}
		k.attach(r.chain)
		return true
	}
	r.chain.Begin(r.state.Record)
	k.attach(r.chain)
	if err := r.callObservers(ctx); err != nil {
		_ = k.Fail(err)
		return false
	}
	k.mu.Lock()
	k.progress, k.changed = k.look(journal.StatusRunning), true
	k.mu.Unlock()
	if r.crashed && r.state.LastSeq > 0 {
		r.emit(abi.Event{
			Type:   abi.EventRunResumed,
			Reason: "the process that ran it ended; the parts of a message that were not followed by it come again",
		})
		k.Ready()
	}
	if k.Flush(context.WithoutCancel(ctx), true, nil) != nil {
		return false
	}
	if r.canceled {
		k.Cancel()
	}
	return true
}

// create stores a new run in the journal.
func (r *run) create(ctx context.Context) error {
	k, s := r.recorder, &r.state
	var first runlog.Entry
	k.mu.Lock()
	k.pending.Phase = k.phase
	k.takeState(runlog.HeadOf(&r.state))
	if r.thread != nil { // the journal has the messages of the thread
		k.pending.Messages = &journal.MessagesChange{From: s.Base, Items: s.Messages.JSON(s.Base, s.Messages.Len())}
		s.Unchanged, k.pending.Head.Unchanged = s.Base, s.Base
	}
	first, k.pending = k.pending, runlog.NewEntry()
	k.eraser.seen = s.Messages
	k.eraser.commit()
	k.mu.Unlock()
	log, err := runlog.LogLines([]runlog.Entry{first})
	if err != nil {
		return err
	}
	var metadata []byte
	if len(s.Metadata) > 0 {
		if metadata, err = abijson.Marshal(s.Metadata); err != nil {
			return err
		}
	}
	begun := &journal.Creation{
		ID:       s.ID,
		Tenant:   k.Tenant,
		Agent:    s.Agent,
		Parent:   s.Parent,
		Title:    runlog.Title(s.Messages),
		Owner:    k.Owner,
		LeaseTTL: k.LeaseTTL,
		Modules:  Pins(r.root),
		Spec:     k.Spec,
		Log:      log,
		Lazy:     true, // the commit with run_started is synced
		Metadata: metadata,
		Thread:   r.thread,
		EndUser:  r.endUser,
	}
	return k.Create(context.WithoutCancel(ctx), begun)
}

// mustRelease reports whether the run must end in this process because the process is shutting
// down.
func (r *run) mustRelease() bool {
	if r.recorder == nil || r.recorder.Drain == nil {
		return false
	}
	select {
	case <-r.recorder.Drain:
		return true
	default:
		return false
	}
}

// persistPhase records the state at the end of a phase.
func (r *run) persistPhase() {
	if r.recorder != nil {
		r.recorder.stage()
	}
}

// persistCall calls change, which changes call i of the round and sends the events of the change.
// The change and the events are committed together.
func (r *run) persistCall(i int, change func()) {
	if r.recorder == nil {
		change()
		return
	}
	r.chain.Recording(func() {
		change()
		r.recorder.call(i, &r.state.Calls[i])
	})
}

// last delivers event e, which is run_finished or run_paused, and commits the run's status with it.
func (r *run) last(e delivery.Event, status journal.Status) {
	k := r.recorder
	if k == nil {
		r.memory.Hold(&e)
		r.events.Send(&e)
		return
	}
	p := k.look(status)
	p.FinishReason, p.Pending = e.Event.FinishReason, e.Event.Interrupts
	_ = k.finish(e, p) // the function that openJournal returned reports the error
}

// journalFailed reports whether the journal has failed. The run then ends without run_finished.
func (r *run) journalFailed() bool { return r.recorder != nil && r.recorder.Err() != nil }

type answererKey struct{}

// AnsweredBy returns a context with the name of the person or client that gave the answers.
// [Agent.Continue] and [Agent.Resume] record the name.
func AnsweredBy(ctx context.Context, who string) context.Context {
	return context.WithValue(ctx, answererKey{}, who)
}

// answererOf returns the name that [AnsweredBy] stored in the context, or "".
func answererOf(ctx context.Context) string {
	by, _ := ctx.Value(answererKey{}).(string)
	return by
}

type answeringKey struct{}

// AnsweredOnce returns a context that identifies the request with the answers. [Agent.Continue]
// records key and digest. A repeated request must have the same key and digest. Another request
// with the same key must have another digest.
func AnsweredOnce(ctx context.Context, key, digest string) context.Context {
	return context.WithValue(ctx, answeringKey{}, runlog.AnsweringRequest{Key: key, Digest: digest})
}

type auditKey struct{}

// Audited returns a context with a record for the audit log, which the journal adds with the answers of
// [Agent.Continue].
func Audited(ctx context.Context, a *journal.Audit) context.Context {
	return context.WithValue(ctx, auditKey{}, a)
}

func (r *run) noteAnswers(ctx context.Context, answers map[string]json.RawMessage) *runlog.Answered {
	out := &runlog.Answered{By: answererOf(ctx), TimeMS: time.Now().UnixMilli(), Answers: answers}
	if request, ok := ctx.Value(answeringKey{}).(runlog.AnsweringRequest); ok {
		request.After, request.Usage = r.state.LastSeq, r.state.Usage
		out.Request = &request
	}
	return out
}
