package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// Limits on rollouts.
const (
	maxActiveRollouts = 50 // of a tenant
	maxStoredRollouts = 50 // of an agent, that have ended; the oldest are deleted
)

// A RolloutStatus is the state of a rollout.
type RolloutStatus string

// The states of a rollout. The last three are final.
const (
	RolloutRunning    RolloutStatus = "running"
	RolloutPaused     RolloutStatus = "paused" // keeps its percentage
	RolloutPromoted   RolloutStatus = "promoted"
	RolloutAborted    RolloutStatus = "aborted"
	RolloutRolledBack RolloutStatus = "rolled_back"
)

// An Arm is one of the two versions that a rollout compares.
type Arm string

// The arms of a rollout.
const (
	ArmStable Arm = "stable"
	ArmCanary Arm = "canary"
)

// A Rollout moves an alias to another version, step by step.
type Rollout struct {
	Tenant   string
	ID       string
	Agent    string
	Alias    string
	Stable   int64 // the version of the alias
	Canary   int64 // the version that the alias gets
	Status   RolloutStatus
	Plan     json.RawMessage // defined by the server
	ByThread bool            // threads, rather than runs, are assigned to an arm
	Percent  int64           // of runs or threads that get the canary
	Step     int64
	StepFrom time.Time // time at which the step began, plus the length of the pauses since then
	Paused   time.Time // zero unless the rollout is paused
	Checked  time.Time
	By       string
	Reason   string          // why the rollout has its status
	Figures  json.RawMessage // of the arms when the rollout ended; defined by the server
	Created  time.Time
	Updated  time.Time
	Ended    time.Time // zero while the rollout is active
}

// Active reports whether the rollout has not ended.
func (r *Rollout) Active() bool { return r.Ended.IsZero() }

const rolloutColumns = `tenant, id, agent, alias, stable_version, canary_version, status, plan, by_thread, percent, step, step_ms, paused_ms,
	checked_ms, started_by, reason, figures, created_ms, updated_ms, ended_ms`

