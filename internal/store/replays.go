package store

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// Limits on the replays of a tenant.
const (
	maxOpenReplays   = 10 // that have not ended
	maxStoredReplays = 20 // that have ended; the oldest are deleted
	// maxReplayBytes limits the stored details of one replay's runs. Later runs have an outcome without
	// details.
	maxReplayBytes = 4 << 20
)

// A ReplayStatus is the state of a replay.
type ReplayStatus string

// The states of a replay.
const (
	ReplayQueued   ReplayStatus = "queued"
	ReplayRunning  ReplayStatus = "running"
	ReplayFinished ReplayStatus = "finished"
	ReplayCanceled ReplayStatus = "canceled"
)

// A Replay is a job that replays stored runs of an agent with a candidate.
type Replay struct {
	Tenant    string
	ID        string
	Agent     string
	Status    ReplayStatus
	Candidate json.RawMessage  // defined by the server
	Counts    map[string]int64 // number of replayed runs by outcome
	Total     int64            // number of runs
	Cancel    bool             // cancellation was requested
	Epoch     int64
	By        string
	Created   time.Time
	Updated   time.Time
	Ended     time.Time // zero until the replay has ended
}

// A ReplayRun is a run of a replay.
type ReplayRun struct {
	Number   int64 // starts at 1
	Run      string
	Outcome  string // empty until the run is replayed
	Attempts int64  // number of times that a replay of the run has begun
	Body     []byte // the details; empty if there are none
}

const replayColumns = `tenant, id, agent, status, candidate, counts, total, cancel, epoch, started_by, created_ms, updated_ms, ended_ms`

func scanReplay(scan func(...any) error) (r Replay, err error) {
	var candidate, counts string
	var cancel, created, updated, ended int64
	if err := scan(&r.Tenant, &r.ID, &r.Agent, &r.Status, &candidate, &counts, &r.Total, &cancel, &r.Epoch, &r.By,
		&created, &updated, &ended); err != nil {
		return r, err
	}
	r.Candidate, r.Cancel = json.RawMessage(candidate), cancel != 0
	r.Created, r.Updated = time.UnixMilli(created), time.UnixMilli(updated)
	if ended != 0 {
		r.Ended = time.UnixMilli(ended)
	}
	if err := json.Unmarshal([]byte(counts), &r.Counts); err != nil {
		return r, database.Corruptf("replay %s: %w", r.ID, err)
	}
	return r, nil
}

func replayIn(t scoped, id string) (r *Replay, err error) {
	err = t.Query(func(scan func(...any) error) error {
		read, err := scanReplay(scan)
		r = &read
		return err
	}, `SELECT `+replayColumns+` FROM replays WHERE tenant = $1 AND id = $2`, id)
	if err == nil && r == nil {
		err = database.ForCaller(fmt.Errorf("replay %s: %w", id, ErrNoReplay))
	}
	return r, err
}

// CreateReplay stores a queued replay of runs. It uses the ID, Agent, Candidate and By of r, and sets
// the other fields. It fails with a [*QuotaError] if 10 replays of the tenant have not ended. It
// deletes the oldest ended replays beyond 20.
func (n *Tenant) CreateReplay(ctx context.Context, r *Replay, runs []string) error {
	return n.update(ctx, func(t scoped) error {
		if err := checkCount(t, "replays", maxOpenReplays,
			`SELECT count(*) FROM replays WHERE tenant = $1 AND ended_ms = 0`); err != nil {
			return err
		}
		old, err := database.Strings(t, `SELECT id FROM replays WHERE tenant = $1 AND ended_ms > 0
			ORDER BY ended_ms DESC, id LIMIT 1000 OFFSET $2`, int64(maxStoredReplays))
		if err != nil {
			return err
		}
		for _, id := range old {
			if err := deleteReplay(t, id); err != nil {
				return err
			}
		}
		if _, err := t.Exec(
			`INSERT INTO replays (`+replayColumns+`, detail_bytes, lease_ms)
			VALUES ($1, $2, $3, $4, $5, '{}', $6, 0, 0, $7, NOW_MS, NOW_MS, 0, 0, 0)`,
			r.ID, r.Agent, string(ReplayQueued), string(r.Candidate), int64(len(runs)), r.By); err != nil {
			return err
		}
		for i, run := range runs {
			if _, err := t.Exec(
				`INSERT INTO replay_runs (tenant, replay, number, run, outcome, attempts, body) VALUES ($1, $2, $3, $4, '', 0, $5)`,
				r.ID, int64(i)+1, run, []byte{}); err != nil {
				return err
			}
		}
		stored, err := replayIn(t, r.ID)
		if err != nil {
			return err
		}
		*r = *stored
		return t.record(ctx, "replay.start", r.ID, map[string]any{
			"agent": r.Agent, "candidate": r.Candidate, "runs": len(runs)})
	})
}

