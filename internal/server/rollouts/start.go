package rollouts

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// start starts a rollout.
func (s *Service) start(ctx context.Context, c *httpapi.Caller, in *startRolloutInput) (*rolloutOutput, error) {
	if _, err := c.Tenant.Agent(ctx, in.Agent, in.Body.Version); err != nil {
		return nil, err
	}
	plan := withDefaults(api.RolloutPlan{By: in.Body.By, Steps: in.Body.Steps, Rollback: in.Body.Rollback})
	if err := checkSteps(plan.Steps); err != nil {
		return nil, err
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	r := &store.Rollout{
		ID:       "ro_" + strings.ToLower(rand.Text()),
		Agent:    in.Agent,
		Alias:    cmp.Or(in.Body.Alias, store.StableAlias),
		Canary:   in.Body.Version,
		Plan:     text,
		ByThread: plan.By == "thread",
		Percent:  plan.Steps[0].Percent,
		By:       c.By(),
	}
	if err := c.Tenant.CreateRollout(ctx, r); err != nil {
		return nil, err
	}
	s.o.Logger.InfoContext(ctx, "rollout started", "tenant", c.Tenant.ID(), "by", r.By, "agent", r.Agent, "alias", r.Alias,
		"rollout", r.ID, "canary", r.Canary)
	return s.output(ctx, c.Tenant, r)
}

// checkSteps rejects steps whose percentages do not increase, and a first step of 100 percent.
func checkSteps(steps []api.RolloutStep) error {
	if steps[0].Percent == 100 {
		return httpapi.NewProblem(api.CodeInvalid,
			"the first step has 100 percent, so that there is nothing to compare with; begin with less, or set the alias")
	}
	for i := 1; i < len(steps); i++ {
		if steps[i].Percent <= steps[i-1].Percent {
			return httpapi.NewProblem(api.CodeInvalid, "steps[%d] has %d percent; want more than the step before",
				i, steps[i].Percent)
		}
	}
	return nil
}

// change pauses, resumes, promotes or aborts a rollout.
func (s *Service) change(
	ctx context.Context,
	c *httpapi.Caller,
	in *changeRolloutInput,
	what string,
) (*rolloutOutput, error) {
	now, err := s.o.Now(ctx)
	if err != nil {
		return nil, err
	}
	changed := false
	r, err := c.Tenant.UpdateRollout(ctx, in.Rollout,
		func(r *store.Rollout, runs func(store.Arm, int) ([]store.RolloutRun, error)) error {
			changed = true
			reason := in.Body.Reason
			if reason == "" {
				reason = "by " + c.By()
			}
			r.Reason = reason
			switch what {
			case "pause":
				if r.Status == store.RolloutRunning {
					r.Status, r.Paused = store.RolloutPaused, now
				}
			case "resume":
				if r.Status == store.RolloutPaused {
					r.Status, r.StepFrom, r.Paused = store.RolloutRunning, r.StepFrom.Add(now.Sub(r.Paused)), time.Time{}
				}
			case "promote":
				r.Status = store.RolloutPromoted
			case "abort":
				r.Status = store.RolloutAborted
			}
			plan, err := planOf(r)
			if err != nil {
				return err
			}
			stable, canary, err := bothArms(runs)
			if err != nil {
				return err
			}
			a, b := compared(&plan.Rollback, now, stable, canary)
			return keepFigures(r, a, b)
		})
	switch {
	case err != nil:
		return nil, err
	case !changed:
		return nil, httpapi.NewProblem(api.CodeConflict, "rollout %s has ended: %s", r.ID, r.Status)
	}
	s.o.Logger.InfoContext(
		ctx,
		"rollout changed",
		"tenant",
		c.Tenant.ID(),
		"by",
		c.By(),
		"change",
		what,
		"rollout",
		r.ID,
		"agent",
		r.Agent,
		"alias",
		r.Alias,
	)
	return s.output(ctx, c.Tenant, r)
}
