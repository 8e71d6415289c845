package store

import (
	"context"
	"errors"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// pruneThreads deletes old threads, the rest of threads whose deletion or fork was interrupted, and
// messages that no thread and no run refers to.
func (s *store) pruneThreads(ctx context.Context, o PruneOptions) error {
	condition := `updated_ms <= NOW_MS - $1`
	if !o.Unfinished {
		condition += ` AND (updated_ms = 0 OR NOT EXISTS (SELECT 1 FROM runs WHERE runs.tenant = threads.tenant
			AND runs.thread = threads.id AND runs.thread <> '' AND runs.status <> 'finished'))`
	}
	if err := s.deleteThreads(ctx, condition, o.OlderThan.Milliseconds()); err != nil {
		return err
	}
	return s.pruneMessages(ctx)
}

// A threadID identifies a thread of any tenant.
type threadID struct{ tenant, id string }

// threadIDs returns the threads that a statement selects.
func (s *store) threadIDs(ctx context.Context, sql string, args ...any) (keys []threadID, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		keys = nil
		return t.Query(func(scan func(...any) error) error {
			var k threadID
			err := scan(&k.tenant, &k.id)
			keys = append(keys, k)
			return err
		}, sql, args...)
	})
	return keys, err
}

// deleteThreads deletes the threads for which a condition holds, except those with a run in progress.
func (s *store) deleteThreads(ctx context.Context, condition string, args ...any) error {
	keys, err := s.threadIDs(ctx, `SELECT tenant, id FROM threads WHERE `+condition, args...)
	if err != nil {
		return err
	}
	for _, k := range keys {
		err := (&Tenant{s, k.tenant}).DeleteThread(ctx, k.id)
		if err != nil && !errors.Is(err, journal.ErrNoThread) && !errors.Is(err, ErrInUse) && !errors.Is(err, ErrNoTenant) {
			return err
		}
	}
	return nil
}

// pruneMessages deletes messages that threads no longer have, once the runs that left them or began with
// them are deleted.
func (s *store) pruneMessages(ctx context.Context) error {
	const unused = `removed > 0 AND NOT EXISTS (SELECT 1 FROM runs
		WHERE runs.tenant = thread_messages.tenant AND runs.thread = thread_messages.thread AND runs.thread <> ''
		AND runs.thread_seq >= thread_messages.added AND runs.thread_seq <= thread_messages.removed)`
	keys, err := s.threadIDs(ctx, `SELECT DISTINCT tenant, thread FROM thread_messages WHERE `+unused)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := database.InBatches(ctx, func() (more bool, err error) {
			err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
				more, err = deleteMessages(scoped{t, k.tenant}, `thread = $2 AND `+unused, k.id)
				return err
			})
			return more, err
		}); err != nil {
			return err
		}
	}
	return nil
}
