package main

import (
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
)

// latency compares the time of a run, without other runs, between one server and three.
func latency(s *setup) error {
	one, err := s.cluster(1, "notify", 0)
	if err != nil {
		return err
	}
	notify, err := s.cluster(3, "notify", 0)
	if err != nil {
		return err
	}
	nats, err := s.cluster(3, "nats", 0)
	if err != nil {
		return err
	}
	fmt.Fprintf(
		&s.text,
		"## Time of a run\n\nOne run at a time, at the servers in turn; %d rounds of %d runs each, in turns. Without quotas.\n\n"+
			"| modules | servers | p50 | p99 | ratio of the median |\n| ---: | --- | ---: | ---: | ---: |\n",
		s.rounds,
		s.runs,
	)
	for modules, agent := range []string{"plain", "module"} {
		rounds := map[*cluster][]stats.Durations{}
		for range s.rounds {
			for _, c := range []*cluster{one, notify, nats} {
				took, err := c.times(agent, s.runs)
				if err != nil {
					return err
				}
				rounds[c] = append(rounds[c], took)
			}
		}
		for _, row := range []struct {
			name string
			*cluster
		}{{"one", one}, {"three, NOTIFY", notify}, {"three, NATS", nats}} {
			var all stats.Durations
			for _, r := range rounds[row.cluster] {
				all = append(all, r...)
			}
			fmt.Fprintf(&s.text, "| %d | %s | %s | %s | %s |\n", modules, row.name, ms(all.At(0.5)), ms(all.At(0.99)),
				stats.NewRatio(rounds[one], rounds[row.cluster], median))
		}
	}
	s.text.WriteString("\n")
	return nil
}

// times runs an agent n times, one after the other, and returns the time of each run.
func (c *cluster) times(agent string, n int) (stats.Durations, error) {
	var out stats.Durations
	for i := range n {
		began := time.Now()
		if err := c.run(i, agent); err != nil {
			return nil, err
		}
		out = append(out, time.Since(began))
	}
	return out, nil
}
