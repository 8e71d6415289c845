package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/hostile"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// A runaway is an agent whose module never returns from its first hook.
type runaway struct {
	name  string
	limit time.Duration
	agent *host.Agent
	began *time.Time // start of the last run's hook
}

// withRunaways opens a host with one agent for each shape of runaway, and passes the agents to do.
func withRunaways(ctx context.Context, do func([]runaway) error) error {
	h, err := host.New(ctx, nil)
	if err != nil {
		return err
	}
	defer h.Close(ctx)
	all, err := openRunaways(ctx, h)
	if err != nil {
		return err
	}
	return do(all)
}

func openRunaways(ctx context.Context, h *host.Host) ([]runaway, error) {
	var all []runaway
	for _, c := range hostile.Cases() {
		if c.Kind != sandbox.FaultTimeout || c.Hook != contract.HookBeforeAgent || c.Entries > 1 ||
			!strings.Contains(c.Name, os.Getenv("SHAPE")) {
			continue
		}
		m, err := h.LoadBytes(ctx, c.Name, c.Module(), c.Limits)
		if err != nil {
			return nil, err
		}
		var config json.RawMessage
		if c.Config != "" {
			config = json.RawMessage(c.Config)
		}
		began := new(time.Time)
		clock := &native.Middleware{
			BeforeAgent: func(context.Context, *hook.Call, *abi.BeforeAgentInput) (*abi.BeforeAgentAnswer, error) {
				*began = time.Now()
				return nil, nil
			},
		}
		a, err := h.NewAgent(ctx, &host.AgentOptions{Model: scripted.New(scripted.Text("it went on")),
			Middlewares: []host.Middleware{{Name: "clock", Native: clock}, {Name: "runaway", Module: m, Config: config}}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all = append(all, runaway{c.Name, m.Limits().HookTime, a, began})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no shape has %q in its name", os.Getenv("SHAPE"))
	}
	return all, nil
}

// mostRounds is the maximum number of rounds, because the host disables an agent after this many
// consecutive faults.
const mostRounds = 5

// rounds returns the number of runs of each shape: $ROUNDS, or mostRounds if it is not set.
func rounds() (int, error) {
	text := os.Getenv("ROUNDS")
	if text == "" {
		return mostRounds, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostRounds {
		return 0, fmt.Errorf("$ROUNDS is %q; want a number from 1 to %d", text, mostRounds)
	}
	return n, nil
}

// late calls [runaway.run] and returns its result. It fails if the hook ended before its limit.
func (r *runaway) late(ctx context.Context) (time.Duration, error) {
	late, err := r.run(ctx)
	if err == nil && late < 0 {
		err = fmt.Errorf("%s ended before its limit", r.name)
	}
	return late, err
}

// run runs the agent once and returns the time from the hook's deadline to the end of the run. The
// time is negative if the host has disabled the agent after its faults.
func (r *runaway) run(ctx context.Context) (time.Duration, error) {
	_, err := r.agent.Ask(ctx, "go")
	took := time.Since(*r.began)
	var fault *host.Error
	if !errors.As(err, &fault) {
		return 0, fmt.Errorf("%s was not stopped: %w", r.name, err)
	}
	return took - r.limit, nil
}

// loopInGo runs a loop in Go for limit, and returns its overrun. The loop reads the clock and yields
// the processor as often as the sandbox does for a guest. Time in which it waits for the processor
// does not count. The overrun, and the time to stop the world during the loop, are therefore caused
// by the machine.
func loopInGo(limit time.Duration) (late time.Duration) {
	x := uint64(1)
	var ran, yielded time.Duration
	began := time.Now()
	for last := began; ran < limit; {
		for range 25_000 { // about 25 us
			x = x*6364136223846793005 + 1
		}
		now := time.Now()
		ran += now.Sub(last)
		last = now
		if ran-yielded > time.Millisecond {
			yielded = ran
			runtime.Gosched()
			last = time.Now()
		}
	}
	spun.Store(x)
	return time.Since(began) - limit
}

var spun atomic.Uint64

// endless holds the measurements of the runs of one shape, and of the loops in Go that run
// alternately for comparison.
type endless struct {
	name       string
	here, inGo sample
}

// A sample holds one value of each kind per run.
type sample struct {
	halts []time.Duration // the longest time to stop all goroutines during the run
	works []time.Duration // the most processor time that the process used during a pause
	lates []time.Duration // time from the deadline to the end of the run
}

// run calls do while another goroutine stops the world repeatedly, and records the pauses and the
// time that do returns.
func (s *sample) run(do func() (time.Duration, error)) error {
	var late time.Duration
	halt, err := longestHalt(func() (err error) { late, err = do(); return err })
	s.halts, s.works, s.lates = append(s.halts, halt.took), append(s.works, halt.worked), append(s.lates, late)
	return err
}

// runaways measures how the host stops each shape of endless guest while another goroutine stops
// the world repeatedly, and prints the rows.
func runaways(ctx context.Context, all []runaway) error {
	times, err := rounds()
	if err != nil {
		return err
	}
	if err := touchMachine(); err != nil {
		return err
	}
	seen := make([]endless, len(all))
	for range times {
		for i, r := range all {
			seen[i].name = r.name
			if err := seen[i].here.run(func() (time.Duration, error) { return r.late(ctx) }); err != nil {
				return err
			}
			if err := seen[i].inGo.run(func() (time.Duration, error) { return loopInGo(r.limit), nil }); err != nil {
				return err
			}
		}
	}
	what := fmt.Sprintf("%d hooks that never end, of %d shapes", times*len(all), len(all))
	for _, r := range []struct {
		name string
		of   func(*sample) []time.Duration
	}{
		{"the longest halt of the world during each", func(s *sample) []time.Duration { return s.halts }},
		{"the same in processor time of the process", func(s *sample) []time.Duration { return s.works }},
		{"end after the deadline, with the run", func(s *sample) []time.Duration { return s.lates }},
	} {
		spreadRow(what+": "+r.name, seen, r.of)
		systematicRow("of these, the shape that takes longest in the median of its runs", seen, r.of)
	}
	return nil
}

// spreadRow prints the distribution over all runs, and names the shapes that exceeded the target at
// least once.
func spreadRow(what string, seen []endless, of func(*sample) []time.Duration) {
	var here, inGo stats.Durations
	var above []*endless
	worst := func(e *endless) time.Duration { return slices.Max(of(&e.here)) }
	for i := range seen {
		here, inGo = append(here, of(&seen[i].here)...), append(inGo, of(&seen[i].inGo)...)
		if worst(&seen[i]) > most {
			above = append(above, &seen[i])
		}
	}
	slices.SortFunc(above, func(a, b *endless) int { return cmp.Compare(worst(b), worst(a)) })
	var names []string
	for i, e := range above {
		if i == named {
			names = append(names, fmt.Sprintf("and %d more", len(above)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s: %s, its median %s", e.name, short(worst(e)), short(median(of(&e.here)))))
	}
	list := ""
	if len(names) > 0 {
		list = " (" + strings.Join(names, "; ") + ")"
	}
	fmt.Printf("| %s | %s%s | a loop in Go in the hook's place: %s | %.2f at the 90th percentile | ≤ 10 ms |\n",
		what, spread(here), list, spread(inGo), ratio(here.At(0.9), inGo.At(0.9)))
}

// named is the maximum number of shapes that a row names.
const named = 5

func median(times stats.Durations) time.Duration { return times.At(0.5) }

// systematicRow prints the shape with the highest median, which excludes single disturbances by the
// machine.
func systematicRow(what string, seen []endless, of func(*sample) []time.Duration) {
	var worst *endless
	inGo := time.Duration(0)
	for i := range seen {
		if worst == nil || median(of(&seen[i].here)) > median(of(&worst.here)) {
			worst = &seen[i]
		}
		inGo = max(inGo, median(of(&seen[i].inGo)))
	}
	fmt.Printf(
		"| %s | %s (%s) | a loop in Go in its place: %s | | ≤ 10 ms |\n",
		what,
		short(median(of(&worst.here))),
		worst.name,
		short(inGo),
	)
}

func spread(times stats.Durations) string {
	return fmt.Sprintf(
		"median %s, 90th percentile %s, at most %s",
		short(times.At(0.5)),
		short(times.At(0.9)),
		short(slices.Max(times)),
	)
}

const most = 10 * time.Millisecond
