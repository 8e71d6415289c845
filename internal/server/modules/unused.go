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

// DeleteUnused deletes modules that no tenant has and that were uploaded at least age ago. It does
// so at once, and then again whenever the duration every has passed, until ctx is done.
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
