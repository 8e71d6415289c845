package clusterchaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/store"
)

var (
	count  = flag.Int("runs", 60, "number of runs for each transport; more take place until each fault has happened")
	atOnce = flag.Int("at-once", 12, "number of concurrent runs")
	seed   = flag.Uint64("seed", 0, "chooses the faults; 0 selects a random seed")
	only   = flag.String("faults", "", "only the faults whose names contain this")
	older  = flag.String("older", "", "commit of the version that upgrades begin with; empty for none")
)

// endTimeout bounds the wait for the last runs after the last fault.
const endTimeout = 3 * time.Minute

// A world is a cluster and its load.
type world struct {
	t        *testing.T
	network  *network
	postgres *postgrestest.Server
	database *host
	nodes    []*node
	ledger   *ledger
	store    store.Store
	client   *client.Client
	operator *client.Client
	poisons  *poisons
	guard    string   // digest of the module of the agent "guarded"
	others   []string // ids of the runs that faults started
	random   *rand.Rand

	transport string // of hints

	mu    sync.Mutex
	seen  map[string][]seenEvent // events that followers received, by run
	kills []kill

	started   atomic.Int64 // number of runs
	registers *registers
	programs  []string // of the older version, if there is one, and of this one
}

// A seenEvent is an event that a follower received.
type seenEvent struct {
	abi.Event
	at time.Time
}

// A kill records that a node was killed, and the runs that the node executed.
type kill struct {
	at   time.Time
	runs []string
}

// TestClusterChaos runs the cluster with each transport of hints.
func TestClusterChaos(t *testing.T) {
	longtest.Skip(t)
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		t.Skip("SKIPPED, NOT TESTED: iproute2 is not installed; install it with: apt-get install iproute2")
	}
	var programs []string
	if *older != "" {
		dir := t.TempDir()
		require.NoError(t, checkOut(*older, dir))
		programs = append(programs, dir+"/older")
		require.NoError(t, buildSkewed(dir, programs[0]))
	}
	programs = append(programs, t.TempDir()+"/agent-runner")
	require.NoError(t, buildSkewed("../..", programs[len(programs)-1]))
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	for _, transport := range []string{"notify", "nats"} {
		t.Run(transport, func(t *testing.T) {
			w := newWorld(t, programs, transport)
			w.play()
			w.check()
		})
	}
}

// newWorld starts a database and three nodes, and stores an agent.
func newWorld(t *testing.T, programs []string, transport string) *world {
	w := &world{t: t, ledger: &ledger{calls: map[string]int{}}, seen: map[string][]seenEvent{},
		transport: transport,
		random:    rand.New(rand.NewPCG(*seed, 1)), registers: newRegisters(), programs: programs}
	var err error
	w.network, err = newNetwork(fmt.Sprint("arc", os.Getpid()%10000))
	t.Cleanup(w.network.remove)
	require.NoError(t, err)
	w.database, err = w.network.add(5)
	require.NoError(t, err)
	w.postgres = postgrestest.Start(t)
	require.NoError(t, w.postgres.Move(w.database.namespace, w.database.address))
	where := w.postgres.Create(t, "platform")
	w.store, err = store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.store.Close() })

	tool, stopTool, err := w.ledger.serveTool()
	require.NoError(t, err)
	t.Cleanup(stopTool)
	w.poisons = &poisons{nodes: func() []*node { return w.nodes }}
	model, stopModel, err := serveModel(teller{200 * time.Millisecond}, w.poisons.guard)
	require.NoError(t, err)
	t.Cleanup(stopModel)

	secret := t.TempDir() + "/password"
	require.NoError(t, os.WriteFile(secret, []byte("the password of the cluster"), 0o600))
	for i := range 3 {
		h, err := w.network.add(11 + i)
		require.NoError(t, err)
		n := &node{host: h, program: programs[0], dir: t.TempDir(), store: where, model: model}
		if transport == "nats" {
			n.flags = []string{"--cluster-listen", h.address + ":6222", "--cluster-password-file", secret}
			for _, other := range []int{11, 12, 13} {
				if other != 11+i {
					n.flags = append(n.flags, "--join", fmt.Sprintf("10.77.0.%d:6222", other))
				}
			}
		}
		w.nodes = append(w.nodes, n)
		require.NoError(t, n.start())
		t.Cleanup(func() {
			_ = n.signal(syscall.SIGCONT)
			_ = n.kill()
		})
	}
	w.prepare(tool)
	return w
}

