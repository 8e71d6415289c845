package server_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/hints/notify"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/postgrestest"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// The tests in this file run several servers on one database. Each server has its own process, so
// that it can be killed.

// Environment variables of the servers. envServer makes the test binary serve the platform with the
// database that it names. With envHints, servers send each other hints through the database, and
// leases last for an hour.
const (
	envServer = "AGENT_RUNNER_TEST_SERVER"
	envHints  = "AGENT_RUNNER_TEST_HINTS"
)

func TestMain(m *testing.M) {
	if where := os.Getenv(envServer); where != "" {
		if err := serveHere(where); err != nil {
			panic(err) // the parent test then fails
		}
		return
	}
	m.Run()
}

// serveHere serves the platform until SIGTERM, with the database at the location where. It prints
// its URL first.
func serveHere(where string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	keyring, err := keyring.Parse("test:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, where, &store.Options{Keyring: keyring})
	if err != nil {
		return err
	}
	defer s.Close()
	h, err := host.New(ctx, &host.Options{CacheDir: testcache.Modules()})
	if err != nil {
		return err
	}
	defer h.Close(context.Background())
	o := &server.Options{
		Store:     s,
		Host:      h,
		Getenv:    os.Getenv,
		Owner:     fmt.Sprint("process ", os.Getpid()),
		Gone:      processGone,
		LeaseTTL:  2 * time.Second,
		DrainTime: 20 * time.Second,
	}
	if os.Getenv(envHints) != "" {
		bus, err := notify.Open(where, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		defer bus.Close()
		o.Hints, o.LeaseTTL = bus, time.Hour
	}
	srv, err := server.New(o)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, "http://"+l.Addr().String())
	return srv.Serve(ctx, l)
}

// processGone reports whether an owner that serveHere uses has ended.
func processGone(owner string) bool {
	pid, err := strconv.Atoi(strings.TrimPrefix(owner, "process "))
	return err == nil && syscall.Kill(pid, 0) == syscall.ESRCH
}

// A process is a server in a separate process.
type process struct {
	*servertest.Fixture
	cmd *exec.Cmd
}

// startProcess starts a server process that uses the database at the location where. model is the URL of
// the operator's model. The process is killed when the test ends.
func startProcess(f *servertest.Fixture, where, model string, env ...string) *process {
	f.T.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(
		append(os.Environ(), env...),
		envServer+"="+where,
		agentfile.EnvBaseURL+"="+model,
		agentfile.EnvAPIKey+"=x",
	)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	require.NoError(f.T, err)
	require.NoError(f.T, p.cmd.Start())
	f.T.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(f.T, err)
	at := *f
	at.URL = strings.TrimSpace(url)
	p.Fixture = &at
	return p
}

// testDatabase returns a fixture without a server, and the location of its database, for servers
// that the test starts.
func testDatabase(t *testing.T) (f *servertest.Fixture, where string) {
	t.Helper()
	where = postgrestest.Start(t).Create(t, "platform")
	return databaseAt(t, where), where
}

// databaseAt returns a fixture without a server, with a database at the location where.
func databaseAt(t *testing.T, where string) (f *servertest.Fixture) {
	t.Helper()
	s, err := store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	f = &servertest.Fixture{T: t, Store: s}
	_, err = s.CreateTenant(t.Context(), "acme", "acme", store.TenantQuota{}, json.RawMessage(`{"models":["*"]}`))
	require.NoError(t, err)
	f.Operator, f.Acme = f.Key(
		store.Operator,
		httpapi.OperatorScopes()...), f.Key(
		"acme",
		httpapi.ScopeNames(httpapi.TenantScopes)...)
	return f
}

// A gate is a model that returns a part of its answer, sends to asked, and returns the rest when
// release is closed.
type gate struct {
	mu      sync.Mutex
	release chan struct{}
	asked   chan string
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.release = make(chan struct{})
}

// Generate implements [model.Model].
func (g *gate) Generate(ctx context.Context, _ *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	g.mu.Lock()
	release := g.release
	g.mu.Unlock()
	sendText := func(text string) error {
		if sink == nil {
			return nil
		}
		return sink(abi.Chunk{Kind: abi.ChunkText, Text: text})
	}
	for range 5 {
		if err := sendText("part "); err != nil {
			return nil, err
		}
	}
	g.asked <- "asked"
	select {
	case <-release:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := sendText("whole"); err != nil {
		return nil, err
	}
	return &abi.Response{
		Message:      abi.Message{Role: abi.RoleAssistant, Content: abi.Text(strings.Repeat("part ", 5) + "whole")},
		FinishReason: abi.FinishStop,
	}, nil
}

// TestServersTakeOver checks that another server takes over the runs of a server that is killed or
// shut down. Followers there receive each event once.
func TestServersTakeOver(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f, where := testDatabase(t)
	g := &gate{asked: make(chan string, 99)}
	g.shut()
	m, err := openaitest.New(g)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	next := startProcess(f, where, m.URL)
	require.Equal(t, 200, next.Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	const count = 4
	for round, end := range []os.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		server := next
		var ids []string
		var before []*servertest.Stream
		for i := range count {
			var run api.Run
			r := server.Send(
				"POST",
				"/v1/runs",
				f.Acme,
				api.StartRun{Agent: "agent", Input: "hi"},
				"Idempotency-Key",
				fmt.Sprintf("%d-%d", round, i),
			)
			require.Equal(t, 202, r.Status, "%s", r.Body)
			require.NoError(t, json.Unmarshal(r.Body, &run))
			ids = append(ids, run.ID)
			before = append(before, server.Follow(f.Acme, run.ID, ""))
		}
		for range count {
			<-g.asked
		}
		next = startProcess(f, where, m.URL)
		require.NoError(t, server.cmd.Process.Signal(end))
		if end == syscall.SIGTERM { // the shutdown waits for runs, which end here
			require.Eventually(t, func() bool {
				res, err := http.Get(server.URL + "/readyz")
				if err == nil {
					res.Body.Close()
				}
				return err != nil || res.StatusCode == http.StatusServiceUnavailable
			}, 20*time.Second, 5*time.Millisecond)
			close(g.release)
		}
		err := server.cmd.Wait()
		require.Equal(t, end == syscall.SIGTERM, err == nil, "%v", err)
		var after []*servertest.Stream
		for i, id := range ids {
			<-before[i].Done
			require.NotContains(t, servertest.Kinds(before[i].Events), "run_finished")
			after = append(after, next.Follow(f.Acme, id, before[i].Last()))
		}
		if end == syscall.SIGKILL {
			for range count { // each run repeats its model call after the takeover
				<-g.asked
			}
			close(g.release)
		}
		for i, id := range ids {
			<-after[i].Done
			all := append(before[i].Events, after[i].Events...)
			for n, e := range all {
				require.Equal(t, fmt.Sprint(n+1), e.ID, "%v: no gap, and nothing twice", end)
			}
			require.Equal(t, "run_finished", all[len(all)-1].Kind)
			require.Equal(t, "part part part part part whole", next.Finished(f.Acme, id).Output)
			var run api.Run
			r := next.Send(
				"POST",
				"/v1/runs",
				f.Acme,
				api.StartRun{Agent: "agent", Input: "hi"},
				"Idempotency-Key",
				fmt.Sprintf("%d-%d", round, i),
			)
			require.NoError(t, json.Unmarshal(r.Body, &run))
			require.Equal(t, id, run.ID, "the same request is the same run on another server")
		}
		g.shut()
	}
	var used struct{ Total api.UsageRow }
	next.OK("GET", "/v1/usage", f.Acme, nil, &used)
	require.Equal(t, int64(2*count), used.Total.Runs)
}

// TestServersHints checks that servers which send each other hints take over the runs of a killed
// one long before its leases expire, and that a cancellation reaches the server of a run.
func TestServersHints(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f, where := testDatabase(t)
	g := &gate{asked: make(chan string, 99)}
	g.shut()
	m, err := openaitest.New(g)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	var servers []*process
	for range 3 {
		servers = append(servers, startProcess(f, where, m.URL, envHints+"=1"))
	}
	require.Equal(t, 200, servers[0].Apply(f.Acme, "agent", "model: {name: small}\n").Status)
	start := func() (id string) {
		var run api.Run
		servers[0].OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "agent", Input: "hi"}, &run)
		return run.ID
	}
	ids := []string{start(), start(), start()}
	var follows []*servertest.Stream
	for _, id := range ids {
		<-g.asked
		follows = append(follows, servers[1].Follow(f.Acme, id, ""))
	}

	// Every server knows the others.
	require.Eventually(t, func() bool {
		var out struct{ Nodes []api.Node }
		servers[1].OK("GET", "/v1/cluster", f.Operator, nil, &out)
		return len(out.Nodes) == 3 && out.Nodes[0].Runs+out.Nodes[1].Runs+out.Nodes[2].Runs == len(ids)
	}, 20*time.Second, 50*time.Millisecond)

	// A cancellation at another server.
	servers[2].OK("POST", "/v1/runs/"+ids[2]+"/cancel", f.Acme, nil, nil)
	<-follows[2].Done
	require.Equal(t, "canceled", servers[1].Finished(f.Acme, ids[2]).FinishReason)

	// A killed server. Its leases last for an hour.
	killed := time.Now()
	require.NoError(t, servers[0].cmd.Process.Kill())
	for range ids[:2] {
		<-g.asked // each run repeats its model call elsewhere
	}
	t.Logf("runs continued %v after their server was killed", time.Since(killed).Round(time.Millisecond))
	close(g.release)
	for i, id := range ids[:2] {
		<-follows[i].Done
		for n, e := range follows[i].Events {
			require.Equal(t, fmt.Sprint(n+1), e.ID, "no gap, and nothing twice")
		}
		require.Equal(t, "run_finished", follows[i].Events[len(follows[i].Events)-1].Kind)
		require.Equal(t, "part part part part part whole", servers[2].Finished(f.Acme, id).Output)
	}
}

