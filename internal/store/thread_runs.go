package store

import (
	"bytes"
	"cmp"
	"context"
	"time"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/blob"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/terms"
)

func (q *TenantQuota) threads() int64        { return cmp.Or(q.Threads, DefaultThreads) }
func (q *TenantQuota) threadMessages() int64 { return cmp.Or(q.ThreadMessages, DefaultThreadMessages) }
func (q *TenantQuota) queuedRuns() int64     { return cmp.Or(q.QueuedRuns, DefaultQueuedRuns) }
func (q *TenantQuota) threadBytes() int64    { return cmp.Or(q.ThreadBytes, DefaultThreadBytes) }

// A threadPlace is the place of a run in a thread. The zero value is for runs without a thread.
type threadPlace struct {
	thread string
	seq    int64          // number of the run in its thread, from 1
	base   int64          // number of the thread's messages with which the run begins
	status journal.Status // the run's status; running if it is empty
	// subject is the end user of the thread.
	subject string
	began   int64 // time of the run's creation, in milliseconds since 1970; now if it is 0
}

// beginInThread checks that a run may begin in its thread now, and returns its place. It fails with
// [journal.ErrNoThread], [journal.ErrThreadChanged], a [*journal.ThreadBusyError], or a [*QuotaError]
// if the thread is too long. The caller holds the lock of the tenant's row, so that no other run
// begins at the same time.
func beginInThread(t scoped, r *journal.Creation) (threadPlace, error) {
	if r.Thread == nil {
		return threadPlace{}, nil
	}
	h, err := threadIn(t, r.Thread.Thread)
	if err != nil {
		return threadPlace{}, err
	}
	if err := cmp.Or(checkSubject(r, h), checkTurn(t, h, r.ID)); err != nil {
		return threadPlace{}, err
	}
	if h.Version != r.Thread.Version || int64(r.Thread.Messages) > h.Messages {
		return threadPlace{}, database.ForCaller(journal.ErrThreadChanged)
	}
	if err := checkLength(t, h, int64(len(r.Log))); err != nil {
		return threadPlace{}, err
	}
	p := threadPlace{thread: h.ID, subject: h.Subject, base: int64(r.Thread.Messages)}
	if err := dequeue(t, r.ID, &p); err != nil || p.seq != 0 {
		return p, err
	}
	if err := t.row([]any{&p.seq}, `UPDATE threads SET runs = runs + 1, updated_ms = NOW_MS
		WHERE tenant = $1 AND id = $2 RETURNING runs`, h.ID); err != nil {
		return threadPlace{}, err
	}
	_, err = t.Exec(`UPDATE threads SET title = $3 WHERE tenant = $1 AND id = $2 AND titled = 0 AND messages = 0`,
		h.ID, withoutControls(r.Title))
	return p, err
}

// checkSubject fails with [journal.ErrNoThread] if a token started the run and the thread belongs to
// another end user.
func checkSubject(r *journal.Creation, h *Thread) error {
	if r.Token == "" || r.Subject == h.Subject {
		return nil
	}
	return noThread(h.ID)
}

// checkTurn fails with a [*journal.ThreadBusyError] if a thread has an unfinished run other than run, or if another
// run is ahead of run in the queue.
func checkTurn(t scoped, h *Thread, run string) error {
	if h.Run == run {
		return nil // the run exists already; its insertion reports this
	}
	if h.Run != "" {
		var status string
		if err := t.row([]any{&status}, `SELECT status FROM runs WHERE tenant = $1 AND id = $2`, h.Run); err != nil {
			return err
		}
		return database.ForCaller(&journal.ThreadBusyError{Thread: h.ID, Run: h.Run, Status: journal.Status(status)})
	}
	var ahead string
	if err := t.row([]any{&ahead}, `SELECT id FROM runs WHERE tenant = $1 AND thread = $2 AND status = 'queued'
		ORDER BY thread_seq LIMIT 1`, h.ID); err != nil {
		return err
	}
	if ahead != "" && ahead != run {
		return database.ForCaller(&journal.ThreadBusyError{Thread: h.ID, Run: ahead, Status: journal.StatusQueued})
	}
	return nil
}

