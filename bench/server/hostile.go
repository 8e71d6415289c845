package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/agent-runner/agent-runner/bench/internal/stats"
	"github.com/agent-runner/agent-runner/host/api"
)

// tenantQuotas holds the quotas that the hostile tenants have, in this order.
var tenantQuotas = []struct {
	name, about string
	of          *api.TenantQuota
}{
	{
		"modest",
		"quota of [platform.md](platform.md#quotas)",
		&api.TenantQuota{ConcurrentRuns: 4, RequestsPerMin: 1200, Modules: 50,
			StorageBytes: 256 << 20, UploadBytes: 8 << 20, Requests: 64},
	},
	{"none", "no quota", nil},
	{"inputs", "no quota, but inputs of 8 MiB", &api.TenantQuota{InputBytes: 8 << 20}},
}

// hostility measures the effect of a hostile tenant on the runs of other tenants, and writes a
// table to text.
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
	if err := each(list, agent); err != nil {
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
	fmt.Fprintf(text, "## A hostile tenant\n\n"+
		"Runs with %d modules of %d honest tenants start by the clock, %.0f per second: a third of the maximum measured without a hostile tenant. A run is timed from when it was to start. "+
		"The hostile tenant uploads hostile modules, runs modules that fault and that use up their time, floods the server with requests, sends bodies of 8 MB and 1 MB, stalls uploads "+
		"and reads no events. It attacks in every other round.\n\n"+
		"- The attacker runs at the lowest priority (`SCHED_IDLE`), but on the same machine. The row of the attack on another address shows what sending alone costs.\n"+
		"- There were %d rounds of %v with the attack, and as many without. The range after a ratio holds 90 of 100 bootstrap draws of pairs of rounds.\n"+
		"- p99 includes stalls of the disk. The p99 of the median round does not.\n"+
		"- Processor is the server's, where %d00 %% are all processors.\n"+
		"- Each hostile tenant is deleted, with its runs, before the next.\n\n"+
		"| hostile tenant, and its quota | p50, without and with it | p99 | ratio of p99 | p99 of the median round | ratio | processor |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n",
		modules, tenants, rate, p.rounds, p.turn, runtime.NumCPU())
	before, err := s.alone(p, load)
	if err != nil {
		return err
	}
	write := func(about string, one, other []*sample) (quiet, loud *sample) {
		ratio := stats.NewRatio(one, other, func(s []*sample) float64 { return together(s).times.At(0.99).Seconds() })
		qm, lm := median(one), median(other)
		q, l := together(one), together(other)
		fmt.Fprintf(
			text,
			"| %s | %s, %s | %s, %s | %s | %s, %s | %.2f | %.0f %%, %.0f %% |\n",
			about,
			stats.Milliseconds(q.times.At(0.5)),
			stats.Milliseconds(l.times.At(0.5)),
			stats.Milliseconds(q.times.At(0.99)),
			stats.Milliseconds(l.times.At(0.99)),
			ratio,
			stats.Milliseconds(qm),
			stats.Milliseconds(lm),
			lm.Seconds()/qm.Seconds(),
			q.busy(),
			l.busy(),
		)
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
		hostile, err := s.tenant("mallory-"+quota.name, quota.of)
		if err != nil {
			return err
		}
		who, err := mallorys(s.URL, hostile.Key(), guest.Name(), p.attacks)
		if err != nil {
			return err
		}
		quiet, loud, err := row(quota.about, who)
		if err != nil {
			return err
		}
		// Delete the hostile tenant, because its runs would otherwise disturb the next row.
		if err := s.operator.DeleteTenant(context.Background(), hostile.id); err != nil {
			return err
		}
		if i > 0 || p.attacks != "" { // the following rows are measured once, for the complete attack
			continue
		}
		if err := elsewhere(p, guest.Name(), row); err != nil {
			return err
		}
		busy, err := s.tenants("busy-", 1, "quick", modules)
		if err != nil {
			return err
		}
		extra := rate * max(0.1, loud.busy()/quiet.busy()-1) // as much processor time as the hostile tenant used
		if _, _, err = row(fmt.Sprintf("not hostile: %.0f more of these runs per second", extra), s.honest(busy, agent, extra)); err != nil {
			return err
		}
	}
	after, err := s.alone(p, load)
	if err != nil {
		return err
	}
	write("none: before the first, and after the last was deleted", before, after)
	text.WriteString("\n")
	return nil
}

// elsewhere measures the honest tenants while the attack goes to another server on this machine. The
// difference is the cost of sending the attack.
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
	_, _, err = row("attack on another address, which rejects at once", who)
	return err
}

// together merges the samples of all rounds into one.
func together(rounds []*sample) *sample {
	all := &sample{}
	for _, r := range rounds {
		all.times = append(all.times, r.times...)
		all.took += r.took
		all.processor += r.processor
	}
	return all
}

// median returns the median of the p99 of each round.
func median(rounds []*sample) time.Duration {
	var all stats.Durations
	for _, r := range rounds {
		all = append(all, r.times.At(0.99))
	}
	return all.At(0.5)
}

// A neighbour is an additional load next to the measured one.
type neighbour struct {
	start, pause func() error
	end          func()
}

// mallorys starts this program as a process that attacks the server at address. It returns the
// process as a neighbour, which can be paused and continued.
func mallorys(address, key, guest, attacks string) (*neighbour, error) {
	cmd, err := self(address, key, guest, attacks)
	if err != nil {
		return nil, err
	}
	time.Sleep(5 * time.Second) // time to upload the modules
	return &neighbour{
		start: func() error { return cmd.Process.Signal(syscall.SIGCONT) },
		pause: func() error { return cmd.Process.Signal(syscall.SIGSTOP) },
		end: func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		},
	}, nil
}

// honest returns a neighbour whose tenants start perSecond runs per second.
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
		start: func() error {
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

// alone measures a load in rounds without a neighbour, and returns one sample per round.
func (p *platform) alone(much *plan, load func() (*sample, error)) (rounds []*sample, err error) {
	for range much.rounds {
		p.waitIdle()
		got, err := load()
		if err != nil {
			return nil, err
		}
		rounds = append(rounds, got)
	}
	return rounds, nil
}

// besides measures a load in pairs of rounds: first without the neighbour, then with it. It returns
// the samples of the rounds without it and of those with it, and ends the neighbour.
func (p *platform) besides(
	much *plan,
	who *neighbour,
	load func() (*sample, error),
) (quiet, loud []*sample, err error) {
	defer who.end()
	for range much.rounds {
		for _, round := range []struct {
			enter  func() error
			settle func()
			to     *[]*sample
		}{{who.pause, p.waitIdle, &quiet}, {who.start, func() { time.Sleep(time.Second) }, &loud}} {
			if err := round.enter(); err != nil {
				return nil, nil, err
			}
			round.settle()
			got, err := load()
			if err != nil {
				return nil, nil, err
			}
			*round.to = append(*round.to, got)
		}
	}
	return quiet, loud, who.pause()
}

// waitIdle waits until the server is idle, for at most 30 s. Runs of the last round may still be
// active.
func (p *platform) waitIdle() {
	const look, most = 250 * time.Millisecond, 30 * time.Second
	for began := time.Now(); time.Since(began) < most; {
		before := p.processor()
		time.Sleep(look)
		if p.processor()-before <= look/10 {
			return
		}
	}
}
