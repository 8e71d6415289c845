package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/bench/internal/work"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// hooks compares the times of a hook on a warm instance of each contender. plain and ext are the
// guest as a module and as an Extism plug-in.
func hooks(ctx context.Context, plain, ext []byte) error {
	s, err := newSandbox(ctx, sandbox.Options{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	im, err := warmImage(ctx, s, plain, 100)
	if err != nil {
		return err
	}
	metered, err := warm(ctx, im)
	if err != nil {
		return err
	}
	r, err := newRaw(ctx, plain)
	if err != nil {
		return err
	}
	defer r.runtime.Close(ctx)
	unmetered, err := r.warm(ctx)
	if err != nil {
		return err
	}
	stoppable, err := plugin(ctx, ext, 60_000)
	if err != nil {
		return err
	}
	for _, kb := range []int{1, 100} {
		in := work.Conversation(kb << 10)
		var calls []func() error
		for name, g := range map[string]guest{
			"here": metered, "wazero": unmetered, "Extism": stoppable, "clean": clean(ctx, im),
		} {
			if err := check(g, in); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		for _, g := range []guest{metered, unmetered, stoppable, clean(ctx, im)} {
			calls = append(calls, func() error { _, err := g(in); return err })
		}
		t, err := byTurns(calls...)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("hook, %d KB", kb)
		row(name+", metered", t[0], t[1], "unmetered, wazero alone:", ratio(t[0], t[1]), "≤ 1.15")
		row(name+", metered", t[0], t[2], "Extism Go SDK with a timeout:", ratio(t[2], t[0]), "≥ 6 times faster")
		target := ""
		if kb == 1 {
			target = "≤ 1.2"
		}
		row("clean instance, "+name+", and reset", t[3], t[0], "the hook on a warm instance:", ratio(t[3], t[0]), target)
	}
	return nil
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(b) }

// instances compares the time for a fresh instance from the pool with the time for a new instance
// in wazero alone.
func instances(ctx context.Context, plain []byte) error {
	s, err := newSandbox(ctx, sandbox.Options{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	im, err := warmImage(ctx, s, plain, 100)
	if err != nil {
		return err
	}
	r, err := newRaw(ctx, plain)
	if err != nil {
		return err
	}
	defer r.runtime.Close(ctx)
	t, err := byTurns(func() error {
		in, err := im.Instantiate(ctx, sandbox.InstanceConfig{})
		if err == nil {
			in.Close()
		}
		return err
	}, func() error {
		m, err := r.instantiate(ctx)
		if err != nil {
			return err
		}
		return m.Close(ctx)
	})
	if err != nil {
		return err
	}
	row("clean instance from the pool", t[0], t[1], "instantiating, wazero alone:", ratio(t[1], t[0]), "≥ 40 times faster")
	return nil
}

// ready compares the first load of a module with the second, in a new sandbox with the same cache.
func ready(ctx context.Context, plain []byte) error {
	const rounds = 5
	var first, second stats.Durations
	for range rounds {
		dir, err := os.MkdirTemp("", "figures")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		for _, times := range []*stats.Durations{&first, &second} {
			s, err := newSandbox(ctx, sandbox.Options{CacheDir: dir})
			if err != nil {
				return err
			}
			began := time.Now()
			im, err := s.Load(ctx, "plain.wasm", plain, sandbox.Limits{})
			if err != nil {
				return err
			}
			in, err := im.Instantiate(ctx, sandbox.InstanceConfig{})
			if err != nil {
				return err
			}
			*times = append(*times, time.Since(began))
			in.Close()
			if err := s.Close(ctx); err != nil {
				return err
			}
		}
	}
	a, b := second.At(0.5), first.At(0.5)
	row("from bytes to an instance, the second time", a, b, "the first time:", ratio(b, a), "≥ 10 times faster")
	return nil
}

const held = 1000

// resident creates instances, calls a hook of each, and prints the resident memory of this process
// in MB: first its RSS, then its PSS.
func resident(ctx context.Context, path string) error {
	plain, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	s, err := newSandbox(ctx, sandbox.Options{})
	if err != nil {
		return err
	}
	im, err := warmImage(ctx, s, plain, 1)
	if err != nil {
		return err
	}
	x := &exchange{in: work.Conversation(1 << 10)}
	for range held {
		in, err := im.Instantiate(ctx, sandbox.InstanceConfig{Value: x})
		if err != nil {
			return err
		}
		if _, err := callHook(ctx, in, x); err != nil {
			return err
		}
	}
	b, err := os.ReadFile("/proc/self/smaps_rollup")
	if err != nil {
		return err
	}
	for _, name := range []string{"\nRss:", "\nPss:"} {
		_, rest, _ := strings.Cut(string(b), name)
		kb, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			return err
		}
		fmt.Println(kb * 1024 / 1_000_000)
	}
	return nil
}

func residentRow(plain string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	out, err := exec.Command(self, "resident", plain).Output()
	if err != nil {
		return fmt.Errorf("resident: %w", err)
	}
	mb := strings.Fields(string(out))
	if len(mb) != 2 {
		return fmt.Errorf("resident: it printed %q", out)
	}
	fmt.Printf(
		"| resident memory of a process with %d instances that ran a 1 KB hook | %s MB, pages that several share counted once | %s MB, counted for each (RSS) | | ≤ 1000 MB |\n",
		held,
		mb[1],
		mb[0],
	)
	return nil
}