func scanRollout(scan func(...any) error) (r Rollout, err error) {
	var plan, figures string
	var byThread, step, paused, checked, created, updated, ended int64
	err = scan(
		&r.Tenant,
		&r.ID,
		&r.Agent,
		&r.Alias,
		&r.Stable,
		&r.Canary,
		&r.Status,
		&plan,
		&byThread,
		&r.Percent,
		&r.Step,
		&step,
		&paused,
		&checked,
		&r.By,
		&r.Reason,
		&figures,
		&created,
		&updated,
		&ended,
	)
	r.Plan, r.Figures, r.ByThread = json.RawMessage(plan), json.RawMessage(figures), byThread != 0
	for _, f := range []struct {
		to *time.Time
		ms int64
	}{
		{&r.StepFrom, step}, {&r.Paused, paused}, {&r.Checked, checked},
		{&r.Created, created}, {&r.Updated, updated}, {&r.Ended, ended},
	} {
		if f.ms != 0 {
			*f.to = time.UnixMilli(f.ms)
		}
	}
	return r, err
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func rolloutIn(t scoped, condition string, args ...any) (r *Rollout, err error) {
	err = t.Query(func(scan func(...any) error) error {
		read, err := scanRollout(scan)
		r = &read
		return err
	}, `SELECT `+rolloutColumns+` FROM rollouts WHERE tenant = $1 AND `+condition, args...)
	return r, err
}

func noRollout(id string) error {
	return database.ForCaller(fmt.Errorf("rollout %s: %w", id, ErrNoRollout))
}

// CreateRollout starts a rollout. The caller sets ID, Agent, Alias, Canary, Plan, ByThread, Percent
// and By; CreateRollout sets the other fields. It fails with [ErrNoAgent] or [ErrNoAlias] if the
// canary or the alias does not exist, and with [ErrInUse] if the alias has an active rollout or
// already has the canary's version. It fails with a [*QuotaError] if the tenant has 50 active
// rollouts.
func (n *Tenant) CreateRollout(ctx context.Context, r *Rollout) error {
	return n.update(ctx, func(t scoped) error {
		if err := checkVersion(t, r.Agent, r.Canary); err != nil {
			return err
		}
		a, err := aliasIn(t, r.Agent, r.Alias)
		switch {
		case err != nil:
			return err
		case a == nil:
			return noAlias(r.Agent, r.Alias)
		case a.Version == r.Canary:
			return database.ForCaller(fmt.Errorf("alias %s: %w: it is version %d already", r.Alias, ErrInUse, r.Canary))
		}
		if err := checkNoRollout(t, r.Agent, r.Alias); err != nil {
			return err
		}
		if err := checkCount(t, "rollouts", maxActiveRollouts,
			`SELECT count(*) FROM rollouts WHERE tenant = $1 AND ended_ms = 0`); err != nil {
			return err
		}
		if err := deleteOldRollouts(t, r.Agent); err != nil {
			return err
		}
		byThread := int64(0)
		if r.ByThread {
			byThread = 1
		}
		if _, err := t.Exec(`INSERT INTO rollouts (`+rolloutColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, NOW_MS, 0, 0, $11, '', '', NOW_MS, NOW_MS, 0)`,
			r.ID, r.Agent, r.Alias, a.Version, r.Canary, string(RolloutRunning), string(r.Plan), byThread, r.Percent,
			r.By); err != nil {
			return err
		}
		if err := refreshAgentModules(t, r.Agent); err != nil {
			return err
		}
		stored, err := rolloutIn(t, `id = $2`, r.ID)
		if err != nil {
			return err
		}
		*r = *stored
		return t.record(ctx, "rollout.start", r.ID, rolloutDetail{
			Alias: r.Agent + "@" + r.Alias, From: r.Stable, To: r.Canary, Percent: r.Percent})
	})
}

// A rolloutDetail is the detail of an audit record of a rollout.
type rolloutDetail struct {
	Alias   string `json:"alias"` // agent@alias
	From    int64  `json:"from"`
	To      int64  `json:"to"`
	Percent int64  `json:"percent"`
	Reason  string `json:"reason,omitempty"`
}

// action returns the action that the audit log records when a rollout gets the status.
func (s RolloutStatus) action() string {
	switch s {
	case RolloutRunning:
		return "rollout.resume"
	case RolloutPaused:
		return "rollout.pause"
	case RolloutPromoted:
		return "rollout.promote"
	case RolloutRolledBack:
		return "rollout.roll_back"
	default:
		return "rollout.abort"
	}
}

// deleteOldRollouts deletes the oldest ended rollouts of an agent beyond the limit.
func deleteOldRollouts(t scoped, agent string) error {
	old, err := database.Strings(t, `SELECT id FROM rollouts WHERE tenant = $1 AND agent = $2 AND ended_ms > 0
		ORDER BY created_ms DESC, id DESC LIMIT 1000 OFFSET $3`, agent, int64(maxStoredRollouts))
	if err != nil {
		return err
	}
	for _, id := range old {
		if err := deleteRollout(t, id); err != nil {
			return err
		}
	}
	return nil
}

func deleteRollout(t scoped, id string) error {
	for _, sql := range []string{
		`DELETE FROM rollout_runs WHERE tenant = $1 AND rollout = $2`,
		`DELETE FROM rollout_threads WHERE tenant = $1 AND rollout = $2`,
		`DELETE FROM rollouts WHERE tenant = $1 AND id = $2`,
	} {
		if _, err := t.Exec(sql, id); err != nil {
			return err
		}
	}
	return nil
}

// Rollout returns one of the tenant's rollouts. It fails with [ErrNoRollout] if there is none.
func (n *Tenant) Rollout(ctx context.Context, id string) (r *Rollout, err error) {
	err = n.view(ctx, func(t scoped) error {
		if r, err = rolloutIn(t, `id = $2`, id); err == nil && r == nil {
			err = noRollout(id)
		}
		return err
	})
	return r, err
}

// ActiveRollouts returns a page of the active rollouts of all agents, the newest first, and the position of its
// last rollout if more follow. A tenant has at most 50.
func (n *Tenant) ActiveRollouts(ctx context.Context, p Page) (rollouts []Rollout, next *Position, err error) {
	created, id := p.older()
	err = n.view(ctx, func(t scoped) (err error) {
		rollouts, next, err = list(t, p, scanRollout, func(r *Rollout) Position { return Position{r.Created, r.ID} },
			`SELECT `+rolloutColumns+` FROM rollouts WHERE tenant = $1 AND ended_ms = 0 AND (created_ms, id) < ($2, $3)
			ORDER BY created_ms DESC, id DESC LIMIT $4`, created, id)
		return err
	})
	return rollouts, next, err
}

// Rollouts returns a page of the rollouts of an agent, the newest first, and the position of its last rollout
// if more follow. It fails with [ErrNoAgent] if the tenant has no such agent.
func (n *Tenant) Rollouts(ctx context.Context, agent string, p Page) (rollouts []Rollout, next *Position, err error) {
	created, id := p.older()
	err = n.view(ctx, func(t scoped) (err error) {
		if _, err := agentIn(t, agent, 0); err != nil {
			return err
		}
		rollouts, next, err = list(t, p, scanRollout, func(r *Rollout) Position { return Position{r.Created, r.ID} },
			`SELECT `+rolloutColumns+` FROM rollouts WHERE tenant = $1 AND agent = $2 AND (created_ms, id) < ($3, $4)
			ORDER BY created_ms DESC, id DESC LIMIT $5`, agent, created, id)
		return err
	})
	return rollouts, next, err
}

// UpdateRollout changes and returns a rollout. It calls change with the active rollout and a function that returns
// the newest finished runs of an arm. It then stores the fields that change may set: Status, Percent, Step, StepFrom,
// Paused, Checked, Reason and Figures. A final status ends the rollout, and RolloutPromoted also moves the alias. No
// other process changes the rollout at the same time. If the rollout has ended, UpdateRollout does not call change.
// It fails with [ErrNoRollout] if the tenant has no such rollout, and changes nothing if change fails.
func (n *Tenant) UpdateRollout(
	ctx context.Context,
	id string,
	change func(r *Rollout, runs func(arm Arm, limit int) ([]RolloutRun, error)) error,
) (r *Rollout, err error) {
	err = n.update(ctx, func(t scoped) error {
		if r, err = rolloutIn(t, `id = $2`, id); err != nil {
			return err
		}
		if r == nil {
			return noRollout(id)
		}
		if !r.Active() {
			return nil
		}
		before := r.Status
		if err := change(r, func(arm Arm, limit int) ([]RolloutRun, error) {
			return rolloutRuns(t, id, arm, limit)
		}); err != nil {
			return err
		}
		if _, err := t.Exec(`UPDATE rollouts SET status = $3, percent = $4, step = $5, step_ms = $6, paused_ms = $7, checked_ms = $8,
			reason = $9, figures = $10, updated_ms = NOW_MS WHERE tenant = $1 AND id = $2`, id, string(r.Status), r.Percent,
			r.Step, millis(r.StepFrom), millis(r.Paused), millis(r.Checked), r.Reason, string(r.Figures)); err != nil {
			return err
		}
		if final := r.Status != RolloutRunning && r.Status != RolloutPaused; final && before != r.Status {
			if err := endRollout(t, r); err != nil {
				return err
			}
		}
		if before != r.Status {
			if err := t.record(ctx, r.Status.action(), id, rolloutDetail{Alias: r.Agent + "@" + r.Alias,
				From: r.Stable, To: r.Canary, Percent: r.Percent, Reason: r.Reason}); err != nil {
				return err
			}
		}
		r, err = rolloutIn(t, `id = $2`, id)
		return err
	})
	return r, err
}

// endRollout ends a rollout that has a final status.
func endRollout(t scoped, r *Rollout) error {
	if _, err := t.Exec(`UPDATE rollouts SET ended_ms = NOW_MS WHERE tenant = $1 AND id = $2`, r.ID); err != nil {
		return err
	}
	if _, err := t.Exec(`DELETE FROM rollout_threads WHERE tenant = $1 AND rollout = $2`, r.ID); err != nil {
		return err
	}
	if r.Status == RolloutPromoted {
		a, err := aliasIn(t, r.Agent, r.Alias)
		if err != nil {
			return err
		}
		return moveAlias(t, r.Agent, r.Alias, a, r.Canary, AliasChange{By: "rollout " + r.ID, Reason: r.Reason})
	}
	return refreshAgentModules(t, r.Agent)
}

// assign returns the version that an active rollout of an alias gives to a run, with the rollout and the arm. It
// returns 0 if the alias has no active rollout. A thread of [Tenant.KeepThread] gets the stable version. Otherwise
// the assignment depends only on the rollout's id and percentage, and on the run or its thread, so that all servers
// make the same assignment.
func assign(t scoped, ref *AgentRef, alias string) (version int64, id string, arm Arm, err error) {
	r, err := rolloutIn(t, `agent = $2 AND alias = $3 AND ended_ms = 0`, ref.Name, alias)
	if err != nil || r == nil {
		return 0, "", "", err
	}
	key := ref.Run
	if r.ByThread && ref.Thread != "" {
		key = ref.Thread
		var kept int64
		if err := t.row([]any{&kept},
			`SELECT count(*) FROM rollout_threads WHERE tenant = $1 AND rollout = $2 AND thread = $3`,
			r.ID, threadKey(key)); err != nil {
			return 0, "", "", err
		}
		if kept > 0 {
			return r.Stable, r.ID, ArmStable, nil
		}
	}
	if InCanary(r.ID, key, r.Percent) {
		return r.Canary, r.ID, ArmCanary, nil
	}
	return r.Stable, r.ID, ArmStable, nil
}

// InCanary reports whether a run or a thread, whose id is key, gets the canary of a rollout. If it
// gets the canary at some percentage, it also gets the canary at any larger percentage.
func InCanary(rollout, key string, percent int64) bool {
	sum := sha256.Sum256([]byte(rollout + "\x00" + key))
	share := float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53) // uniform in [0, 1)
	return share*100 < float64(percent)
}

func threadKey(thread string) string {
	sum := sha256.Sum256([]byte(thread))
	return hex.EncodeToString(sum[:16])
}

// KeepThread lets a thread that got the stable version of a rollout keep this version.
func (n *Tenant) KeepThread(ctx context.Context, rollout, thread string) error {
	return n.s.db.Update(ctx, database.TxOptions{Lazy: true}, func(t database.Tx) error {
		_, err := scoped{t, n.id}.Exec(`INSERT INTO rollout_threads (tenant, rollout, thread) VALUES ($1, $2, $3)
			ON CONFLICT (tenant, rollout, thread) DO NOTHING`, rollout, threadKey(thread))
		return err
	})
}
