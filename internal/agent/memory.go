package agent

import (
	"context"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// Defaults of Options.
const (
	// DefaultMemory is the default of Options.Memory, in bytes. An input has at most 8 MiB. The
	// host stores it as messages, as their encoding for modules and as the journal's next entry, in
	// addition to answers of the model and of parallel tools.
	DefaultMemory = account.DefaultRun
	// DefaultPending is the maximum number of pending bytes in a run's memory. If Options.Memory is
	// lower, that is the maximum.
	DefaultPending = account.DefaultPending
)

// A MemoryError ends a run that needs more memory than allowed.
type MemoryError = ending.MemoryError

// A memory counts the bytes that the host stores for a run. The runs inside it use the same
// accounts.
//
// A change of the state is pending until it is persisted, and an event until it is persisted and
// the caller has taken it. Pending bytes are counted without checking the limit. Instead, hooks
// wait for free memory before they emit, and the loop waits after each phase. Pending bytes thus
// exceed their limit by at most the output of the loop in one phase.
type memory struct {
	delivery.Memory
	run   *account.Account
	state *account.Share // share for the conversation and its accompanying state
	own   bool           // the accounts end with the run
}

// openMemory opens the accounts of an outermost run, or uses those of the outer run. For an
// outermost run it registers cancel: if the process runs out of memory, the process cancels the run
// that uses the most.
func (r *run) openMemory(ctx context.Context, cancel context.CancelCauseFunc) {
	m := &r.memory
	if r.parent != nil {
		m.run, m.Memory = r.parent.memory.run, r.parent.memory.Memory
	} else {
		parent := account.FromContext(ctx)
		if parent == nil {
			parent = account.Process()
		}
		m.own = true
		m.run = account.New(account.LevelRun, r.state.ID, parent, r.root.Memory)
		m.Pending = account.NewDraining(account.LevelPending, r.state.ID, m.run, min(r.root.Memory, DefaultPending))
		m.Emitted = &atomic.Int64{}
		m.run.Evictable(cancel)
	}
	m.state = account.NewShare(m.run)
	r.state.Locals.Count(m.run)
}

// closeMemory releases the memory of the run.
func (r *run) closeMemory() {
	m := &r.memory
	_ = m.state.Set(0)
	r.state.Locals.Count(nil)
	if m.own {
		m.Pending.Close()
		m.run.Close()
	}
}

// Account implements [hook.Accountant].
func (r *run) Account() *account.Account { return r.memory.run }

// AwaitMemory implements [hook.Accountant]. While the events that modules emitted take more than
// half of the pending memory, waiting counts as an excess of the run, because its modules emit
// faster than the journal persists. Waiting for the run's own messages does not count.
func (r *run) AwaitMemory(ctx context.Context, n int64) error {
	p := r.memory.Pending
	n = min(delivery.Copies*n, p.Limit()) // a larger amount could never be reserved; other limits bound an event
	if r.memory.Emitted.Load() > p.Limit()/2 {
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
	p := r.memory.Pending
	err := p.TryReserve(delivery.Copies * n)
	if err == nil {
		p.Release(delivery.Copies * n)
	}
	return err
}

// settle counts the memory of the state at the end of a phase, and waits until the pending bytes
// are within their limit. An error of settle ends the run.
func (r *run) settle(ctx context.Context) error {
	if err := r.memory.state.Set(runlog.SizeOf(&r.state)); err != nil {
		return ending.FromReservation(err)
	}
	return r.drain(ctx)
}

// drain waits until the pending bytes are within their limit. An error of drain ends the run.
func (r *run) drain(ctx context.Context) error {
	if p := r.memory.Pending; p.Used() < p.Limit()/2 {
		return nil // from half of the limit on, the parent accounts are checked too
	}
	if err := r.AwaitMemory(ctx, 1); err != nil {
		return ending.FromReservation(err)
	}
	return nil
}
