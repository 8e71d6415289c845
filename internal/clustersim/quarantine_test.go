package clustersim

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
)

var simulated = flag.Duration("simulated", 2*time.Minute, "the simulated `time` of TestQuarantineOf100")

// restartTime is the time after which a dead server is replaced.
const restartTime = time.Second

// kills describes a simulation in which servers are killed.
type kills struct {
	servers int
	runs    int           // that are in progress at a time and end no server
	think   time.Duration // see newSimulation
	poisons int           // number of poison runs, one after the other
	every   time.Duration // mean time between two kills; 0 for none
	targets int           // number of runs whose servers are killed three times
	time    time.Duration
	mutate  func(statement string) string
}

// TestQuarantine checks that a run whose server is killed even while it executes only this run is not
// quarantined, and that runs that end their servers are.
func TestQuarantine(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	k := &kills{servers: 6, runs: 12, think: time.Second, targets: 2, poisons: 3, time: 90 * time.Second}
	require.Empty(t, k.simulate(t))
}

// TestQuarantineOf100 is TestQuarantine with 100 servers, of which a random one is killed every three
// seconds. Each of the 300 runs takes about 100 s.
func TestQuarantineOf100(t *testing.T) {
	longtest.Skip(t)
	k := &kills{
		servers: 100, runs: 300, think: 10 * time.Second, poisons: max(3, int(*simulated/time.Minute)),
		every: 3 * time.Second, time: *simulated,
	}
	require.Empty(t, k.simulate(t))
}

// TestFindsEagerJudge checks that TestQuarantine finds servers that quarantine a run after one trial
// without a crash report, and servers for which each end of a server is such a trial.
func TestFindsEagerJudge(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	for name, mutant := range map[string]*strings.Replacer{
		"one trial": strings.NewReplacer("p.reported, c.named,", "1 AS reported, c.named,"),
		"no trial": strings.NewReplacer(
			"p.reported, c.named,", "1 AS reported, c.named,", "c.alone + (SELECT", "1 + (SELECT"),
	} {
		k := &kills{
			servers: 6, runs: 20, think: time.Second, targets: 2, time: time.Minute, mutate: mutant.Replace,
		}
		require.Contains(t, k.simulate(t), "is quarantined", name)
	}
}

// simulate returns what the simulation has found, or an empty string.
func (k *kills) simulate(t *testing.T) (found string) {
	synctest.Test(t, func(t *testing.T) {
		c := newSimulation(t, k.servers, k.think, k.mutate)
		defer c.close()
		killed, trials := c.operate(k)
		for deadline := time.Now().Add(20 * time.Minute); c.unfinished() > 0; c.revive() {
			if time.Now().After(deadline) {
				c.history.violate("%d runs have not ended", c.unfinished())
				break
			}
		}
		c.check()
		c.checkPoisons()
		found = c.history.found()
		t.Logf("seed %d: %d runs; %d servers were killed, %d of them while a run was on trial there",
			*seed, len(c.runs), killed, trials)
	})
	return found
}

// operate keeps runs in progress, starts poison runs, and kills servers, which start again. It returns
// the number of servers that it has killed, and how many of them had resumed a run alone.
func (c *simulation) operate(k *kills) (killed, trials int) {
	crash := func(s *server) {
		trial := s.guard.OnTrial()
		if s.crash() {
			killed++
			if trial {
				trials++
			}
		}
	}
	var targets []*target
	began, poisoned := time.Now(), 0
	next := began.Add(k.every)
	for now := began; now.Sub(began) < k.time; now = time.Now() {
		for n := c.unfinished(); n < int64(k.runs); n++ {
			id := c.beginAnywhere()
			if len(targets) < k.targets {
				targets = append(targets, &target{run: id})
			}
		}
		if poisoned < k.poisons && now.Sub(began) >= k.time*time.Duration(poisoned)/time.Duration(k.poisons) {
			c.beginPoison(trace(poisoned) % traces)
			poisoned++
		}
		if k.every > 0 && now.After(next) {
			crash(c.servers[c.random.IntN(len(c.servers))])
			next = now.Add(time.Duration(float64(k.every) * (0.5 + c.random.Float64())))
		}
		for _, r := range targets {
			if s := r.server(c); s != nil {
				crash(s)
			}
		}
		c.revive()
	}
	return killed, trials
}

// A target is a run whose servers are killed a second after they have claimed it, three times.
type target struct {
	run, owner string
	since      time.Time // when owner was first seen
	kills      int
}

// server returns the server to kill now, or nil.
func (r *target) server(c *simulation) *server {
	info, err := c.store.Run(c.t.Context(), r.run)
	require.NoError(c.t, err)
	if info.Owner != r.owner {
		r.owner, r.since = info.Owner, time.Now()
		return nil
	}
	for _, s := range c.servers {
		if s.name == r.owner && r.kills < 3 && s.diedAt().IsZero() && time.Since(r.since) >= time.Second {
			r.kills++
			return s
		}
	}
	return nil
}

// beginAnywhere starts a run on a server that accepts it, and returns its id.
func (c *simulation) beginAnywhere() (id string) {
	for {
		id = journal.NewRunID()
		s := c.servers[c.random.IntN(len(c.servers))]
		if err := s.begin(tenant(len(c.runs)), id); err == nil {
			c.runs = append(c.runs, id)
			return id
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// beginPoison starts a poison run on a server that accepts it.
func (c *simulation) beginPoison(t trace) {
	for {
		id := journal.NewRunID()
		c.poisons.add(id, t)
		if err := c.servers[c.random.IntN(len(c.servers))].begin(tenant(0), id); err == nil {
			return
		}
		c.poisons.remove(id)
		time.Sleep(10 * time.Millisecond)
	}
}

// revive replaces the servers that have been dead for restartTime. It takes 100 ms.
func (c *simulation) revive() {
	time.Sleep(100 * time.Millisecond)
	for i := len(c.servers) - 1; i >= 0; i-- {
		if died := c.servers[i].diedAt(); !died.IsZero() && time.Since(died) >= restartTime {
			c.restart(i)
		}
	}
}

// checkPoisons checks that each poison run is quarantined, and has not ended too many servers.
func (c *simulation) checkPoisons() {
	for id, p := range c.poisons.runs {
		info, err := c.store.Run(c.t.Context(), id)
		require.NoError(c.t, err)
		servers, machines := p.stopped()
		what := fmt.Sprintf("poison run %s with trace %d ended %d servers of %d machines", id, p.trace, servers, machines)
		c.t.Log(what)
		if info.Status != journal.StatusQuarantined || servers > p.maxEnded() || machines > 2 {
			c.history.violate("%s: %s", what, info.Status)
		}
	}
}
