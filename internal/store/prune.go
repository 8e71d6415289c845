package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
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
		k := termKey{run: id}
		var size int64
		var terms string
		found, err := database.One(t, remove, append(args, id), &k.tenant, &size, &k.createdMS, &terms)
		if err == nil && found { // otherwise the run was resumed in the meantime
			n++
			freed.add(k.tenant, size)
			_, err = deleteRunRows(t, &k, terms)
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
