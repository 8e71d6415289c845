package store

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

// Create implements [journal.Journal].
func (s *store) Create(ctx context.Context, r *journal.Creation) error {
	insert, err := runInsertion(r)
	if err != nil {
		return err
	}
	return s.blobs.Write(ctx, blob.Options{}, func(log []*blob.Body) error {
		return s.db.Update(ctx, database.TxOptions{Lazy: r.Lazy}, func(t database.Tx) error {
			if err := insert(t, log[0], threadPlace{}); err != nil {
				return err
			}
			return endAdmission(t, r.Tenant, r.ID)
		})
	}, r.Log)
}

// runInsertion returns a function that inserts a new run with the first entry of its log, and
// counts the run's first bytes for its tenant. place is the run's place in a thread. The function
// fails with [journal.ErrExists] if the run exists.
func runInsertion(r *journal.Creation) (func(database.Tx, *blob.Body, threadPlace) error, error) {
	usage, err := marshal(abi.Usage{})
	if err != nil {
		return nil, err
	}
	modules, err := marshal(r.Modules)
	if err != nil {
		return nil, err
	}
	version := specVersion(r.Spec)
	list := terms.OfRun(r, version)
	column, err := terms.Encode(list)
	if err != nil {
		return nil, err
	}
	size := r.Bytes()
	counted := int64(0)
	if r.Tenant != Operator {
		counted = dueBytes(journal.StatusRunning, size)
	}
	return func(t database.Tx, log *blob.Body, place threadPlace) error {
		k := terms.Key{Tenant: r.Tenant, Run: r.ID}
		created, err := database.One(
			t,
			`INSERT INTO runs (`+runColumns+`, thread_seq, base, journal_due, terms)
			VALUES ($1, $2, $3, $4, $5, $6, '', 0, $7, 0, '', 1, $8, NOW_MS + $9, 0,
				COALESCE(NULLIF(CAST($20 AS BIGINT), 0), NOW_MS), NOW_MS, 1, 0,
				$10, $11, '', $12, $13, $14, 0, 0, '', '', 0, 0, $17, $21, $22, $18, $19, $15, $16)
			ON CONFLICT (id) DO NOTHING RETURNING created_ms`,
			[]any{
				r.ID,
				r.Tenant,
				r.Agent,
				r.Parent,
				r.Title,
				string(cmp.Or(place.status, journal.StatusRunning)),
				usage,
				r.Owner,
				r.LeaseTTL.Milliseconds(),
				modules,
				[]byte(r.Spec),
				size,
				version,
				string(r.Metadata),
				size - counted,
				column,
				place.thread,
				place.seq,
				place.base,
				place.began,
				cmp.Or(place.subject, r.Subject),
				r.Token,
			},
			&k.CreatedMS,
		)
		if err != nil {
			return err
		}
		if !created {
			return database.ForCaller(fmt.Errorf("run %s: %w", r.ID, journal.ErrExists))
		}
		if err := k.Insert(t, list); err != nil {
			return err
		}
		if counted > 0 {
			now, err := nowIn(t)
			if err != nil {
				return err
			}
			if err := countJournal(scoped{t, r.Tenant}, r.Agent, now, counted); err != nil {
				return err
			}
		}
		return insertLog(t, r.ID, 1, log)
	}, nil
}

// specVersion returns the version of the agent in the spec of a run, or 0 if it has none.
func specVersion(spec json.RawMessage) int64 {
	var s struct {
		Version int64 `json:"version"`
	}
	if json.Unmarshal(spec, &s) != nil {
		return 0
	}
	return max(0, s.Version)
}

// nowIn returns the time by the database's clock.
func nowIn(t database.Tx) (time.Time, error) {
	var ms int64
	_, err := database.One(t, `SELECT NOW_MS`, nil, &ms)
	return time.UnixMilli(ms), err
}

func insertLog(t database.Tx, run string, entry int64, b *blob.Body) error {
	if err := b.Adopt(t); err != nil {
		return err
	}
	_, err := t.Exec(`INSERT INTO run_log (run, entry, body, pieces) VALUES ($1, $2, $3, $4)`,
		run, entry, b.InRow, b.Pieces)
	return err
}

// endAdmission deletes the admission of a run that is now in the journal.
func endAdmission(t database.Tx, tenant, run string) error {
	if tenant == Operator {
		return nil
	}
	_, err := t.Exec(`DELETE FROM run_places WHERE run = $1`, run)
	return err
}

// Load implements [journal.Journal].
func (s *store) Load(ctx context.Context, id string) (*journal.StoredRun, error) {
	return s.load(ctx, run, id)
}

// load looks up a run with find, and returns the run with its log.
func (s *store) load(
	ctx context.Context,
	find func(database.Tx, string) (*journal.RunInfo, error),
	id string,
) (stored *journal.StoredRun, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		info, err := find(t, id)
		if err != nil {
			return err
		}
		stored, err = withLog(t, info)
		return err
	})
	return stored, err
}