// prepare creates the tenant of all runs, its key and its agent.
func (w *world) prepare(tool string) {
	cluster := &http.Client{Transport: &balancer{nodes: w.nodes, failed: map[string]time.Time{}}}
	operator, err := client.New("http://cluster", w.nodes[0].key, &client.Options{Retry: endTimeout, HTTP: cluster})
	require.NoError(w.t, err)
	w.operator = operator
	at, err := url.Parse(tool)
	require.NoError(w.t, err)
	policy, err := json.Marshal(map[string]any{"models": []string{"*"}, "hosts": []string{at.Host}})
	require.NoError(w.t, err)
	var tenant api.CreateTenant
	require.NoError(w.t, json.Unmarshal(fmt.Appendf(nil, `{"id":"acme","policy":%s}`, policy), &tenant))
	_, err = operator.CreateTenant(w.t.Context(), &tenant)
	require.NoError(w.t, err)
	key, err := operator.CreateKey(w.t.Context(), "acme", &api.CreateKey{Name: "chaos"})
	require.NoError(w.t, err)
	w.client, err = client.New("http://cluster", key.Secret, &client.Options{Retry: endTimeout, HTTP: cluster})
	require.NoError(w.t, err)
	_, err = w.client.PutAgent(w.t.Context(), "payer", fmt.Appendf(nil,
		"model: {name: small, retries: 20}\ntools: {mcp: [{url: %q}]}\n", tool))
	require.NoError(w.t, err)
	require.NoError(w.t, w.prepareGuard(tool))
}

// play executes the runs while faults happen, and waits until all have ended.
func (w *world) play() {
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	faults := slices.DeleteFunc(w.faults(), func(f fault) bool { return !strings.Contains(f.name, *only) })
	require.NotEmpty(w.t, faults)
	w.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	var happened atomic.Int64
	var load sync.WaitGroup
	for range *atOnce {
		load.Go(func() {
			for w.started.Load() < int64(*count) || happened.Load() < int64(len(faults)) {
				w.one(fmt.Sprint("token-", w.started.Add(1)))
			}
		})
	}
	done := make(chan struct{})
	go func() {
		load.Wait()
		close(done)
	}()
	var readers sync.WaitGroup
	defer readers.Wait()
	defer stop()
	for range 2 {
		readers.Go(func() { w.registers.readAll(ctx, w.events) })
	}
	for i := 0; ; i++ {
		pause := 5*time.Second + time.Duration(w.random.Int64N(int64(10*time.Second)))
		select {
		case <-done:
			return
		case <-time.After(pause):
		}
		f := faults[i%len(faults)]
		n := w.nodes[w.random.IntN(len(w.nodes))]
		w.t.Logf("%s: %s", n.host.address, f.name)
		require.NoError(w.t, f.do(ctx, n), f.name)
		happened.Add(1)
	}
}

