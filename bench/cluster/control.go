package main

import (
	"fmt"
	"strings"
	"time"
)

// control measures the time from a request at one server until another one obeys it.
func control(s *setup) error {
	fmt.Fprintf(
		&s.text,
		"## Requests that other servers obey\n\nThe time from the request at one server until a run on another one has ended, or until another one applies the policy. %d samples of each.\n\n"+
			"| hints | cancel: p50 | p99 | block a module: p50 | p99 | change a policy: p50 | p99 |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
		s.samples,
	)
	for _, transport := range []string{"notify", "nats"} {
		c, err := s.cluster(3, transport, 0)
		if err != nil {
			return err
		}
		row := "| " + strings.ToUpper(transport)
		for _, change := range []func() (time.Duration, error){c.cancels, c.blocks, c.policies} {
			var all sample
			for range s.samples {
				took, err := change()
				if err != nil {
					return err
				}
				all = append(all, took)
			}
			row += fmt.Sprintf(" | %s | %s", ms(all.at(0.5)), ms(all.at(0.99)))
		}
		s.text.WriteString(row + " |\n")
		s.closeClusters()
	}
	s.text.WriteString("\n")
	return nil
}

// endOf starts a run at the first server, calls change after a moment, and returns the time from then
// until the run has ended.
func (c *cluster) endOf(agent string, change func(run string) error) (took time.Duration, err error) {
	run, err := c.begin(c.nodes[0], c.keys[0], agent)
	if err != nil {
		return 0, err
	}
	var began time.Time
	changed := make(chan error, 1)
	time.AfterFunc(300*time.Millisecond, func() {
		began = time.Now()
		changed <- change(run)
	})
	var ended time.Time
	err = c.follow(c.nodes[0], c.keys[0], run, func(e *event) bool {
		ended = e.at
		return true
	})
	if e := <-changed; e != nil {
		return 0, e
	}
	return ended.Sub(began), err
}

func (c *cluster) cancels() (time.Duration, error) {
	return c.endOf("slow", func(run string) error {
		return c.json(c.nodes[1], "POST", "/v1/runs/"+run+"/cancel", c.keys[0], nil, nil)
	})
}

func (c *cluster) blocks() (time.Duration, error) {
	var m struct{ Digest string }
	if err := c.json(c.nodes[1], "GET", "/v1/modules/look", c.keys[0], nil, &m); err != nil {
		return 0, err
	}
	took, err := c.endOf("ticks", func(string) error {
		return c.json(c.nodes[1], "PUT", "/v1/blocks/"+m.Digest, c.operator, map[string]any{"reason": "a measurement"}, nil)
	})
	if err == nil {
		err = c.json(c.nodes[1], "DELETE", "/v1/blocks/"+m.Digest, c.operator, nil, nil)
	}
	time.Sleep(time.Second) // until all servers know that the module is no longer blocked
	return took, err
}

// policies forbids a tenant its model, and allows it again.
func (c *cluster) policies() (time.Duration, error) {
	policy := func(models ...string) error {
		return c.json(c.nodes[1], "PATCH", "/v1/tenants/tenant-1", c.operator,
			map[string]any{"policy": map[string]any{"models": models, "grants": []string{"*"}}}, nil)
	}
	began := time.Now()
	if err := policy("other"); err != nil {
		return 0, err
	}
	for c.run(c.nodes[0], c.keys[1], "plain") == nil {
		if time.Since(began) > 10*time.Second {
			return 0, fmt.Errorf("a policy has no effect at another server after 10 s")
		}
	}
	took := time.Since(began)
	if err := policy("*"); err != nil {
		return 0, err
	}
	for c.run(c.nodes[0], c.keys[1], "plain") != nil {
		time.Sleep(10 * time.Millisecond)
	}
	return took, nil
}