// withLog reads the log of a run, up to its last entry according to info. For a run in a thread, it prepends the line
// with the thread's messages to the first entry; see [journal.BaseLine].
func withLog(t database.Tx, info *journal.RunInfo) (*journal.StoredRun, error) {
	var log []blob.Body
	err := t.Query(func(scan func(...any) error) error {
		var n int64
		var b blob.Body
		if err := scan(&n, &b.InRow, &b.Pieces); err != nil {
			return err
		}
		if n != int64(len(log))+1 {
			return database.Corruptf("the log of run %s has entry %d after entry %d", info.ID, n, len(log))
		}
		b.InRow = bytes.Clone(b.InRow)
		log = append(log, b)
		return nil
	}, `SELECT entry, body, pieces FROM run_log WHERE run = $1 AND entry <= $2 ORDER BY entry`, info.ID, info.Entries)
	if err == nil && int64(len(log)) != info.Entries {
		err = database.Corruptf("the log of run %s has %d of %d entries", info.ID, len(log), info.Entries)
	}
	if err != nil {
		return nil, err
	}
	stored := &journal.StoredRun{RunInfo: *info, Log: make([][]byte, len(log))}
	for i := range log {
		if stored.Log[i], err = log[i].Read(t); err != nil {
			return nil, err
		}
	}
	if info.Thread != "" && len(log) > 0 {
		base, err := baseLine(t, info)
		if err != nil {
			return nil, err
		}
		stored.Log[0] = append(base, stored.Log[0]...)
	}
	return stored, nil
}

// Claim implements [journal.Journal]. It reads the log after the transaction of the claim, so
// that no writer waits for a long log.
func (s *store) Claim(ctx context.Context, c *journal.Claim) (stored *journal.StoredRun, err error) {
	var info *journal.RunInfo
	err = s.db.Update(ctx, database.TxOptions{}, func(t database.Tx) error {
		steal := int64(0)
		if c.Steal {
			steal = 1
		}
		n, err := t.Exec(
			`UPDATE runs SET epoch = `+nextEpoch+`, owner = $3, lease_ms = NOW_MS + $4, updated_ms = NOW_MS, cancel = 0, status = $5
			WHERE id = $1 AND epoch = $2 AND status <> $6 AND status <> 'queued'
			AND (status <> $5 OR lease_ms <= NOW_MS OR CAST($7 AS BIGINT) = 1)`,
			c.Run,
			c.Epoch,
			c.Owner,
			c.LeaseTTL.Milliseconds(),
			string(journal.StatusRunning),
			string(journal.StatusFinished),
			steal,
		)
		if err != nil {
			return err
		}
		if n == 0 {
			return claimError(t, c)
		}
		if info, err = run(t, c.Run); err != nil {
			return err
		}
		return endAdmission(t, info.Tenant, c.Run)
	})
	if err != nil {
		return nil, err
	}
	// the claim is committed, even if ctx is done
	err = s.db.View(context.WithoutCancel(ctx), func(t database.Tx) error {
		if _, err := run(t, c.Run); err != nil { // a claim with no lease does not prevent a deletion
			return err
		}
		stored, err = withLog(t, info)
		return err
	})
	return stored, err
}

// nextEpoch is the SQL expression for the epoch of a new claim: the time in milliseconds, or the
// next number if the epoch is not less. Epochs that counted claims would repeat after the database
// was restored from a backup: a server that survived the restore, and had claimed a run after the
// backup, could then write under the epoch of the server that claimed the restored run.
const nextEpoch = `CASE WHEN epoch < NOW_MS THEN NOW_MS ELSE epoch + 1 END`

// claimError returns the reason why a claim changed nothing.
func claimError(t database.Tx, c *journal.Claim) error {
	r, err := run(t, c.Run)
	switch {
	case err != nil:
		return err
	case r.Status == journal.StatusFinished:
		return database.ForCaller(fmt.Errorf("run %s: %w: %s", c.Run, journal.ErrFinished, r.FinishReason))
	}
	return database.ForCaller(
		fmt.Errorf("run %s: %w: %s, until at least %v after its last heartbeat", c.Run, journal.ErrBusy, r.Owner, c.LeaseTTL),
	)
}

const renewLease = `UPDATE runs SET lease_ms = NOW_MS + $3 WHERE id = $1 AND epoch = $2 AND status = 'running'`

// Renew implements [journal.Journal].
func (s *store) Renew(ctx context.Context, id string, epoch int64, lease time.Duration) (cancel bool, err error) {
	err = s.db.Update(ctx, database.TxOptions{Priority: true, Lazy: true}, func(t database.Tx) error {
		n, err := t.Exec(renewLease, id, epoch, lease.Milliseconds())
		if err != nil {
			return err
		}
		r, err := run(t, id)
		switch {
		case err != nil:
			return err
		case n == 0 && r.Epoch != epoch:
			return database.ForCaller(fmt.Errorf("run %s: %w: %s", id, journal.ErrFenced, r.Owner))
		}
		cancel = r.Cancel
		return nil
	})
	return cancel, err
}
