package runs

import (
	"context"
	"errors"
	"iter"
	"runtime/pprof"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/refcache"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// An alreadyRunningError reports a run that is in progress here.
type alreadyRunningError struct{ run string }

// Error implements error.
func (e *alreadyRunningError) Error() string { return "run " + e.run + ": run is already in progress" }

// Problem returns the error as problem details.
func (e *alreadyRunningError) Problem() *httpapi.Problem {
	return httpapi.NewProblem(api.CodeConflict, "%v", e)
}

// run executes a run on its own goroutine; the function events starts it and returns its events.
// run fails with an [*alreadyRunningError] if the run is in progress here. If admit is not nil, the
// run starts only if admit succeeds. At most one of several concurrent calls with the same id calls
// admit. run releases the agent o when the run is over, or at once if it fails.
func (r *Service) run(
	t *store.Tenant,
	id string,
	o *agents.Handle,
	admit func() error,
	events func(context.Context) (iter.Seq2[delivery.Event, error], error),
) (*ActiveRun, error) {
	ctx, cancel := context.WithCancelCause(sandbox.WithTenant(context.Background(), r.admission.Sharer(t.ID())))
	pins := agent.Pins(o.Agent)
	hide := NewRedactor(pins)
	l := r.Active.Add(id, t.ID(), pins, cancel)
	if l == nil {
		cancel(nil)
		o.Release()
		return nil, &alreadyRunningError{id}
	}
	if admit != nil {
		if err := admit(); err != nil {
			cancel(nil)
			r.Active.remove(l)
			o.Release()
			return nil, err
		}
	}
	memory, closeMemory := r.memory.Open(t.ID(), o.Memory)
	ctx = withActivity(account.WithContext(ctx, memory), l.activity)
	l.count(memory)
	reasons, _ := r.blocks.Current()
	r.stopBlocked(l, reasons) // the block may be newer than the agent
	r.options.Go(func() {
		// crash reports have the labels of the goroutine that crashed
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("run", id)))
		defer closeMemory()
		defer o.Release()
		defer cancel(nil)
		defer r.Active.remove(l)
		defer func() {
			if admit != nil && !l.hasBegun() {
				r.releaseQuota(t, id)
			}
		}()
		stream, err := events(ctx)
		if err != nil {
			l.fail(err)
			return
		}
		for e, err := range stream {
			if e.Event.Type != "" {
				line := hide.encode(&e.Event)
				if line.data != nil {
					line.Encoded = e.Encoded
				}
				l.append(line)
			} else if err != nil {
				l.fail(err)
				r.logStopped(t, id, err)
			}
		}
	})
	return l, nil
}

// withoutEncoding returns events as [delivery.Event] values without an encoding for a client's
// protocol.
func withoutEncoding(events iter.Seq2[abi.Event, error]) iter.Seq2[delivery.Event, error] {
	return func(yield func(delivery.Event, error) bool) {
		for e, err := range events {
			if !yield(delivery.Event{Event: e}, err) {
				return
			}
		}
	}
}

// releaseQuota releases the quota of a run that never reached the store.
func (r *Service) releaseQuota(t *store.Tenant, id string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := t.ReleaseRun(ctx, id); err != nil {
		r.log.Warn("release the quota of a run", "run", id, "error", err)
	}
}

// logStopped logs the error that stopped a run here, except an exceeded quota and errors of the run's
// thread. If the run was released to the journal, logStopped counts it, and tells all servers that there
// are runs to take over.
func (r *Service) logStopped(t *store.Tenant, id string, err error) {
	var full *store.QuotaError
	var busy *journal.ThreadBusyError
	if errors.As(err, &full) || errors.As(err, &busy) ||
		errors.Is(err, journal.ErrThreadChanged) || errors.Is(err, journal.ErrNoThread) {
		return // the run did not begin, and its client receives the error
	}
	if errors.Is(err, journal.ErrReleased) {
		r.released.Add(1)
		r.log.Info("run handed back", "tenant", t.ID(), "run", id)
		r.Waiting()
		return
	}
	r.log.Error("run stopped", "tenant", t.ID(), "run", id, "error", err)
	if errors.Is(err, journal.ErrLost) {
		r.Waiting()
	}
}

// end cancels a run that no server executes. If its agent can be built, its modules are
// notified.
func (r *Service) end(ctx context.Context, t *store.Tenant, info *journal.RunInfo) error {
	o, err := r.agentOf(ctx, t, info)
	if err != nil {
		if p := (*refcache.PanicError)(nil); errors.As(err, &p) {
			r.log.Error(
				"build the agent of a canceled run",
				"tenant",
				t.ID(),
				"run",
				info.ID,
				"error",
				err,
				"stack",
				string(p.Stack),
			)
		}
		return r.abandon(ctx, t, info, "canceled; its agent is no longer available")
	}
	failed := make(chan error, 1)
	l, err := r.run(t, info.ID, o, nil, func(ctx context.Context) (iter.Seq2[delivery.Event, error], error) {
		events, err := o.Cancel(ctx, info.ID)
		failed <- err
		return withoutEncoding(events), err
	})
	if err != nil {
		return nil // the run is in progress, and its server polls for cancellations
	}
	if err := <-failed; err != nil {
		return r.abandon(ctx, t, info, "canceled")
	}
	select {
	case <-l.ended:
	case <-ctx.Done():
	}
	return nil
}
