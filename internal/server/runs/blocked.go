package runs

import (
	"context"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

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
