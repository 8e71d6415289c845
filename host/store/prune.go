package store

import (
	"context"
	"sync"
	"time"
)

const (
	// pruneBatch is how many runs are forgotten in a transaction: others write between
	// two of them.
	pruneBatch = 50
	// pruneEvery is how often runs are looked for that are kept no longer, at least.
	pruneEvery = time.Hour
)

// Prune implements [Store].
func (s *store) Prune(ctx context.Context, o PruneOptions) (int, error) {
	unfinished := int64(0)
	if o.Unfinished {
		unfinished = 1
	}
	const which = `updated_ms <= NOW_MS - $1 AND (status = 'finished' OR $2 = 1 AND (status = 'paused' OR lease_ms <= NOW_MS))`
	args := []any{o.OlderThan.Milliseconds(), unfinished}
	if o.DryRun {
		var n int64
		err := s.view(ctx, func(t tx) error {
			_, err := one(t, `SELECT count(*) FROM runs WHERE `+which, args, &n)
			return err
		})
		return int(n), err
	}
	total := 0
	for {
		n := 0
		err := s.update(ctx, false, func(t tx) error {
			n = 0
			var ids []string
			if err := t.query(func(scan func(...any) error) error {
				var id string
				err := scan(&id)
				ids = append(ids, id)
				return err
			}, `SELECT id FROM runs WHERE `+which+` LIMIT $3`, append(args, int64(pruneBatch))...); err != nil {
				return err
			}
			for _, id := range ids {
				gone, err := t.exec(`DELETE FROM runs WHERE `+which+` AND id = $3`, append(args, id)...)
				if err == nil && gone > 0 { // nobody went on with it meanwhile
					n++
					err = forget(t, id)
				}
				if err != nil {
					return err
				}
			}
			return nil
		})
		if total += n; err != nil || n == 0 {
			return total, err
		}
	}
}

// forget deletes what belongs to a run, whose own row is gone.
func forget(t tx, id string) error {
	for _, table := range []string{"run_log", "run_events", "run_traces"} {
		if _, err := t.exec(`DELETE FROM `+table+` WHERE run = $1`, id); err != nil {
			return err
		}
	}
	return nil
}

// retain prunes from time to time, until the store is closed. What goes wrong with
// the database shows where somebody waits for it; here the next time is waited for.
func (s *store) retain(retention time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		every := time.NewTicker(max(time.Second, min(pruneEvery, retention/10)))
		defer every.Stop()
		for {
			_, _ = s.Prune(ctx, PruneOptions{OlderThan: retention})
			select {
			case <-every.C:
			case <-ctx.Done():
				return
			}
		}
	})
	s.stop = func() { cancel(); done.Wait() }
}
