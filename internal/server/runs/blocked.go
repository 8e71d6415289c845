package runs

import (
	"github.com/agent-runner/agent-runner/internal/agent/journal"

	"context"

	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// allowed refuses an agent with a module that the operator blocks. Which of the
// operator's own it is, the tenant is not told.
func (r *Service) checkBlocked(pins []journal.Pin) error {
	reasons, _ := r.blocks.Current()
	switch why := findBlocked(pins, reasons); {
	case why == nil:
		return nil
	case why.Digest == "":
		return httpapi.NewProblem(httpapi.CodeUnavailable, "%v", why)
	default:
		return httpapi.NewProblem(httpapi.CodeBlocked, "%v", why)
	}
}

// heed cancels runs with modules that the operator blocks, until ctx ends.
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
	if why := findBlocked(l.Pins, reasons); why != nil {
		r.log.Warn("a run is canceled: a module of it is blocked", "tenant", l.tenant, "run", l.ID, "reason", why)
		l.Cancel(why)
	}
}

// blockedIn says which of a run's modules is blocked, as its tenant is told; nil if
// none is. Of the operator's own it is not told which one it is.
func findBlocked(pins []journal.Pin, reasons map[string]string) *agent.Blocked {
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