// TestServersShare checks that quotas apply to all servers that use the same database together, and
// survive restarts. A module that is blocked at one server stops on all servers, even during hooks.
func TestServersShare(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f, where := testDatabase(t)
	g := &gate{asked: make(chan string, 99)}
	g.shut()
	m, err := openaitest.New(g)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	servers := []*process{startProcess(f, where, m.URL), startProcess(f, where, m.URL)}
	servers[0].OK(
		"PATCH",
		"/v1/tenants/acme",
		f.Operator,
		map[string]any{
			"quota":  map[string]any{"concurrent_runs": 4, "runs_per_day": 6},
			"policy": map[string]any{"models": []string{"*"}, "grants": []string{"*"}},
		},
		nil,
	)
	servers[0].Upload(f.Acme, "waits", `import { defineMiddleware } from "@agent-runner/middleware";
export default defineMiddleware({ name: "waits", async wrapModel(input, ctx) { return { response: await ctx.next() }; } });`)
	require.Equal(
		t,
		200,
		servers[1].Apply(f.Acme, "agent", "model: {name: small}\nmiddlewares: [{module: waits}]\n").Status,
	)
	start := func(i int) *servertest.Reply {
		return servers[i%2].Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "agent", Input: "hi"})
	}
	var wg sync.WaitGroup
	replies := make(chan *servertest.Reply, 99)
	for i := range 20 {
		wg.Go(func() { replies <- start(i) })
	}
	wg.Wait()
	close(replies)
	var ids []string
	for r := range replies {
		if r.Status != 202 {
			require.Equal(t, "concurrent_runs", r.Problem(t, 429).Quota)
			continue
		}
		var run api.Run
		require.NoError(t, json.Unmarshal(r.Body, &run))
		ids = append(ids, run.ID)
	}
	require.Len(t, ids, 4)
	for range ids {
		<-g.asked // each run calls its model within a hook
	}
	var stored struct{ Modules []api.Module }
	servers[0].OK("GET", "/v1/modules", f.Acme, nil, &stored)
	began := time.Now()
	servers[1].OK(
		"PUT",
		"/v1/blocks/"+stored.Modules[0].Digest,
		f.Operator,
		map[string]any{"reason": "it phones home"},
		nil,
	)
	for _, id := range ids {
		done := servers[0].Finished(f.Acme, id)
		require.Equal(t, journal.StatusFinished, journal.Status(done.Status))
		require.Equal(t, "canceled", done.FinishReason)
	}
	require.Eventually(t, func() bool { // even at a server without runs
		servers[0].OK("GET", "/v1/modules", f.Acme, nil, &stored)
		return stored.Modules[0].Blocked != ""
	}, 5*time.Second, 10*time.Millisecond)
	t.Logf("both servers heeded the block within %v", time.Since(began).Round(time.Millisecond))
	require.Contains(t, start(0).Problem(t, 403).Detail, "it phones home")
	require.Contains(t, start(1).Problem(t, 403).Detail, "it phones home")
	servers[0].OK("DELETE", "/v1/blocks/"+stored.Modules[0].Digest, f.Operator, nil, nil)

	// A new server counts the usage so far.
	close(g.release)
	for _, p := range servers {
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, p.cmd.Wait())
	}
	servers = []*process{startProcess(f, where, m.URL), startProcess(f, where, m.URL)}
	for i := range 2 {
		r := start(i)
		require.Equal(t, 202, r.Status, "%s", r.Body)
	}
	for i := range 2 {
		require.Equal(t, "runs_per_day", start(i).Problem(t, 429).Quota)
	}
	servers[0].OK(
		"PATCH",
		"/v1/tenants/acme",
		f.Operator,
		map[string]any{"quota": map[string]any{"journal_bytes": 1}},
		nil,
	)
	for i := range 2 {
		require.Equal(t, "journal_bytes", start(i).Problem(t, 429).Quota)
	}
}
