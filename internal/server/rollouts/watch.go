package rollouts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/store"
)

const (
	checkInterval = 5 * time.Second
	maxChecked    = 1000 // rollouts that a server checks at once
)

// Watch checks the active rollouts until ctx is done: every 5 seconds, and at once when the operator blocks a
// module.
func (s *Service) Watch(ctx context.Context) {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		reasons, changed := s.o.Blocks.Current()
		if err := s.Check(ctx, reasons); err != nil && ctx.Err() == nil {
			s.o.Logger.Error("check rollouts", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-ticker.C:
		}
	}
}

// Check aborts the rollouts whose canary has a blocked module, and checks those that no server has checked
// recently. blocked has the reasons of the operator by digest.
func (s *Service) Check(ctx context.Context, blocked map[string]string) error {
	now, err := s.o.Now(ctx)
	if err != nil {
		return err
	}
	before := now.Add(-checkInterval / 2)
	if len(blocked) > 0 {
		before = now.Add(time.Hour) // all, because a block acts at once
	}
	list, err := s.o.Store.ActiveRollouts(ctx, before, maxChecked)
	if err != nil {
		return err
	}
	for i := range list {
		err = errors.Join(err, s.check(ctx, &list[i], now, blocked))
	}
	return err
}

// check compares the versions of one rollout. It aborts the rollout, rolls it back, or advances it to
// its next step. It does nothing if another server has just checked the rollout, unless a module is
// blocked.
func (s *Service) check(ctx context.Context, r *store.Rollout, now time.Time, blocked map[string]string) error {
	t := s.o.Store.Tenant(r.Tenant)
	reason, err := blockedIn(ctx, t, r, blocked)
	if err != nil || reason == "" && now.Sub(r.Checked) < checkInterval/2 {
		return err
	}
	was := r.Status
	ctx = store.WithActor(ctx, &store.Actor{Tenant: r.Tenant, ID: store.ActorServer})
	after, err := t.UpdateRollout(
		ctx,
		r.ID,
		func(r *store.Rollout, runs func(store.Arm, int) ([]store.RolloutRun, error)) error {
			plan, err := planOf(r)
			if err != nil {
				return err
			}
			stable, canary, err := bothArms(runs)
			if err != nil {
				return err
			}
			a, b := compared(&plan.Rollback, now, stable, canary)
			r.Checked = now
			switch {
			case reason != "":
				r.Status, r.Reason = store.RolloutAborted, reason
			default:
				if worse := judge(&plan.Rollback, s.o.Currency, a, b); worse != "" {
					r.Status, r.Reason = store.RolloutRolledBack, worse
				} else {
					advance(r, plan, now, len(b))
				}
			}
			return keepFigures(r, a, b)
		},
	)
	if err == nil && after.Status != was {
		s.o.Logger.InfoContext(ctx, "rollout "+string(after.Status), "tenant", r.Tenant, "agent", r.Agent, "alias", r.Alias,
			"rollout", r.ID, "canary", r.Canary, "reason", after.Reason)
	}
	return err
}

// blockedIn returns the reason why a rollout must be aborted because of blocked modules, or "" if it
// need not be.
func blockedIn(ctx context.Context, t *store.Tenant, r *store.Rollout, blocked map[string]string) (string, error) {
	if len(blocked) == 0 {
		return "", nil
	}
	a, err := t.Agent(ctx, r.Agent, r.Canary)
	if err != nil {
		return "", err
	}
	for _, digest := range a.Modules {
		if why, ok := blocked[digest]; ok {
			return fmt.Sprintf("the operator blocks the canary's module sha256:%s: %s", digest, why), nil
		}
	}
	return "", nil
}

func planOf(r *store.Rollout) (*api.RolloutPlan, error) {
	p := &api.RolloutPlan{}
	return p, json.Unmarshal(r.Plan, p)
}

func bothArms(runs func(store.Arm, int) ([]store.RolloutRun, error)) (stable, canary []store.RolloutRun, err error) {
	if stable, err = runs(store.ArmStable, maxRuns); err == nil {
		canary, err = runs(store.ArmCanary, maxRuns)
	}
	return stable, canary, err
}

// advance begins the next step of a running rollout if the time of the current step is over and the
// canary has enough runs. After a last step of 100 percent, it promotes the rollout instead. runs is
// the number of the canary's runs that are compared.
func advance(r *store.Rollout, plan *api.RolloutPlan, now time.Time, runs int) {
	step := plan.Steps[r.Step]
	over := now.Sub(r.StepFrom) >= time.Duration(step.Seconds)*time.Second
	if r.Status != store.RolloutRunning || !over || int64(runs) < plan.Rollback.MinRuns {
		return
	}
	switch {
	case int(r.Step)+1 < len(plan.Steps):
		r.Step++
		r.Percent, r.StepFrom = plan.Steps[r.Step].Percent, now
	case step.Percent == 100:
		r.Status, r.Reason = store.RolloutPromoted, "all steps are over"
	}
}

// keepFigures sets r.Figures if the rollout has ended. It does nothing while the rollout is running or
// paused.
func keepFigures(r *store.Rollout, stable, canary []store.RolloutRun) error {
	if slices.Contains([]store.RolloutStatus{store.RolloutRunning, store.RolloutPaused}, r.Status) {
		return nil
	}
	var err error
	r.Figures, err = json.Marshal(figures(stable, canary))
	return err
}
