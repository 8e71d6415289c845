package modules

import (
	"context"
	"time"
)

// The schedule for deleting modules that no tenant has.
const (
	UnusedInterval = time.Hour
	UnusedAge      = 24 * time.Hour // since the upload; newer modules may be about to get a name
)

// DeleteUnused deletes modules that no tenant has, if they were uploaded at least age ago. It does
// so at once, and then periodically until ctx is done. The period is the duration every.
func (m *Service) DeleteUnused(ctx context.Context, every, age time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		switch n, err := m.store.DeleteUnusedModules(ctx, age); {
		case err != nil && ctx.Err() == nil:
			m.log.Error("delete unused modules", "error", err)
		case n > 0:
			m.log.Info("unused modules deleted", "modules", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
