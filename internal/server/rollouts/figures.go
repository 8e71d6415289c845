package rollouts

import (
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Limits on the runs that are compared.
const (
	maxRuns     = 5000 // of an arm
	minBaseline = 200  // runs of the stable version that are compared, although they finished before the window
)

// recent returns the runs that finished after a time, but at least the newest atLeast runs. runs is
// ordered, the newest first.
func recent(runs []store.RolloutRun, after time.Time, atLeast int) []store.RolloutRun {
	n := slices.IndexFunc(runs, func(r store.RolloutRun) bool { return !r.Finished.After(after) })
	if n < 0 {
		return runs
	}
	return runs[:max(n, min(atLeast, len(runs)))]
}

// A costOf returns the cost of a run: its price or its tokens.
type costOf func(*store.RolloutRun) float64

func priceOf(r *store.RolloutRun) float64  { return float64(r.CostNano) / 1e9 }
func tokensOf(r *store.RolloutRun) float64 { return float64(r.PromptTokens + r.CompletionTokens) }

// costIn returns the measure by which the costs of both versions are compared, and its unit. The
// measure is the price if currency is set and all runs that used tokens have a price. Otherwise it is
// the number of tokens, because a model without a price would appear to be free.
func costIn(currency string, arms ...[]store.RolloutRun) (of costOf, unit string) {
	if currency == "" || !priced(arms...) {
		return tokensOf, "tokens"
	}
	return priceOf, currency
}

// priced reports whether all runs that used tokens have a cost.
func priced(arms ...[]store.RolloutRun) bool {
	for _, runs := range arms {
		for i := range runs {
			if runs[i].CostNano == 0 && tokensOf(&runs[i]) > 0 {
				return false
			}
		}
	}
	return true
}

// figuresOf returns the figures of runs.
func figuresOf(runs []store.RolloutRun) (f api.ArmFigures) {
	f.Runs = int64(len(runs))
	f.Faults, f.Denials, f.Errors = share(runs, hasFault), share(runs, hasDenial), share(runs, hasFailed)
	f.P95MS = p95(runs).Milliseconds()
	f.Tokens, _ = moments(runs, tokensOf)
	f.Cost, _ = moments(runs, priceOf)
	return f
}

func hasFault(r *store.RolloutRun) bool  { return r.Faults > 0 }
func hasDenial(r *store.RolloutRun) bool { return r.Denials > 0 }
func hasFailed(r *store.RolloutRun) bool { return r.Failed }

// count returns the number of runs for which is reports true.
func count(runs []store.RolloutRun, is func(*store.RolloutRun) bool) (n int) {
	for i := range runs {
		if is(&runs[i]) {
			n++
		}
	}
	return n
}

func share(runs []store.RolloutRun, is func(*store.RolloutRun) bool) float64 {
	if len(runs) == 0 {
		return 0
	}
	return float64(count(runs, is)) / float64(len(runs))
}

// p95 returns the 95th percentile of the time of runs, by the nearest rank.
func p95(runs []store.RolloutRun) time.Duration {
	if len(runs) == 0 {
		return 0
	}
	all := make([]time.Duration, len(runs))
	for i := range runs {
		all[i] = runs[i].Active
	}
	slices.Sort(all)
	return all[(len(all)*95+99)/100-1]
}
