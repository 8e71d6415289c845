package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// stops measures for how long the world was stopped, the collector's way.
func stops(done <-chan struct{}) (times []time.Duration) {
	var stats runtime.MemStats
	for {
		began := time.Now()
		runtime.ReadMemStats(&stats)
		times = append(times, time.Since(began))
		select {
		case <-done:
			return times
		case <-time.After(200 * time.Microsecond):
		}
	}
}

// runaways stops each shape of guest that never ends, while another goroutine
// stops the world again and again.
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
	var over, waits []time.Duration
	lates, longs := map[string]time.Duration{}, map[string]time.Duration{} // by shape, where they are more than the target
	for _, r := range all {
		for range 5 {
			done, result := make(chan struct{}), make(chan []time.Duration)
			go func() { result <- stops(done) }()
			late, err := r.run(ctx)
			close(done)
			wait := slices.Max(<-result)
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
		}
	}
	for what, x := range map[string]struct {
		times []time.Duration
		above map[string]time.Duration
	}{"end after the deadline, with the whole run": {over, lates}, "stopping the world meanwhile, as the collector does": {waits, longs}} {
		fmt.Printf("| %d hooks that never end, of %d shapes: %s | median %s, 90th percentile %s, at most %s | %s | | ≤ 10 ms |\n", len(x.times), len(all), what,
			short(percentile(x.times, 50)), short(percentile(x.times, 90)), short(slices.Max(x.times)), above(x.above))
	}
	return nil
}

const most = 10 * time.Millisecond

// above names the shapes that took more.
func above(shapes map[string]time.Duration) string {
	var names []string
	for name, took := range shapes {
		names = append(names, fmt.Sprintf("%s: %s", name, short(took)))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
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
	worst := func(done <-chan struct{}) error {
		for i := 0; ; i++ {
			select {
			case <-done:
				return nil
			default:
			}
			if _, err := all[i%len(all)].run(ctx); err != nil {
				return err
			}
		}
	}
	var beside [2][]time.Duration
	for range 5 {
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
	for began := time.Now(); time.Since(began) < 3*time.Second && err == nil; {
		from := time.Now()
		_, err = g(in)
		times = append(times, time.Since(from))
	}
	close(done)
	wg.Wait()
	return percentile(times, 99), errors.Join(err, failed)
}
