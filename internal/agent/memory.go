package agent

import (
	"context"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// Defaults of Options.
const (
	// DefaultMemory is the limit of a run's memory, in bytes. An input has at most
	// 8 MiB, which the host holds as messages, as their encoding for modules and as the
	// journal's next entry; answers of the model and of parallel tools come beside it.
	DefaultMemory = account.DefaultRun
	// DefaultPending is how many of these bytes may be pending.
	DefaultPending = account.DefaultPending
)

// A MemoryError ends a run for which there is not enough memory.
type MemoryError = ending.MemoryError

// A memory counts the bytes that a run makes the host hold. Runs inside it use the
// same accounts.
//
// Events and changes of the state are pending until they are persisted and, of events,
// taken by the caller. They are counted without looking at the limit: hooks wait for
// room before they make one, and the loop waits after each phase. So pending bytes
// exceed their limit by no more than the loop makes in a phase.
type memory struct {
	run     *account.Account
	pending *account.Account
	state   *account.Share // of the conversation and what belongs to it
	emitted *atomic.Int64  // part of pending that modules emitted or logged
	own     bool           // the accounts end with the run
}

// openMemory opens the run's accounts. cancel ends the run.
func (r *run) openMemory(ctx context.Context, cancel context.CancelCauseFunc) {
	m := &r.memory
	if r.parent != nil {
		m.run, m.pending, m.emitted = r.parent.memory.run, r.parent.memory.pending, r.parent.memory.emitted
	} else {
		parent := account.FromContext(ctx)
		if parent == nil {
			parent = account.Process()
		}
		m.own = true
		m.run = account.New(account.LevelRun, r.state.ID, parent, r.root.Memory)
		m.pending = account.NewDraining(account.LevelPending, r.state.ID, m.run, min(r.root.Memory, DefaultPending))
		m.emitted = &atomic.Int64{}
		m.run.Evictable(cancel)
	}
	m.state = account.NewShare(m.run)
	r.state.Locals.Count(m.run)
}

// closeMemory returns what the run holds.
func (r *run) closeMemory() {
	m := &r.memory
	_ = m.state.Set(0)
	r.state.Locals.Count(nil)
	if m.own {
		m.pending.Close()
		m.run.Close()
	}
}

// Account implements [hook.Accountant].
func (r *run) Account() *account.Account { return r.memory.run }

// AwaitMemory implements [hook.Accountant]. While most of the pending bytes are what
// modules emitted, waiting counts as an excess of the run: its modules emit faster than
// the journal persists. A wait for the run's own messages doesn't count.
func (r *run) AwaitMemory(ctx context.Context, n int64) error {
	p := r.memory.pending
	n = min(copies*n, p.Limit()) // the limits of an event are others
	if r.memory.emitted.Load() > p.Limit()/2 {
		r.memory.run.BeginExcess()
		defer r.memory.run.EndExcess()
	}
	err := p.Reserve(ctx, n)
	if err == nil {
		p.Release(n)
	}
	return err
}

// HasMemory implements [hook.Accountant].
func (r *run) HasMemory(n int64) error {
	p := r.memory.pending
	err := p.TryReserve(copies * n)
	if err == nil {
		p.Release(copies * n)
	}
	return err
}

// settle counts the state at the end of a phase, and waits until what is pending is
// within its limit. The error ends the run.
func (r *run) settle(ctx context.Context) error {
	if err := r.memory.state.Set(r.state.size()); err != nil {
		return ending.FromReservation(err)
	}
	return r.drain(ctx)
}

// drain waits until what is pending is within its limit. The error ends the run.
func (r *run) drain(ctx context.Context) error {
	if p := r.memory.pending; p.Used() < p.Limit()/2 {
		return nil // above, the accounts around it are looked at as well
	}
	if err := r.AwaitMemory(ctx, 1); err != nil {
		return ending.FromReservation(err)
	}
	return nil
}

// copies is how many copies of what is pending there are: itself, its encoding in a
// commit, and that in the journal.
const copies = 3

// hold counts an event as pending, until release.
func (r *run) hold(e *ClientEvent) {
	e.held = size.Event(&e.Event)
	for _, b := range e.Encoded {
		e.held += int64(len(b))
	}
	e.held *= copies
	r.memory.pending.Force(e.held)
	if droppable(&e.Event) {
		r.memory.emitted.Add(e.held)
	}
}

// free counts an event as pending no more.
func (r *run) free(e *ClientEvent) {
	if e.held == 0 {
		return
	}
	r.memory.pending.Release(e.held)
	if droppable(&e.Event) {
		r.memory.emitted.Add(-e.held)
	}
	e.held = 0
}

// overhead is about what a value takes beside its text.
const overhead = 256

// size returns about how many bytes the host holds of a state.
func (s *State) size() int64 {
	n := s.Messages.Size() + int64(len(s.Instruction))
	for i := range s.Tools {
		t := &s.Tools[i]
		n += int64(overhead + len(t.Name) + len(t.Description) + len(t.Parameters))
	}
	n += int64(len(s.Input)+len(s.Rounds)) * 32 // ids
	for i := range s.Streamed {
		c := &s.Streamed[i]
		n += int64(overhead + len(c.Text) + len(c.Arguments))
		if c.Part != nil {
			n += size.Part(c.Part)
		}
	}
	for i := range s.Calls {
		c := &s.Calls[i]
		n += int64(overhead+len(c.Call.Arguments)) + size.Result(c.Result)
		for j := range c.Messages {
			n += size.Message(&c.Messages[j])
		}
	}
	return n
}
