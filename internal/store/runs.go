package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
)

const runColumns = `id, tenant, agent, parent, title, status, finish_reason, step, usage, fuel, pending,
	epoch, owner, lease_ms, cancel, created_ms, updated_ms, entries, last_seq, modules, spec, stats, journal_bytes`

// scanRun reads a row of runColumns.
func scanRun(scan func(...any) error) (*journal.RunInfo, error) {
	var r journal.RunInfo
	var usage, pending, modules, stats string
	var spec []byte
	var step, lease, cancel, created, updated int64
	if err := scan(&r.ID, &r.Tenant, &r.Agent, &r.Parent, &r.Title, &r.Status, &r.FinishReason, &step, &usage, &r.Fuel, &pending,
		&r.Epoch, &r.Owner, &lease, &cancel, &created, &updated, &r.Entries, &r.LastSeq, &modules, &spec, &stats, &r.JournalBytes); err != nil {
		return nil, err
	}
	r.Step, r.Cancel, r.Created, r.Updated = int(step), cancel != 0, time.UnixMilli(created), time.UnixMilli(updated)
	if lease > 0 {
		r.LeaseExpires = time.UnixMilli(lease)
	}
	for _, column := range []struct {
		text string
		to   any
	}{{usage, &r.Usage}, {pending, &r.Pending}, {modules, &r.Modules}, {stats, &r.Stats}} {
		if column.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(column.text), column.to); err != nil {
			return nil, ownError{&Error{Corrupt, "", fmt.Errorf("run %s: %w", r.ID, err)}}
		}
	}
	if len(spec) > 0 {
		r.Spec = bytes.Clone(spec)
	}
	return &r, nil
}

func marshal(v any) (string, error) {
	b, err := abi.Marshal(v)
	return string(b), err
}

// Create implements [agent.Journal].
func (s *store) Create(ctx context.Context, r *journal.Creation) error {
	insert, err := inserted(r)
	if err != nil {
		return err
	}
	return s.staged(ctx, nil, nil, func(log []*body) error {
		return s.update(ctx, r.Lazy, func(t tx) error {
			if err := insert(t, log[0]); err != nil {
				return err
			}
			return leavePlace(t, r.Tenant, r.ID)
		})
	}, r.Log)
}

// inserted is what puts a new run into the journal, with the first entry of its log.
func inserted(r *journal.Creation) (func(tx, *body) error, error) {
	usage, err := marshal(abi.Usage{})
	if err != nil {
		return nil, err
	}
	modules, err := marshal(r.Modules)
	if err != nil {
		return nil, err
	}
	size := r.Bytes()
	counted := int64(0)
	if r.Tenant != Operator {
		counted = dueBytes(journal.StatusRunning, size)
	}
	return func(t tx, log *body) error {
		n, err := t.exec(`INSERT INTO runs (`+runColumns+`, journal_due)
			VALUES ($1, $2, $3, $4, $5, $6, '', 0, $7, 0, '', 1, $8, NOW_MS + $9, 0, NOW_MS, NOW_MS, 1, 0, $10, $11, '', $12, $13) ON CONFLICT (id) DO NOTHING`,
			r.ID, r.Tenant, r.Agent, r.Parent, r.Title, string(journal.StatusRunning), usage, r.Owner, r.Lease.Milliseconds(), modules, []byte(r.Spec), size, size-counted)
		if err != nil {
			return err
		}
		if n == 0 {
			return ownError{fmt.Errorf("run %s: %w", r.ID, journal.ErrExists)}
		}
		if counted > 0 {
			var now int64
			if _, err := one(t, `SELECT NOW_MS`, nil, &now); err != nil {
				return err
			}
			if err := countJournal(scoped{t, r.Tenant}, r.Agent, time.UnixMilli(now), counted); err != nil {
				return err
			}
		}
		return insertLog(t, r.ID, 1, log)
	}, nil
}

func insertLog(t tx, run string, entry int64, b *body) error {
	if err := b.take(t); err != nil {
		return err
	}
	_, err := t.exec(`INSERT INTO run_log (run, entry, body, pieces) VALUES ($1, $2, $3, $4)`, run, entry, b.inRow, b.pieces)
	return err
}

func insertEvents(t tx, run string, first, last int64, b *body) error {
	if err := b.take(t); err != nil {
		return err
	}
	_, err := t.exec(`INSERT INTO run_events (run, first_seq, last_seq, body, pieces) VALUES ($1, $2, $3, $4, $5)`, run, first, last, b.inRow, b.pieces)
	return err
}

