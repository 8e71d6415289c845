package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host/api"
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
			var all stats.Durations
			for range s.samples {
				took, err := change()
				if err != nil {
					return err
				}
				all = append(all, took)
			}
			row += fmt.Sprintf(" | %s | %s", ms(all.At(0.5)), ms(all.At(0.99)))
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
	ctx, t := context.Background(), c.nodes[0].tenants[0]
	run, err := t.Start(ctx, agent)
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
	for _, failed := range t.Follow(ctx, run, 0) {
		ended, err = time.Now(), failed
	}
	if err := <-changed; err != nil {
		return 0, err
	}
	return ended.Sub(began), err
}

func (c *cluster) cancels() (time.Duration, error) {
	return c.endOf("slow", func(run string) error {
		_, err := c.nodes[1].tenants[0].CancelRun(context.Background(), run)
		return err
	})
}

func (c *cluster) blocks() (time.Duration, error) {
	ctx, n := context.Background(), c.nodes[1]
	m, err := n.tenants[0].Module(ctx, "look")
	if err != nil {
		return 0, err
	}
	took, err := c.endOf("ticks", func(string) error { return n.operator.Block(ctx, m.Digest, "a measurement") })
	if err == nil {
		err = n.operator.Unblock(ctx, m.Digest)
	}
	time.Sleep(time.Second) // until all servers know that the module is no longer blocked
	return took, err
}

// policies forbids a tenant its model, and allows it again.
func (c *cluster) policies() (time.Duration, error) {
	ctx, t := context.Background(), c.nodes[0].tenants[1]
	policy := func(models ...string) error {
		policy := &api.Policy{Models: models, Grants: []string{"*"}}
		_, err := c.nodes[1].operator.UpdateTenant(ctx, "tenant-1", &api.TenantUpdate{Policy: policy})
		return err
	}
	began := time.Now()
	if err := policy("other"); err != nil {
		return 0, err
	}
	for t.Run(ctx, "plain") == nil {
		if time.Since(began) > 10*time.Second {
			return 0, fmt.Errorf("a policy has no effect at another server after 10 s")
		}
	}
	took := time.Since(began)
	if err := policy("*"); err != nil {
		return 0, err
	}
	for t.Run(ctx, "plain") != nil {
		time.Sleep(10 * time.Millisecond)
	}
	return took, nil
}
