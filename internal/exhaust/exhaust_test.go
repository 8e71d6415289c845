package exhaust

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/guestbuild"
	"github.com/agent-runner/agent-runner/internal/longtest"
)

var (
	compositions = flag.Int("compositions", 12, "how many compositions TestCompositions plays")
	seed         = flag.Uint64("seed", 1, "the seed of the first of them")
	each         = flag.Duration("each", time.Second, "for how long each is played")
	atOnce       = flag.Int("at-once", 3, "how many are played at once")
	memory       = flag.Int64("memory", 2<<30, "the limit of the server's memory, in bytes")
)

// built is the directory of the command that program builds, which exists while tests run.
var built string

// program builds the command agent-runner, once for all tests, and returns its path.
var program = sync.OnceValues(func() (string, error) {
	root, err := guestbuild.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(built, "agent-runner")
	build := exec.Command("go", "build", "-o", path, "./cmd/agent-runner")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build agent-runner: %w\n%s", err, out)
	}
	return path, nil
})

// serve starts a server with the default memory limit. The server ends with the test.
func serve(t *testing.T, args ...string) *Server {
	t.Helper()
	return serveIn(t, *memory, args...)
}

// serveIn is like serve, with the given memory limit in bytes.
func serveIn(t *testing.T, memory int64, args ...string) *Server {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("a hard memory limit needs Linux's cgroups")
	}
	path, err := program()
	require.NoError(t, err)
	model := newModel()
	s := &Server{Program: path, Dir: t.TempDir(), Model: model.URL, Memory: memory, Args: args}
	var none *CgroupError
	if err := s.Start(); errors.As(err, &none) {
		t.Skip(err)
	} else {
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		model.CloseClientConnections()
		model.Close()
	})
	return s
}

// TestCompositions checks that a server survives the compositions of consecutive seeds, serves
// the neighbor meanwhile, and uses less than 95 % of its memory limit.
func TestCompositions(t *testing.T) {
	longtest.Skip(t)
	s := serve(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	p, err := newPlayer(ctx, s, guestbuild.Build(t, "internal/exhaust/wasm-glutton"))
	require.NoError(t, err)
	idle := s.memory("VmRSS")
	began := time.Now()
	var next, served atomic.Int64
	var peak atomic.Int64
	var workers sync.WaitGroup
	for range *atOnce {
		workers.Go(func() {
			for n := next.Add(1); n <= int64(*compositions) && ctx.Err() == nil; n = next.Add(1) {
				c := Generate(*seed + uint64(n) - 1)
				r, err := p.play(ctx, c, *each)
				if err != nil {
					t.Errorf("%v\nagain with: -compositions 1 -seed %d\n%s", err, c.Seed, c)
					if s.Alive() != nil {
						cancel(err)
					}
					continue
				}
				if r.Served == 0 {
					t.Errorf("the neighbor was not served in %v\nagain with: -compositions 1 -seed %d\n%s", *each, c.Seed, c)
				}
				served.Add(int64(r.Served))
				for old := peak.Load(); r.Peak > old && !peak.CompareAndSwap(old, r.Peak); old = peak.Load() {
				}
				t.Logf(
					"seed %d: %d runs, %d refused, peak %d MB, %d canceled within %v, neighbor %d in at most %v",
					c.Seed,
					r.Runs,
					r.Refused,
					r.Peak>>20,
					len(r.Cancel),
					percentile(r.Cancel, 100).Round(time.Millisecond),
					r.Served,
					r.Longest.Round(time.Millisecond),
				)
			}
		})
	}
	workers.Wait()
	t.Logf(
		"%d compositions in %v: idle %d MB, peak %d MB of %d, disk %d MB, %d runs of the neighbor",
		*compositions,
		time.Since(began).Round(time.Second),
		idle>>20,
		peak.Load()>>20,
		*memory>>20,
		s.disk()>>20,
		served.Load(),
	)
	require.Less(t, peak.Load(), *memory/100*95, "resident memory reached the limit's last twentieth")
}