// leavePlace gives back the place that a run was let in with: from here on the run
// itself is counted, and from its end on nothing.
func leavePlace(t tx, tenant, run string) error {
	if tenant == Operator {
		return nil
	}
	_, err := t.exec(`DELETE FROM run_places WHERE run = $1`, run)
	return err
}

// Load implements [agent.Journal].
func (s *store) Load(ctx context.Context, id string) (kept *journal.StoredRun, err error) {
	err = s.view(ctx, func(t tx) error {
		info, err := run(t, id)
		if err != nil {
			return err
		}
		kept, err = withLog(t, info)
		return err
	})
	return kept, err
}

// withLog reads the log of a run, up to where it was.
func withLog(t tx, info *journal.RunInfo) (*journal.StoredRun, error) {
	var log []body
	err := t.query(func(scan func(...any) error) error {
		var n int64
		var b body
		if err := scan(&n, &b.inRow, &b.pieces); err != nil {
			return err
		}
		if n != int64(len(log))+1 {
			return ownError{&Error{Corrupt, "", fmt.Errorf("the log of run %s goes from entry %d to %d", info.ID, len(log), n)}}
		}
		b.inRow = bytes.Clone(b.inRow)
		log = append(log, b)
		return nil
	}, `SELECT entry, body, pieces FROM run_log WHERE run = $1 AND entry <= $2 ORDER BY entry`, info.ID, info.Entries)
	if err == nil && int64(len(log)) != info.Entries {
		err = ownError{&Error{Corrupt, "", fmt.Errorf("the log of run %s has %d of %d entries", info.ID, len(log), info.Entries)}}
	}
	if err != nil {
		return nil, err
	}
	kept := &journal.StoredRun{RunInfo: *info, Log: make([][]byte, len(log))}
	for i := range log {
		if kept.Log[i], err = log[i].whole(t); err != nil {
			return nil, err
		}
	}
	return kept, nil
}

func run(t tx, id string) (info *journal.RunInfo, err error) {
	err = t.query(func(scan func(...any) error) error {
		info, err = scanRun(scan)
		return err
	}, `SELECT `+runColumns+` FROM runs WHERE id = $1`, id)
	if err == nil && info == nil {
		err = ownError{noRun(id)}
	}
	return info, err
}

func noRun(id string) error { return fmt.Errorf("run %s: %w", id, journal.ErrNoRun) }

// Claim implements [agent.Journal]. The log is read once the run is claimed: nobody who
// writes waits for that.
func (s *store) Claim(ctx context.Context, c *journal.Claim) (kept *journal.StoredRun, err error) {
	var info *journal.RunInfo
	err = s.update(ctx, false, func(t tx) error {
		steal := int64(0)
		if c.Steal {
			steal = 1
		}
		n, err := t.exec(`UPDATE runs SET epoch = epoch + 1, owner = $3, lease_ms = NOW_MS + $4, updated_ms = NOW_MS, cancel = 0, status = $5
			WHERE id = $1 AND epoch = $2 AND status <> $6 AND (status <> $5 OR lease_ms <= NOW_MS OR $7 = 1)`,
			c.Run, c.Epoch, c.Owner, c.Lease.Milliseconds(), string(journal.StatusRunning), string(journal.StatusFinished), steal)
		if err != nil {
			return err
		}
		if n == 0 {
			return unclaimed(t, c)
		}
		if info, err = run(t, c.Run); err != nil {
			return err
		}
		return leavePlace(t, info.Tenant, c.Run)
	})
	if err != nil {
		return nil, err
	}
	err = s.view(context.WithoutCancel(ctx), func(t tx) error { // it is claimed, whoever has left
		if _, err := run(t, c.Run); err != nil { // it may have been deleted, if it was claimed for no time
			return err
		}
		kept, err = withLog(t, info)
		return err
	})
	return kept, err
}

// unclaimed says why a claim changed nothing.
func unclaimed(t tx, c *journal.Claim) error {
	r, err := run(t, c.Run)
	switch {
	case err != nil:
		return err
	case r.Status == journal.StatusFinished:
		return ownError{fmt.Errorf("run %s: %w: %s", c.Run, journal.ErrFinished, r.FinishReason)}
	}
	return ownError{fmt.Errorf("run %s: %w: %s, for at least %v after its last sign of life", c.Run, journal.ErrBusy, r.Owner, c.Lease)}
}

