package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

// Commit implements [journal.Journal].
func (s *store) Commit(ctx context.Context, c *journal.Commit) error {
	advance, args, err := advanceStatement(c)
	if err != nil {
		return err
	}
	o := database.TxOptions{Lazy: c.Lazy, Priority: c.Urgent, Written: c.Written}
	renew := func(t database.Tx) error { // no heartbeat renews the lease while a commit is in progress
		_, err := t.Exec(renewLease, c.Run, c.Epoch, c.LeaseTTL.Milliseconds())
		return err
	}
	var replaced []string // ids of the pieces that the transaction released
	defer func() {
		if len(replaced) > 0 {
			s.blobs.Discard(ctx, replaced...)
		}
	}()
	err = s.blobs.Write(
		ctx,
		blob.Options{Abort: c.Abort, EachPiece: renew, Priority: c.Urgent},
		func(bodies []*blob.Body) error {
			return s.db.Update(ctx, o, func(t database.Tx) error {
				if err := lockAudit(t, c); err != nil {
					return err
				}
				before, err := readMeter(t, c)
				if err != nil {
					return err
				}
				n, err := t.Exec(advance, append(args[:len(args):len(args)], before.due(c), before.price(c, s.cost))...)
				if err != nil {
					return err
				}
				if n == 0 {
					return commitError(t, c)
				}
				if c.Full, err = before.count(t, c); err != nil {
					return err
				}
				if err := before.chargeToken(t, c); err != nil {
					return err
				}
				if err := recordAudit(t, c); err != nil {
					return err
				}
				if err := countEventsOf(t, c); err != nil {
					return err
				}
				if p := c.Progress; p != nil && p.Status == journal.StatusFinished {
					if err := s.countFinished(t, c.Run); err != nil {
						return err
					}
				}
				if err := countRollout(t, c); err != nil {
					return err
				}
				if c.Rewrite != nil {
					if replaced, err = rewriteLog(t, c); err != nil {
						return err
					}
				}
				if c.Log != nil {
					if err := insertLog(t, c.Run, c.Entry, bodies[0]); err != nil {
						return err
					}
				}
				if c.Thread != nil {
					released, err := endInThread(t, c, bodies[2:])
					if err != nil {
						return err
					}
					replaced = append(replaced, released...)
				}
				if c.Last < c.First {
					return nil
				}
				return insertEvents(t, c.Run, c.First, c.Last, bodies[1])
			})
		},
		append([][]byte{c.Log, c.Events}, threadBodies(c)...)...,
	)
	if errors.Is(err, blob.ErrAborted) {
		return journal.ErrAborted
	}
	return err
}

// rewriteLog rewrites earlier entries of the run's log, one at a time, and the run's title if the
// rewrite has one. It returns the ids of the pieces that it released.
func rewriteLog(t database.Tx, c *journal.Commit) (pieces []string, err error) {
	for n := c.Rewrite.First; n < c.Entry; n++ {
		var body blob.Body
		_, err := database.One(t, `SELECT body, pieces FROM run_log WHERE run = $1 AND entry = $2`,
			[]any{c.Run, n}, &body.InRow, &body.Pieces)
		if err != nil {
			return nil, err
		}
		before, err := body.Read(t)
		if err != nil {
			return nil, err
		}
		after, err := c.Rewrite.Entry(before)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(before, after) {
			continue
		}
		if body.Pieces != "" {
			if err := blob.Release(t, body.Pieces); err != nil {
				return nil, err
			}
			pieces = append(pieces, body.Pieces)
		}
		if _, err := t.Exec(`UPDATE run_log SET body = $3, pieces = '' WHERE run = $1 AND entry = $2`, c.Run, n, after); err != nil {
			return nil, err
		}
	}
	if _, begins := c.Rewrite.Phases[0]; begins {
		if err := eraseInThread(t, c); err != nil {
			return nil, err
		}
	}
	if c.Rewrite.Title == nil {
		return pieces, nil
	}
	var before string
	if _, err := database.One(t, `SELECT title FROM runs WHERE id = $1`, []any{c.Run}, &before); err != nil {
		return nil, err
	}
	if _, err = t.Exec(`UPDATE runs SET title = $2 WHERE id = $1`, c.Run, *c.Rewrite.Title); err != nil {
		return nil, err
	}
	return pieces, terms.Change(t, c.Run, terms.OfTitle(*c.Rewrite.Title), terms.OfTitle(before))
}

// sinceUpdate is the SQL expression for the time in milliseconds for which a run has been in progress
// since its row was updated.
const sinceUpdate = `CASE WHEN status = 'running' AND NOW_MS > updated_ms THEN NOW_MS - updated_ms ELSE 0 END`

// advanceStatement returns the statement that updates a run's row to its state after a
// commit, provided that it has the state before the commit. The caller appends the last two
// arguments, which are the change of journal_due and the commit's cost.
func advanceStatement(c *journal.Commit) (text string, args []any, err error) {
	before, set := c.Entry, ""
	if c.Log != nil {
		before--
	}
	args = []any{c.Run, c.Epoch, before, c.First - 1, c.Entry, c.Last, c.LeaseTTL.Milliseconds(), c.Bytes()}
	if p := c.Progress; p != nil {
		usage, err := marshal(p.Usage)
		if err != nil {
			return "", nil, err
		}
		pending := ""
		if len(p.Pending) > 0 {
			if pending, err = marshal(p.Pending); err != nil {
				return "", nil, err
			}
		}
		stats, err := marshal(p.Stats)
		if err != nil {
			return "", nil, err
		}
		models := ""
		if len(p.Models) > 0 {
			if models, err = marshal(p.Models); err != nil {
				return "", nil, err
			}
		}
		set = ", status = $9, finish_reason = $10, step = $11, usage = $12, fuel = $13, pending = $14, stats = $15, models = $16"
		args = append(args, string(p.Status), p.FinishReason, int64(p.Step), usage, p.Fuel, pending, stats, models)
	}
	set += fmt.Sprintf(
		", journal_bytes = journal_bytes + $8, journal_due = journal_due + $%d, cost_nano = cost_nano + $%d",
		len(args)+1,
		len(args)+2,
	)
	return `UPDATE runs SET entries = $5, last_seq = $6, updated_ms = NOW_MS, lease_ms = NOW_MS + $7,
		active_ms = active_ms + ` + sinceUpdate + set + `
		WHERE id = $1 AND epoch = $2 AND entries = $3 AND last_seq = $4 AND status <> 'finished'`, args, nil
}

// commitError returns the reason why a commit changed nothing. It returns nil if the same commit
// has succeeded before, since a caller repeats a commit whose result it has not received.
func commitError(t database.Tx, c *journal.Commit) error {
	r, err := run(t, c.Run)
	switch {
	case err != nil:
		return err
	case r.Epoch == c.Epoch && r.Entries == c.Entry && r.LastSeq == c.Last:
		return nil
	case r.Epoch == c.Epoch:
		return database.ForCaller(
			fmt.Errorf("run %s is at entry %d and event %d; cannot append entry %d and events from %d: %w",
				c.Run, r.Entries, r.LastSeq, c.Entry, c.First, journal.ErrLost),
		)
	}
	return database.ForCaller(fmt.Errorf("run %s: %w: %s", c.Run, journal.ErrFenced, r.Owner))
}
