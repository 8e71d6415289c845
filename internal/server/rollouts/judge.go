package rollouts

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/store"
)

// minZ is the z-score that a difference must exceed: chance alone exceeds it in one of 31,574 comparisons
// (one-sided). It is strict, because a rollout is compared again after every run.
const minZ = 4

// The names of figures in a plan's off.
const (
	faults  = "faults"
	denials = "denials"
	errs    = "errors"
	latency = "latency"
	cost    = "cost"
)

// withDefaults returns a plan in which defaults replace missing fields.
func withDefaults(p api.RolloutPlan) api.RolloutPlan {
	if p.By == "" {
		p.By = "run"
	}
	if len(p.Steps) == 0 {
		p.Steps = []api.RolloutStep{{Percent: 10, Seconds: 600}, {Percent: 50, Seconds: 600}, {Percent: 100, Seconds: 600}}
	}
	r := &p.Rollback
	for _, f := range []struct {
		field *int64
		value int64
	}{{&r.WindowSeconds, 3600}, {&r.MinRuns, 20}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	for _, f := range []struct {
		field *float64
		value float64
	}{{&r.Increase.Faults, 0.02}, {&r.Increase.Denials, 0.05}, {&r.Increase.Errors, 0.02}, {&r.Increase.Latency, 0.5},
		{&r.Increase.Cost, 0.5}} {
		if *f.field == 0 {
			*f.field = f.value
		}
	}
	return p
}

// compared returns the runs that a comparison at a time uses.
func compared(r *api.RolloutRollback, now time.Time, stable, canary []store.RolloutRun) (a, b []store.RolloutRun) {
	after := now.Add(-time.Duration(r.WindowSeconds) * time.Second)
	return recent(stable, after, minBaseline), recent(canary, after, 0)
}

// judge returns the reason, with figures, why a canary must be rolled back, or "" if it must not be.
// A figure must exceed the stable version's by more than the tolerated increase, and the difference
// must be significant. For shares, judge uses a one-sided two-proportion z-test; for latency, the
// same test of the shares of runs above the tolerated percentile; for the mean cost, a one-sided
// z-test. It returns "" if either version has fewer than MinRuns runs. Costs are in currency, which
// is empty if the operator has set no prices.
func judge(r *api.RolloutRollback, currency string, stable, canary []store.RolloutRun) string {
	if int64(min(len(stable), len(canary))) < r.MinRuns {
		return ""
	}
	for _, c := range []struct {
		name, text string
		is         func(*store.RolloutRun) bool
		increase   float64
	}{
		{faults, "runs with a fault", hasFault, r.Increase.Faults},
		{errs, "runs that end with an error", hasFailed, r.Increase.Errors},
		{denials, "runs with a denied tool call", hasDenial, r.Increase.Denials},
	} {
		a, b := count(stable, c.is), count(canary, c.is)
		was, is := share(stable, c.is), share(canary, c.is)
		if !slices.Contains(r.Off, c.name) && is-was > c.increase && proportionZ(a, len(stable), b, len(canary)) > minZ {
			return fmt.Sprintf("%s: %s of %d in the canary, %s of %d in the stable version; an increase of %s is tolerated",
				c.text, percent(is), len(canary), percent(was), len(stable), percent(c.increase))
		}
	}
	if reason := judgeLatency(r, stable, canary); reason != "" {
		return reason
	}
	return judgeCost(r, currency, stable, canary)
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", share*100) }

func judgeLatency(r *api.RolloutRollback, stable, canary []store.RolloutRun) string {
	was, is := p95(stable), p95(canary)
	limit := time.Duration(float64(was) * (1 + r.Increase.Latency))
	slow := func(run *store.RolloutRun) bool { return run.Active > limit }
	if slices.Contains(r.Off, latency) || is <= limit ||
		proportionZ(count(stable, slow), len(stable), count(canary, slow), len(canary)) <= minZ {
		return ""
	}
	return fmt.Sprintf(
		"95th percentile of the time of runs: %v of %d runs in the canary, %v of %d in the stable version; "+
			"an increase of %s is tolerated",
		is,
		len(canary),
		was,
		len(stable),
		percent(r.Increase.Latency),
	)
}

func judgeCost(r *api.RolloutRollback, currency string, stable, canary []store.RolloutRun) string {
	of, unit := costIn(currency, stable, canary)
	was, varA := moments(stable, of)
	is, varB := moments(canary, of)
	limit := was * (1 + r.Increase.Cost)
	if slices.Contains(r.Off, cost) || is <= limit {
		return ""
	}
	if se := math.Sqrt(varA/float64(len(stable)) + varB/float64(len(canary))); se > 0 && (is-was)/se <= minZ {
		return ""
	}
	return fmt.Sprintf(
		"mean cost of a run: %.4g %s of %d runs in the canary, %.4g of %d in the stable version; an increase of %s is tolerated",
		is,
		unit,
		len(canary),
		was,
		len(stable),
		percent(r.Increase.Cost),
	)
}

// moments returns the mean and the variance of the cost of runs, which are 0 without runs.
func moments(runs []store.RolloutRun, of costOf) (mean, variance float64) {
	n := float64(len(runs))
	for i := range runs {
		mean += of(&runs[i]) / n
	}
	for i := range runs {
		d := of(&runs[i]) - mean
		variance += d * d / math.Max(1, n-1)
	}
	return mean, variance
}

// proportionZ returns the z-score of the pooled two-proportion test that b of n is a larger share than a of m.
func proportionZ(a, m, b, n int) float64 {
	p, q := float64(a)/float64(m), float64(b)/float64(n)
	pooled := float64(a+b) / float64(m+n)
	se := math.Sqrt(pooled * (1 - pooled) * (1/float64(m) + 1/float64(n)))
	if se == 0 {
		return 0
	}
	return (q - p) / se
}
