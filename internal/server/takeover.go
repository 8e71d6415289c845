package server

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How runs are taken over whose process is gone.
const (
	takeEvery    = 3 * time.Second
	takeMost     = 1000 // at once
	takeOfTenant = 10
	// giveUp is for how long a run is tried here whose agent cannot be made: a key of its is
	// missing, say, or a server of tools.
	giveUp = time.Hour
)

// A leaseClock tells when leases cannot be trusted: where the database's clock was set
// forward, or this machine slept, runs that live seem to be cut off, until their servers
// have given another sign of life.
type leaseClock struct {
	theirs, ours time.Time // when it was looked at
	until        time.Time // by ours
}

// trusts reports whether what leases say holds, at a time by the database's clock and by ours,
// which only goes on. Who begins trusts them.
func (c *leaseClock) trusts(theirs, ours time.Time, lease time.Duration) bool {
	if !c.ours.IsZero() && theirs.Sub(c.theirs)-ours.Sub(c.ours) > lease/2 {
		c.until = ours.Add(lease)
	}
	c.theirs, c.ours = theirs, ours
	return !ours.Before(c.until)
}

// takeOver goes on with runs whose process is gone, until ctx ends.
func (r *runs) takeOver(ctx context.Context) {
	ticker := time.NewTicker(takeEvery)
	defer ticker.Stop()
	clock := &leaseClock{}
	for {
		theirs, err := r.store.Now(ctx)
		if err == nil && clock.trusts(theirs, r.server.now(), cmp.Or(r.server.options.Lease, journal.DefaultLeaseTTL)) {
			err = r.takeAll(ctx)
		}
		if err != nil && ctx.Err() == nil {
			r.server.log.Error("runs whose process is gone cannot be looked for", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.server.Draining():
			return
		case <-ticker.C:
		}
	}
}

// specBegins is how the specs of runs begin that a server began. Those of the command
// begin otherwise: they are not taken over, nor ended.
const specBegins = `{"agent":"`

func (r *runs) takeAll(ctx context.Context) error {
	if r.server.overload.State().Rejecting {
		return nil // they wait
	}
	list, err := r.store.ExpiredRuns(ctx, []byte(specBegins), takeMost, takeOfTenant)
	if err != nil {
		return err
	}
	r.vain.Range(func(id, _ any) bool {
		if !slices.ContainsFunc(list, func(info journal.RunInfo) bool { return info.ID == id }) {
			r.vain.Delete(id) // it goes on, or has ended
		}
		return true
	})
	of := map[string][]*journal.RunInfo{}
	for i := range list {
		if r.lives.get(list[i].Tenant, list[i].ID) == nil {
			of[list[i].Tenant] = append(of[list[i].Tenant], &list[i])
		}
	}
	for tenant, its := range of {
		r.takeOf(ctx, tenant, its)
	}
	return nil
}

// takeOf goes on with runs of a tenant, beside those of others: what holds up one of
// them, such as a server of tools that does not answer, is its tenant's.
func (r *runs) takeOf(ctx context.Context, tenant string, list []*journal.RunInfo) {
	if _, under := r.taking.LoadOrStore(tenant, true); under {
		return
	}
	r.server.Go(func() {
		defer r.taking.Delete(tenant)
		for _, info := range list {
			select {
			case <-r.server.Draining():
				return
			case <-ctx.Done():
				return
			default:
				r.take(ctx, info)
			}
		}
	})
}

// take goes on with one run. One that cannot go on at all is ended.
func (r *runs) take(ctx context.Context, info *journal.RunInfo) {
	t := r.store.Tenant(info.Tenant)
	log := r.server.log.With("tenant", info.Tenant, "run", info.ID)
	if resume, err := r.server.quarantine.judge(ctx, info); err != nil {
		log.Error("the end of a run's server is not known", "error", err)
		return
	} else if !resume {
		return
	}
	o, err := r.agentOf(ctx, t, info)
	if err != nil {
		now := r.server.now()
		since, _ := r.vain.LoadOrStore(info.ID, now)
		if gone := ctx.Err() == nil && now.Sub(since.(time.Time)) > giveUp; gone || errors.Is(err, store.ErrNoAgent) || errors.Is(err, store.ErrNoModule) || lasting(err) {
			log.Warn("a run cannot go on", "error", err)
			if err := t.AbandonRun(ctx, info.ID, "its process is gone, and it cannot go on: "+err.Error()); err != nil {
				log.Error("a run that cannot go on is not ended", "error", err)
			}
			return
		}
		log.Warn("a run cannot be taken over now", "error", err)
		return
	}
	_, err = r.run(t, info.ID, o, nil, func(ctx context.Context) (iter.Seq2[agent.ClientEvent, error], error) {
		events, err := o.ContinueFor(ctx, info.ID, nil, nil)
		var pins *journal.PinError
		switch {
		case err == nil:
			log.Info("a run is taken over")
		case errors.Is(err, journal.ErrBusy), errors.Is(err, journal.ErrFinished): // another server was quicker
		case errors.As(err, &pins):
			log.Warn("a run cannot go on", "error", err)
			if err := t.AbandonRun(ctx, info.ID, err.Error()); err != nil {
				log.Error("a run that cannot go on is not ended", "error", err)
			}
		default:
			log.Error("a run cannot be taken over now", "error", err)
		}
		return events, err
	})
	if err != nil {
		log.Debug("a run is not taken over", "error", err)
	}
}

// lasting reports whether an error of making an agent stays as it is: a module is
// blocked, say. A quota is not.
func lasting(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status != http.StatusTooManyRequests
}

// allowed refuses an agent with a module that the operator blocks. Which of the
// operator's own it is, the tenant is not told.
func (r *runs) allowed(pins []journal.Pin) error {
	reasons, _ := r.server.blocks.current()
	switch why := blockedIn(pins, reasons); {
	case why == nil:
		return nil
	case why.Digest == "":
		return problem(codeUnavailable, "%v", why)
	default:
		return problem(codeBlocked, "%v", why)
	}
}

// heed cancels runs with modules that the operator blocks, until ctx ends.
func (r *runs) heed(ctx context.Context) {
	for {
		reasons, changed := r.server.blocks.current()
		for _, l := range r.lives.all() {
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
func (r *runs) stopBlocked(l *live, reasons map[string]string) {
	if why := blockedIn(l.pins, reasons); why != nil {
		r.server.log.Warn("a run is canceled: a module of it is blocked", "tenant", l.tenant, "run", l.id, "reason", why)
		l.cancel(why)
	}
}

// blockedIn says which of a run's modules is blocked, as its tenant is told; nil if
// none is. Of the operator's own it is not told which one it is.
func blockedIn(pins []journal.Pin, reasons map[string]string) *agent.Blocked {
	var hidden *agent.Blocked
	for _, p := range pins {
		why, blocked := reasons[p.Digest]
		switch {
		case !blocked:
		case p.Ring != "tenant":
			hidden = &agent.Blocked{}
		default:
			return &agent.Blocked{Digest: p.Digest, Reason: why}
		}
	}
	return hidden
}
