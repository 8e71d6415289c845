package store

import (
	"context"
	"errors"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// Replays executes the replays of all tenants. Several processes may do so at once. A process claims a replay. Once
// another process has claimed the same replay, the first process's calls for it fail with [ErrReplayLost].
type Replays interface {
	// ClaimReplay claims the replay that has waited longest, for the duration of lease. A replay
	// whose lease has expired counts as waiting. ClaimReplay skips tenants with another claimed
	// replay, and returns nil if no replay is left.
	ClaimReplay(ctx context.Context, lease time.Duration) (*Replay, error)
	// NextReplayRun renews the lease of a claimed replay and begins the replay's next run. The
	// returned run's number of attempts includes this one. NextReplayRun returns nil if no run is
	// left. If the cancellation of the replay was requested, it returns cancel and begins no run.
	NextReplayRun(ctx context.Context, r *Replay, lease time.Duration) (run *ReplayRun, cancel bool, err error)
	// FinishReplayRun stores the outcome and the details of a run that has begun.
	FinishReplayRun(ctx context.Context, r *Replay, run *ReplayRun) error
	// EndReplay ends a claimed replay with a status.
	EndReplay(ctx context.Context, r *Replay, status ReplayStatus) error
	// ReleaseReplay releases the claim of a replay, so that another process can claim it at once. run
	// is the run that has begun, or nil. It does not count as an attempt.
	ReleaseReplay(ctx context.Context, r *Replay, run *ReplayRun) error
	// DeleteOldReplays deletes replays that ended longer ago than age, and returns their number.
	DeleteOldReplays(ctx context.Context, age time.Duration) (int, error)
}

// ErrReplayLost reports that another process has claimed a replay, or that the replay has ended.
var ErrReplayLost = errors.New("another server executes the replay, or it has ended")

// ClaimReplay implements [Replays].
func (s *store) ClaimReplay(ctx context.Context, lease time.Duration) (r *Replay, err error) {
	const due = ` FROM replays WHERE ended_ms = 0 AND lease_ms <= NOW_MS`
	var waiting int64
	if err := s.db.View(ctx, func(t database.Tx) error {
		_, err := database.One(t, `SELECT count(*)`+due, nil, &waiting)
		return err
	}); err != nil || waiting == 0 {
		return nil, err
	}
	err = s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		r = nil
		var tenant, id string
		found, err := database.One(t, `SELECT tenant, id`+due+` AND tenant NOT IN
			(SELECT tenant FROM replays WHERE ended_ms = 0 AND lease_ms > NOW_MS) ORDER BY updated_ms, id LIMIT 1`,
			nil, &tenant, &id)
		if err != nil || !found {
			return err
		}
		own := scoped{t, tenant}
		n, err := own.Exec(`UPDATE replays SET status = $4, epoch = epoch + 1, lease_ms = NOW_MS + $3, updated_ms = NOW_MS
			WHERE tenant = $1 AND id = $2 AND ended_ms = 0 AND lease_ms <= NOW_MS`,
			id, lease.Milliseconds(), string(ReplayRunning))
		if err != nil || n == 0 {
			return err
		}
		r, err = replayIn(own, id)
		return err
	})
	return r, err
}

// claimed runs fn in a transaction in which the process has claimed the replay, and renews the lease.
func (s *store) claimed(ctx context.Context, r *Replay, lease time.Duration, fn func(scoped) error) error {
	return s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		own := scoped{t, r.Tenant}
		n, err := own.Exec(`UPDATE replays SET lease_ms = NOW_MS + $4, updated_ms = NOW_MS
			WHERE tenant = $1 AND id = $2 AND epoch = $3 AND ended_ms = 0`, r.ID, r.Epoch, lease.Milliseconds())
		if err != nil {
			return err
		}
		if n == 0 {
			return database.ForCaller(ErrReplayLost)
		}
		return fn(own)
	})
}

