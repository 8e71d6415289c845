package runs

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

const (
	// awaitInterval is the time between two queries for the run that a request waits for.
	awaitInterval = 500 * time.Millisecond
	// awaitTimeout limits the time for which a request waits for one earlier run of its thread.
	awaitTimeout = 5 * time.Minute
)

// awaitTurn waits until the run that busy names has ended. That run is ahead of the run of an attached
// client in the same thread. If the client or the thread chose [Cancel], awaitTurn first cancels it.
// It returns busy if the choice is [Reject], if the wait takes longer than awaitTimeout, or if the
// server drains. It returns the cause of ctx if the client disconnects.
func (r *Service) awaitTurn(ctx context.Context, c *httpapi.Caller, turn *Turn, busy *journal.ThreadBusyError) error {
	h, err := c.Thread(ctx, turn.Thread)
	if err != nil {
		return err
	}
	choice := cmp.Or(turn.Concurrency, ConcurrencyOf(h))
	if choice == Reject {
		return busy
	}
	if choice == Cancel {
		_, err := r.cancel(ctx, c, &runPath{Run: busy.Run})
		if err != nil && !errors.Is(err, journal.ErrFinished) && !errors.Is(err, journal.ErrNoRun) {
			return err
		}
	}
	var ended <-chan struct{} // nil if another server executes the run
	if l := r.Active.Get(c.Tenant.ID(), busy.Run); l != nil {
		ended = l.ended
	}
	timeout := time.NewTimer(awaitTimeout)
	defer timeout.Stop()
	ticker := time.NewTicker(awaitInterval)
	defer ticker.Stop()
	for {
		info, err := c.Tenant.Run(ctx, busy.Run)
		if errors.Is(err, journal.ErrNoRun) || err == nil && info.Status == journal.StatusFinished {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ended:
			ended = nil
		case <-ticker.C:
		case <-timeout.C:
			return busy
		case <-r.options.Draining:
			return busy
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
