package server

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/store"
)

// How runs are taken over whose process is gone.
const (
	takeEvery = 3 * time.Second
	takeMost  = 100 // at once
)

// takeOver goes on with runs whose process is gone, until ctx ends.
func (r *runs) takeOver(ctx context.Context) {
	ticker := time.NewTicker(takeEvery)
	defer ticker.Stop()
	for {
		if err := r.takeAll(ctx); err != nil && ctx.Err() == nil {
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

func (r *runs) takeAll(ctx context.Context) error {
	list, err := r.store.CutOff(ctx, takeMost)
	if err != nil {
		return err
	}
	for i := range list {
		if r.lives.get(list[i].Tenant, list[i].ID) == nil {
			r.take(ctx, &list[i])
		}
	}
	return nil
}

// take goes on with one run. One that cannot go on at all is ended.
func (r *runs) take(ctx context.Context, info *agent.RunInfo) {
	t := r.store.Tenant(info.Tenant)
	log := r.server.log.With("tenant", info.Tenant, "run", info.ID)
	o, err := r.agentOf(ctx, t, info)
	if err != nil {
		var p *Problem
		if errors.Is(err, store.ErrNoAgent) || errors.Is(err, store.ErrNoModule) || errors.As(err, &p) {
			log.Warn("a run cannot go on", "error", err)
			if err := t.AbandonRun(ctx, info.ID, "its process is gone, and it cannot go on: "+err.Error()); err != nil {
				log.Error("a run that cannot go on is not ended", "error", err)
			}
			return
		}
		log.Error("a run cannot be taken over now", "error", err)
		return
	}
	_, err = r.run(t, info.ID, o, nil, func(ctx context.Context) (iter.Seq2[agent.ClientEvent, error], error) {
		events, err := o.ContinueFor(ctx, info.ID, nil, nil)
		var pins *agent.PinError
		switch {
		case err == nil:
			log.Info("a run is taken over")
		case errors.Is(err, agent.ErrBusy), errors.Is(err, agent.ErrFinished): // another server was quicker
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
	for _, d := range l.digests {
		if why, blocked := reasons[d]; blocked {
			r.server.log.Warn("a run is canceled: a module of it is blocked", "tenant", l.tenant, "run", l.id, "module", d)
			l.cancel(&blockedError{d, why})
		}
	}
}

// A blockedError ends a run.
type blockedError struct{ digest, reason string }

// Error says which module, and what the operator says of it.
func (e *blockedError) Error() string {
	return "the operator blocks its module sha256:" + e.digest + ": " + e.reason
}
