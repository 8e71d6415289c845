package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

const (
	maxTraceParts = 100      // maximum number of timelines of one run
	maxTraceBytes = 16 << 20 // maximum size of all timelines of one run in bytes, without compression
	traceRowBytes = 128      // bytes that count for each timeline in addition to its own
)

// AddTrace stores another timeline of one of the tenant's runs. The caller chooses the
// format. bytes is the size of the timeline without compression. AddTrace ignores the timeline if the
// run has 100 already, or if they would take more than 16 MiB together. It fails with
// [journal.ErrNoRun] if the tenant has no such run.
func (n *Tenant) AddTrace(ctx context.Context, run string, body []byte, bytes int64) error {
	return n.s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		own := scoped{t, n.id}
		var parts, before int64
		if err := own.row([]any{&parts, &before},
			`SELECT count(*), CAST(COALESCE(sum(size), 0) AS BIGINT) FROM run_traces WHERE tenant = $1 AND run = $2`,
			run); err != nil || parts >= maxTraceParts || before+bytes > maxTraceBytes {
			return err
		}
		size := traceRowBytes + int64(len(body))
		var name string
		var now int64
		found, err := database.One(
			t,
			`UPDATE runs SET journal_bytes = journal_bytes + $3 WHERE tenant = $1 AND id = $2 RETURNING agent, NOW_MS`,
			[]any{n.id, run, size},
			&name,
			&now,
		)
		if err != nil {
			return err
		}
		if !found {
			return database.ForCaller(fmt.Errorf("run %s: %w", run, journal.ErrNoRun))
		}
		if n.id != Operator {
			if err := countJournal(own, name, time.UnixMilli(now), size); err != nil {
				return err
			}
		}
		_, err = own.Exec(
			`INSERT INTO run_traces (tenant, run, part, body, size) VALUES ($1, $2, $3, $4, $5)`, run, parts+1, body, bytes)
		return err
	})
}

// Traces returns one of the tenant's runs, and the sizes of its timelines without compression in
// their order. A timeline of an older version has size 0. Traces fails with [journal.ErrNoRun] if the
// tenant has no such run.
func (n *Tenant) Traces(ctx context.Context, run string) (info *journal.RunInfo, sizes []int64, err error) {
	err = n.s.db.View(ctx, func(t database.Tx) error {
		if info, err = n.ownIn(t, run); err != nil {
			return err
		}
		sizes = nil
		return scoped{t, n.id}.Query(func(scan func(...any) error) error {
			var size int64
			err := scan(&size)
			sizes = append(sizes, size)
			return err
		}, `SELECT size FROM run_traces WHERE tenant = $1 AND run = $2 ORDER BY part`, run)
	})
	return info, sizes, err
}

// Trace returns one of the timelines that Traces lists, or nil if the run was deleted.
func (n *Tenant) Trace(ctx context.Context, run string, index int) (body []byte, err error) {
	err = n.view(ctx, func(t scoped) error {
		return t.Query(func(scan func(...any) error) error {
			err := scan(&body)
			body = bytes.Clone(body)
			return err
		}, `SELECT body FROM run_traces WHERE tenant = $1 AND run = $2 AND part = $3`, run, int64(index)+1)
	})
	return body, err
}
