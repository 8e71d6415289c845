package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

const runColumns = `id, tenant, agent, parent, title, status, finish_reason, step, usage, fuel, pending,
	epoch, owner, lease_ms, cancel, created_ms, updated_ms, entries, last_seq, modules, spec, stats, journal_bytes,
	version, metadata, faults, denials, denied, models, cost_nano, active_ms, thread, subject, token`

// scanRun reads a row of runColumns.
func scanRun(scan func(...any) error) (*journal.RunInfo, error) {
	var r journal.RunInfo
	var usage, pending, modules, stats, metadata, denied, models string
	var spec []byte
	var step, lease, cancel, created, updated, active int64
	err := scan(&r.ID, &r.Tenant, &r.Agent, &r.Parent, &r.Title, &r.Status, &r.FinishReason, &step, &usage,
		&r.Fuel, &pending, &r.Epoch, &r.Owner, &lease, &cancel, &created, &updated, &r.Entries, &r.LastSeq,
		&modules, &spec, &stats, &r.JournalBytes,
		&r.Version, &metadata, &r.Faults, &r.Denials, &denied, &models, &r.CostNano, &active, &r.Thread, &r.Subject, &r.Token)
	if err != nil {
		return nil, err
	}
	r.Step, r.Cancel, r.Created, r.Updated = int(step), cancel != 0, time.UnixMilli(created), time.UnixMilli(updated)
	if lease > 0 {
		r.LeaseExpires = time.UnixMilli(lease)
	}
	for _, column := range []struct {
		text string
		to   any
	}{{usage, &r.Usage}, {pending, &r.Pending}, {modules, &r.Modules}, {stats, &r.Stats},
		{denied, &r.Denied}, {models, &r.Models}} {
		if column.text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(column.text), column.to); err != nil {
			return nil, database.Corruptf("run %s: %w", r.ID, err)
		}
	}
	r.Active = time.Duration(active) * time.Millisecond
	if metadata != "" {
		r.Metadata = json.RawMessage(metadata)
	}
	if len(spec) > 0 {
		r.Spec = bytes.Clone(spec)
	}
	return &r, nil
}

func marshal(v any) (string, error) {
	b, err := abijson.Marshal(v)
	return string(b), err
}

// run returns the run with an id. It fails with [journal.ErrNoRun] if the run does not exist.
func run(t database.Tx, id string) (info *journal.RunInfo, err error) {
	err = t.Query(func(scan func(...any) error) error {
		info, err = scanRun(scan)
		return err
	}, `SELECT `+runColumns+` FROM runs WHERE id = $1`, id)
	if err == nil && info == nil {
		err = database.ForCaller(noRun(id))
	}
	return info, err
}

func noRun(id string) error { return fmt.Errorf("run %s: %w", id, journal.ErrNoRun) }

// Run implements [Store].
func (s *store) Run(ctx context.Context, id string) (info *journal.RunInfo, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		info, err = run(t, id)
		return err
	})
	return info, err
}

// Cancel implements [Store].
func (s *store) Cancel(ctx context.Context, id string) error {
	return s.db.Update(ctx, database.TxOptions{Priority: true}, func(t database.Tx) error {
		n, err := t.Exec(`UPDATE runs SET cancel = 1 WHERE id = $1 AND status <> 'finished'`, id)
		if err != nil || n == 1 {
			return err
		}
		r, err := run(t, id)
		if err != nil {
			return err
		}
		return database.ForCaller(fmt.Errorf("run %s: %w: %s", id, journal.ErrFinished, r.FinishReason))
	})
}

// Canceled implements [Store].
func (s *store) Canceled(ctx context.Context, owner string) (runs []string, err error) {
	err = s.db.View(ctx, func(t database.Tx) (err error) {
		runs, err = database.Strings(t, `SELECT id FROM runs WHERE owner = $1 AND cancel = 1 AND status = 'running'`, owner)
		return err
	})
	return runs, err
}

