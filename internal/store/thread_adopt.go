package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// RunVersion returns the version of a thread's messages after one of its finished runs; see
// [Thread].Version. It fails with [journal.ErrNoRun] if the thread has no such run, and with
// [ErrInUse] if the run has not finished.
func (n *Tenant) RunVersion(ctx context.Context, h *Thread, run string) (version int64, err error) {
	err = n.view(ctx, func(t scoped) error {
		version, err = versionAfter(t, h, run)
		return err
	})
	return version, err
}

// AdoptRun creates a thread as [Tenant.CreateThread] does. Its first run is a finished run without a
// thread, and end has the messages of this run. AdoptRun fails with [journal.ErrNoRun] if the tenant
// has no such run, and with [ErrInUse] if the run has a thread or has not finished. It fails with a
// [*QuotaError] if a quota does not allow the thread.
func (n *Tenant) AdoptRun(ctx context.Context, h *Thread, run string, end *journal.ThreadEnd) (out *Thread, err error) {
	var items [][]byte
	for _, item := range end.Items {
		items = append(items, item)
	}
	err = n.s.blobs.Write(ctx, blob.Options{}, func(bodies []*blob.Body) error {
		return n.update(ctx, func(t scoped) error {
			out, err = adoptRun(t, h, run, end, bodies)
			return err
		})
	}, items...)
	return out, err
}

func adoptRun(t scoped, h *Thread, run string, end *journal.ThreadEnd, bodies []*blob.Body) (*Thread, error) {
	var status string
	if err := t.row([]any{&status}, `SELECT status FROM runs WHERE tenant = $1 AND id = $2`, run); err != nil {
		return nil, err
	}
	if status == "" {
		return nil, database.ForCaller(noRun(run))
	}
	changed, err := t.Exec(`UPDATE runs SET thread = $3, thread_seq = 1 WHERE tenant = $1 AND id = $2
		AND status = 'finished' AND thread = ''`, run, h.ID)
	if err == nil && changed == 0 {
		err = database.ForCaller(fmt.Errorf("run %s: %w: it has a thread, or is %s", run, ErrInUse, status))
	}
	if err != nil {
		return nil, err
	}
	size := int64(0)
	for _, item := range end.Items {
		size += messageSize(item)
	}
	if err := checkCopy(t, int64(len(end.Items)), size); err != nil {
		return nil, err
	}
	own := *h
	if !own.Titled {
		own.Title = withoutControls(end.Title)
	}
	if _, err := createThread(t, &own); err != nil {
		return nil, err
	}
	e := threadChange{t: t, thread: h.ID, run: run, seq: 1, ThreadEnd: end}
	if _, err := e.add(bodies); err != nil {
		return nil, err
	}
	if _, err := t.Exec(`UPDATE threads SET version = 1, runs = 1, messages = $3, bytes = $4 WHERE tenant = $1 AND id = $2`,
		h.ID, int64(len(end.Items)), size); err != nil {
		return nil, err
	}
	if t.tenant != Operator {
		if err := addJournalBytes(t, size); err != nil {
			return nil, err
		}
	}
	return threadIn(t, h.ID)
}

// messageSize returns the bytes that count for a message of a thread.
func messageSize(item json.RawMessage) int64 { return int64(messageRowBytes + len(item)) }

// MessageIDs returns a version of the messages of one of the tenant's threads, in order and without
// their bodies.
func (n *Tenant) MessageIDs(ctx context.Context, thread string, version int64) (out []ThreadMessage, err error) {
	err = n.view(ctx, func(t scoped) error {
		out = nil
		return t.Query(func(scan func(...any) error) error {
			var m ThreadMessage
			err := scan(&m.Position, &m.ID, &m.Run)
			out = append(out, m)
			return err
		}, `SELECT position, id, run FROM thread_messages WHERE tenant = $1 AND thread = $2
			AND added <= $3 AND (removed = 0 OR removed > $3) ORDER BY position`, thread, version)
	})
	return out, err
}
