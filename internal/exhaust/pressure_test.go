package exhaust

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/longtest"
)

// envBallast is the environment variable that makes the test binary a ballast.
const envBallast = "EXHAUST_BALLAST"

func TestMain(m *testing.M) {
	if os.Getenv(envBallast) != "" {
		hold(os.Stdin)
		return
	}
	dir, err := os.MkdirTemp("", "exhaust-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// hold reads r into memory, and returns when r ends.
func hold(r io.Reader) {
	var held [][]byte
	for in := bufio.NewReader(r); ; {
		piece := make([]byte, 1<<20)
		if _, err := io.ReadFull(in, piece); err != nil {
			break
		}
		held = append(held, piece)
	}
	_ = held
}

// A ballast is a process that uses memory of a server's cgroup.
type ballast struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

func (s *Server) ballast(t *testing.T) *ballast {
	t.Helper()
	b := &ballast{cmd: exec.Command("/bin/sh", "-c", `echo $$ > "$0" && exec "$@"`, s.group.procs, os.Args[0])}
	b.cmd.Env = append(os.Environ(), envBallast+"=1", "GOGC=off")
	var err error
	b.in, err = b.cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, b.cmd.Start())
	t.Cleanup(b.end)
	return b
}

// add makes the ballast use n MiB more.
func (b *ballast) add(t *testing.T, n int) {
	t.Helper()
	_, err := b.in.Write(make([]byte, n<<20))
	require.NoError(t, err)
}

func (b *ballast) end() {
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
}

// metric returns the value of one of the server's metrics.
func (s *Server) metric(t *testing.T, name string) (value float64) {
	t.Helper()
	res, err := s.request(t.Context(), http.MethodGet, "/metrics", s.operator, nil)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			_, err := fmt.Sscan(text, &value)
			require.NoError(t, err)
			return value
		}
	}
	t.Fatalf("no metric %s in %s", name, b)
	return 0
}

// TestPressure checks that a server survives while the memory of its cgroup is used up. The server
// must reject new runs and then end at least one of the runs that hold much memory. An honest run
// must finish, and new runs must start when memory is free again.
func TestPressure(t *testing.T) {
	longtest.Skip(t)
	s := serveIn(t, 640<<20)
	ctx := t.Context()
	wasm := guestbuild.Build(t, "internal/exhaust/wasm-glutton")
	p, err := newPlayer(ctx, s, wasm)
	require.NoError(t, err)
	const n = 100
	require.NoError(t, p.neighbor.put(ctx, "steps", steps(n).agentFile(), nil))
	mallory, err := s.tenant(ctx, "mallory", nil)
	require.NoError(t, err)
	hog := &Composition{
		Copies: 1,
		Small:  true,
		Model:  "steps-1000",
		Module: Module{Hooks: map[string][]Action{"before_agent": {{"local_set", 900 << 10, 4}}}},
	}
	require.NoError(t, mallory.put(ctx, "hoards", hog.agentFile(), wasm))
	honest := p.neighbor.begin(ctx, t, "steps", 1)
	hogs := mallory.begin(ctx, t, "hoards", 4)
	require.Eventually(t, func() bool {
		for _, id := range hogs {
			if r, err := mallory.run(ctx, id); err != nil || r.LastEvent < 5 {
				return false
			}
		}
		return true
	}, time.Minute, 50*time.Millisecond)

	b := s.ballast(t)
	rejected := false
	for range 400 {
		if s.metric(t, "agent_runner_overload_evicted_total") > 0 {
			break
		}
		if s.metric(t, "agent_runner_memory_pressure") < 0.96 {
			b.add(t, 8)
		}
		if s.metric(t, "agent_runner_overload_rejecting") > 0 && !rejected {
			res, err := s.request(
				ctx,
				http.MethodPost,
				"/v1/runs",
				p.neighbor.key,
				encode(map[string]any{"agent": "honest", "input": "Go."}),
			)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			if rejected = res.StatusCode == http.StatusServiceUnavailable; rejected {
				require.NotEmpty(t, res.Header.Get("Retry-After"))
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.end()
	require.NoError(t, s.Alive())
	require.True(t, rejected, "no run was rejected")

	require.Eventually(t, func() bool {
		r, err := p.neighbor.start(ctx, "honest")
		return err == nil && r.ID != ""
	}, time.Minute, 100*time.Millisecond, "there is memory again")
	p.answered(t, honest, n)
	var errs []string
	for _, id := range hogs {
		r, err := mallory.run(ctx, id)
		require.NoError(t, err)
		if r.Status == "finished" {
			errs = append(errs, r.Error)
			require.Equal(t, "error", r.FinishReason)
			require.Contains(t, r.Error, "the server ran out of memory")
		}
	}
	require.NotEmpty(t, errs, "no run was ended")
	t.Logf("%d of %d large runs ended: %s", len(errs), len(hogs), errs[0])
	_, err = mallory.cancelAll(ctx)
	require.NoError(t, err)
}