// Commit implements [agent.Journal].
func (s *store) Commit(ctx context.Context, c *journal.Commit) error {
	advance, args, err := advanced(c)
	if err != nil {
		return err
	}
	if c.Urgent {
		ctx = urgent(ctx)
	}
	update := func(fn func(tx) error) error { return s.commit(ctx, c.Written, fn) }
	if c.Lazy {
		update = func(fn func(tx) error) error { return s.update(ctx, true, fn) }
	}
	alive := func(t tx) error { // meanwhile nobody else shows a sign of life for the run
		_, err := t.exec(renewal, c.Run, c.Epoch, c.Lease.Milliseconds())
		return err
	}
	var replaced []string // pieces of entries that were rewritten
	defer func() {
		if len(replaced) > 0 {
			s.discard(ctx, replaced...)
		}
	}()
	return s.staged(ctx, c.Abort, alive, func(bodies []*body) error {
		return update(func(t tx) error {
			before, err := metered(t, c)
			if err != nil {
				return err
			}
			n, err := t.exec(advance, append(args[:len(args):len(args)], before.due(c))...)
			if err != nil {
				return err
			}
			if n == 0 {
				return refused(t, c)
			}
			if c.Full, err = before.count(t, c); err != nil {
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
			if c.Last < c.First {
				return nil
			}
			return insertEvents(t, c.Run, c.First, c.Last, bodies[1])
		})
	}, c.Log, c.Events)
}

// rewriteLog replaces messages in the entries of a run's log. It returns the pieces that no
// entry has any more.
func rewriteLog(t tx, c *journal.Commit) (pieces []string, err error) {
	type row struct {
		entry int64
		body  body
	}
	var rows []row
	err = t.query(func(scan func(...any) error) error {
		var r row
		err := scan(&r.entry, &r.body.inRow, &r.body.pieces)
		rows = append(rows, r)
		return err
	}, `SELECT entry, body, pieces FROM run_log WHERE run = $1 ORDER BY entry`, c.Run)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		r := &rows[i]
		was, err := r.body.whole(t)
		if err != nil {
			return nil, err
		}
		now, err := c.Rewrite.Entry(was)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(was, now) {
			continue
		}
		if r.body.pieces != "" {
			if _, err := t.exec(`INSERT INTO staged (id, written_ms) VALUES ($1, 0)`, r.body.pieces); err != nil {
				return nil, err
			}
			pieces = append(pieces, r.body.pieces)
		}
		if _, err := t.exec(`UPDATE run_log SET body = $3, pieces = '' WHERE run = $1 AND entry = $2`, c.Run, r.entry, now); err != nil {
			return nil, err
		}
	}
	_, err = t.exec(`UPDATE runs SET title = $2 WHERE id = $1`, c.Run, c.Rewrite.Title)
	return pieces, err
}

// advanced is the statement that brings a run to where it is after a commit, if it is
// where it was before. Its last argument, which the caller adds, is the change of
// journal_due.
func advanced(c *journal.Commit) (text string, args []any, err error) {
	before, set := c.Entry, ""
	if c.Log != nil {
		before--
	}
	args = []any{c.Run, c.Epoch, before, c.First - 1, c.Entry, c.Last, c.Lease.Milliseconds(), c.Bytes()}
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
		set = ", status = $9, finish_reason = $10, step = $11, usage = $12, fuel = $13, pending = $14, stats = $15"
		args = append(args, string(p.Status), p.FinishReason, int64(p.Step), usage, p.Fuel, pending, stats)
	}
	set += fmt.Sprintf(", journal_bytes = journal_bytes + $8, journal_due = journal_due + $%d", len(args)+1)
	return `UPDATE runs SET entries = $5, last_seq = $6, updated_ms = NOW_MS, lease_ms = NOW_MS + $7` + set + `
		WHERE id = $1 AND epoch = $2 AND entries = $3 AND last_seq = $4 AND status <> 'finished'`, args, nil
}