// checkLength fails with a [*QuotaError] if a thread with more bytes of input would be too long.
func checkLength(t scoped, h *Thread, more int64) error {
	if t.tenant == Operator {
		return nil
	}
	info, err := tenantIn(t.tx, t.tenant)
	if err != nil {
		return err
	}
	return cmp.Or(
		checkQuota("thread_messages", info.Quota.threadMessages(), h.Messages, 1, 0),
		checkQuota("thread_bytes", info.Quota.threadBytes(), h.Bytes, more, 0),
	)
}

// dequeue deletes the row of a queued run that begins, and sets the number and the time of the run. It
// does nothing if the run is not in a queue.
func dequeue(t scoped, run string, p *threadPlace) error {
	k := terms.Key{Run: run}
	var size int64
	var column string
	if err := t.row([]any{&p.seq, &p.began}, `SELECT thread_seq, created_ms FROM runs
		WHERE tenant = $1 AND id = $2 AND status = 'queued'`, run); err != nil || p.seq == 0 {
		return err
	}
	if _, err := database.One(t.tx, `DELETE FROM runs WHERE id = $1`+returningSize, []any{run},
		&k.Tenant, &size, &k.CreatedMS, &column); err != nil {
		return err
	}
	if _, err := deleteRunRows(t.tx, &k, column); err != nil { // pieces are deleted by a later sweep
		return err
	}
	freed := freedBytes{}
	freed.add(k.Tenant, size)
	return freed.subtract(t.tx)
}

// maxUnusedThreads limits the threads without a run among the newest threads of an end user.
const maxUnusedThreads = 100

// CheckUnusedThreads fails with a [*QuotaError] if the newest 100 threads of an end user have no runs. Runs have
// quotas, but an end user could create threads without runs until the tenant cannot have more threads.
func (n *Tenant) CheckUnusedThreads(ctx context.Context, subject string) error {
	return n.view(ctx, func(t scoped) error {
		var unused int64
		if err := t.row([]any{&unused}, `SELECT count(*) FROM (SELECT runs FROM threads WHERE tenant = $1 AND subject = $2
			AND version >= 0 ORDER BY created_ms DESC, id DESC LIMIT $3) AS newest WHERE runs = 0`,
			subject, int64(maxUnusedThreads)); err != nil || unused < maxUnusedThreads {
			return err
		}
		return database.ForCaller(&QuotaError{Quota: "unused_threads", Limit: maxUnusedThreads, Used: unused,
			Advice: "use a thread that has no run yet"})
	})
}

// maxQueuedRuns limits the queued runs of all threads of a tenant.
const maxQueuedRuns = 1000

// maxEndUserQueuedRuns limits the queued runs that the tokens of one end user started, so that an end user cannot
// fill the queues of the tenant. Runs that the tenant itself queues in the end user's threads do not count.
const maxEndUserQueuedRuns = 32

// EnqueueRun adds a run to the queue of its thread. r.Log is the data that the caller needs to start the run; see
// [Tenant.QueuedRun]. EnqueueRun fails with [journal.ErrNoThread], [journal.ErrExists], [ErrNoToken], or a
// [*QuotaError] if the queue is full or the token's quotas do not allow the run.
func (n *Tenant) EnqueueRun(ctx context.Context, r *journal.Creation) error {
	own := *r
	own.Tenant, own.LeaseTTL, own.Owner = n.id, 0, ""
	insert, err := runInsertion(&own)
	if err != nil {
		return err
	}
	return n.s.blobs.Write(ctx, blob.Options{}, func(log []*blob.Body) error {
		return n.update(ctx, func(t scoped) error {
			h, err := threadIn(t, r.Thread.Thread)
			if err != nil {
				return err
			}
			info, err := tenantIn(t.tx, n.id)
			if err != nil {
				return err
			}
			if err := checkCount(t, "queued_runs", info.Quota.queuedRuns(),
				`SELECT count(*) FROM runs WHERE tenant = $1 AND thread = $2 AND status = 'queued'`, h.ID); err != nil {
				return err
			}
			if err := checkCount(t, "queued_runs", maxQueuedRuns,
				`SELECT count(*) FROM runs WHERE tenant = $1 AND status = 'queued'`); err != nil {
				return err
			}
			if r.Token != "" {
				if err := checkCount(t, "queued_runs", maxEndUserQueuedRuns,
					`SELECT count(*) FROM runs WHERE tenant = $1 AND status = 'queued' AND subject = $2 AND token <> ''`, r.Subject); err != nil {
					return err
				}
			}
			p := threadPlace{thread: h.ID, subject: h.Subject, status: journal.StatusQueued}
			if err := t.row([]any{&p.seq}, `UPDATE threads SET runs = runs + 1, updated_ms = NOW_MS
				WHERE tenant = $1 AND id = $2 RETURNING runs`, h.ID); err != nil {
				return err
			}
			if err := checkSubject(r, h); err != nil {
				return err
			}
			if err := insert(t.tx, log[0], p); err != nil {
				return err
			}
			return startWithToken(t, r.Token)
		})
	}, r.Log)
}

