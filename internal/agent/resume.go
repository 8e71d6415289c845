package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// Continue goes on with a run of the agent's journal: one that paused, with
// answers by the ids of its interrupts, or one whose process is gone, without.
// What the run has done is not done again: tools and model calls that came to
// their end answer from the journal. A tool call that had begun is made again
// if it is idempotent; if not, the model and an event are told that its outcome
// is unknown.
//
// The first event of a run whose process was gone is run_resumed. The error is
// ErrNoRun, ErrBusy, ErrFinished, a *WaitingError, a *PinError, or the journal's.
func (a *Agent) Continue(ctx context.Context, id string, answers map[string]json.RawMessage) (iter.Seq2[abi.Event, error], error) {
	r, err := a.reclaim(ctx, id, answers, false)
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	return events(stream(ctx, r)), nil
}

// Cancel ends a run of the agent's journal that nobody runs: one that waits for
// answers, or whose process is gone. Its modules learn of its end. The errors
// are those of [Agent.Continue].
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

// ContinueFor is [Agent.Continue] for a client with a protocol of its own.
func (a *Agent) ContinueFor(ctx context.Context, id string, answers map[string]json.RawMessage, enc chain.Encoder) (iter.Seq2[ClientEvent, error], error) {
	r, err := a.reclaim(ctx, id, answers, false)
	if err != nil {
		return nil, fmt.Errorf("resume: %w", err)
	}
	r.client.encoder = enc
	return stream(ctx, r), nil
}

