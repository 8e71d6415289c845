package store

import (
	"bytes"
	"context"
	"encoding/json"
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