func deleteReplay(t scoped, id string) error {
	for _, sql := range []string{
		`DELETE FROM replay_runs WHERE tenant = $1 AND replay = $2`, `DELETE FROM replays WHERE tenant = $1 AND id = $2`,
	} {
		if _, err := t.Exec(sql, id); err != nil {
			return err
		}
	}
	return nil
}

// Replay returns one of the tenant's replays. It fails with [ErrNoReplay] if there is none.
func (n *Tenant) Replay(ctx context.Context, id string) (r *Replay, err error) {
	err = n.view(ctx, func(t scoped) error {
		r, err = replayIn(t, id)
		return err
	})
	return r, err
}

// Replays returns a page of the replays of an agent, or of all agents if agent is empty, the newest first, and
// the position of its last replay if more follow. It fails with [ErrNoAgent] if the tenant has no such agent.
func (n *Tenant) Replays(ctx context.Context, agent string, p Page) (replays []Replay, next *Position, err error) {
	created, id := p.older()
	err = n.view(ctx, func(t scoped) (err error) {
		if agent != "" {
			if _, err := agentIn(t, agent, 0); err != nil {
				return err
			}
		}
		replays, next, err = list(t, p, scanReplay, func(r *Replay) Position { return Position{r.Created, r.ID} },
			`SELECT `+replayColumns+` FROM replays WHERE tenant = $1 AND ($2 = '' OR agent = $2) AND (created_ms, id) < ($3, $4)
			ORDER BY created_ms DESC, id DESC LIMIT $5`, agent, created, id)
		return err
	})
	return replays, next, err
}

// ReplayRuns returns a page of the replayed runs of a replay in their order, and the position of its last run if more
// follow. If outcome is not empty, it selects the runs with that outcome. It fails with [ErrNoReplay] if the tenant
// has no such replay.
func (n *Tenant) ReplayRuns(
	ctx context.Context,
	id, outcome string,
	p Page,
) (runs []ReplayRun, next *Position, err error) {
	after, _ := strconv.ParseInt(p.name(), 10, 64)
	err = n.view(ctx, func(t scoped) (err error) {
		if _, err := replayIn(t, id); err != nil {
			return err
		}
		runs, next, err = list(t, p, scanReplayRun,
			func(r *ReplayRun) Position { return Position{Name: strconv.FormatInt(r.Number, 10)} },
			`SELECT number, run, outcome, attempts, body FROM replay_runs WHERE tenant = $1 AND replay = $2 AND number > $3
			AND outcome <> '' AND ($4 = '' OR outcome = $4) ORDER BY number LIMIT $5`, id, after, outcome)
		return err
	})
	return runs, next, err
}

func scanReplayRun(scan func(...any) error) (r ReplayRun, err error) {
	err = scan(&r.Number, &r.Run, &r.Outcome, &r.Attempts, &r.Body)
	r.Body = bytes.Clone(r.Body)
	return r, err
}

// CancelReplay requests the cancellation of a replay, and returns the replay. A replay that no server executes is
// canceled at once. CancelReplay does nothing if the replay has ended, and fails with [ErrNoReplay] if the tenant has
// no such replay.
func (n *Tenant) CancelReplay(ctx context.Context, id string) (r *Replay, err error) {
	err = n.update(ctx, func(t scoped) error {
		if r, err = replayIn(t, id); err != nil || !r.Ended.IsZero() {
			return err
		}
		if err := t.record(ctx, "replay.cancel", id, nil); err != nil {
			return err
		}
		if _, err := t.Exec(`UPDATE replays SET cancel = 1 WHERE tenant = $1 AND id = $2 AND ended_ms = 0`, id); err != nil {
			return err
		}
		if _, err := t.Exec(`UPDATE replays SET status = $3, epoch = epoch + 1, updated_ms = NOW_MS, ended_ms = NOW_MS
			WHERE tenant = $1 AND id = $2 AND ended_ms = 0 AND lease_ms <= NOW_MS`, id, string(ReplayCanceled)); err != nil {
			return err
		}
		r, err = replayIn(t, id)
		return err
	})
	return r, err
}

// DeleteReplay deletes a replay with its results. It fails with [ErrNoReplay] if there is none, and with
// [ErrInUse] if the replay has not ended.
func (n *Tenant) DeleteReplay(ctx context.Context, id string) error {
	return n.update(ctx, func(t scoped) error {
		r, err := replayIn(t, id)
		if err != nil {
			return err
		}
		if r.Ended.IsZero() {
			return database.ForCaller(fmt.Errorf("replay %s: %w: cancel it first", id, ErrInUse))
		}
		if err := deleteReplay(t, id); err != nil {
			return err
		}
		return t.record(ctx, "replay.delete", id, nil)
	})
}

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
