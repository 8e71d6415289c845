package store

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A RolloutRun is a finished run of a rollout. Canceled runs are not among them.
type RolloutRun struct {
	Finished         time.Time
	Run              string
	Faults           int64
	Denials          int64
	Failed           bool // it ended with an error
	Active           time.Duration
	PromptTokens     int64
	CompletionTokens int64
	CostNano         int64 // billionths of the currency; 0 if the models have no prices
}

// rolloutRuns returns the newest runs of an arm, at most limit.
func rolloutRuns(t scoped, rollout string, arm Arm, limit int) (runs []RolloutRun, err error) {
	err = t.Query(func(scan func(...any) error) error {
		var r RolloutRun
		var finished, failed, active int64
		err := scan(
			&finished,
			&r.Run,
			&r.Faults,
			&r.Denials,
			&failed,
			&active,
			&r.PromptTokens,
			&r.CompletionTokens,
			&r.CostNano,
		)
		r.Finished, r.Failed, r.Active = time.UnixMilli(finished), failed != 0, time.Duration(active)*time.Millisecond
		runs = append(runs, r)
		return err
	}, `SELECT finished_ms, run, faults, denials, failed, active_ms, prompt_tokens, completion_tokens, cost_nano
		FROM rollout_runs
		WHERE tenant = $1 AND rollout = $2 AND arm = $3 ORDER BY finished_ms DESC, run DESC LIMIT $4`,
		rollout, string(arm), int64(limit))
	return runs, err
}

// RolloutRuns returns the newest finished runs of an arm of one of the tenant's rollouts, at most limit.
func (n *Tenant) RolloutRuns(ctx context.Context, rollout string, arm Arm, limit int) (runs []RolloutRun, err error) {
	err = n.view(ctx, func(t scoped) error {
		runs, err = rolloutRuns(t, rollout, arm, limit)
		return err
	})
	return runs, err
}

// ActiveRollouts implements [Platform].
func (s *store) ActiveRollouts(ctx context.Context, checked time.Time, limit int) (rollouts []Rollout, err error) {
	err = s.db.View(ctx, func(t database.Tx) error {
		return t.Query(func(scan func(...any) error) error {
			r, err := scanRollout(scan)
			rollouts = append(rollouts, r)
			return err
		}, `SELECT `+rolloutColumns+` FROM rollouts WHERE ended_ms = 0 AND checked_ms < $1 ORDER BY checked_ms LIMIT $2`,
			checked.UnixMilli(), int64(limit))
	})
	return rollouts, err
}

// countRollout adds a run that ends with a commit to the runs of its rollout, unless the run has no rollout or was
// canceled.
func countRollout(t database.Tx, c *journal.Commit) error {
	if c.Progress == nil || c.Progress.Status != journal.StatusFinished || c.Progress.FinishReason == abi.RunCanceled {
		return nil
	}
	var tenant string
	var spec []byte
	var active, denials, cost, now int64
	if _, err := database.One(t, `SELECT tenant, spec, active_ms, denials, cost_nano, NOW_MS FROM runs WHERE id = $1 AND parent = ''`,
		[]any{c.Run}, &tenant, &spec, &active, &denials, &cost, &now); err != nil ||
		!bytes.Contains(spec, []byte(`"rollout":`)) {
		return err
	}
	var of struct{ Rollout, Arm string }
	if err := json.Unmarshal(spec, &of); err != nil || of.Rollout == "" {
		return nil // the spec of a command
	}
	faults, failed := int64(0), int64(0)
	for _, s := range c.Progress.Stats {
		faults += s.Faults
	}
	if c.Progress.FinishReason == abi.RunError {
		failed = 1
	}
	_, err := scoped{t, tenant}.Exec(`INSERT INTO rollout_runs
		(tenant, rollout, arm, finished_ms, run, faults, denials, failed, active_ms, prompt_tokens, completion_tokens,
		cost_nano)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (tenant, rollout, arm, finished_ms, run) DO NOTHING`, of.Rollout, of.Arm, now, c.Run, faults, denials,
		failed, active, c.Progress.Usage.PromptTokens, c.Progress.Usage.CompletionTokens, cost)
	return err
}
