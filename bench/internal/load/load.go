// Package load calls a function from concurrent workers.
package load

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// For calls do from the given number of workers, until the duration d has passed or a call fails. The
// calls are numbered from 0. For returns the times of the calls and the time until the last call ended,
// with the errors of all workers.
func For(workers int, d time.Duration, do func(i int) error) (times stats.Durations, took time.Duration, err error) {
	var next atomic.Int64
	var stop atomic.Bool
	var mu sync.Mutex
	var all sync.WaitGroup
	began := time.Now()
	for range workers {
		all.Go(func() {
			var mine stats.Durations
			var failed error
			for !stop.Load() && time.Since(began) < d {
				at := time.Now()
				failed = do(int(next.Add(1) - 1))
				mine = append(mine, time.Since(at))
				if failed != nil {
					stop.Store(true)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			times, err = append(times, mine...), errors.Join(err, failed)
		})
	}
	all.Wait()
	return times, time.Since(began), err
}

// Each calls do with the numbers from 0 to n-1, from the given number of workers. It makes all calls, and
// returns the first error.
func Each(workers, n int, do func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(workers)
	for i := range n {
		g.Go(func() error { return do(i) })
	}
	return g.Wait()
}