// Abandon implements [Store].
func (s *store) Abandon(ctx context.Context, id, reason string) error {
	return s.abandon(ctx, id, reason, nil)
}

// abandon is like Abandon, and changes the run's thread unless end is nil.
func (s *store) abandon(ctx context.Context, id, reason string, end *journal.ThreadEnd) error {
	change := &journal.Commit{Run: id, Thread: end}
	return s.blobs.Write(ctx, blob.Options{Priority: true}, func(bodies []*blob.Body) error {
		return s.db.Update(ctx, database.TxOptions{Priority: true}, func(t database.Tx) error {
			if err := s.finishAbandoned(t, id, reason); err != nil || end == nil {
				return err
			}
			_, err := endInThread(t, change, bodies)
			return err
		})
	}, threadBodies(change)...)
}

// finishAbandoned appends the last event of a run that no process executes.
func (s *store) finishAbandoned(t database.Tx, id, reason string) error {
	r, err := run(t, id)
	if err != nil {
		return err
	}
	e := abi.Event{Type: abi.EventRunFinished, Seq: r.LastSeq + 1, Run: id, TimeMS: time.Now().UnixMilli(), Step: r.Step,
		FinishReason: abi.RunCanceled, Usage: &r.Usage, Reason: reason}
	b, err := abijson.Marshal(&e)
	if err != nil {
		return err
	}
	c := &journal.Commit{Events: append(b, '\n'), First: e.Seq, Last: e.Seq}
	n, err := t.Exec(
		`UPDATE runs SET epoch = epoch + 1, status = 'finished', finish_reason = $2, pending = '', owner = '', lease_ms = 0,
		updated_ms = NOW_MS, last_seq = last_seq + 1, journal_bytes = journal_bytes + $4, journal_due = journal_due + $4
		WHERE id = $1 AND epoch = $3 AND (status IN ('paused', 'queued') OR status = 'running' AND lease_ms <= NOW_MS)`,
		id,
		abi.RunCanceled,
		r.Epoch,
		c.Bytes(),
	)
	switch {
	case err != nil:
		return err
	case n == 0 && r.Status == journal.StatusFinished:
		return database.ForCaller(fmt.Errorf("run %s: %w: %s", id, journal.ErrFinished, r.FinishReason))
	case n == 0:
		return database.ForCaller(fmt.Errorf("run %s: %w: %s", id, journal.ErrBusy, r.Owner))
	}
	if r.Status == journal.StatusQueued { // its log is only the request
		if _, err := blob.ReleaseRun(t, "run_log", id); err != nil {
			return err
		}
		if _, err := t.Exec(`DELETE FROM run_log WHERE run = $1`, id); err != nil {
			return err
		}
		if _, err := t.Exec(`UPDATE runs SET entries = 0 WHERE id = $1`, id); err != nil {
			return err
		}
	}
	if _, _, _, err := countDue(t, id, journal.StatusFinished); err != nil {
		return err
	}
	if err := s.countFinished(t, id); err != nil {
		return err
	}
	return insertEvents(t, id, e.Seq, e.Seq, &blob.Body{InRow: c.Events})
}

// Delete implements [Store].
func (s *store) Delete(ctx context.Context, id string) error {
	var pieces []string
	err := s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		k := terms.Key{Run: id}
		var size int64
		var column string
		found, err := database.One(
			t,
			`DELETE FROM runs WHERE id = $1 AND (status <> 'running' OR lease_ms <= NOW_MS)`+returningSize,
			[]any{id},
			&k.Tenant,
			&size,
			&k.CreatedMS,
			&column,
		)
		if err != nil {
			return err
		}
		if !found {
			r, err := run(t, id)
			if err != nil {
				return err
			}
			return database.ForCaller(fmt.Errorf("run %s: %w: %s", id, journal.ErrBusy, r.Owner))
		}
		if pieces, err = deleteRunRows(t, &k, column); err != nil {
			return err
		}
		freed := freedBytes{}
		freed.add(k.Tenant, size)
		return freed.subtract(t)
	})
	if err == nil {
		s.blobs.Discard(ctx, pieces...)
	}
	return err
}