// one starts a run and follows it to its end, on any nodes.
func (w *world) one(token string) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*endTimeout)
	defer cancel()
	run, err := w.client.StartRun(ctx, &api.StartRun{Agent: "payer", Input: token}, token)
	for err != nil && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		run, err = w.client.StartRun(ctx, &api.StartRun{Agent: "payer", Input: token}, token)
	}
	if err != nil {
		w.t.Errorf("start %s: %v", token, err)
		return
	}
	w.registers.start(run.ID)
	defer w.registers.end(run.ID)
	after := int64(0)
	for ctx.Err() == nil {
		for e, err := range w.client.Follow(ctx, run.ID, after) {
			if err != nil {
				break // once more, elsewhere
			}
			after = e.Seq
			w.mu.Lock()
			w.seen[run.ID] = append(w.seen[run.ID], seenEvent{e, time.Now()})
			w.mu.Unlock()
			w.registers.seen(run.ID, e.Seq)
			if e.Type == abi.EventRunFinished {
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	w.t.Errorf("run %s of %s does not end", run.ID, token)
}

// A fault is a disturbance of a node. do causes the fault, and returns when it has ended.
type fault struct {
	name string
	do   func(ctx context.Context, n *node) error
}

// faults returns one fault of each kind.
func (w *world) faults() []fault {
	cut := func(to func(n *node) []*host, both bool) func(context.Context, *node) error {
		return func(_ context.Context, n *node) error {
			for _, h := range to(n) {
				if err := n.host.drop(h, true); err != nil {
					return err
				}
				if both {
					if err := h.drop(n.host, true); err != nil {
						return err
					}
				}
			}
			time.Sleep(8 * time.Second)
			return w.network.heal()
		}
	}
	database := func(*node) []*host { return []*host{w.database} }
	others := func(n *node) (out []*host) {
		for _, other := range w.nodes {
			if other != n {
				out = append(out, other.host)
			}
		}
		return out
	}
	list := []fault{
		{"kill -9", func(_ context.Context, n *node) error {
			k := kill{at: time.Now(), runs: w.runsOf(n)}
			if err := n.kill(); err != nil {
				return err
			}
			w.mu.Lock()
			w.kills = append(w.kills, k)
			w.mu.Unlock()
			time.Sleep(5 * time.Second)
			return n.start()
		}},
		{"stopped for 20 s", func(_ context.Context, n *node) error {
			if err := n.signal(syscall.SIGSTOP); err != nil {
				return err
			}
			time.Sleep(20 * time.Second)
			return n.signal(syscall.SIGCONT)
		}},
		{"cut off from the database", cut(database, true)},
		{"cannot send to the database", cut(database, false)},
		{"cut off from the other nodes", cut(others, true)},
		{"cannot send to the other nodes", cut(others, false)},
		{"the database stops at once", func(context.Context, *node) error {
			w.postgres.Kill()
			time.Sleep(time.Second)
			return w.postgres.Start()
		}},
		{"drain and start again", func(_ context.Context, n *node) error {
			if err := n.stop(); err != nil {
				return err
			}
			return n.start()
		}},
		{"its clock is a minute fast", clock(60)},
		{"its clock is a minute slow", clock(-60)},
		{"upgrade, one node after the other", func(context.Context, *node) error {
			return w.replace(w.programs[len(w.programs)-1])
		}},
		{"downgrade, one node after the other", func(context.Context, *node) error { return w.replace(w.programs[0]) }},
		{"poison run", w.poison},
		{"module blocked", func(ctx context.Context, _ *node) error { return w.block(ctx, nil) }},
	}
	if w.transport != "notify" {
		return list // its connections are those to the other nodes
	}
	hints := func(both bool) func(context.Context, *node) error {
		return func(ctx context.Context, _ *node) error {
			ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
			defer cancel()
			w.cutHints(ctx, both)
			return nil
		}
	}
	return append(list,
		fault{"cut off from hints", hints(true)},
		fault{"receive no hints", hints(false)},
		fault{"module blocked without hints", func(ctx context.Context, _ *node) error {
			return w.block(ctx, func(ctx context.Context) { w.cutHints(ctx, true) })
		}},
	)
}

// clock returns a fault that sets a node's clock for a while.
func clock(seconds int) func(context.Context, *node) error {
	return func(_ context.Context, n *node) error {
		if err := n.skew(seconds); err != nil {
			return err
		}
		time.Sleep(8 * time.Second)
		return n.skew(0)
	}
}

// replace replaces the program of each node, one node after the other.
func (w *world) replace(program string) error {
	for _, n := range w.nodes {
		if err := n.stop(); err != nil {
			return err
		}
		n.program = program
		if err := n.start(); err != nil {
			return err
		}
	}
	return nil
}

// events returns the number of events that a node lists for a run.
func (w *world) events(ctx context.Context, run string) (n int64, err error) {
	for more := true; more; {
		var events []abi.Event
		if events, more, err = w.client.Events(ctx, run, n); err != nil {
			return 0, err
		}
		for _, e := range events {
			if n++; e.Seq != n {
				return 0, fmt.Errorf("event %d of %s has number %d", n, run, e.Seq)
			}
		}
	}
	return n, nil
}

// runsOf returns the runs that a node executes.
func (w *world) runsOf(n *node) (ids []string) {
	list, _, err := w.store.Runs(
		w.t.Context(),
		&store.Filter{Tenant: "acme", Statuses: []journal.Status{journal.StatusRunning},
			Page: store.Page{Limit: 500}},
	)
	if err != nil {
		w.t.Logf("read the runs of a node: %v", err)
	}
	pid := fmt.Sprintf("/%d/", n.cmd.Process.Pid)
	for i := range list {
		if strings.Contains(list[i].Owner, pid) {
			ids = append(ids, list[i].ID)
		}
	}
	return ids
}

// check compares the events that followers received with the journal, and the calls in the ledger
// with both.
func (w *world) check() {
	ctx := w.t.Context()
	require.NoError(w.t, w.network.heal())
	require.Len(w.t, w.seen, int(w.started.Load()))
	require.Empty(w.t, w.ledger.twice(), "calls that were made twice")
	require.Greater(w.t, w.ledger.made(), int(w.started.Load()), "each run calls the tool several times")
	var tokens int64
	for id, seen := range w.seen {
		events := w.journal(id)
		require.Len(w.t, seen, len(events), id)
		ends := 0
		for i, e := range events {
			require.Equal(w.t, int64(i+1), e.Seq, "no gap in %s", id)
			require.Equal(w.t, e.Type, seen[i].Type, "event %d of %s", e.Seq, id)
			require.Equal(w.t, e.Seq, seen[i].Seq, id)
			if e.Type == abi.EventRunFinished {
				ends++
				require.Equal(w.t, abi.RunStop, e.FinishReason, "%s: %s %+v", id, e.Reason, e.Error)
			}
		}
		require.Equal(w.t, 1, ends, "ends of %s", id)
		run, err := w.client.Run(ctx, id)
		require.NoError(w.t, err)
		require.Equal(w.t, "finished", run.Status)
		tokens += run.Usage.TotalTokens
	}
	for _, id := range w.others {
		run, err := w.client.Run(ctx, id)
		require.NoError(w.t, err)
		tokens += run.Usage.TotalTokens
	}
	usage, err := w.client.Usage(ctx, "", time.Now().UTC().AddDate(0, 0, -1).Format("2006-01-02"), "", client.Page{})
	require.NoError(w.t, err)
	require.Equal(w.t, tokens, usage.Total.PromptTokens+usage.Total.CompletionTokens, "usage")
	require.Equal(w.t, w.started.Load()+int64(len(w.others)), usage.Total.Runs)
	require.NoError(w.t, w.quarantined(ctx))
	reads, err := w.registers.check()
	require.NoError(w.t, err, "the histories of runs are linearizable")
	w.t.Logf("%d reads of runs in progress are consistent with the events of followers", reads)
	w.report()
}

// journal returns all events of a run.
func (w *world) journal(id string) (out []abi.Event) {
	for more := true; more; {
		var events []abi.Event
		var err error
		after := int64(0)
		if len(out) > 0 {
			after = out[len(out)-1].Seq
		}
		events, more, err = w.client.Events(w.t.Context(), id, after)
		require.NoError(w.t, err)
		out = append(out, events...)
	}
	return out
}

// report logs the delay of events at followers, and the time from a kill to the next event of each
// run of the killed node.
func (w *world) report() {
	var late, recovery []time.Duration
	for _, seen := range w.seen {
		for _, e := range seen {
			late = append(late, e.at.Sub(time.UnixMilli(e.TimeMS)))
		}
	}
	for _, k := range w.kills {
		for _, id := range k.runs {
			for _, e := range w.seen[id] {
				if e.at.After(k.at) {
					recovery = append(recovery, e.at.Sub(k.at))
					break
				}
			}
		}
	}
	slices.Sort(late)
	slices.Sort(recovery)
	at := func(list []time.Duration, q float64) time.Duration {
		if len(list) == 0 {
			return 0
		}
		return list[int(q*float64(len(list)-1))].Round(100 * time.Microsecond)
	}
	w.t.Logf("%d runs; event to follower: p50 %v, p99 %v of %d; kill to next event: p50 %v, p99 %v of %d", len(w.seen),
		at(late, 0.5), at(late, 0.99), len(late), at(recovery, 0.5), at(recovery, 0.99), len(recovery))
}
