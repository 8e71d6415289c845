package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host/api"
)

// A contender is one of the two builds that compare measures: a server with honest tenants and a
// hostile tenant.
type contender struct {
	*platform
	tenants []*tenant
	hostile *neighbour
	samples []*sample
}

// compare measures the builds program and against under the same attack, and writes a table to text.
// It measures in pairs of rounds whose order alternates. The table shows the benefit of a mechanism
// that one of the builds lacks.
func compare(p *plan, program, against, guest, model string, text *bytes.Buffer) error {
	wasm, err := os.ReadFile(guest)
	if err != nil {
		return err
	}
	pair := make([]*contender, 0, 2)
	for _, program := range []string{program, against} {
		c, err := contend(p, program, guest, wasm, model)
		if err != nil {
			return err
		}
		defer c.close()
		defer c.hostile.end()
		pair = append(pair, c)
	}
	for round := range p.rounds {
		for i := range pair {
			if err := pair[(round+i)%2].attacked(p); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(
		text,
		"%.0f runs per second, attacks %q, %d pairs of rounds of %v.\n\n| build | p50 | p90 | p99 | processor |\n| --- | ---: | ---: | ---: | ---: |\n",
		p.rate,
		p.attacks,
		p.rounds,
		p.turn,
	)
	for i, c := range pair {
		all := together(c.samples)
		fmt.Fprintf(
			text,
			"| %s | %s | %s | %s | %.0f %% |\n",
			[]string{program, against}[i],
			stats.Milliseconds(all.times.At(0.5)),
			stats.Milliseconds(all.times.At(0.9)),
			stats.Milliseconds(all.times.At(0.99)),
			all.busy(),
		)
	}
	text.WriteString("\nSecond build over the first, and the range of 90 of 100 bootstrap draws of pairs:\n\n")
	for _, figure := range []struct {
		name string
		of   func([]*sample) float64
	}{
		{"p50", func(s []*sample) float64 { return together(s).times.At(0.5).Seconds() }},
		{"p90", func(s []*sample) float64 { return together(s).times.At(0.9).Seconds() }},
		{"p99", func(s []*sample) float64 { return together(s).times.At(0.99).Seconds() }},
		{"p99 of the median round", func(s []*sample) float64 { return median(s).Seconds() }},
		{"processor", func(s []*sample) float64 { return together(s).busy() }},
	} {
		fmt.Fprintf(text, "- %s: %s\n", figure.name, stats.NewRatio(pair[0].samples, pair[1].samples, figure.of))
	}
	return nil
}

// contend starts two processes: a server with the build program and ten honest tenants, and a paused
// process that attacks this server. guest is the path of the module wasm.
func contend(p *plan, program, guest string, wasm []byte, model string) (*contender, error) {
	const tenants, modules = 10, 3
	s, err := startPlatform(program, wasm, model)
	if err != nil {
		return nil, err
	}
	c := &contender{platform: s}
	if c.tenants, err = s.tenants("good-", tenants, "quick", modules); err != nil {
		return nil, err
	}
	var quota *api.TenantQuota
	for _, q := range tenantQuotas {
		if q.name == p.quotas {
			quota = q.of
		}
	}
	hostile, err := s.tenant("mallory", quota)
	if err != nil {
		return nil, err
	}
	if c.hostile, err = mallorys(s.URL, hostile.Key(), guest, p.attacks); err != nil {
		return nil, err
	}
	return c, c.hostile.pause()
}

// attacked adds to c.samples a measurement of the honest tenants during one round of the attack.
func (c *contender) attacked(p *plan) error {
	c.waitIdle()
	if err := c.hostile.start(); err != nil {
		return err
	}
	time.Sleep(time.Second)
	s, err := c.steady(c.tenants, agentOf("quick", 3), p.rate, p.turn)
	if err != nil {
		return err
	}
	c.samples = append(c.samples, s)
	return c.hostile.pause()
}
