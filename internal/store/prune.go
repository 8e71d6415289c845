package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

// maxPruneInterval is the longest time between two prunings of a store with a retention.
const maxPruneInterval = time.Hour

// Prune implements [Store].
func (s *store) Prune(ctx context.Context, o PruneOptions) (total int, err error) {
	also := []any{string(journal.StatusFinished), string(journal.StatusFinished)}
	if o.Unfinished {
		also = []any{string(journal.StatusPaused), string(journal.StatusRunning)}
	}
	// The condition on created_ms follows from the one on updated_ms, and can use an index.
	const condition = `status IN ('finished', $2, $3) AND created_ms <= NOW_MS - $1 AND updated_ms <= NOW_MS - $1 AND (status <> 'running' OR lease_ms <= NOW_MS)`
	args := append([]any{o.OlderThan.Milliseconds()}, also...)
	if o.DryRun {
		var n int64
		err := s.db.View(ctx, func(t database.Tx) error {
			_, err := database.One(t, `SELECT count(*) FROM runs WHERE `+condition, args, &n)
			return err
		})
		return int(n), err
	}
	err = database.InBatches(ctx, func() (more bool, err error) {
		n := 0
		err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
			n, more, err = deleteRuns(t, condition, args)
			return err
		})
		if err == nil {
			total += n
		}
		return more, err
	})
	if err == nil {
		err = s.pruneThreads(ctx, o)
	}
	if err != nil {
		return total, err
	}
	return total, s.blobs.Sweep(ctx)
}

// deleteRuns deletes runs for which a condition holds, at most [database.BatchRows] of them
// and for about [database.BatchTime]. It returns their number, and whether there may be
// more. [blob.Writer.Sweep] deletes their pieces later.
func deleteRuns(t database.Tx, condition string, args []any) (n int, more bool, err error) {
	start := time.Now()
	ids, err := database.Strings(
		t,
		fmt.Sprintf(`SELECT id FROM runs WHERE %s LIMIT $%d`, condition, len(args)+1),
		append(args, int64(database.BatchRows))...)
	if err != nil {
		return 0, false, err
	}
	remove := fmt.Sprintf(`DELETE FROM runs WHERE %s AND id = $%d`, condition, len(args)+1) + returningSize
	freed := freedBytes{}
	more = len(ids) == database.BatchRows
	for _, id := range ids {
		k := terms.Key{Run: id}
		var size int64
		var column string
		found, err := database.One(t, remove, append(args, id), &k.Tenant, &size, &k.CreatedMS, &column)
		if err == nil && found { // otherwise the run was resumed in the meantime
			n++
			freed.add(k.Tenant, size)
			_, err = deleteRunRows(t, &k, column)
		}
		if err != nil {
			return 0, false, err
		}
		if time.Since(start) > database.BatchTime {
			more = true
			break
		}
	}
	return n, more, freed.subtract(t)
}

// pruneRegularly starts a goroutine that deletes finished runs older than retention, at once and
// then periodically, until the store is closed. It ignores failures of the database, which requests
// report, and tries again the next time.
func (s *store) pruneRegularly(retention time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(max(time.Second, min(maxPruneInterval, retention/10)))
		defer ticker.Stop()
		for {
			_, _ = s.Prune(ctx, PruneOptions{OlderThan: retention})
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	s.stop = func() { cancel(); done.Wait() }
}

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
