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
	random  *rand.Rand // used by the goroutine of the test only

	servers []*server // that are alive
	ended   []*server
	names   int
	runs    []string
}

// newSimulation starts servers in the caller's bubble. mutate seeds a fault into their SQL; nil for none.
func newSimulation(t *testing.T, servers int, seed uint64, mutate func(string) string) *simulation {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "simulation.db"))
	require.NoError(t, err)
	c := &simulation{
		t:       t,
		db:      db,
		network: hintstest.NewNetwork(time.Millisecond),
		history: newHistory(),
		mutate:  mutate,
		random:  rand.New(rand.NewPCG(seed, 0)),
	}
	c.store, err = store.New(t.Context(), &link{DB: db, machine: &machine{}}, nil)
	require.NoError(t, err)
	for i := range tenants {
		_, err := c.store.CreateTenant(t.Context(), tenant(i), "", store.TenantQuota{}, nil)
		require.NoError(t, err)
	}
	for range servers {
		c.add()
	}
	time.Sleep(2 * time.Second) // their first heartbeats
	return c
}

func tenant(run int) string { return fmt.Sprint("tenant-", run%tenants) }

// add starts another server.
func (c *simulation) add() *server {
	c.names++
	s := c.start(fmt.Sprint("server-", c.names))
	c.servers = append(c.servers, s)
	return s
}

// kill kills a server.
func (c *simulation) kill(i int) {
	s := c.servers[i]
	c.servers = append(c.servers[:i:i], c.servers[i+1:]...)
	c.ended = append(c.ended, s)
	s.end()
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

// unfinished returns the number of runs that have not ended.
func (c *simulation) unfinished() (n int64) {
	require.NoError(c.t, c.db.View(c.t.Context(), func(t database.Tx) error {
		_, err := database.One(t, `SELECT count(*) FROM runs WHERE status <> 'finished'`, nil, &n)
		return err
	}))
	return n
}

// finish waits until all runs have ended, for at most limit.
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

// check checks that each run ended once, and that its events have no gap.
func (c *simulation) check() {
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
