package exhaust

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/longtest"
)

var kills = flag.Int("kills", 1, "how often TestKillHonest kills its server")

// lease is the lease period of the servers that are killed. It is shorter than the default, so that
// runs are resumed earlier.
const lease = 5 * time.Second

// quarantined is a run that the server does not resume, and the reason.
type quarantined struct {
	Run    string `json:"run"`
	Tenant string `json:"tenant"`
	Reason string `json:"reason"`
}

func (s *Server) quarantined(ctx context.Context, t *testing.T) []quarantined {
	t.Helper()
	var out struct{ Runs []quarantined }
	require.NoError(t, s.call(ctx, "GET", "/v1/quarantine", s.operator, nil, &out))
	return out.Runs
}

// steps returns an honest agent: its model calls a tool n times, with pauses, so that the journal
// holds n results.
func steps(n int) *Composition {
	return &Composition{
		Copies: 1,
		Small:  true,
		Model:  fmt.Sprint("steps-", n),
		Module: Module{Answer: map[string]int{"call_tool": 4 << 10},
			Hooks: map[string][]Action{"after_tool": {{"emit", 100, 3}, {"local_add", 0, 2}}}},
	}
}

// begin starts n runs of an agent and returns their ids.
func (t *tenant) begin(ctx context.Context, test *testing.T, agent string, n int) (ids []string) {
	test.Helper()
	for range n {
		r, err := t.start(ctx, agent)
		require.NoError(test, err)
		ids = append(ids, r.ID)
	}
	return ids
}

// restart kills the server and starts it again. It returns the time until the server was ready, and
// the duration of the neighbor's first run after that.
func (p *player) restart(t *testing.T) (ready, served time.Duration) {
	t.Helper()
	p.server.Kill()
	began := time.Now()
	require.NoError(t, p.server.Start())
	ready = time.Since(began)
	r, err := p.neighbor.finish(t.Context(), "honest")
	require.NoError(t, err)
	require.Equal(t, "stop", r.FinishReason, r.Error)
	return ready, time.Since(began) - ready
}

// answered waits until each honest run has the same answer as without kills, exactly once.
func (p *player) answered(t *testing.T, ids []string, steps int) {
	t.Helper()
	ctx := t.Context()
	deadline := time.Now().Add(5*time.Minute + time.Duration(steps)*stepTime)
	for _, id := range ids {
		r, err := p.neighbor.run(ctx, id)
		for err == nil && r.Status != "finished" {
			require.NotEqual(t, "quarantined", r.Status, r.Error)
			require.True(t, time.Now().Before(deadline), "run %s is %s", id, r.Status)
			time.Sleep(100 * time.Millisecond)
			r, err = p.neighbor.run(ctx, id)
		}
		require.NoError(t, err)
		require.Equal(t, "stop", r.FinishReason, r.Error)
		require.Equal(t, fmt.Sprintf("Done after %d steps.", steps), r.Output)
		require.Equal(t, 1, p.neighbor.ends(t, r), "ends of run %s", id)
	}
}

// ends returns the number of run_finished events in a run's journal. It checks that the event
// numbers have no gaps.
func (t *tenant) ends(test *testing.T, r *run) (n int) {
	test.Helper()
	for after := int64(0); after < r.LastEvent; {
		var page struct {
			Events []struct {
				Seq  int64  `json:"seq"`
				Type string `json:"type"`
			} `json:"events"`
		}
		require.NoError(
			test,
			t.server.call(test.Context(), "GET", fmt.Sprintf("/v1/runs/%s/events?after=%d", r.ID, after), t.key, nil, &page),
		)
		require.NotEmpty(test, page.Events)
		for _, e := range page.Events {
			require.Equal(test, after+1, e.Seq)
			if after = e.Seq; e.Type == "run_finished" {
				n++
			}
		}
	}
	return n
}

