package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agent-runner/agent-runner/bench/internal/apiclient"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// killed is the number of runs in progress on a server that is killed.
const killed = 10

// takeover measures the time from the end of a server to the next event of each of its runs.
func takeover(s *setup) error {
	fmt.Fprintf(
		&s.text,
		"## A server is killed\n\nThe time from SIGKILL of one of three servers to the next event of each of its %d runs, which another server resumes.\n\n"+
			"| hints | kills | p50 | p99 | longest |\n| --- | ---: | ---: | ---: | ---: |\n",
		killed,
	)
	for _, transport := range []string{"notify", "nats"} {
		c, err := s.cluster(3, transport, 0)
		if err != nil {
			return err
		}
		var all stats.Durations
		for range s.kills {
			took, err := c.kill()
			if err != nil {
				return err
			}
			all = append(all, took...)
		}
		fmt.Fprintf(
			&s.text,
			"| %s | %d | %s | %s | %s |\n",
			strings.ToUpper(transport),
			s.kills,
			ms(all.At(0.5)),
			ms(all.At(0.99)),
			ms(all.At(1)),
		)
		s.closeClusters()
	}
	s.text.WriteString("\n")
	return nil
}

// kill starts runs at the last server, kills it, and starts it again. It returns the time from the kill
// to the next event of each run.
func (c *cluster) kill() (out stats.Durations, err error) {
	ctx, last := context.Background(), len(c.nodes)-1
	var mu sync.Mutex
	var died time.Time
	var all errgroup.Group
	runs := map[string]*apiclient.Client{} // clients that follow them, at the first server
	for i := range killed {
		run, err := c.nodes[last].tenants[i%tenants].Start(ctx, "ticks")
		if err != nil {
			return nil, err
		}
		runs[run] = c.nodes[0].tenants[i%tenants]
	}
	time.Sleep(2 * time.Second)
	for run, client := range runs {
		all.Go(func() error {
			for e, err := range client.Follow(ctx, run, 0) {
				if err != nil {
					return err
				}
				at := time.Now()
				mu.Lock()
				resumed := !died.IsZero() && e.TimeMS > died.UnixMilli()
				if resumed {
					out = append(out, at.Sub(died))
				}
				mu.Unlock()
				if resumed {
					return nil
				}
			}
			return nil
		})
	}
	time.Sleep(time.Second)
	mu.Lock()
	c.nodes[last].Kill()
	died = time.Now()
	mu.Unlock()
	err = all.Wait()
	for run, client := range runs {
		_, e := client.CancelRun(ctx, run)
		err = errors.Join(err, e)
	}
	if err == nil {
		err = c.start(last)
	}
	return out, err
}
