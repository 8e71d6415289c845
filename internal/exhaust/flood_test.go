package exhaust

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/longtest"
)

var (
	flood = flag.Duration("flood", 2*time.Second, "for how long TestFlood floods")
	goals = flag.Bool("goals", false, "fail TestFlood if a figure misses its goal; needs a quiet machine and a long flood")
)

// Goals of TestFlood.
const (
	goalMemory = 1 << 30 // bytes above idle
	goalRatio  = 1.5     // p99 of honest runs during the flood, divided by p99 during runs that only compute
	goalCancel = time.Second
)

// floods returns the composition of the known attack: 255 events of 8 KB in every hook of a run
// that continues itself by calling its own tool.
func floods() *Composition {
	c := &Composition{Copies: 1, Model: "quick", Module: Module{Loop: true, Hooks: map[string][]Action{}}}
	for _, hook := range hooks {
		c.Module.Hooks[hook] = []Action{{"emit", 8 << 10, 255}}
	}
	return c
}

// spins returns a composition like that of floods, except that its hooks compute instead of
// emitting events.
func spins() *Composition {
	c := &Composition{Copies: 1, Model: "quick", Module: Module{Loop: true, Hooks: map[string][]Action{}}}
	for _, hook := range hooks {
		c.Module.Hooks[hook] = []Action{{"spin", 1000, 1}}
	}
	return c
}

// TestFlood checks that a server survives a flood from four runs while clients cancel some of them,
// and then a flood from another tenant, whose module the operator blocks. With the flag for goals,
// it also checks the memory, the time to cancel and block, and the latency of honest runs relative
// to their latency while four runs only compute.
func TestFlood(t *testing.T) {
	longtest.Skip(t)
	s := serve(t)
	ctx := t.Context()
	wasm := guestbuild.Build(t, "internal/exhaust/wasm-glutton")
	p, err := newPlayer(ctx, s, wasm)
	require.NoError(t, err)
	mallory, err := s.tenant(ctx, "mallory", nil)
	require.NoError(t, err)
	require.NoError(t, mallory.put(ctx, "floods", floods().agentFile(), wasm))
	require.NoError(t, mallory.put(ctx, "spins", spins().agentFile(), nil))
	idle := s.memory("VmRSS")

	alone := p.honest(t, min(*flood, time.Minute))
	stop := mallory.keepRunning(ctx, "spins", 4)
	neighbor := p.honest(t, min(*flood, 2*time.Minute))
	stop()
	_, err = mallory.cancelAll(ctx)
	require.NoError(t, err)

	disk := s.disk()
	peak := &Report{}
	watched, end := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(watched, peak) })
	stop = mallory.keepRunning(ctx, "floods", 4)
	var canceled []time.Duration
	watching.Go(func() { canceled = mallory.cancelSome(watched) })
	during := p.honest(t, *flood)
	require.NoError(t, s.Alive())
	stop()
	end()
	watching.Wait()
	last, err := mallory.cancelAll(ctx)
	require.NoError(t, err)
	canceled = append(canceled, last...)
	blocked := p.block(t, wasm)

	ratio := float64(percentile(during, 99)) / float64(percentile(neighbor, 99))
	t.Logf("idle %d MB, peak %d MB above it, disk %d MB more", idle>>20, (peak.Peak-idle)>>20, (s.disk()-disk)>>20)
	t.Logf(
		"honest runs, p50 / p99: %s alone, %s beside four that compute, %s beside four that flood (p99: %.2f times)",
		halves(alone),
		halves(neighbor),
		halves(during),
		ratio,
	)
	t.Logf(
		"cancel during the flood, p50 / p99 of %d: %s; block: %v",
		len(canceled),
		halves(canceled),
		blocked.Round(time.Millisecond),
	)
	if *goals {
		require.LessOrEqual(t, peak.Peak-idle, int64(goalMemory))
		require.LessOrEqual(t, ratio, goalRatio)
		require.LessOrEqual(t, percentile(canceled, 99), goalCancel)
		require.LessOrEqual(t, blocked, goalCancel)
	}
}

func halves(of []time.Duration) string {
	return fmt.Sprintf("%.1f / %.1f ms", percentile(of, 50).Seconds()*1e3, percentile(of, 99).Seconds()*1e3)
}

// honest runs the neighbor's agent repeatedly for d, and returns the duration of each run.
func (p *player) honest(t *testing.T, d time.Duration) (took []time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		began := time.Now()
		r, err := p.neighbor.finish(t.Context(), "honest")
		require.NoError(t, err)
		require.Equal(t, "stop", r.FinishReason, r.Error)
		took = append(took, time.Since(began))
	}
	return took
}

// keepRunning keeps n runs of an agent active until stop is called.
func (t *tenant) keepRunning(ctx context.Context, agent string, n int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for ctx.Err() == nil {
				r, err := t.start(ctx, agent)
				for err == nil && ctx.Err() == nil && r.Status != "finished" {
					time.Sleep(100 * time.Millisecond)
					r, err = t.run(ctx, r.ID)
				}
				if err != nil {
					time.Sleep(100 * time.Millisecond)
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// cancelSome cancels one of the tenant's runs every second until ctx is done, and returns how long
// each took to end.
func (t *tenant) cancelSome(ctx context.Context) (took []time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return took
		case <-time.After(time.Second):
		}
		var list struct {
			Runs []*run `json:"runs"`
		}
		if err := t.server.call(ctx, "GET", "/v1/runs?limit=1&status=running", t.key, nil, &list); err != nil ||
			len(list.Runs) == 0 {
			continue
		}
		if d, err := t.cancel(context.WithoutCancel(ctx), list.Runs[0].ID); err == nil {
			took = append(took, d)
		} else if !errors.Is(err, context.Canceled) {
			took = append(took, cancelTimeout)
		}
	}
}

// block starts the flood as another tenant, blocks that tenant's module, and returns how long the
// last run took to end.
func (p *player) block(t *testing.T, wasm []byte) time.Duration {
	t.Helper()
	ctx := t.Context()
	mallory, err := p.server.tenant(ctx, "blocked", nil)
	require.NoError(t, err)
	// A custom section named x changes the digest.
	own := append(append([]byte{}, wasm...), 0, 2, 1, 'x')
	require.NoError(t, mallory.put(ctx, "floods", floods().agentFile(), own))
	var ids []string
	for range 2 { // the flood delays its tenant's next requests by seconds
		if r, err := mallory.start(ctx, "floods"); status(err) != http.StatusTooManyRequests {
			require.NoError(t, err)
			ids = append(ids, r.ID)
		}
	}
	time.Sleep(2 * time.Second)
	var module struct{ Digest string }
	require.NoError(t, mallory.server.call(ctx, "GET", "/v1/modules/glutton@1", mallory.key, nil, &module))
	began := time.Now()
	require.NoError(
		t,
		mallory.server.call(
			ctx,
			"PUT",
			"/v1/blocks/"+module.Digest,
			mallory.server.operator,
			map[string]any{"reason": "it floods"},
			nil,
		),
	)
	for _, id := range ids {
		for {
			r, err := mallory.run(ctx, id)
			require.NoError(t, err)
			if r.Status == "finished" {
				break
			}
			require.Less(t, time.Since(began), cancelTimeout, "run %s goes on with a blocked module", id)
			time.Sleep(5 * time.Millisecond)
		}
	}
	return time.Since(began)
}
