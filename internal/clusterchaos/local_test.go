package clusterchaos

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/client"
	"github.com/agent-runner/agent-runner/internal/openaitest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A local is one or several servers on loopback addresses, their load, and the ledger of its tool. It
// needs no network namespaces.
type local struct {
	t       *testing.T
	program string
	dir     string // has the key file and the log
	keys    string // path of the key file
	model   string // URL of the operator's model
	ledger  *ledger
	tool    string // URL of the tool

	mu      sync.Mutex
	servers []*localServer
	clients []*client.Client // of the tenant, for each server
	key     string           // of the operator
	runs    []*localRun
	started int
}

// A localServer is a process of the command serve.
type localServer struct {
	cmd   *exec.Cmd
	url   string
	ended chan struct{}
	key   string // the operator's key, if this server printed it
}

// A localRun is a run as its follower saw it.
type localRun struct {
	id, token      string
	started, ended time.Time // ended is zero until the follower got the last event
	first          time.Time // when the client sent the request that started the run
	events         []seenEvent
}

// newLocal builds the command and starts the tool and the model.
func newLocal(t *testing.T) *local {
	l := &local{t: t, dir: t.TempDir(), ledger: &ledger{calls: map[string]int{}}}
	l.program = filepath.Join(l.dir, "agent-runner")
	out, err := exec.Command("go", "build", "-o", l.program, "../../cmd/agent-runner").CombinedOutput()
	require.NoError(t, err, "%s", out)
	l.keys = filepath.Join(l.dir, "secrets.key")
	require.NoError(t, os.WriteFile(l.keys, []byte("main:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n"), 0o600))
	model, err := openaitest.New(teller{200 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(model.Close)
	l.model = model.URL
	impl := sdk.NewServer(&sdk.Implementation{Name: "bank", Version: "1"}, nil)
	sdk.AddTool(impl, &sdk.Tool{Name: "pay", Description: "Pays once."}, l.ledger.pay)
	tool := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return impl },
		&sdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(tool.Close)
	l.tool = tool.URL
	return l
}

var servingAt = regexp.MustCompile(`serving at (http://[^ ,]+)`)

// serve starts a server on a store and waits until it is ready.
func (l *local) serve(where string) *localServer {
	l.t.Helper()
	s := &localServer{ended: make(chan struct{})}
	s.cmd = exec.Command(l.program, "serve", "--listen", "127.0.0.1:0", "--store", where, "--secrets-key-file", l.keys,
		"--cache-dir", filepath.Join(l.dir, "cache"), "--allow-private", "127.0.0.0/8", "--drain", "10s")
	s.cmd.Env = append(os.Environ(), "OPENAI_BASE_URL="+l.model, "OPENAI_API_KEY=none", "TMPDIR="+l.dir, "HOME="+l.dir)
	stdout, err := s.cmd.StdoutPipe()
	require.NoError(l.t, err)
	stderr, err := s.cmd.StderrPipe()
	require.NoError(l.t, err)
	require.NoError(l.t, s.cmd.Start())
	keys, urls := make(chan string, 1), make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(stdout).ReadString('\n')
		keys <- strings.TrimSpace(line)
	}()
	log, err := os.Create(filepath.Join(l.dir, fmt.Sprintf("log%d", s.cmd.Process.Pid)))
	require.NoError(l.t, err)
	go func() {
		defer close(s.ended)
		defer log.Close()
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			fmt.Fprintln(log, lines.Text())
			if at := servingAt.FindStringSubmatch(lines.Text()); at != nil {
				urls <- at[1]
			}
		}
		_ = s.cmd.Wait()
	}()
	l.t.Cleanup(func() { s.kill() })
	select {
	case s.url = <-urls:
	case <-s.ended:
	case <-time.After(30 * time.Second):
	}
	b, _ := os.ReadFile(log.Name())
	require.NotEmpty(l.t, s.url, "%s", b)
	select {
	case s.key = <-keys:
	case <-time.After(300 * time.Millisecond): // only the first start prints a key
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = append(l.servers, s)
	return s
}

// kill kills the server.
func (s *localServer) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// prepare creates a tenant, its key, a secret and an agent at the first server.
func (l *local) prepare() (key string) {
	ctx := l.t.Context()
	l.key = l.servers[0].key
	operator, err := client.New(l.servers[0].url, l.key, nil)
	require.NoError(l.t, err)
	policy, err := json.Marshal(
		map[string]any{"models": []string{"*"}, "hosts": []string{strings.TrimPrefix(l.tool, "http://")}},
	)
	require.NoError(l.t, err)
	var tenant api.CreateTenant
	require.NoError(l.t, json.Unmarshal(fmt.Appendf(nil, `{"id":"acme","policy":%s}`, policy), &tenant))
	_, err = operator.CreateTenant(ctx, &tenant)
	require.NoError(l.t, err)
	created, err := operator.CreateKey(ctx, "acme", &api.CreateKey{Name: "load"})
	require.NoError(l.t, err)
	l.use(created.Secret)
	_, err = l.clients[0].PutAgent(ctx, "payer", fmt.Appendf(nil,
		"model: {name: small, retries: 20}\ntools: {mcp: [{url: %q}]}\n", l.tool))
	require.NoError(l.t, err)
	require.NoError(l.t, l.clients[0].SetSecret(ctx, "BANK_KEY", "the secret of the bank"))
	return created.Secret
}

