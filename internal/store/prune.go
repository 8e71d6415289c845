package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

// How many runs are forgotten in a transaction, and after what time it ends before that:
// others write between two of them.
const (
	forgetBatch = 1000
	forgetTime  = 20 * time.Millisecond
)

// pruneEvery is how often runs are looked for that are kept no longer, at least.
const pruneEvery = time.Hour

// Prune implements [Store].
func (s *store) Prune(ctx context.Context, o PruneOptions) (total int, err error) {
	also := []any{string(journal.StatusFinished), string(journal.StatusFinished)}
	if o.Unfinished {
		also = []any{string(journal.StatusPaused), string(journal.StatusRunning)}
	}
	// Those that changed so long ago began before, and an index has when they did.
	const which = `status IN ('finished', $2, $3) AND created_ms <= NOW_MS - $1 AND updated_ms <= NOW_MS - $1 AND (status <> 'running' OR lease_ms <= NOW_MS)`
	args := append([]any{o.OlderThan.Milliseconds()}, also...)
	if o.DryRun {
		var n int64
		err := s.view(ctx, func(t tx) error {
			_, err := one(t, `SELECT count(*) FROM runs WHERE `+which, args, &n)
			return err
		})
		return int(n), err
	}
	err = inTurns(ctx, func() (more bool, err error) {
		n := 0
		err = s.update(ctx, false, func(t tx) error {
			n, more, err = forgetSome(t, which, args)
			return err
		})
		if err == nil {
			total += n
		}
		return more, err
	})
	if err != nil {
		return total, err
	}
	return total, s.sweep(ctx)
}

// inTurns does something as long as there is more of it, and lets others use the database
// in between for as long as that took.
func inTurns(ctx context.Context, do func() (more bool, err error)) error {
	for {
		began := time.Now()
		more, err := do()
		if err != nil || !more {
			return err
		}
		select {
		case <-time.After(time.Since(began)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// forgetSome forgets runs for which a condition holds. It returns how many, and whether
// there may be more.
func forgetSome(t tx, which string, args []any) (n int, more bool, err error) {
	began := time.Now()
	var ids []string
	if err := t.query(func(scan func(...any) error) error {
		var id string
		err := scan(&id)
		ids = append(ids, id)
		return err
	}, fmt.Sprintf(`SELECT id FROM runs WHERE %s LIMIT $%d`, which, len(args)+1), append(args, int64(forgetBatch))...); err != nil {
		return 0, false, err
	}
	remove := fmt.Sprintf(`DELETE FROM runs WHERE %s AND id = $%d`, which, len(args)+1) + deletedRun
	room := freed{}
	more = len(ids) == forgetBatch
	for _, id := range ids {
		var tenant string
		var size int64
		gone, err := one(t, remove, append(args, id), &tenant, &size)
		if err == nil && gone { // else it was resumed in the meantime
			n++
			room.add(tenant, size)
			_, err = forget(t, id) // the pieces are swept
		}
		if err != nil {
			return 0, false, err
		}
		if time.Since(began) > forgetTime {
			more = true
			break
		}
	}
	return n, more, room.give(t)
}

// forget deletes what belongs to a run, whose own row is gone. It returns the pieces that
// are left.
func forget(t tx, id string) (pieces []string, err error) {
	for _, table := range []string{"run_log", "run_events"} {
		ids, err := unrefer(t, table, id)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, ids...)
	}
	for _, table := range []string{"run_log", "run_events", "run_traces", "quarantine", "suspects"} {
		if _, err := t.exec(`DELETE FROM `+table+` WHERE run = $1`, id); err != nil {
			return nil, err
		}
	}
	return pieces, nil
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