// refused says why a commit changed nothing; nil if it was made before, and the
// answer was lost.
func refused(t tx, c *journal.Commit) error {
	r, err := run(t, c.Run)
	switch {
	case err != nil:
		return err
	case r.Epoch == c.Epoch && r.Entries == c.Entry && r.LastSeq == c.Last:
		return nil
	case r.Epoch == c.Epoch:
		return ownError{fmt.Errorf("run %s is at entry %d and event %d, and entry %d with events from %d on is to follow", c.Run, r.Entries, r.LastSeq, c.Entry, c.First)}
	}
	return ownError{fmt.Errorf("run %s: %w: %s", c.Run, journal.ErrFenced, r.Owner)}
}

const renewal = `UPDATE runs SET lease_ms = NOW_MS + $3 WHERE id = $1 AND epoch = $2 AND status = 'running'`

// Renew implements [agent.Journal].
func (s *store) Renew(ctx context.Context, id string, epoch int64, lease time.Duration) (cancel bool, err error) {
	err = s.update(urgent(ctx), true, func(t tx) error {
		n, err := t.exec(renewal, id, epoch, lease.Milliseconds())
		if err != nil {
			return err
		}
		r, err := run(t, id)
		switch {
		case err != nil:
			return err
		case n == 0 && r.Epoch != epoch:
			return ownError{fmt.Errorf("run %s: %w: %s", id, journal.ErrFenced, r.Owner)}
		}
		cancel = r.Cancel
		return nil
	})
	return cancel, err
}

// Run implements [Store].
func (s *store) Run(ctx context.Context, id string) (info *journal.RunInfo, err error) {
	err = s.view(ctx, func(t tx) error {
		info, err = run(t, id)
		return err
	})
	return info, err
}

// Runs implements [Store].
func (s *store) Runs(ctx context.Context, f *Filter) (runs []journal.RunInfo, next *Position, err error) {
	if f == nil {
		f = &Filter{}
	}
	created, id := f.older()
	sql, args := `SELECT `+runColumns+` FROM runs WHERE tenant = $1 AND (created_ms, id) < ($2, $3)`, []any{f.Tenant, created, id}
	where := func(field, value string) {
		args = append(args, value)
		sql += fmt.Sprintf(` AND %s = $%d`, field, len(args))
	}
	switch {
	case f.Agent == "" && f.Status == "":
	case f.Agent == "":
		where(`status`, string(f.Status))
	case f.Status == "":
		where(`agent`, f.Agent)
	// Of two filters, the more selective one uses its index, and the other one is an
	// expression, which has none. Few runs have not finished.
	case f.Status == journal.StatusFinished:
		where(`agent`, f.Agent)
		where(`status || ''`, string(f.Status))
	default:
		where(`status`, string(f.Status))
		where(`agent || ''`, f.Agent)
	}
	sql += fmt.Sprintf(` ORDER BY created_ms DESC, id DESC LIMIT $%d`, len(args)+1)
	err = s.view(ctx, func(t tx) (err error) {
		runs, next, err = list(t, f.Page, func(scan func(...any) error) (r journal.RunInfo, err error) {
			info, err := scanRun(scan)
			if err == nil {
				r = *info
			}
			return r, err
		}, func(r *journal.RunInfo) Position { return Position{r.Created, r.ID} }, sql, args...)
		return err
	})
	return runs, next, err
}

// Events implements [agent.Journal].
func (s *store) Events(ctx context.Context, id string, after int64, limit int) ([]abi.Event, error) {
	return s.events(ctx, id, after, limit, math.MaxInt)
}

// errEnough ends a query that has what it wanted.
var errEnough = errors.New("enough")

// events returns events until there are so many, or so many bytes of them.
func (s *store) events(ctx context.Context, id string, after int64, limit, most int) ([]abi.Event, error) {
	var out []abi.Event
	err := s.view(ctx, func(t tx) error {
		out = nil
		if _, err := run(t, id); err != nil {
			return err
		}
		bodies, err := eventBodies(t, id, after, limit, most)
		if err != nil {
			return err
		}
		for i := range bodies {
			lines, err := bodies[i].whole(t)
			if err != nil {
				return err
			}
			for line := range bytes.Lines(lines) {
				var e abi.Event
				if err := json.Unmarshal(line, &e); err != nil {
					return ownError{&Error{Corrupt, "", fmt.Errorf("an event of run %s: %w", id, err)}}
				}
				if e.Seq > after {
					out = append(out, e)
				}
			}
		}
		return nil
	})
	return out, err
}