// use makes the clients of all servers use a tenant's key.
func (l *local) use(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients = nil
	for _, s := range l.servers {
		c, err := client.New(s.url, key, &client.Options{Retry: 100 * time.Millisecond})
		require.NoError(l.t, err)
		l.clients = append(l.clients, c)
	}
}

// any returns a client of one of the servers.
func (l *local) any() *client.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[rand.N(len(l.clients))]
}

// load starts runs and follows them, several at a time, until stop is called, which waits for the end
// of the runs.
func (l *local) load(concurrent int) (stop func()) {
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*time.Minute)
	done := make(chan struct{})
	var load sync.WaitGroup
	for range concurrent {
		load.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					l.one(ctx)
				}
			}
		})
	}
	return func() {
		close(done)
		load.Wait()
		cancel()
	}
}

// one starts a run and follows it to its end. It gives up when ctx is done.
func (l *local) one(ctx context.Context) {
	l.mu.Lock()
	l.started++
	r := &localRun{token: fmt.Sprint("token-", l.started), first: time.Now()}
	l.mu.Unlock()
	for r.id == "" && ctx.Err() == nil {
		if run, err := l.any().StartRun(ctx, &api.StartRun{Agent: "payer", Input: r.token}, r.token); err == nil {
			r.id, r.started = run.ID, time.Now()
		} else {
			time.Sleep(20 * time.Millisecond)
		}
	}
	if r.id == "" {
		return
	}
	l.mu.Lock()
	l.runs = append(l.runs, r)
	l.mu.Unlock()
	for after := int64(0); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		for e, err := range l.any().Follow(ctx, r.id, after) {
			if err != nil {
				break
			}
			after = e.Seq
			l.mu.Lock()
			r.events = append(r.events, seenEvent{e, time.Now()})
			if e.Type == abi.EventRunFinished {
				r.ended = time.Now()
				l.mu.Unlock()
				return
			}
			l.mu.Unlock()
		}
	}
}

// count returns the number of runs for which is holds.
func (l *local) count(is func(*localRun) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.runs {
		if is(r) {
			n++
		}
	}
	return n
}

// await waits until more runs have ended.
func (l *local) await(more int) {
	l.t.Helper()
	ended := func() int { return l.count(func(r *localRun) bool { return !r.ended.IsZero() }) }
	want := ended() + more
	require.Eventually(l.t, func() bool { return ended() >= want }, 40*time.Second, 10*time.Millisecond)
}

// atRest waits until no run of the store is in progress, and returns all of them by ID.
func atRest(t *testing.T, s store.Store) map[string]string {
	t.Helper()
	status := map[string]string{}
	require.Eventually(t, func() bool {
		clear(status)
		f := &store.Filter{Tenant: "acme", Page: store.Page{Limit: 500}}
		runs, next, err := s.Runs(t.Context(), f)
		require.NoError(t, err)
		require.Nil(t, next, "more than one page")
		over := true
		for i := range runs {
			status[runs[i].ID] = string(runs[i].Status) + " " + runs[i].FinishReason
			over = over && runs[i].Status == "finished"
		}
		return over
	}, 40*time.Second, 50*time.Millisecond, "%v", status)
	return status
}

// journalOf returns the events of a run, and checks that their numbers have no gap and that the run
// ended once.
func journalOf(t *testing.T, s store.Store, id string) (out []abi.Event) {
	t.Helper()
	for {
		events, err := s.Events(t.Context(), id, int64(len(out)), 1000)
		require.NoError(t, err)
		if len(events) == 0 {
			break
		}
		out = append(out, events...)
	}
	ends := 0
	for i := range out {
		require.Equal(t, int64(i+1), out[i].Seq, "gap in %s", id)
		if out[i].Type == abi.EventRunFinished {
			ends++
			require.Equal(t, abi.RunStop, out[i].FinishReason, "%s: %+v", id, out[i].Error)
		}
	}
	require.Equal(t, 1, ends, "ends of %s", id)
	return out
}

// requireUsage checks that the usage of the tenant is the sum of what its runs used.
func requireUsage(t *testing.T, s store.Store, c *client.Client, runs map[string]string) {
	t.Helper()
	var tokens int64
	for id := range runs {
		run, err := s.Run(t.Context(), id)
		require.NoError(t, err)
		tokens += run.Usage.TotalTokens
	}
	usage, err := c.Usage(t.Context(), "", time.Now().UTC().AddDate(0, 0, -1).Format(time.DateOnly), "", client.Page{})
	require.NoError(t, err)
	require.Equal(t, tokens, usage.Total.PromptTokens+usage.Total.CompletionTokens, "tokens")
	require.Equal(t, int64(len(runs)), usage.Total.Runs)
}
