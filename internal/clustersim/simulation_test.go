package clustersim

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/hints/hintstest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
	"github.com/agent-runner/agent-runner/internal/store/sqlite"
)

// tenants is the number of tenants whose runs a simulation has.
const tenants = 20

// A simulation is a cluster in a bubble of package synctest.
type simulation struct {
	t       *testing.T
	db      database.DB
	store   store.Store // of the test itself
	network *hintstest.Network
	history *history
	mutate  func(statement string) string
	poisons *poisons
	think   time.Duration // see newSimulation
	random  *rand.Rand    // used by the goroutine of the test only

	servers []*server // that are alive, or were killed by a poison run or by crash
	ended   []*server
	runs    []string

	mu    sync.Mutex
	names map[string]*server
}

// newSimulation starts servers in the caller's bubble. Their models take one to four times think. mutate
// seeds a fault into their SQL; nil for none.
func newSimulation(t *testing.T, servers int, think time.Duration, mutate func(string) string) *simulation {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "simulation.db"))
	require.NoError(t, err)
	c := &simulation{
		t:       t,
		db:      db,
		network: hintstest.NewNetwork(time.Millisecond),
		history: newHistory(),
		mutate:  mutate,
		poisons: &poisons{runs: map[string]*poison{}},
		think:   think,
		names:   map[string]*server{},
		random:  rand.New(rand.NewPCG(*seed, 0)),
	}
	c.store, err = store.New(t.Context(), &link{DB: db, machine: newMachine()}, nil)
	require.NoError(t, err)
	for i := range tenants {
		_, err := c.store.CreateTenant(t.Context(), tenant(i), "", store.TenantQuota{}, nil)
		require.NoError(t, err)
	}
	for i := range servers {
		c.add(fmt.Sprint("machine-", i), nil)
	}
	time.Sleep(2 * time.Second) // their first heartbeats
	return c
}

func tenant(run int) string { return fmt.Sprint("tenant-", run%tenants) }

// add starts another server on a machine, with the crash reports of earlier servers.
func (c *simulation) add(node string, reports map[string]string) {
	name := fmt.Sprint("server-", len(c.servers)+len(c.ended)+1)
	s := c.start(name, node, reports)
	c.servers = append(c.servers, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names[name] = s
}

// kill kills a server.
func (c *simulation) kill(i int) {
	s := c.servers[i]
	c.servers = append(c.servers[:i:i], c.servers[i+1:]...)
	c.ended = append(c.ended, s)
	s.end()
}

// restart kills a server if it is alive, and starts another one on its machine.
func (c *simulation) restart(i int) {
	s := c.servers[i]
	c.kill(i)
	c.add(s.node, c.poisons.reports(s))
}

// gone reports whether a server of a machine has ended. It reports false for servers of other machines,
// as the function of a real server does.
func (c *simulation) gone(name, node string) bool {
	c.mu.Lock()
	s := c.names[name]
	c.mu.Unlock()
	return s != nil && s.node == node && !s.diedAt().IsZero()
}

// close ends all servers, so that the bubble can end.
func (c *simulation) close() {
	var all sync.WaitGroup
	for _, s := range c.servers {
		all.Go(s.end)
	}
	all.Wait()
	require.NoError(c.t, c.db.Close())
}

// begin starts runs on servers, which choose returns by the number of the run.
func (c *simulation) begin(count int, choose func(run int) *server) {
	var all sync.WaitGroup
	for i := range count {
		id := journal.NewRunID()
		c.runs = append(c.runs, id)
		s := choose(i)
		all.Go(func() {
			time.Sleep(time.Duration(i%1000) * time.Millisecond)
			if err := s.begin(tenant(i), id); err != nil {
				c.t.Errorf("start run %s: %v", id, err)
			}
		})
	}
	all.Wait()
}

// unfinished returns the number of runs that have not ended and are not quarantined.
func (c *simulation) unfinished() (n int64) {
	require.NoError(c.t, c.db.View(c.t.Context(), func(t database.Tx) error {
		_, err := database.One(t, `SELECT count(*) FROM runs WHERE status NOT IN ('finished', 'quarantined')`, nil, &n)
		return err
	}))
	return n
}

// finish waits until all runs have ended or are quarantined, for at most limit.
func (c *simulation) finish(limit time.Duration) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(time.Second) {
		if c.unfinished() == 0 {
			return
		}
	}
	c.history.mu.Lock()
	defer c.history.mu.Unlock()
	c.history.violate("%d runs have not ended after %v", c.unfinished(), limit)
}

// check checks that each run ended once, that its events have no gap, and that no run is quarantined but
// those that end their servers.
func (c *simulation) check() {
	list, _, err := c.store.Quarantined(c.t.Context(), store.Page{Limit: 1000})
	require.NoError(c.t, err)
	for _, e := range list {
		if c.poisons.of(e.Run) == nil {
			c.history.violate("run %s is quarantined: %s", e.Run, e.Reason)
		}
	}
	for i, id := range c.runs {
		events, err := c.store.Tenant(tenant(i)).RunEvents(c.t.Context(), id, 0, 10_000, 10<<20)
		require.NoError(c.t, err)
		ends := 0
		for n, e := range events {
			if e.Seq != int64(n)+1 {
				c.history.violate("run %s: event %d has the number %d", id, n+1, e.Seq)
			}
			if e.Type == abi.EventRunFinished {
				ends++
			}
		}
		if ends != 1 {
			c.history.violate("run %s ended %d times", id, ends)
		}
	}
}

// transactions returns the number of transactions of all servers so far.
func (c *simulation) transactions() (n int64) {
	for _, s := range append(c.servers[:len(c.servers):len(c.servers)], c.ended...) {
		n += s.link.count.Load()
	}
	return n
}