// eventBodies returns the rows that have these events.
func eventBodies(t tx, run string, after int64, limit, most int) (rows []body, err error) {
	events, size := int64(0), 0
	err = t.query(func(scan func(...any) error) error {
		var first, last int64
		var b body
		if err := scan(&first, &last, &b.inRow, &b.pieces); err != nil {
			return err
		}
		if events >= int64(limit) || size >= most {
			return errEnough
		}
		n, err := b.size()
		b.inRow = bytes.Clone(b.inRow)
		rows, events, size = append(rows, b), events+last-max(first-1, after), size+n
		return err
	}, `SELECT first_seq, last_seq, body, pieces FROM run_events WHERE run = $1 AND last_seq > $2 ORDER BY first_seq LIMIT $3`, run, after, int64(limit))
	if errors.Is(err, errEnough) {
		err = nil
	}
	return rows, err
}

// Cancel implements [Store].
func (s *store) Cancel(ctx context.Context, id string) error {
	return s.update(urgent(ctx), false, func(t tx) error {
		n, err := t.exec(`UPDATE runs SET cancel = 1 WHERE id = $1 AND status <> 'finished'`, id)
		if err != nil || n == 1 {
			return err
		}
		r, err := run(t, id)
		if err != nil {
			return err
		}
		return ownError{fmt.Errorf("run %s: %w: %s", id, journal.ErrFinished, r.FinishReason)}
	})
}

// Canceled implements [Store].
func (s *store) Canceled(ctx context.Context, owner string) (runs []string, err error) {
	err = s.view(ctx, func(t tx) error {
		return t.query(func(scan func(...any) error) error {
			var id string
			err := scan(&id)
			runs = append(runs, id)
			return err
		}, `SELECT id FROM runs WHERE owner = $1 AND cancel = 1 AND status = 'running'`, owner)
	})
	return runs, err
}

// Abandon implements [Store].
func (s *store) Abandon(ctx context.Context, id, reason string) error {
	return s.update(urgent(ctx), false, func(t tx) error {
		r, err := run(t, id)
		if err != nil {
			return err
		}
		e := abi.Event{Type: abi.EventRunFinished, Seq: r.LastSeq + 1, Run: id, TimeMS: time.Now().UnixMilli(), Step: r.Step,
			FinishReason: abi.RunCanceled, Usage: &r.Usage, Reason: reason}
		b, err := abi.Marshal(&e)
		if err != nil {
			return err
		}
		c := &journal.Commit{Events: append(b, '\n'), First: e.Seq, Last: e.Seq}
		n, err := t.exec(`UPDATE runs SET epoch = epoch + 1, status = 'finished', finish_reason = $2, pending = '', owner = '', lease_ms = 0,
			updated_ms = NOW_MS, last_seq = last_seq + 1, journal_bytes = journal_bytes + $4, journal_due = journal_due + $4
			WHERE id = $1 AND epoch = $3 AND (status = 'paused' OR status = 'running' AND lease_ms <= NOW_MS)`, id, abi.RunCanceled, r.Epoch, c.Bytes())
		switch {
		case err != nil:
			return err
		case n == 0 && r.Status == journal.StatusFinished:
			return ownError{fmt.Errorf("run %s: %w: %s", id, journal.ErrFinished, r.FinishReason)}
		case n == 0:
			return ownError{fmt.Errorf("run %s: %w: %s", id, journal.ErrBusy, r.Owner)}
		}
		if _, _, _, err := countDue(t, id, journal.StatusFinished); err != nil {
			return err
		}
		return insertEvents(t, id, e.Seq, e.Seq, &body{inRow: c.Events})
	})
}

// Delete implements [Store].
func (s *store) Delete(ctx context.Context, id string) error {
	var pieces []string
	err := s.update(ctx, false, func(t tx) error {
		var tenant string
		var size int64
		found, err := one(t, `DELETE FROM runs WHERE id = $1 AND (status <> 'running' OR lease_ms <= NOW_MS)`+deletedRun, []any{id}, &tenant, &size)
		if err != nil {
			return err
		}
		if !found {
			r, err := run(t, id)
			if err != nil {
				return err
			}
			return ownError{fmt.Errorf("run %s: %w: %s", id, journal.ErrBusy, r.Owner)}
		}
		if pieces, err = forget(t, id); err != nil {
			return err
		}
		gone := freed{}
		gone.add(tenant, size)
		return gone.give(t)
	})
	if err == nil {
		s.discard(ctx, pieces...)
	}
	return err
}
