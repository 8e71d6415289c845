package rollouts

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// show returns the API's form of a rollout, with the figures that are stored.
func (s *Service) show(r *store.Rollout) (*api.Rollout, error) {
	plan, err := planOf(r)
	if err != nil {
		return nil, err
	}
	out := &api.Rollout{
		ID:       r.ID,
		Agent:    r.Agent,
		Alias:    r.Alias,
		Stable:   r.Stable,
		Canary:   r.Canary,
		Status:   string(r.Status),
		Reason:   r.Reason,
		Plan:     *plan,
		Step:     r.Step + 1,
		Percent:  r.Percent,
		Since:    r.StepFrom.UTC(),
		By:       r.By,
		Currency: s.o.Currency,
		Created:  r.Created.UTC(),
		Updated:  r.Updated.UTC(),
	}
	if !r.Active() {
		out.Ended = r.Ended.UTC()
	}
	if len(r.Figures) > 0 {
		err = json.Unmarshal(r.Figures, &out.Figures)
	}
	return out, err
}

// figures returns the figures of both arms. They have no cost if a run has no price, because then
// tokens are compared.
func figures(stable, canary []store.RolloutRun) api.RolloutFigures {
	f := api.RolloutFigures{Stable: figuresOf(stable), Canary: figuresOf(canary)}
	if !priced(stable, canary) {
		f.Stable.Cost, f.Canary.Cost = 0, 0
	}
	return f
}

// maxPoints limits the periods of a history.
const maxPoints = 200

// history returns the figures of a rollout over time.
func (s *Service) history(ctx context.Context, c *httpapi.Caller, in *Path) (*rolloutHistoryOutput, error) {
	r, err := c.Tenant.Rollout(ctx, in.Rollout)
	if err != nil {
		return nil, err
	}
	stable, canary, err := bothArms(func(arm store.Arm, limit int) ([]store.RolloutRun, error) {
		return c.Tenant.RolloutRuns(ctx, r.ID, arm, limit)
	})
	if err != nil {
		return nil, err
	}
	out := &api.RolloutHistory{BucketSeconds: 60, Points: []api.RolloutPoint{}}
	last := r.Created
	for _, runs := range [][]store.RolloutRun{stable, canary} {
		if len(runs) > 0 && runs[0].Finished.After(last) {
			last = runs[0].Finished
		}
	}
	span := last.Sub(r.Created).Seconds() + 1
	out.BucketSeconds = max(60, int64(math.Ceil(span/maxPoints)))
	bucket := time.Duration(out.BucketSeconds) * time.Second
	byPeriod := func(runs []store.RolloutRun) map[int][]store.RolloutRun {
		periods := map[int][]store.RolloutRun{}
		for _, run := range runs {
			i := max(0, int(run.Finished.Sub(r.Created)/bucket))
			periods[i] = append(periods[i], run)
		}
		return periods
	}
	a, b := byPeriod(stable), byPeriod(canary)
	for i := range maxPoints + 1 {
		if len(a[i])+len(b[i]) > 0 {
			f := figures(a[i], b[i])
			out.Points = append(out.Points, api.RolloutPoint{
				Time: r.Created.Add(time.Duration(i) * bucket).UTC(), Stable: f.Stable, Canary: f.Canary})
		}
	}
	return &rolloutHistoryOutput{out}, nil
}
