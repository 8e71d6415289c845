package main

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// memory measures the memory of idle tenants and of runs that wait for their model, and writes a
// table to text.
func memory(p *plan, s *platform, text *bytes.Buffer) error {
	text.WriteString(
		"## Memory\n\nGrowth of the server process for each. GOGC=10 keeps garbage small.\n\n| | memory |\n| --- | ---: |\n",
	)
	warm, err := s.tenants("warm-", 1, "quick", 0, 3)
	if err == nil {
		err = warm[0].populate(s.wasm, "slow", []int{0, 3})
	}
	if err != nil {
		return err
	}
	for _, agent := range []string{agentOf("quick", 0), agentOf("quick", 3)} {
		if _, err := s.load(warm, agent, workers, p.each); err != nil {
			return err
		}
	}
	most := p.tenants[len(p.tenants)-1]
	s.waitIdle()
	before := s.resident()
	if _, err := s.tenants("idle-", most, "quick", 0); err != nil {
		return err
	}
	s.waitIdle()
	fmt.Fprintf(text, "| the server without tenants | %s |\n", size(before))
	fmt.Fprintf(text, "| an idle tenant, of %s | %s |\n", count(most), more(s.resident()-before, most))
	for _, modules := range []int{0, 3} {
		s.waitIdle()
		before := s.resident()
		var ids []string
		for range p.runs {
			id, err := warm[0].Start(context.Background(), agentOf("slow", modules))
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		time.Sleep(time.Second) // until the runs wait for their model
		fmt.Fprintf(
			text,
			"| an active run with %d modules, of %s | %s |\n",
			modules,
			count(p.runs),
			more(s.resident()-before, p.runs),
		)
		for _, id := range ids {
			_, _ = warm[0].CancelRun(context.Background(), id) // fails if the run has ended
		}
	}
	text.WriteString("\n")
	return nil
}

// more formats the memory per item of n items. It treats a total below leastMemory as noise.
func more(bytes int64, n int) string {
	const leastMemory = 2 << 20
	if bytes < leastMemory {
		return "less than " + size(leastMemory/int64(n))
	}
	return size(bytes / int64(n))
}

// streams measures the delay of events for readers of active runs, and writes a table to text.
func streams(p *plan, s *platform, text *bytes.Buffer) error {
	const tenants, runsOfEach = 10, 2
	list, err := s.tenants("read-", tenants, "slow", 0)
	if err != nil {
		return err
	}
	var runs []live
	for _, t := range list {
		for range runsOfEach {
			id, err := t.Start(context.Background(), agentOf("slow", 0))
			if err != nil {
				return err
			}
			runs = append(runs, live{t, id})
		}
	}
	before := s.resident()
	var mu sync.Mutex
	var failed error
	lag, whole, peak := stats.Durations{}, 0, int64(0)
	var wg sync.WaitGroup
	for i := range p.readers {
		wg.Go(func() {
			mine, ended, err := runs[i%len(runs)].read()
			mu.Lock()
			defer mu.Unlock()
			lag = append(lag, mine...)
			if err != nil {
				failed = err
			}
			if ended {
				whole++
			}
		})
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	for watching := true; watching; {
		select {
		case <-done:
			watching = false
		case <-time.After(200 * time.Millisecond):
			peak = max(peak, s.resident())
		}
	}
	if failed != nil {
		return failed
	}
	fmt.Fprintf(
		text,
		"## Event streams\n\n%s readers of %d active runs that emit %d chunks per second each. Delay is the time from an event to its reader, "+
			"for events after the reader connected.\n\n| readers that got all events, in order | delay, p50 | p99 | memory for each |\n| ---: | ---: | ---: | ---: |\n| %s | %s | %s | %s |\n\n",
		count(
			p.readers,
		),
		len(runs),
		int(time.Second/slowPause),
		count(whole),
		stats.Milliseconds(lag.At(0.5)),
		stats.Milliseconds(lag.At(0.99)),
		size(max(0, peak-before)/int64(p.readers)),
	)
	return nil
}

// A live is an active run.
type live struct {
	*tenant
	run string
}

// read reads a run's events. It returns the delay of each event that was emitted after the request,
// and whether all events up to the end of the run arrived in order.
func (l *live) read() (lag []time.Duration, whole bool, err error) {
	began, next, inOrder := time.Now(), int64(1), true
	for e, err := range l.Follow(context.Background(), l.run, 0) {
		if err != nil {
			return nil, false, err
		}
		inOrder = inOrder && e.Seq == next
		next = e.Seq + 1
		if at := time.UnixMilli(e.TimeMS); at.After(began) {
			lag = append(lag, time.Since(at))
		}
		whole = e.Type == abi.EventRunFinished
	}
	return lag, whole && inOrder, nil
}
