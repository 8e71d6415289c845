package server

import (
	"context"
	"time"
)

// cancelInterval is how often a server looks for runs that were canceled through another
// one. A cancel takes effect within a second.
const cancelInterval = 500 * time.Millisecond

// watchCancels cancels runs that were canceled through another server, until ctx ends.
func (r *runs) watchCancels(ctx context.Context) {
	ticker := time.NewTicker(cancelInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if r.lives.count() == 0 {
			continue
		}
		ids, err := r.store.Canceled(ctx, r.server.options.Owner)
		if err != nil && ctx.Err() == nil {
			r.server.log.Error("reading canceled runs failed", "error", err)
		}
		for _, id := range ids {
			if l := r.lives.find(id); l != nil {
				l.cancel(errCanceled)
			}
		}
	}
}