// TestKillHonest checks that all honest runs finish although their server is killed
// repeatedly at random moments, also directly after its start.
func TestKillHonest(t *testing.T) {
	longtest.Skip(t)
	s := serve(t, "--lease", lease.String())
	wasm := guestbuild.Build(t, "internal/exhaust/wasm-glutton")
	p, err := newPlayer(t.Context(), s, wasm)
	require.NoError(t, err)
	n := 10 * max(*kills, 1)
	require.NoError(t, p.neighbor.put(t.Context(), "steps", steps(n).agentFile(), nil))
	ids := p.neighbor.begin(t.Context(), t, "steps", 6)
	r := rand.New(rand.NewPCG(*seed, 2))
	var longest time.Duration
	for i := range *kills {
		pause := time.Duration(r.Int64N(int64(12 * time.Second)))
		if i == 0 {
			pause = min(pause, 2*time.Second)
		}
		if i%3 == 2 {
			pause = 0
		}
		time.Sleep(pause)
		ready, _ := p.restart(t)
		longest = max(longest, ready)
		require.Empty(t, s.quarantined(t.Context(), t))
	}
	p.answered(t, ids, n)
	require.Empty(t, s.quarantined(t.Context(), t))
	t.Logf(
		"%d kills: %d runs of %d steps have their answer; ready within %v",
		*kills,
		len(ids),
		n,
		longest.Round(time.Millisecond),
	)
}

// TestKill checks that a server survives a kill during a flood. The restarted server must serve an
// honest run after the restart, floods must be quarantined or end by their limits, and honest runs
// must finish. A run that the operator releases is resumed.
func TestKill(t *testing.T) {
	longtest.Skip(t)
	s := serve(t, "--lease", lease.String())
	ctx := t.Context()
	wasm := guestbuild.Build(t, "internal/exhaust/wasm-glutton")
	p, err := newPlayer(ctx, s, wasm)
	require.NoError(t, err)
	const n = 40
	require.NoError(t, p.neighbor.put(ctx, "steps", steps(n).agentFile(), nil))
	mallory, err := s.tenant(ctx, "mallory", nil)
	require.NoError(t, err)
	require.NoError(t, mallory.put(ctx, "floods", floods().agentFile(), wasm))
	honest := p.neighbor.begin(ctx, t, "steps", 4)

	stop := mallory.keepRunning(ctx, "floods", 4)
	time.Sleep(9 * time.Second) // heartbeats have evidence after about 5 s
	ready, served := p.restart(t)
	stop()
	p.answered(t, honest, n)

	held := s.quarantined(ctx, t)
	for _, q := range held {
		require.Equal(t, "mallory", q.Tenant, "only floods are quarantined")
	}
	ended := mallory.settled(t)
	t.Logf(
		"ready after %v, a new run's answer %v later; %d runs quarantined, %d ended by their limits",
		ready.Round(time.Millisecond),
		served.Round(time.Millisecond),
		len(held),
		ended,
	)
	if len(held) == 0 {
		return // the limits of the floods ended them before there was evidence
	}

	require.NoError(t, s.call(ctx, http.MethodDelete, "/v1/quarantine/"+held[0].Run, s.operator, nil, nil))
	before, err := mallory.run(ctx, held[0].Run)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		r, err := mallory.run(ctx, held[0].Run)
		return err == nil && (r.Status == "finished" || r.LastEvent > before.LastEvent)
	}, time.Minute, 50*time.Millisecond, "the released run is not resumed")
	require.False(t, slices.ContainsFunc(s.quarantined(ctx, t), func(q quarantined) bool { return q.Run == held[0].Run }))
}

// settled waits until no run of the tenant is active, and returns the number of ended runs.
func (t *tenant) settled(test *testing.T) (ended int) {
	test.Helper()
	require.Eventually(test, func() bool {
		var list struct {
			Runs []*run `json:"runs"`
		}
		if err := t.server.call(test.Context(), "GET", "/v1/runs?limit=100", t.key, nil, &list); err != nil {
			return false
		}
		ended = 0
		for _, r := range list.Runs {
			if r.Status == "finished" {
				ended++
			} else if r.Status != "quarantined" {
				return false
			}
		}
		return true
	}, 3*time.Minute, 200*time.Millisecond, "a flood has no end")
	return ended
}
