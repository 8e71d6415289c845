package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// tenantQuotas are those that the hostile tenant has, one after the other.
var tenantQuotas = []struct {
	name, about string
	of          map[string]int64
}{
	{"modest", "as [platform.md](platform.md#quotas) names it", map[string]int64{"concurrent_runs": 4, "requests_per_minute": 1200, "modules": 50,
		"storage_bytes": 256 << 20, "upload_bytes": 8 << 20, "concurrent_requests": 64}},
	{"none", "none", nil},
	{"inputs", "none, and inputs of 8 MiB", map[string]int64{"input_bytes": 8 << 20}},
}

// hostility measures what a hostile tenant does to the runs of others.
func hostility(p *plan, s *platform, text *bytes.Buffer) error {
	const tenants, modules = 10, 3
	list, err := s.tenants("good-", tenants, "quick", modules)
	if err != nil {
		return err
	}
	guest, err := os.CreateTemp("", "guest-*.wasm")
	if err != nil {
		return err
	}
	defer os.Remove(guest.Name())
	if _, err := guest.Write(s.wasm); err != nil {
		return err
	}
	_ = guest.Close()
	agent := agentOf("quick", modules)
	if err := s.each(list, agent); err != nil {
		return err
	}
	rate := p.rate
	if rate == 0 {
		most, err := s.load(list, agent, workers, p.each)
		if err != nil {
			return err
		}
		rate = max(1, math.Round(most.perSecond()/3))
	}
	load := func() (*sample, error) { return s.steady(list, agent, rate, p.turn) }
	fmt.Fprintf(text, "## A hostile tenant\n\nRuns with %d modules of %d tenants begin by the clock, %.0f a second, which is a third of the most that this machine did with nobody else there. "+
		"The time of each counts from when it was to begin, so that none waits unseen. Another tenant uploads what the catalogue of hostile modules has, runs modules that fault and that "+
		"use up their time, floods the server with requests, sends bodies of 8 MB and of 1 MB, stalls uploads and reads no events; by turns it does so, and stands still. "+
		"What sends all that, at the lowest priority, and the model share the processors with the server. "+
		"There were %d turns of %v each; behind the ratio is where it lies in 90 of 100 draws of as many turns out of these. "+
		"Processor is what the server had of them, where %d00 %% is all there is.\n\n"+
		"| the hostile tenant's quota | p50, without and with it | p99, without and with it | ratio of p99 | processor, without and with it |\n| --- | ---: | ---: | ---: | ---: |\n",
		modules, tenants, rate, p.rounds, p.turn, runtime.NumCPU())
	for _, quota := range tenantQuotas {
		if p.quotas != "" && !slices.Contains(strings.Split(p.quotas, ","), quota.name) {
			continue
		}
		evil, err := s.tenant("mallory-"+quota.name, quota.of)
		if err != nil {
			return err
		}
		quiet, loud, err := s.besides(p, evil, guest.Name(), load)
		if err != nil {
			return err
		}
		few, many := spread(quiet, loud)
		q, l := together(quiet), together(loud)
		fmt.Fprintf(text, "| %s | %s, %s | %s, %s | %.2f (%.2f to %.2f) | %.0f %%, %.0f %% |\n", quota.about, ms(q.at(0.5)), ms(l.at(0.5)),
			ms(q.at(0.99)), ms(l.at(0.99)), ratio(q, l), few, many, q.busy(), l.busy())
	}
	text.WriteString("\n")
	return nil
}

// ratio is how many times the slowest runs take longer beside the hostile tenant.
func ratio(quiet, loud *sample) float64 { return loud.at(0.99).Seconds() / quiet.at(0.99).Seconds() }

// together makes one sample of those of all turns.
func together(turns []*sample) *sample {
	all := &sample{}
	for _, t := range turns {
		all.times = append(all.times, t.times...)
		all.took += t.took
		all.processor += t.processor
	}
	return all
}

// spread is between what the ratio lies in 90 of 100 draws of as many turns, each with
// the one beside it.
func spread(quiet, loud []*sample) (least, most float64) {
	const draws = 500
	random := rand.New(rand.NewPCG(1, 2))
	ratios := make([]float64, draws)
	for i := range ratios {
		var q, l []*sample
		for range quiet {
			n := random.IntN(len(quiet))
			q, l = append(q, quiet[n]), append(l, loud[n])
		}
		ratios[i] = ratio(together(q), together(l))
	}
	slices.Sort(ratios)
	return ratios[draws/20], ratios[draws-draws/20-1]
}

// besides measures a load by turns without the hostile tenant, whose process stands
// still, and with it.
func (p *platform) besides(much *plan, evil *tenant, guest string, load func() (*sample, error)) (quiet, loud []*sample, err error) {
	cmd, err := self(p.url, evil.key, guest, much.attacks)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	time.Sleep(5 * time.Second) // its modules are brought
	for range much.rounds {
		for _, turn := range []struct {
			signal os.Signal
			settle func()
			to     *[]*sample
		}{{syscall.SIGSTOP, p.rest, &quiet}, {syscall.SIGCONT, func() { time.Sleep(time.Second) }, &loud}} {
			if err := cmd.Process.Signal(turn.signal); err != nil {
				return nil, nil, err
			}
			turn.settle()
			fmt.Fprintln(os.Stderr, "TURN", turn.signal, time.Now().UnixMicro())
			got, err := load()
			if err != nil {
				return nil, nil, err
			}
			*turn.to = append(*turn.to, got)
		}
	}
	return quiet, loud, nil
}

// rest waits until the server has little to do any more: what was begun goes on for a
// while, and a time that is to be without it would not be.
func (p *platform) rest() {
	const look, most = 250 * time.Millisecond, 30 * time.Second
	for began := time.Now(); time.Since(began) < most; {
		before := p.processor()
		time.Sleep(look)
		if p.processor()-before <= look/10 {
			return
		}
	}
}
