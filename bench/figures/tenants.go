package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/work"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/sandbox"
	"github.com/agent-runner/agent-runner/internal/hostile"
)

// A runaway is an agent whose module never returns from its first hook.
type runaway struct {
	name  string
	limit time.Duration
	agent *host.Agent
}

func openRunaways(ctx context.Context, h *host.Host) ([]runaway, error) {
	var all []runaway
	for _, c := range hostile.Cases() {
		if c.Kind != sandbox.FaultTimeout || c.Hook != abi.HookBeforeAgent || c.Entries > 1 {
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
		a, err := h.NewAgent(ctx, &host.AgentOptions{
			Model: scripted.New(scripted.Text("it went on")), Middlewares: []host.Middleware{{Name: "runaway", Module: m, Config: config}}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all = append(all, runaway{c.Name, m.Limits().HookTime, a})
	}
	return all, nil
}

// run returns how long after its deadline the whole run was over.
func (r *runaway) run(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	_, err := r.agent.Ask(ctx, "go")
	took := time.Since(began)
	var fault *host.Error
	if !errors.As(err, &fault) {
		return 0, fmt.Errorf("%s was not stopped: %w", r.name, err)
	}
	return took - r.limit, nil
}

// stopping is how long the runtime took to bring all goroutines to a halt, each
// time it did, for the collector or anybody else.
type stopping []metrics.Sample

func newStopping() stopping {
	return stopping{{Name: "/sched/pauses/stopping/gc:seconds"}, {Name: "/sched/pauses/stopping/other:seconds"}}
}

// read returns how many halts there were so far, by the most that they took.
func (s stopping) read() map[time.Duration]uint64 {
	metrics.Read(s)
	all := map[time.Duration]uint64{}
	for i := range s {
		h := s[i].Value.Float64Histogram()
		for j, n := range h.Counts {
			all[time.Duration(h.Buckets[j+1]*1e9)] += n
		}
	}
	return all
}

// longestHalt lets do run while another goroutine halts the world again and
// again, and returns what the longest took.
func longestHalt(do func() error) (longest time.Duration, err error) {
	s := newStopping()
	before, done := s.read(), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var stats runtime.MemStats
		for {
			runtime.ReadMemStats(&stats)
			select {
			case <-done:
				return
			case <-time.After(200 * time.Microsecond):
			}
		}
	})
	err = do()
	close(done)
	wg.Wait()
	for took, n := range s.read() {
		if n > before[took] {
			longest = max(longest, took)
		}
	}
	return longest, err
}

// loopInGo is a loop in Go that ends by itself when it has run for so long, as a
// guest is made to: it looks at the clock as often, lets others have the processor as
// often, and does not count what it waited for that. What halting the world takes
// meanwhile, and how late it ends, is the machine's own, which other processes keep
// busy too.
func loopInGo(limit time.Duration) (late time.Duration) {
	x := uint64(1)
	var ran, yielded time.Duration
	began := time.Now()
	for last := began; ran < limit; {
		for range 25_000 { // some 25 us
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

// runaways stops each shape of guest that never ends, while another goroutine
// halts the world again and again.
func runaways(ctx context.Context) error {
	h, err := host.New(ctx, nil)
	if err != nil {
		return err
	}
	defer h.Close(ctx)
	all, err := openRunaways(ctx, h)
	if err != nil {
		return err
	}
	const rounds = 5
	var over, waits, lateInGo, waitsInGo []time.Duration
	lates, longs := map[string]time.Duration{}, map[string]time.Duration{} // by shape, where they are more than the target
	for range rounds {
		for _, r := range all {
			var late time.Duration
			wait, err := longestHalt(func() (err error) { late, err = r.run(ctx); return err })
			if err != nil {
				return err
			}
			if late > most {
				lates[r.name] = max(late, lates[r.name])
			}
			if wait > most {
				longs[r.name] = max(wait, longs[r.name])
			}
			over, waits = append(over, late), append(waits, wait)
			wait, _ = longestHalt(func() error { late = loopInGo(r.limit); return nil })
			lateInGo, waitsInGo = append(lateInGo, late), append(waitsInGo, wait)
		}
	}
	what := fmt.Sprintf("%d hooks that never end, of %d shapes: ", len(over), len(all))
	against := func(here, inGo []time.Duration, longest map[string]time.Duration) {
		fmt.Printf("%s%s | a loop in Go in the hook's place: %s | %.2f at the 90th percentile | ≤ 10 ms |\n",
			spread(here), above(longest), spread(inGo), ratio(percentile(here, 90), percentile(inGo, 90)))
	}
	fmt.Printf("| %sthe longest halt of the world during each | ", what)
	against(waits, waitsInGo, longs)
	fmt.Printf("| %send after the deadline, with the whole run | ", what)
	against(over, lateInGo, lates)
	return nil
}

func spread(times []time.Duration) string {
	return fmt.Sprintf("median %s, 90th percentile %s, at most %s", short(percentile(times, 50)), short(percentile(times, 90)), short(slices.Max(times)))
}

const most = 10 * time.Millisecond

// above names the shapes that took more.
func above(shapes map[string]time.Duration) string {
	var names []string
	for name, took := range shapes {
		names = append(names, fmt.Sprintf("%s: %s", name, short(took)))
	}
	slices.Sort(names)
	if len(names) == 0 {
		return ""
	}
	return " (" + strings.Join(names, ", ") + ")"
}

// neighbours measures a tenant beside another one that is as busy, and beside
// one that does the worst.
func neighbours(ctx context.Context, plain []byte) error {
	s, err := newSandbox(ctx, sandbox.Options{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	im, err := warmImage(ctx, s, plain, 100)
	if err != nil {
		return err
	}
	h, err := host.New(ctx, nil)
	if err != nil {
		return err
	}
	defer h.Close(ctx)
	all, err := openRunaways(ctx, h)
	if err != nil {
		return err
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	in := work.Conversation(1 << 10)
	honest := func(done <-chan struct{}) error {
		g := clean(ctx, im)
		for {
			select {
			case <-done:
				return nil
			default:
			}
			if _, err := g(in); err != nil {
				return err
			}
		}
	}
	next := 0
	worst := func(done <-chan struct{}) error {
		for ; ; next++ {
			select {
			case <-done:
				return nil
			default:
			}
			if _, err := all[next%len(all)].run(ctx); err != nil {
				return err
			}
		}
	}
	var beside [2][]time.Duration
	for range 40 { // turns are short, so that what else the machine does meets both
		for i, other := range []func(<-chan struct{}) error{honest, worst} {
			times, err := p99(clean(ctx, im), in, other)
			if err != nil {
				return err
			}
			beside[i] = append(beside[i], times)
		}
	}
	a, b := percentile(beside[1], 50), percentile(beside[0], 50)
	row("p99 of a tenant's 1 KB hook on two processors, beside the worst", a, b, "beside an honest one as busy:", ratio(a, b), "≤ 1.5")
	return nil
}

func p99(g guest, in []byte, other func(done <-chan struct{}) error) (time.Duration, error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = other(done) })
	var times []time.Duration
	var err error
	for began := time.Now(); time.Since(began) < 500*time.Millisecond && err == nil; {
		from := time.Now()
		_, err = g(in)
		times = append(times, time.Since(from))
	}
	close(done)
	wg.Wait()
	return percentile(times, 99), errors.Join(err, failed)
}
