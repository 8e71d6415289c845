package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/bench/internal/apiclient"
	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// events measures the time from a chunk of the model to clients that follow the run, at its server and
// at another one.
func events(s *setup) error {
	fmt.Fprintf(
		&s.text,
		"## Events\n\nThe time from a chunk that the model sends to a client that follows the run, at the run's server and at another one. It includes the commit of the "+
			"event. Each run has %d chunks, one each %v. The last column is the time by which the other server is later, for the same chunk.\n\n"+
			"| hints | followed runs | p50, same server | p99 | p50, other server | p99 | p50, later | p99 |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
		slowChunks,
		slowPause,
	)
	for _, transport := range []string{"notify", "nats"} {
		c, err := s.cluster(3, transport, 0)
		if err != nil {
			return err
		}
		for _, n := range append([]int{0}, s.followed...) {
			same, other, later, err := c.delays(max(1, n))
			if err != nil {
				return err
			}
			if n == 0 {
				continue // the first run warms up
			}
			fmt.Fprintf(
				&s.text,
				"| %s | %d | %s | %s | %s | %s | %s | %s |\n",
				strings.ToUpper(transport),
				n,
				ms(same.At(0.5)),
				ms(same.At(0.99)),
				ms(other.At(0.5)),
				ms(other.At(0.99)),
				ms(later.At(0.5)),
				ms(later.At(0.99)),
			)
		}
		s.closeClusters()
	}
	s.text.WriteString("\n")
	return nil
}

// delays starts n runs at the first server and follows each there and at the second one. It returns the
// delays of chunks at both, and by how much the second was later.
func (c *cluster) delays(n int) (same, other, later stats.Durations, err error) {
	var all errgroup.Group
	runs := make([][2]map[int64]time.Duration, n) // delays at both servers
	for i := range runs {
		run, err := c.nodes[0].tenants[i%tenants].Start(context.Background(), "slow")
		if err != nil {
			return nil, nil, nil, err
		}
		for at, server := range c.nodes[:2] {
			all.Go(func() (err error) {
				runs[i][at], err = chunkDelays(server.tenants[i%tenants], run)
				return err
			})
		}
		time.Sleep(slowPause * slowChunks / 2 / time.Duration(n) / 2) // so that the runs are not in step
	}
	if err := all.Wait(); err != nil {
		return nil, nil, nil, err
	}
	for _, run := range runs {
		for sent, first := range run[0] {
			if second, ok := run[1][sent]; ok {
				same, other, later = append(same, first), append(other, second), append(later, second-first)
			}
		}
	}
	return same, other, later, nil
}

// chunkDelays follows a run of the model slow, and returns the delay of each chunk by the time at which the
// model sent it, in nanoseconds of Unix time.
func chunkDelays(c *apiclient.Client, run string) (map[int64]time.Duration, error) {
	delays := map[int64]time.Duration{}
	for e, err := range c.Follow(context.Background(), run, 0) {
		if err != nil {
			return nil, err
		}
		if e.Type != abi.EventChunk {
			continue
		}
		if sent, err := strconv.ParseInt(strings.TrimSpace(e.Chunk.Text), 10, 64); err == nil {
			delays[sent] = time.Since(time.Unix(0, sent))
		}
	}
	return delays, nil
}