// NextReplayRun implements [Replays].
func (s *store) NextReplayRun(
	ctx context.Context,
	r *Replay,
	lease time.Duration,
) (run *ReplayRun, cancel bool, err error) {
	err = s.claimed(ctx, r, lease, func(t scoped) error {
		run = nil
		now, err := replayIn(t, r.ID)
		if err != nil {
			return err
		}
		if cancel = now.Cancel; cancel {
			return nil
		}
		if err := t.Query(func(scan func(...any) error) error {
			next, err := scanReplayRun(scan)
			run = &next
			return err
		}, `SELECT number, run, outcome, attempts, body FROM replay_runs
			WHERE tenant = $1 AND replay = $2 AND outcome = '' ORDER BY number LIMIT 1`, r.ID); err != nil || run == nil {
			return err
		}
		run.Attempts++
		_, err = t.Exec(`UPDATE replay_runs SET attempts = $4 WHERE tenant = $1 AND replay = $2 AND number = $3`,
			r.ID, run.Number, run.Attempts)
		return err
	})
	return run, cancel, err
}

// finishLease is the lease of a replay between two of its runs.
const finishLease = time.Minute

// FinishReplayRun implements [Replays].
func (s *store) FinishReplayRun(ctx context.Context, r *Replay, run *ReplayRun) error {
	return s.claimed(ctx, r, finishLease, func(t scoped) error {
		now, err := replayIn(t, r.ID)
		if err != nil {
			return err
		}
		var used int64
		if err := t.row([]any{&used}, `SELECT detail_bytes FROM replays WHERE tenant = $1 AND id = $2`, r.ID); err != nil {
			return err
		}
		body := run.Body
		if used+int64(len(body)) > maxReplayBytes || body == nil {
			body = []byte{}
		}
		n, err := t.Exec(`UPDATE replay_runs SET outcome = $4,
				body = CASE WHEN $4 = 'skipped' OR EXISTS (SELECT 1 FROM runs WHERE runs.id = replay_runs.run)
					THEN CAST($5 AS BYTES) ELSE CAST($6 AS BYTES) END
			WHERE tenant = $1 AND replay = $2 AND number = $3 AND outcome = ''`,
			r.ID, run.Number, run.Outcome, body, []byte{})
		if err != nil || n == 0 {
			return err
		}
		now.Counts[run.Outcome]++
		counts, err := marshal(now.Counts)
		if err != nil {
			return err
		}
		_, err = t.Exec(`UPDATE replays SET counts = $3, detail_bytes = detail_bytes + $4 WHERE tenant = $1 AND id = $2`,
			r.ID, counts, int64(len(body)))
		return err
	})
}

// EndReplay implements [Replays].
func (s *store) EndReplay(ctx context.Context, r *Replay, status ReplayStatus) error {
	return s.claimed(ctx, r, 0, func(t scoped) error {
		_, err := t.Exec(`UPDATE replays SET status = $3, ended_ms = NOW_MS WHERE tenant = $1 AND id = $2`,
			r.ID, string(status))
		return err
	})
}

// ReleaseReplay implements [Replays].
func (s *store) ReleaseReplay(ctx context.Context, r *Replay, run *ReplayRun) error {
	return s.claimed(ctx, r, 0, func(t scoped) error {
		if run == nil {
			return nil
		}
		_, err := t.Exec(`UPDATE replay_runs SET attempts = attempts - 1 WHERE tenant = $1 AND replay = $2 AND number = $3`,
			r.ID, run.Number)
		return err
	})
}

// DeleteOldReplays implements [Replays].
func (s *store) DeleteOldReplays(ctx context.Context, age time.Duration) (n int, err error) {
	err = database.InBatches(ctx, func() (more bool, err error) {
		err = s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
			var tenant, id string
			more, err = database.One(t, `SELECT tenant, id FROM replays WHERE ended_ms > 0 AND ended_ms <= NOW_MS - $1
				ORDER BY ended_ms LIMIT 1`, []any{age.Milliseconds()}, &tenant, &id)
			if err != nil || !more {
				return err
			}
			n++
			return deleteReplay(scoped{t, tenant}, id)
		})
		return more, err
	})
	return n, err
}
