package main

import (
	"fmt"
	"strings"
	"sync"
	"time"
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
		var all sample
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
			ms(all.at(0.5)),
			ms(all.at(0.99)),
			ms(all.at(1)),
		)
		s.closeClusters()
	}
	s.text.WriteString("\n")
	return nil
}

// kill starts runs at the last server, kills it, and starts it again. It returns the time from the kill
// to the next event of each run.
func (c *cluster) kill() (out sample, err error) {
	last := len(c.nodes) - 1
	var mu sync.Mutex
	var all sync.WaitGroup
	var died time.Time
	runs := map[string]string{} // keys
	for i := range killed {
		key := c.keys[i%len(c.keys)]
		run, err := c.begin(c.nodes[last], key, "ticks")
		if err != nil {
			return nil, err
		}
		runs[run] = key
	}
	time.Sleep(2 * time.Second)
	for run, key := range runs {
		all.Go(func() {
			e := c.follow(c.nodes[0], key, run, func(e *event) bool {
				mu.Lock()
				defer mu.Unlock()
				if died.IsZero() || e.MS <= died.UnixMilli() {
					return true
				}
				out = append(out, e.at.Sub(died))
				return false
			})
			if e != nil {
				mu.Lock()
				defer mu.Unlock()
				err = e
			}
		})
	}
	time.Sleep(time.Second)
	mu.Lock()
	if e := c.nodes[last].cmd.Process.Kill(); e != nil {
		mu.Unlock()
		return nil, e
	}
	<-c.nodes[last].done
	died = time.Now()
	mu.Unlock()
	all.Wait()
	for run, key := range runs {
		if e := c.json(c.nodes[0], "POST", "/v1/runs/"+run+"/cancel", key, nil, nil); e != nil && err == nil {
			err = e
		}
	}
	if err == nil {
		err = c.start(last)
	}
	return out, err
}
