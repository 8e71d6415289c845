package serve

import (
	"context"
	"log/slog"
	"time"

	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/host/store"
)

// auditInterval is the time between two deletions of old audit records.
const auditInterval = time.Hour

// keepsAudit returns the age at which audit records are deleted; 0 means never.
func (c *serveCommand) keepsAudit() (time.Duration, error) {
	if c.auditRetention == forever {
		return 0, nil
	}
	keep, err := cli.ParseDays("audit-retention", c.auditRetention)
	if err == nil && keep < 24*time.Hour {
		err = cli.Usagef("--audit-retention is %s; want a day or more, such as 365d, or forever", c.auditRetention)
	}
	return keep, err
}

// pruneAudit deletes audit records older than age, until ctx is done.
func pruneAudit(ctx context.Context, s store.Store, age time.Duration, log *slog.Logger) {
	ticker := time.NewTicker(auditInterval)
	defer ticker.Stop()
	for {
		switch n, err := s.PruneAudit(ctx, age); {
		case ctx.Err() != nil:
			return
		case err != nil:
			log.Error("deleting old audit records failed", "error", err)
		case n > 0:
			log.Info("deleted old audit records", "records", n)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}
