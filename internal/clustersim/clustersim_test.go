package clustersim

import (
	"flag"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
)

// maxWait limits the time from the death of a server to the claim of one of its runs: the lease of a run
// expires even if no hint arrives, and servers search for expired leases every 3 s.
const maxWait = journal.DefaultLeaseTTL + 5*time.Second

var seed = flag.Uint64("seed", 1, "the `number` from which the faults follow")

// TestFaults checks that each run ends once while servers are killed, stopped and cut off, that no tool
// call has two effects, that no server writes to a run that another one has claimed, and that the runs
// of killed servers are claimed soon, unless they had other servers before.
func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	simulateFaults(t, 6, 120, 20*time.Second)
}

// TestFaultsOf100 is TestFaults with 100 servers.
func TestFaultsOf100(t *testing.T) {
	longtest.Skip(t)
	simulateFaults(t, 100, 2000, 20*time.Second)
}

func simulateFaults(t *testing.T, servers, runs int, d time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		c := newSimulation(t, servers, time.Second, nil)
		defer c.close()
		c.network.SetFault(c.noise())
		c.begin(runs, func(i int) *server { return c.servers[i%servers] })
		c.disturb(d)
		c.finish(5 * time.Minute)
		c.check()
		require.Empty(t, c.history.found())
		require.NotEmpty(t, c.history.waits)
		require.Less(t, slices.Max(c.history.waits), maxWait)
		t.Logf("seed %d: %d runs of killed servers were claimed after at most %v; %d claims came too late",
			*seed, len(c.history.waits), slices.Max(c.history.waits), c.history.lost)
	})
}

// TestFindsMissingFence checks that TestFaults finds servers that do not raise the epoch of a run that they
// claim, and servers that write without comparing the epoch.
func TestFindsMissingFence(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	for want, mutant := range map[string]*strings.Replacer{
		"claimed epoch 1": strings.NewReplacer("SET epoch = CASE WHEN epoch < NOW_MS THEN NOW_MS ELSE epoch + 1 END, owner", "SET epoch = epoch, owner"),
		"after a claim of epoch": strings.NewReplacer("AND epoch = $2 AND entries = $3 AND last_seq = $4", "AND $2 + $3 + $4 > 0",
			"AND epoch = $2 AND status = 'running'", "AND $2 > 0 AND status = 'running'",
			"INSERT INTO run_log", "INSERT OR REPLACE INTO run_log",
			"INSERT INTO run_events", "INSERT OR REPLACE INTO run_events"),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newSimulation(t, 4, time.Second, mutant.Replace)
			defer c.close()
			s := c.servers[0]
			c.begin(40, func(int) *server { return s })
			s.cutBus(true)
			s.pause()
			time.Sleep(6 * time.Second) // the others claim its runs
			s.cutBus(false)
			s.proceed()
			time.Sleep(10 * time.Second)
			require.Contains(t, c.history.found(), want)
		})
	}
}

// TestSpread checks that the runs of a killed server are claimed within seconds, and evenly.
func TestSpread(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	simulateSpread(t, 6, 150)
}

// TestSpreadOf100 is TestSpread with 100 servers.
func TestSpreadOf100(t *testing.T) {
	longtest.Skip(t)
	simulateSpread(t, 101, 1000)
}

func simulateSpread(t *testing.T, servers, runs int) {
	synctest.Test(t, func(t *testing.T) {
		c := newSimulation(t, servers, time.Second, nil)
		defer c.close()
		idle, passed, began := c.transactions(), c.network.Passed(), time.Now()
		time.Sleep(10 * time.Second)
		perServer := float64(servers) * time.Since(began).Seconds()
		t.Logf("%d servers without runs: %.1f transactions and %.0f hints arrive at each in a second", servers,
			float64(c.transactions()-idle)/perServer, float64(c.network.Passed()-passed)/perServer)

		c.begin(runs, func(int) *server { return c.servers[0] })
		before := c.transactions()
		c.kill(0)
		time.Sleep(3 * time.Second)
		require.Len(t, c.history.waits, runs)
		most, fair := 0, float64(runs)/float64(servers-1)
		for _, n := range c.history.taken {
			most = max(most, n)
		}
		slices.Sort(c.history.waits)
		t.Logf(
			"%d runs of a killed server: claimed after %v, all after %v; the busiest of %d servers claimed %d; %d claims came too late; %d transactions",
			runs,
			c.history.waits[runs/2],
			c.history.waits[runs-1],
			servers-1,
			most,
			c.history.lost,
			c.transactions()-before,
		)
		require.Less(t, float64(most), 2*fair+10)
		c.finish(5 * time.Minute)
		c.check()
		require.Empty(t, c.history.found())
	})
}
