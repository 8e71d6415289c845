package rollouts

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/store"
)

// simulate runs a rollout of 2,000 runs at 10 percent, and judges it after each run of the canary. It returns
// the number of the canary's runs after which it was rolled back, or 0.
func simulate(r *rand.Rand, stableRate, canaryRate float64) (detected int) {
	plan := withDefaults(api.RolloutPlan{})
	var stable, canary []store.RolloutRun
	run := func(rate float64) store.RolloutRun {
		out := store.RolloutRun{Active: time.Duration((1 + r.ExpFloat64()) * float64(time.Second)),
			PromptTokens: int64(1000 * (1 + r.ExpFloat64()))}
		if r.Float64() < rate {
			out.Faults = 1
		}
		return out
	}
	for range 2000 {
		if r.Float64() >= 0.1 {
			stable = append(stable, run(stableRate))
			continue
		}
		canary = append(canary, run(canaryRate))
		if judge(&plan.Rollback, "", stable, canary) != "" {
			return len(canary)
		}
	}
	return 0
}

// TestJudge checks in a simulation that equal versions are rarely rolled back, and worse ones soon.
func TestJudge(t *testing.T) {
	t.Parallel()
	const rounds = 40
	r := rand.New(rand.NewPCG(1, 2))
	falsely, missed, total := 0, 0, 0
	for range rounds {
		if simulate(r, 0.02, 0.02) > 0 {
			falsely++
		}
		n := simulate(r, 0.02, 0.25)
		if total += n; n == 0 {
			missed++
		}
	}
	t.Logf("false rollbacks: %d of %d; missed: %d; mean detection after %d runs of the canary",
		falsely, rounds, missed, total/max(1, rounds-missed))
	require.LessOrEqual(t, falsely, rounds/20)
	require.Zero(t, missed)
	require.Less(t, total/rounds, 60)
}

// TestJudgeFigures checks which differences lead to a rollback.
func TestJudgeFigures(t *testing.T) {
	t.Parallel()
	runs := func(n, bad int, set func(*store.RolloutRun)) []store.RolloutRun {
		out := make([]store.RolloutRun, n)
		for i := range out {
			out[i] = store.RolloutRun{Active: time.Second, PromptTokens: int64(100 + i%3)}
			if i < bad {
				set(&out[i])
			}
		}
		return out
	}
	for name, set := range map[string]func(*store.RolloutRun){
		faults:  func(r *store.RolloutRun) { r.Faults = 1 },
		denials: func(r *store.RolloutRun) { r.Denials = 1 },
		errs:    func(r *store.RolloutRun) { r.Failed = true },
		latency: func(r *store.RolloutRun) { r.Active = time.Minute },
		cost:    func(r *store.RolloutRun) { r.CompletionTokens = 1000 },
	} {
		rule := withDefaults(api.RolloutPlan{}).Rollback
		require.NotEmpty(t, judge(&rule, "", runs(200, 2, set), runs(50, 25, set)), name)
		require.Empty(t, judge(&rule, "", runs(200, 100, set), runs(50, 25, set)), "%s: the same rate", name)
		require.Empty(t, judge(&rule, "", runs(200, 0, set), runs(19, 19, set)), "%s: too few runs", name)
		require.Empty(t, judge(&rule, "", runs(200, 0, set), runs(50, 1, set)), "%s: chance", name)
		rule.Off = []string{faults, denials, errs, latency, cost}
		require.Empty(t, judge(&rule, "", runs(200, 2, set), runs(50, 25, set)), "%s: off", name)
	}
}

// TestJudgeCost checks that costs are compared if all runs have one, and tokens otherwise.
func TestJudgeCost(t *testing.T) {
	t.Parallel()
	runs := func(tokens, nano int64) []store.RolloutRun {
		out := make([]store.RolloutRun, 50)
		for i := range out {
			out[i] = store.RolloutRun{Active: time.Second, PromptTokens: tokens + int64(i%3), CostNano: nano}
		}
		return out
	}
	rule := withDefaults(api.RolloutPlan{}).Rollback
	for name, c := range map[string]struct {
		currency       string
		stable, canary []store.RolloutRun
		want           string
	}{
		"a dearer model":         {"EUR", runs(100, 1e6), runs(100, 2e6), "0.002 EUR of 50 runs"},
		"more tokens, cheaper":   {"EUR", runs(100, 1e6), runs(900, 1e6), ""},
		"a model without prices": {"EUR", runs(100, 1e6), runs(900, 0), "901 tokens of 50 runs"},
		"no prices":              {"", runs(100, 0), runs(900, 0), "901 tokens of 50 runs"},
		"runs without tokens":    {"EUR", runs(0, 1e6), runs(0, 1e6), ""},
	} {
		got := judge(&rule, c.currency, c.stable, c.canary)
		require.Contains(t, got, c.want, name)
		require.Equal(t, c.want == "", got == "", "%s: %s", name, got)
	}
}
