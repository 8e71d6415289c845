package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"
)

// An event is an event of a run, as a client receives it.
type event struct {
	Type  string
	Seq   int64
	MS    int64 `json:"time_ms"` // Unix time
	Chunk struct{ Text string }

	at time.Time // when the client received it
}

// follow calls fn for each event of a run, read from a server, until fn returns false or the run ends.
func (c *cluster) follow(n *node, key, run string, fn func(*event) bool) error {
	body, err := c.stream(n, "GET", "/v1/runs/"+run+"/events", key, nil)
	if err != nil {
		return err
	}
	defer body.Close()
	scan := bufio.NewScanner(body)
	scan.Buffer(nil, 4<<20)
	for scan.Scan() {
		text, ok := strings.CutPrefix(scan.Text(), "data: ")
		if !ok {
			continue
		}
		e := event{at: time.Now()}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return err
		}
		if !fn(&e) || e.Type == "run_finished" {
			return nil
		}
	}
	if err := scan.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// begin starts a run at a server and returns its id.
func (c *cluster) begin(n *node, key, agent string) (string, error) {
	var run struct{ ID string }
	err := c.json(n, "POST", "/v1/runs", key, map[string]any{"agent": agent, "input": "Do it."}, &run)
	return run.ID, err
}

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
				ms(same.at(0.5)),
				ms(same.at(0.99)),
				ms(other.at(0.5)),
				ms(other.at(0.99)),
				ms(later.at(0.5)),
				ms(later.at(0.99)),
			)
		}
		s.closeClusters()
	}
	s.text.WriteString("\n")
	return nil
}

// delays starts n runs at the first server and follows each there and at the second one. It returns the
// delays of chunks at both, and by how much the second was later.
func (c *cluster) delays(n int) (same, other, later sample, err error) {
	var mu sync.Mutex
	var all sync.WaitGroup
	first := make(map[string]map[int]time.Duration) // delays by chunk and server
	for i := range n {
		key := c.keys[i%len(c.keys)]
		run, e := c.begin(c.nodes[0], key, "slow")
		if e != nil {
			return nil, nil, nil, e
		}
		for at, server := range c.nodes[:2] {
			all.Go(func() {
				e := c.follow(server, key, run, func(e *event) bool {
					sent, parsed := strconv.ParseInt(strings.TrimSpace(e.Chunk.Text), 10, 64)
					if parsed != nil || e.Type != "chunk" {
						return true
					}
					mu.Lock()
					defer mu.Unlock()
					id := fmt.Sprint(run, sent)
					if first[id] == nil {
						first[id] = map[int]time.Duration{}
					}
					first[id][at] = e.at.Sub(time.Unix(0, sent))
					return true
				})
				if e != nil {
					mu.Lock()
					defer mu.Unlock()
					err = e
				}
			})
		}
		time.Sleep(slowPause * slowChunks / 2 / time.Duration(n) / 2) // so that the runs are not in step
	}
	all.Wait()
	for _, d := range first {
		if len(d) == 2 {
			same, other, later = append(same, d[0]), append(other, d[1]), append(later, d[1]-d[0])
		}
	}
	return same, other, later, err
}