// deleteRunRows deletes the rows of a run in tables other than runs. column is the value of the
// run's column terms. deleteRunRows returns the ids of the pieces that it released.
func deleteRunRows(t database.Tx, k *terms.Key, column string) (pieces []string, err error) {
	id := k.Run
	list, err := terms.Decode(id, column)
	if err != nil {
		return nil, err
	}
	if err := k.Remove(t, list); err != nil {
		return nil, err
	}
	for _, table := range []string{"run_log", "run_events"} {
		ids, err := blob.ReleaseRun(t, table, id)
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, ids...)
	}
	for _, table := range []string{"run_log", "run_events", "run_traces", "quarantine", "suspects", "run_crashes"} {
		if _, err := t.Exec(`DELETE FROM `+table+` WHERE run = $1`, id); err != nil {
			return nil, err
		}
	}
	_, err = t.Exec(`UPDATE replay_runs SET body = $2 WHERE run = $1`, id, []byte{}) // it has texts of the run
	return pieces, err
}

// own returns a run of the tenant. It fails with [journal.ErrNoRun] for unknown runs and for
// runs of other tenants.
func (n *Tenant) own(ctx context.Context, id string) (info *journal.RunInfo, err error) {
	err = n.s.db.View(ctx, func(t database.Tx) error {
		info, err = n.ownIn(t, id)
		return err
	})
	return info, err
}

// ownIn returns a run of the tenant as own does, and reads it in transaction t.
func (n *Tenant) ownIn(t database.Tx, id string) (*journal.RunInfo, error) {
	info, err := run(t, id)
	if err != nil {
		return nil, err
	}
	if info.Tenant != n.id {
		return nil, database.ForCaller(noRun(id))
	}
	return info, nil
}

// Run returns one of the tenant's runs. It fails with [journal.ErrNoRun] if the tenant has no
// such run.
func (n *Tenant) Run(ctx context.Context, id string) (*journal.RunInfo, error) { return n.own(ctx, id) }

// Runs returns a page of the tenant's runs; see [Store]. It ignores the filter's tenant.
func (n *Tenant) Runs(ctx context.Context, f *Filter) ([]journal.RunInfo, *Position, error) {
	var own Filter
	if f != nil {
		own = *f
	}
	own.Tenant = n.id
	return n.s.Runs(ctx, &own)
}

// RunEvents returns events of one of the tenant's runs; see [journal.Journal]. It stops after the
// event that reaches maxBytes bytes.
func (n *Tenant) RunEvents(ctx context.Context, id string, after int64, limit, maxBytes int) ([]abi.Event, error) {
	return n.s.events(ctx, n.ownIn, id, after, limit, maxBytes)
}

// LoadRun returns one of the tenant's runs with its log. It fails with [journal.ErrNoRun] if the
// tenant has no such run.
func (n *Tenant) LoadRun(ctx context.Context, id string) (*journal.StoredRun, error) {
	return n.s.load(ctx, n.ownIn, id)
}

// CancelRun asks the process that executes one of the tenant's runs to cancel it; see [Store].
func (n *Tenant) CancelRun(ctx context.Context, id string) error {
	if _, err := n.own(ctx, id); err != nil {
		return err
	}
	return n.s.Cancel(ctx, id)
}

// AbandonRun finishes one of the tenant's runs that no process executes; see [Store]. It changes the
// run's thread, unless end is nil.
func (n *Tenant) AbandonRun(ctx context.Context, id, reason string, end *journal.ThreadEnd) error {
	if _, err := n.own(ctx, id); err != nil {
		return err
	}
	return n.s.abandon(ctx, id, reason, end)
}

// DeleteRun deletes one of the tenant's runs; see [Store].
func (n *Tenant) DeleteRun(ctx context.Context, id string) error {
	if _, err := n.own(ctx, id); err != nil {
		return err
	}
	return n.s.Delete(ctx, id)
}