// QueuedRun returns the Log with which EnqueueRun added a run to a queue. It fails with
// [journal.ErrNoRun] if the run is not in a queue.
func (n *Tenant) QueuedRun(ctx context.Context, id string) (log []byte, err error) {
	err = n.s.db.View(ctx, func(t database.Tx) error {
		info, err := n.ownIn(t, id)
		if err != nil {
			return err
		}
		if info.Status != journal.StatusQueued {
			return database.ForCaller(noRun(id))
		}
		var body blob.Body
		if _, err := database.One(t, `SELECT body, pieces FROM run_log WHERE run = $1 AND entry = 1`,
			[]any{id}, &body.InRow, &body.Pieces); err != nil {
			return err
		}
		body.InRow = bytes.Clone(body.InRow)
		log, err = body.Read(t)
		return err
	})
	return log, err
}

// ClaimQueued reserves a queued run for owner, which is about to start it, for the time ttl. It
// reports whether no other process has reserved the run.
func (n *Tenant) ClaimQueued(ctx context.Context, id, owner string, ttl time.Duration) (claimed bool, err error) {
	err = n.s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		changed, err := scoped{t, n.id}.Exec(`UPDATE runs SET owner = $3, lease_ms = NOW_MS + $4
			WHERE tenant = $1 AND id = $2 AND status = 'queued' AND lease_ms <= NOW_MS`, id, owner, ttl.Milliseconds())
		claimed = changed == 1
		return err
	})
	return claimed, err
}

// QueuedBefore returns the unfinished runs of a thread that are ahead of a queued run: the one that is
// in progress, paused or quarantined, if there is one, and then the queue.
func (n *Tenant) QueuedBefore(ctx context.Context, thread, run string) (out []journal.RunInfo, err error) {
	err = n.view(ctx, func(t scoped) error {
		out = nil
		return t.Query(func(scan func(...any) error) error {
			info, err := scanRun(scan)
			if err == nil {
				out = append(out, *info)
			}
			return err
		}, `SELECT `+runColumns+` FROM runs WHERE tenant = $1 AND thread = $2 AND thread <> '' AND status <> 'finished'
			AND thread_seq < (SELECT thread_seq FROM runs WHERE id = $3) ORDER BY thread_seq`, thread, run)
	})
	return out, err
}

// StartableRuns implements [Platform].
func (s *store) StartableRuns(ctx context.Context, limit int) (out []journal.RunInfo, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		out = nil
		return t.Query(func(scan func(...any) error) error {
			info, err := scanRun(scan)
			if err == nil {
				out = append(out, *info)
			}
			return err
		}, `SELECT `+runColumns+` FROM runs WHERE status = 'queued' AND lease_ms <= NOW_MS
			AND thread_seq = (SELECT min(ahead.thread_seq) FROM runs ahead WHERE ahead.tenant = runs.tenant
				AND ahead.thread = runs.thread AND ahead.status = 'queued')
			AND NOT EXISTS (SELECT 1 FROM runs busy WHERE busy.tenant = runs.tenant AND busy.thread = runs.thread
				AND busy.thread <> '' AND busy.status IN ('running', 'paused', 'quarantined'))
			ORDER BY created_ms LIMIT $1`, int64(limit))
	})
	return out, err
}
