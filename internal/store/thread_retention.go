package store

import (
	"context"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

const (
	// expiryBatch is the number of old threads that are found at once.
	expiryBatch = 100
	// hiddenTTL is the time after which a thread whose deletion or fork has not ended counts as
	// interrupted.
	hiddenTTL = time.Hour
	day       = 24 * time.Hour
)

// ThreadRetention returns the number of days after which the tenant's threads are deleted, or 0 if they
// are kept.
func (n *Tenant) ThreadRetention(ctx context.Context) (days int64, err error) {
	err = n.view(ctx, func(t scoped) error {
		days = 0
		return t.row([]any{&days}, `SELECT days FROM thread_retention WHERE tenant = $1`)
	})
	return days, err
}

// SetThreadRetention sets the number of days after which the tenant's threads are deleted. 0 keeps them.
func (n *Tenant) SetThreadRetention(ctx context.Context, days int64) error {
	return n.update(ctx, func(t scoped) error {
		var before int64
		if err := t.row([]any{&before}, `SELECT days FROM thread_retention WHERE tenant = $1`); err != nil || before == days {
			return err
		}
		if _, err := t.Exec(`INSERT INTO thread_retention (tenant, days) VALUES ($1, $2)
			ON CONFLICT (tenant) DO UPDATE SET days = $2`, days); err != nil {
			return err
		}
		return record(ctx, t.tx, n.id, "retention.set", "threads", change{before, days})
	})
}

// ExpireThreads implements [Platform].
func (s *store) ExpireThreads(ctx context.Context) (deleted int, err error) {
	type retention struct {
		tenant string
		days   int64
	}
	var list []retention
	if err := s.db.View(ctx, func(t database.Tx) error {
		list = nil
		return t.Query(func(scan func(...any) error) error {
			var r retention
			err := scan(&r.tenant, &r.days)
			list = append(list, r)
			return err
		}, `SELECT tenant, days FROM thread_retention WHERE days > 0 ORDER BY tenant`)
	}); err != nil {
		return 0, err
	}
	for _, r := range list {
		n, err := (&Tenant{s, r.tenant}).expireThreads(ctx, time.Duration(r.days)*day)
		deleted += n
		if err != nil {
			return deleted, err
		}
	}
	return deleted, s.deleteThreads(ctx, `version < 0 AND updated_ms <= NOW_MS - $1`, hiddenTTL.Milliseconds())
}

// expireThreads deletes the tenant's threads that are older than age and have no unfinished run.
func (n *Tenant) expireThreads(ctx context.Context, age time.Duration) (deleted int, err error) {
	for {
		var ids []string
		if err := n.view(ctx, func(t scoped) (err error) {
			ids, err = database.Strings(t, `SELECT id FROM threads WHERE tenant = $1 AND updated_ms <= NOW_MS - $2 AND version >= 0
				AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.tenant = $1 AND runs.thread = threads.id AND runs.thread <> ''
				AND runs.status <> 'finished') ORDER BY updated_ms LIMIT $3`, age.Milliseconds(), int64(expiryBatch))
			return err
		}); err != nil {
			return deleted, err
		}
		before := deleted
		for _, id := range ids {
			err := n.DeleteThread(ctx, id)
			switch {
			case err == nil:
				deleted++
			case !errors.Is(err, journal.ErrNoThread) && !errors.Is(err, ErrInUse) && !errors.Is(err, ErrNoTenant):
				return deleted, err
			}
		}
		if len(ids) < expiryBatch || deleted == before {
			return deleted, nil
		}
	}
}
