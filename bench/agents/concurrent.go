package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// concurrent prints the runs per second of the five modules by the number of concurrent runs, on
// one processor and on all.
func concurrent(ctx context.Context, h *host.Host, path string, conversation []abi.Message, each time.Duration) error {
	p, err := ourModules(ctx, h, "here", path, conversation)
	if err != nil {
		return err
	}
	defer p.close()
	fmt.Println("| runs at once | processors | runs a second | us a run |\n|---|---|---|---|")
	all := runtime.GOMAXPROCS(0)
	for _, processors := range []int{1, all} {
		runtime.GOMAXPROCS(processors)
		for _, n := range []int{1, 10, 100, 1000, 2000} {
			perSecond, err := sideBySide(ctx, p, n, each)
			if err != nil {
				return err
			}
			fmt.Printf("| %d | %d | %.0f | %.0f |\n", n, processors, perSecond, 1e6/perSecond)
		}
		if processors == all {
			break
		}
	}
	runtime.GOMAXPROCS(all)
	return nil
}

// sideBySide runs p in n concurrent loops, and returns the runs per second of all loops together.
// No loop starts a run after the given time, but every loop makes at least one run.
func sideBySide(ctx context.Context, p *peer, n int, each time.Duration) (float64, error) {
	var done atomic.Int64
	failed := make(chan error, n)
	var wg sync.WaitGroup
	began := time.Now()
	for range n {
		wg.Go(func() {
			n, _, err := repeat(each-time.Since(began), func() error { return p.checked(ctx) })
			if err != nil {
				failed <- err
			}
			done.Add(int64(n))
		})
	}
	wg.Wait()
	took := time.Since(began).Seconds()
	select {
	case err := <-failed:
		return 0, err
	default:
		return float64(done.Load()) / took, nil
	}
}

// waiting is a model that blocks each run at its last step until release is closed or ctx is done.
type waiting struct {
	instant
	there   *sync.WaitGroup
	release chan struct{}
}

// Generate implements [model.Model].
func (w waiting) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	if strings.Contains(req.Messages[len(req.Messages)-1].Content.String(), "not allowed") {
		w.there.Done()
		select {
		case <-w.release:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return w.instant.Generate(ctx, req, sink)
}

// memory prints the memory of 1,000 runs that wait for their model, after their modules have been
// called.
func memory(ctx context.Context, h *host.Host, path string, conversation []abi.Message) error {
	const runs = 1000
	m, err := h.Load(ctx, path, host.Limits{})
	if err != nil {
		return err
	}
	var list []host.Middleware
	for _, e := range entries {
		config, _ := json.Marshal(map[string]string{"use": e.name})
		list = append(list, host.Middleware{Name: e.name, Module: m, Config: config, Hooks: e.hooks})
	}
	var there sync.WaitGroup
	there.Add(runs)
	w := waiting{there: &there, release: make(chan struct{})}
	a, err := h.NewAgent(
		ctx,
		&host.AgentOptions{Model: w, Tools: []tool.Tool{search()}, Middlewares: list, Instruction: "You know all orders."},
	)
	if err != nil {
		return err
	}
	defer a.Close()
	before, err := resident()
	if err != nil {
		return err
	}
	failed := make(chan error, runs)
	for range runs {
		go func() {
			for _, err := range a.Run(ctx, host.Input{Messages: conversation}) {
				if err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	arrived := make(chan struct{})
	go func() { there.Wait(); close(arrived) }()
	select {
	case <-arrived:
	case err := <-failed:
		return fmt.Errorf("a run of %d ended before the others were there: %w", runs, err)
	}
	after, err := resident()
	if err != nil {
		return err
	}
	close(w.release)
	for range runs {
		err = errors.Join(err, <-failed)
	}
	if err != nil {
		return err
	}
	fmt.Printf(
		"%d runs that wait for the model at once, each with instances of five modules: %.0f MB of memory, %.2f MB a run.\n",
		runs,
		after,
		(after-before)/runs,
	)
	return nil
}

// resident returns the resident memory of the process in MB. A page that the process has mapped
// several times, such as a page of an image with several instances, counts once.
func resident() (float64, error) {
	runtime.GC()
	b, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Pss:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kb / 1024, err
		}
	}
	return 0, errors.New("/proc/self/smaps_rollup has no Pss")
}

// line prints the time of a run by the number of modules, and the cost of each additional module.
// All entries use the same module.
func line(ctx context.Context, h *host.Host, path string, conversation []abi.Message, each time.Duration) error {
	m, err := h.Load(ctx, path, host.Limits{})
	if err != nil {
		return err
	}
	counts := []int{0, 1, 2, 4, 8, 16}
	agents := make([]*host.Agent, len(counts))
	for i, n := range counts {
		var list []host.Middleware
		for k := range n {
			list = append(
				list,
				host.Middleware{
					Name:   fmt.Sprintf("redact-%d", k),
					Module: m,
					Config: json.RawMessage(`{"use":"redact"}`),
					Hooks:  []abi.Hook{contract.HookOnChunk, contract.HookAfterTool},
				},
			)
		}
		if agents[i], err = h.NewAgent(ctx, &host.AgentOptions{
			Model: instant{}, Tools: []tool.Tool{search()}, Middlewares: list,
		}); err != nil {
			return err
		}
		defer agents[i].Close()
	}
	took := make([][]float64, len(counts))
	for turn := range 6 {
		for i, a := range agents {
			n, whole, err := repeat(each, func() error {
				for _, err := range a.Run(ctx, host.Input{Messages: conversation}) {
					if err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			if turn > 0 { // the first warms up
				took[i] = append(took[i], float64(whole.Microseconds())/float64(n))
			}
		}
	}
	fmt.Println("| modules | us a run | us for each module |\n|---|---|---|")
	none := stats.Median(took[0])
	for i, n := range counts {
		us := stats.Median(took[i])
		fmt.Printf("| %d | %.0f | ", n, us)
		if n > 0 {
			fmt.Printf("%.0f |\n", (us-none)/float64(n))
		} else {
			fmt.Print("|\n")
		}
	}
	return nil
}
