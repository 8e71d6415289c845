package modules

import (
	"context"
	"time"
)

// How modules are forgotten that no tenant has any more.
const (
	UnusedInterval = time.Hour
	UnusedAge      = 24 * time.Hour // since they came: one may be about to be named
)

// sweep forgets modules that nobody has, until ctx ends.
func (m *Service) DeleteUnused(ctx context.Context, every, age time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		switch n, err := m.store.DeleteUnusedModules(ctx, age); {
		case err != nil && ctx.Err() == nil:
			m.log.Error("modules that nobody has are not forgotten", "error", err)
		case n > 0:
			m.log.Info("modules that nobody has are forgotten", "modules", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
