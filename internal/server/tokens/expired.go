package tokens

import (
	"context"
	"log/slog"
	"time"

	"github.com/agent-runner/agent-runner/internal/store"
)

// expiredInterval is the time between two deletions of expired tokens.
const expiredInterval = time.Hour

// DeleteExpired deletes the tokens of all tenants that expired more than an hour ago, at once and every
// expiredInterval, until ctx is done.
func DeleteExpired(ctx context.Context, s store.Store, log *slog.Logger) {
	ticker := time.NewTicker(expiredInterval)
	defer ticker.Stop()
	for {
		if _, err := s.PruneTokens(ctx); err != nil && ctx.Err() == nil {
			log.Error("delete expired tokens", "error", err)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
