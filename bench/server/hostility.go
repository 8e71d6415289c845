package main

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// tenantQuotas are those that the hostile tenant has, one after the other.
var tenantQuotas = []struct {
	name, about string
	of          map[string]int64
}{
	{"modest", "quota as [platform.md](platform.md#quotas) names it", map[string]int64{"concurrent_runs": 4, "requests_per_minute": 1200, "modules": 50,
		"storage_bytes": 256 << 20, "upload_bytes": 8 << 20, "concurrent_requests": 64}},
	{"none", "no quota", nil},
	{"inputs", "no quota, but inputs of 8 MiB", map[string]int64{"input_bytes": 8 << 20}},
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
		"What sends all that has what nobody else wants of the processors; the model, and what runs the others' agents, share them with the server. "+
		"Somebody who attacks has a machine of their own for that: the row in which all is sent to another address tells what its sender takes by itself here. "+
		"Behind its turns it is deleted, with its runs, before the next one comes. There were %d turns of %v each; behind the ratio is where it lies in 90 of 100 draws of as many turns out of these. "+
		"A disk that stands still for a second, as a shared one does now and then, with and without that tenant, is all of what p99 says of a row; the p99 of the middle turn does not have it. "+
		"Processor is what the server had of them, where %d00 %% is all there is.\n\n"+
		"| the hostile tenant, and its quota | p50, without and with it | p99 | ratio of p99 | p99 of the middle turn | ratio of these | processor |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
		modules, tenants, rate, p.rounds, p.turn, runtime.NumCPU())
	before, err := s.alone(p, load)
	if err != nil {
		return err
	}
	write := func(about string, one, other []*sample) (quiet, loud *sample) {
		few, many := spread(one, other)
		qm, lm := middle(one), middle(other)
		q, l := together(one), together(other)
		fmt.Fprintf(text, "| %s | %s, %s | %s, %s | %.2f (%.2f to %.2f) | %s, %s | %.2f | %.0f %%, %.0f %% |\n", about, ms(q.at(0.5)), ms(l.at(0.5)),
			ms(q.at(0.99)), ms(l.at(0.99)), ratio(q, l), few, many, ms(qm), ms(lm), lm.Seconds()/qm.Seconds(), q.busy(), l.busy())
		return q, l
	}
	row := func(about string, who *neighbour) (quiet, loud *sample, err error) {
		one, other, err := s.besides(p, who, load)
		if err != nil {
			return nil, nil, err
		}
		quiet, loud = write(about, one, other)
		return quiet, loud, nil
	}
	for i, quota := range tenantQuotas {
		if p.quotas != "" && !slices.Contains(strings.Split(p.quotas, ","), quota.name) {
			continue
		}
		evil, err := s.tenant("mallory-"+quota.name, quota.of)
		if err != nil {
			return err
		}
		who, err := mallorys(s.url, evil.key, guest.Name(), p.attacks)
		if err != nil {
			return err
		}
		quiet, loud, err := row(quota.about, who)
		if err != nil {
			return err
		}
		// What it has begun would go on beside the next.
		if err := s.json("DELETE", "/v1/tenants/"+evil.id, s.operator, nil, 204, nil); err != nil {
			return err
		}
		if i > 0 || p.attacks != "" { // one attack alone is held against nothing else
			continue
		}
		if err := elsewhere(p, guest.Name(), row); err != nil {
			return err
		}
		busy, err := s.tenants("busy-", 1, "quick", modules)
		if err != nil {
			return err
		}
		extra := rate * max(0.1, loud.busy()/quiet.busy()-1) // keeps the server as busy as the hostile tenant did
		if _, _, err = row(fmt.Sprintf("it is not hostile, and begins %.0f of these runs a second", extra), s.honest(busy, agent, extra)); err != nil {
			return err
		}
	}
	after, err := s.alone(p, load)
	if err != nil {
		return err
	}
	write("none: before all of these, and after the last was deleted", before, after)
	text.WriteString("\n")
	return nil
}

// elsewhere measures what the attack takes where this server has nothing to do with it: its
// sender shares the machine.
func elsewhere(p *plan, guest string, row func(about string, who *neighbour) (quiet, loud *sample, err error)) error {
	refuses := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer refuses.Close()
	who, err := mallorys(refuses.URL, "none", guest, p.attacks)
	if err != nil {
		return err
	}
	_, _, err = row("it sends to another address, where all is refused at once", who)
	return err
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

// middle is the p99 of the turn that half of them are slower than.
func middle(turns []*sample) time.Duration {
	var all []time.Duration
	for _, t := range turns {
		all = append(all, t.at(0.99))
	}
	slices.Sort(all)
	return all[len(all)/2]
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

// A neighbour is who a load is measured besides.
type neighbour struct {
	begin, pause func() error
	end          func()
}

// mallorys is the hostile tenant, in a process that is made to stand still and go on.
func mallorys(address, key, guest, attacks string) (*neighbour, error) {
	cmd, err := self(address, key, guest, attacks)
	if err != nil {
		return nil, err
	}
	time.Sleep(5 * time.Second) // its modules are brought
	return &neighbour{
		begin: func() error { return cmd.Process.Signal(syscall.SIGCONT) },
		pause: func() error { return cmd.Process.Signal(syscall.SIGSTOP) },
		end: func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		},
	}, nil
}

// honest are tenants that only run so much.
func (p *platform) honest(list []*tenant, agent string, perSecond float64) *neighbour {
	var ended chan error
	var stop atomic.Bool
	pause := func() error {
		if ended == nil {
			return nil
		}
		stop.Store(true)
		err := <-ended
		ended = nil
		return err
	}
	return &neighbour{
		begin: func() error {
			stop.Store(false)
			ended = make(chan error, 1)
			go func() {
				var failed error
				for !stop.Load() && failed == nil {
					_, failed = p.steady(list, agent, perSecond, time.Second)
				}
				ended <- failed
			}()
			return nil
		},
		pause: pause,
		end:   func() { _ = pause() },
	}
}

// alone measures a load by turns with nobody beside it.
func (p *platform) alone(much *plan, load func() (*sample, error)) (turns []*sample, err error) {
	for range much.rounds {
		p.rest()
		got, err := load()
		if err != nil {
			return nil, err
		}
		turns = append(turns, got)
	}
	return turns, nil
}

// besides measures a load by turns without a neighbour, who stands still, and with it.
func (p *platform) besides(much *plan, who *neighbour, load func() (*sample, error)) (quiet, loud []*sample, err error) {
	defer who.end()
	for range much.rounds {
		for _, turn := range []struct {
			turn   func() error
			settle func()
			to     *[]*sample
		}{{who.pause, p.rest, &quiet}, {who.begin, func() { time.Sleep(time.Second) }, &loud}} {
			if err := turn.turn(); err != nil {
				return nil, nil, err
			}
			turn.settle()
			got, err := load()
			if err != nil {
				return nil, nil, err
			}
			*turn.to = append(*turn.to, got)
		}
	}
	return quiet, loud, who.pause()
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