// reclaim takes a run over from the journal.
func (a *Agent) reclaim(ctx context.Context, id string, answers map[string]json.RawMessage, cancel bool) (*run, error) {
	o := a.Journal
	if o == nil {
		return nil, errors.New("the agent has no journal")
	}
	kept, err := o.Journal.Load(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := a.mayContinue(kept, answers); err != nil && (!cancel || !isWaiting(err)) {
		return nil, err
	}
	claim := &journal.Claim{Run: id, Epoch: kept.Epoch, Owner: o.Owner, Lease: o.LeaseTTL}
	claim.Steal = kept.Status == journal.StatusRunning && o.Gone != nil && o.Gone(kept.Owner)
	wasRunning := !waits(kept)
	var expires time.Time
	if limit := a.PauseTimeout; kept.Status == journal.StatusPaused && limit > 0 {
		expires = kept.Updated.Add(limit)
	}
	if kept, err = o.Journal.Claim(ctx, claim); err != nil {
		return nil, err
	}
	state, phase, err := restore(kept.Log)
	if err != nil {
		return nil, err
	}
	state.LastSeq, state.Expires, state.Used = kept.LastSeq, expires, kept.Stats
	r, err := resumed(a, state)
	if err != nil {
		return nil, err
	}
	if len(answers) > 0 {
		if err := r.state.answer(answers); err != nil {
			return nil, err
		}
	}
	r.crashed, r.canceled = wasRunning, cancel
	r.goOnKept(o, kept, phase)
	if len(answers) > 0 {
		r.keeper.pending.Answered = noteAnswers(ctx, answers)
	}
	return r, nil
}

// goOnKept says that the run is kept already, and how much of it.
func (r *run) goOnKept(o *journal.Options, kept *journal.StoredRun, phase int64) {
	for i := range r.state.Calls {
		c := &r.state.Calls[i]
		c.Started = c.Started || r.state.Record.ToolBegun(c.Call.ID)
	}
	r.journal = o
	r.keeper = newKeeper(o, r, kept.Epoch, kept.Entries, kept.LastSeq)
	r.keeper.phase = phase
	r.keeper.size.used = kept.JournalBytes
	r.keeper.revision = r.state.Messages.Revision()
	r.keeper.rounds = len(r.state.Rounds)
	r.keeper.fixed = &fixed{r.state.Instruction, r.state.Tools, r.state.Input}
}

// mayContinue says why a run cannot go on, before it is claimed.
func (a *Agent) mayContinue(kept *journal.StoredRun, answers map[string]json.RawMessage) error {
	if kept.Status == journal.StatusFinished {
		return fmt.Errorf("run %s: %w: %s", kept.ID, journal.ErrFinished, kept.FinishReason)
	}
	if err := a.checkPins(kept.ID, kept.Modules); err != nil {
		return err
	}
	switch {
	case waits(kept) && len(answers) == 0:
		return &journal.WaitingError{Run: kept.ID, Pending: kept.Pending}
	case !waits(kept) && len(answers) > 0:
		return fmt.Errorf("run %s does not wait for an answer", kept.ID)
	case len(answers) == 0:
		return nil
	}
	state, _, err := restore(kept.Log)
	if err != nil {
		return err
	}
	return state.answer(answers) // of this copy: they make sense
}

// waits reports whether a run waits for answers, also where a process was about
// to go on with some and ended before it came to it.
func waits(kept *journal.StoredRun) bool {
	return kept.Status == journal.StatusPaused || len(kept.Pending) > 0
}

// openJournal begins to keep the run, where it is kept. Its context ends when
// the journal fails, or somebody cancels the run there.
func (r *run) openJournal(ctx context.Context) (context.Context, func()) {
	o := r.journal
	if o == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	if r.keeper == nil {
		r.keeper = newKeeper(o, r, 1, 0, 0)
	}
	k := r.keeper
	k.begin(cancel)
	return ctx, func() {
		if err := k.end(); err != nil {
			r.lost = err
		}
		if errors.Is(r.lost, journal.ErrReleased) { // else who comes waits for the lease to end
			ctx, done := context.WithTimeout(context.WithoutCancel(ctx), k.LeaseTTL)
			_, _ = o.Journal.Renew(ctx, r.state.ID, k.epoch, 0)
			done()
		}
		cancel(nil)
	}
}

// keepBegin puts a new run into the journal, or says that an old one goes on.
// It reports whether the run may go on.
func (r *run) keepBegin(ctx context.Context) bool {
	k := r.keeper
	if k == nil {
		return true
	}
	if k.entries == 0 {
		if err := r.create(ctx); err != nil {
			_ = k.fail(err)
			return false
		}
		k.attach(r.chain)
		return true
	}
	k.mu.Lock()
	k.takeGiven()
	k.mu.Unlock()
	r.chain.Begin(r.state.Record)
	k.attach(r.chain)
	if err := r.tellObservers(ctx); err != nil {
		_ = k.fail(err)
		return false
	}
	k.mu.Lock()
	k.progress, k.changed = k.look(journal.StatusRunning), true
	k.mu.Unlock()
	if r.crashed && r.state.LastSeq > 0 {
		r.tell(abi.Event{Type: abi.EventRunResumed, Reason: "the process that ran it ended; the parts of a message that were not followed by it come again"})
		k.release()
	}
	if k.keep(context.WithoutCancel(ctx), true) != nil {
		return false
	}
	if r.canceled {
		k.cancel(errCanceledByJournal)
	}
	return true
}

// create puts a new run into the journal.
func (r *run) create(ctx context.Context) error {
	k := r.keeper
	var first entry
	k.mu.Lock()
	k.pending.Phase = k.phase
	k.takeState(headOf(&r.state))
	first, k.pending = k.pending, newEntry()
	k.takeGiven()
	k.mu.Unlock()
	log, err := logLines([]entry{first})
	if err != nil {
		return err
	}
	s := &r.state
	begun := &journal.Creation{ID: s.ID, Tenant: k.Tenant, Agent: s.Agent, Parent: s.Parent, Title: title(s.Messages),
		Owner: k.Owner, Lease: k.LeaseTTL, Modules: r.root.Pins(), Spec: k.Spec, Log: log, Lazy: true} // until run_started is told
	if err := k.Journal.Create(context.WithoutCancel(ctx), begun); err != nil {
		return err
	}
	k.entries = 1
	k.size.add(begun.Bytes(), nil, k.cancel)
	return nil
}

// maxTitle is the length of a run's title, in characters.
const maxTitle = 120

// title is what the user said last, cut.
func title(l *message.List) string {
	const enough = (maxTitle + 1) * utf8.UTFMax // bytes
	for i := l.Len() - 1; i >= 0; i-- {
		if m := l.At(i); m.Role == abi.RoleUser {
			var begins strings.Builder // what is said may be a megabyte
			for word := range strings.FieldsSeq(m.Content.String()) {
				if begins.Len() > 0 {
					begins.WriteByte(' ')
				}
				begins.WriteString(word[:min(len(word), enough)])
				if begins.Len() >= enough {
					break
				}
			}
			text := []rune(begins.String())
			if len(text) > maxTitle {
				text = append(text[:maxTitle-1], '…')
			}
			return string(text)
		}
	}
	return ""
}

// mustHandBack reports whether the run is to end here, and to go on elsewhere.
func (r *run) mustHandBack() bool {
	if r.keeper == nil || r.keeper.Drain == nil {
		return false
	}
	select {
	case <-r.keeper.Drain:
		return true
	default:
		return false
	}
}

// keepPhase keeps the state at the end of a phase.
func (r *run) keepPhase() {
	if r.keeper != nil {
		r.keeper.stage()
	}
}

// keepCall makes a change of call i of the round, and tells of it: both are kept
// together.
func (r *run) keepCall(i int, change func()) {
	if r.keeper == nil {
		change()
		return
	}
	r.chain.Recording(func() {
		change()
		r.keeper.call(i, &r.state.Calls[i])
	})
}

// last hands out the last event of the run, or of this part of it, and keeps
// what became of the run with it.
func (r *run) last(e ClientEvent, status journal.Status) {
	k := r.keeper
	if k == nil {
		r.hold(&e)
		r.events.send(e)
		return
	}
	p := k.look(status)
	p.FinishReason, p.Pending = e.Event.FinishReason, e.Event.Interrupts
	_ = k.finish(e, p) // an error is told when the events have ended
}

// isLost reports whether the journal has failed: the run ends without an end.
func (r *run) isLost() bool { return r.keeper != nil && r.keeper.failed() != nil }
