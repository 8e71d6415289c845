package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/load"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// workers is the number of concurrent runs.
const workers = 8

// A sample holds the measurements of a load.
type sample struct {
	times     stats.Durations // one duration per run
	took      time.Duration
	processor time.Duration // processor time of the server
}

func (s *sample) perSecond() float64 { return float64(len(s.times)) / s.took.Seconds() }

// busy returns the processor time of the server in percent of one processor.
func (s *sample) busy() float64 { return 100 * s.processor.Seconds() / s.took.Seconds() }

// load runs the agents of the given name for the duration d, with the given number of concurrent
// workers. It alternates between the tenants. load stops early if a run fails, and returns the time
// of each run.
func (p *platform) load(list []*tenant, agent string, workers int, d time.Duration) (*sample, error) {
	ran := p.processor()
	times, took, err := load.For(workers, d, func(i int) error {
		return list[i%len(list)].Run(context.Background(), agent)
	})
	return &sample{times, took, p.processor() - ran}, err
}

// steady starts perSecond runs per second for the duration d, even while earlier runs are active. It
// runs the agents of the given name, and alternates between the tenants. It returns the time of each
// run from its scheduled start.
func (p *platform) steady(list []*tenant, agent string, perSecond float64, d time.Duration) (*sample, error) {
	var mu sync.Mutex
	var failed error
	var wg sync.WaitGroup
	out := &sample{}
	began, ran := time.Now(), p.processor()
	for i := range int(perSecond * d.Seconds()) {
		at := began.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
		time.Sleep(time.Until(at))
		wg.Go(func() {
			err := list[i%len(list)].Run(context.Background(), agent)
			took := time.Since(at)
			mu.Lock()
			defer mu.Unlock()
			out.times = append(out.times, took)
			failed = errors.Join(failed, err)
		})
	}
	wg.Wait()
	out.took, out.processor = time.Since(began), p.processor()-ran
	return out, failed
}

// each runs the agent of the given name once for each tenant. At most workers runs are concurrent.
func each(list []*tenant, agent string) error {
	return load.Each(workers, len(list), func(i int) error { return list[i].Run(context.Background(), agent) })
}

// throughput measures runs per second by the number of modules and of tenants, and writes a table
// to text.
func throughput(p *plan, s *platform, text *bytes.Buffer) error {
	list, err := s.tenants("tenant-", slices.Max(p.tenants), "quick", p.modules...)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		text,
		"## Runs\n\n%d concurrent runs, of the tenants in turn. Processor is the server's processor time for each run.\n\n"+
			"| modules | tenants | runs per second | p50 | p99 | processor |\n| ---: | ---: | ---: | ---: | ---: | ---: |\n",
		workers,
	)
	for _, modules := range p.modules {
		for _, tenants := range p.tenants {
			agent := agentOf("quick", modules)
			if err := each(list[:tenants], agent); err != nil { // builds the agents and fills the caches
				return err
			}
			got, err := s.load(list[:tenants], agent, workers, p.each)
			if err != nil {
				return err
			}
			fmt.Fprintf(
				text,
				"| %d | %s | %.0f | %s | %s | %s |\n",
				modules,
				count(tenants),
				got.perSecond(),
				stats.Milliseconds(got.times.At(0.5)),
				stats.Milliseconds(got.times.At(0.99)),
				stats.Milliseconds(got.processor/time.Duration(len(got.times))),
			)
		}
	}
	text.WriteString("\n")
	return nil
}

func count(n int) string {
	if n >= 1000 {
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}

func size(bytes int64) string {
	if bytes < 10<<10 {
		return fmt.Sprintf("%.1f KB", float64(bytes)/1024)
	}
	if bytes < 10<<20 {
		return fmt.Sprintf("%d KB", bytes>>10)
	}
	return fmt.Sprintf("%d MB", bytes>>20)
}
