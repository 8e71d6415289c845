package main

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/bench/internal/work"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// neighbours compares the p99 of a tenant's hook next to an equally busy tenant with its p99 next
// to a tenant whose hooks never end.
func neighbours(ctx context.Context, plain []byte, all []runaway) error {
	s, err := newSandbox(ctx, sandbox.Options{})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	im, err := warmImage(ctx, s, plain, 100)
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
	var beside [2]stats.Durations
	for range 40 { // turns are short, so that the machine's other load affects both
		for i, other := range []func(<-chan struct{}) error{honest, worst} {
			times, err := p99(clean(ctx, im), in, other)
			if err != nil {
				return err
			}
			beside[i] = append(beside[i], times)
		}
	}
	a, b := beside[1].At(0.5), beside[0].At(0.5)
	row(
		"p99 of a tenant's 1 KB hook on two processors, next to the worst tenant",
		a,
		b,
		"next to an equally busy honest tenant:",
		ratio(a, b),
		"≤ 1.5",
	)
	return nil
}

// p99 calls the guest g repeatedly for 500 ms, while the function other runs concurrently. It
// returns the 99th percentile of the durations of the calls.
func p99(g guest, in []byte, other func(done <-chan struct{}) error) (time.Duration, error) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = other(done) })
	var times stats.Durations
	var err error
	for began := time.Now(); time.Since(began) < 500*time.Millisecond && err == nil; {
		from := time.Now()
		_, err = g(in)
		times = append(times, time.Since(from))
	}
	close(done)
	wg.Wait()
	return times.At(0.99), errors.Join(err, failed)
}
