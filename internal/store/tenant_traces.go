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
	maxTraceParts = 100 // timelines stored of one run
	traceRowBytes = 128 // counted for each timeline in addition to its bytes
)

// AddTrace stores another timeline of one of the tenant's runs. The caller chooses the
// format. Timelines after the first 100 are ignored. It fails with [journal.ErrNoRun] if the
// tenant has no such run.
func (n *Tenant) AddTrace(ctx context.Context, run string, body []byte) error {
	return n.s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		own := scoped{t, n.id}
		var parts int64
		if err := own.row([]any{&parts},
			`SELECT count(*) FROM run_traces WHERE tenant = $1 AND run = $2`, run); err != nil || parts >= maxTraceParts {
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
		_, err = own.Exec(`INSERT INTO run_traces (tenant, run, part, body) VALUES ($1, $2, $3, $4)`, run, parts+1, body)
		return err
	})
}

// Traces returns the timelines of one of the tenant's runs. It fails with [journal.ErrNoRun] if
// the tenant has no such run.
func (n *Tenant) Traces(ctx context.Context, run string) (out [][]byte, err error) {
	if _, err := n.own(ctx, run); err != nil {
		return nil, err
	}
	err = n.view(ctx, func(t scoped) error {
		return t.Query(func(scan func(...any) error) error {
			var body []byte
			err := scan(&body)
			out = append(out, bytes.Clone(body))
			return err
		}, `SELECT body FROM run_traces WHERE tenant = $1 AND run = $2 ORDER BY part`, run)
	})
	return out, err
}
