package runs

import (
	"context"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// cancelInterval is the time between two checks for runs that were canceled through another
// process, on a server without hints.
const cancelInterval = 500 * time.Millisecond

// WatchCancels cancels the runs in progress here that were canceled through another process, until
// ctx is done. It looks for them at each hint about a cancellation or, without hints, each
// cancelInterval. If a hint is lost, a run learns of its cancellation when it next renews its lease.
func (r *Service) WatchCancels(ctx context.Context) {
	var poll <-chan time.Time // nil with hints
	if _, alone := r.options.Hints.(hints.None); alone {
		ticker := time.NewTicker(cancelInterval)
		defer ticker.Stop()
		poll = ticker.C
	}
	hinted, stop, err := hints.Signal(r.options.Hints, topicCancel)
	if err != nil {
		r.log.Error("subscribe to cancellations", "error", err)
	}
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll:
		case <-hinted:
		}
		if r.Active.Count() == 0 {
			continue
		}
		ids, err := r.store.Canceled(ctx, r.options.Owner)
		if err != nil && ctx.Err() == nil {
			r.log.Error("read canceled runs", "error", err)
		}
		for _, id := range ids {
			if l := r.Active.find(id); l != nil {
				l.Cancel(ErrCanceled)
			}
		}
	}
}

// errDeleted is the cause of canceling the runs of a deleted tenant.
var errDeleted = errors.New("the operator deletes its tenant")

// CancelAll cancels a tenant's runs: those here at once, and up to 500 others through the store. The
// caller repeats the call until no runs are left.
func (r *Service) CancelAll(ctx context.Context, t *store.Tenant) error {
	for _, l := range r.Active.all() {
		if l.tenant == t.ID() {
			l.Cancel(errDeleted)
		}
	}
	list, _, err := t.Runs(
		ctx,
		&store.Filter{Statuses: []journal.Status{journal.StatusRunning}, Page: store.Page{Limit: 500}},
	)
	if err != nil {
		return err
	}
	for i := range list {
		if r.Active.Get(t.ID(), list[i].ID) != nil {
			continue
		}
		if err := t.CancelRun(ctx, list[i].ID); err != nil && !errors.Is(err, journal.ErrNoRun) &&
			!errors.Is(err, journal.ErrFinished) {
			return err
		}
	}
	r.hint(topicCancel, nil)
	return nil
}

// cancel cancels a run: directly if this process executes it, through the store if another server
// does, and otherwise by ending it here.
func (r *Service) cancel(ctx context.Context, c *httpapi.Caller, in *runPath) (*runOutput, error) {
	if c.Token != nil {
		if _, err := c.Run(ctx, in.Run); err != nil {
			return nil, err
		}
	}
	if l := r.Active.Get(c.Tenant.ID(), in.Run); l != nil {
		l.Cancel(ErrCanceled)
		info, err := r.Find(ctx, c, in.Run)
		if err != nil {
			return nil, err
		}
		return &runOutput{forCaller(c, r.showRun(info))}, nil
	}
	info, err := c.Tenant.Run(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	if info.Status == journal.StatusQueued {
		if err := c.Tenant.AbandonRun(ctx, in.Run, "canceled before it began", nil); err != nil {
			return nil, err
		}
		r.wakeQueues()
		if info, err = c.Tenant.Run(ctx, in.Run); err != nil {
			return nil, err
		}
		return &runOutput{forCaller(c, r.showRun(info))}, nil
	}
	now, err := r.store.Now(ctx) // leases use the database's clock
	if err != nil {
		return nil, err
	}
	if info.Status == journal.StatusRunning && info.LeaseExpires.After(now) {
		err = c.Tenant.CancelRun(ctx, in.Run)
		r.hint(topicCancel, nil) // the server that executes the run looks for cancellations
	} else {
		err = r.end(ctx, c.Tenant, info)
	}
	if err != nil {
		return nil, err
	}
	if info, err = c.Tenant.Run(ctx, in.Run); err != nil {
		return nil, err
	}
	return &runOutput{forCaller(c, r.showRun(info))}, nil
}

// ErrCanceled is the cause of a cancellation at the tenant's request.
var ErrCanceled = errors.New("its tenant canceled it")

// checkBlocked rejects an agent with a blocked module. The error does not name the operator's own
// modules.
func (r *Service) checkBlocked(pins []journal.Pin) error {
	reasons, _ := r.blocks.Current()
	switch why := FindBlocked(pins, reasons); {
	case why == nil:
		return nil
	case why.Digest == "":
		return httpapi.NewProblem(api.CodeUnavailable, "%v", why)
	default:
		return httpapi.NewProblem(api.CodeBlocked, "%v", why)
	}
}

// WatchBlocks cancels runs with blocked modules, until ctx is done.
func (r *Service) WatchBlocks(ctx context.Context) {
	for {
		reasons, changed := r.blocks.Current()
		for _, l := range r.Active.all() {
			r.stopBlocked(l, reasons)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// stopBlocked cancels a run that has a blocked module.
func (r *Service) stopBlocked(l *ActiveRun, reasons map[string]string) {
	if why := FindBlocked(l.Pins, reasons); why != nil {
		r.log.Warn("run canceled: one of its modules is blocked", "tenant", l.tenant, "run", l.ID, "reason", why)
		l.Cancel(why)
	}
}

// FindBlocked returns an error that names a blocked module of a run, or nil if the run has none. If
// only modules of the operator's rings are blocked, the error names no module.
func FindBlocked(pins []journal.Pin, reasons map[string]string) *agent.BlockedError {
	var hidden *agent.BlockedError
	for _, p := range pins {
		why, blocked := reasons[p.Digest]
		switch {
		case !blocked:
		case p.Ring != "tenant":
			hidden = &agent.BlockedError{}
		default:
			return &agent.BlockedError{Digest: p.Digest, Reason: why}
		}
	}
	return hidden
}
