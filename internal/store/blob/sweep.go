package blob

import (
	"context"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

const (
	dropBatch      = 8               // pieces deleted between two checks of the time
	discardTimeout = 5 * time.Second // maximum time for deleting the pieces of a failed write
)

// Discard deletes pieces that are staged or released. If it fails, [Writer.Sweep] deletes them
// later.
func (w *Writer) Discard(ctx context.Context, ids ...string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTimeout)
	defer cancel()
	_ = database.InBatches(ctx, func() (bool, error) {
		if len(ids) == 0 {
			return false, nil
		}
		return true, w.db.Update(ctx, database.TxOptions{}, func(t database.Tx) (err error) {
			ids, err = drop(t, ids, -stagedTTL)
			return err
		})
	})
}

// Sweep deletes released pieces and orphaned staged ones.
func (w *Writer) Sweep(ctx context.Context) error {
	return database.InBatches(ctx, func() (bool, error) {
		var ids []string
		err := w.db.View(ctx, func(t database.Tx) (err error) {
			ids, err = database.Strings(
				t,
				`SELECT id FROM staged WHERE written_ms <= NOW_MS - $1 ORDER BY written_ms, id LIMIT $2`,
				stagedTTL.Milliseconds(),
				int64(database.BatchRows),
			)
			return err
		})
		if err != nil || len(ids) == 0 {
			return false, err
		}
		return true, w.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
			_, err := drop(t, ids, stagedTTL)
			return err
		})
	})
}

// drop deletes the pieces with the ids, if they were last written at least age ago, for about
// [database.BatchTime]. It returns the ids that it has not processed. If age is negative, it
// deletes pieces of any age.
func drop(t database.Tx, ids []string, age time.Duration) (rest []string, err error) {
	start := time.Now()
	for i, id := range ids {
		// From here on no writer adds pieces or adopts them.
		n, err := t.Exec(`UPDATE staged SET written_ms = 0 WHERE id = $1 AND written_ms <= NOW_MS - $2`,
			id, age.Milliseconds())
		if err != nil {
			return ids, err
		}
		for n > 0 {
			if n, err = t.Exec(`DELETE FROM pieces WHERE id = $1 AND piece IN (SELECT piece FROM pieces WHERE id = $1 ORDER BY piece LIMIT $2)`,
				id, int64(dropBatch)); err != nil {
				return ids, err
			}
			if time.Since(start) > database.BatchTime {
				return ids[i:], nil
			}
		}
		if _, err := t.Exec(`DELETE FROM staged WHERE id = $1 AND written_ms = 0`, id); err != nil {
			return ids, err
		}
	}
	return nil, nil
}

// Release marks the pieces with the given id for deletion by [Writer.Sweep]. The caller changes or
// deletes the row that refers to them in the same transaction.
func Release(t database.Tx, id string) error {
	_, err := t.Exec(`INSERT INTO staged (id, written_ms) VALUES ($1, 0)`, id)
	return err
}

// ReleaseRun releases the pieces of a run's rows in a table, and returns their ids.
func ReleaseRun(t database.Tx, table, run string) (ids []string, err error) {
	return database.Strings(
		t,
		`INSERT INTO staged (id, written_ms) SELECT pieces, 0 FROM `+table+` WHERE run = $1 AND pieces <> '' RETURNING id`,
		run,
	)
}
