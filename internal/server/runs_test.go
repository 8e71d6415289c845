package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// agentsOf provides native agents to several servers that use the same database.
type agentsOf struct {
	mu   sync.Mutex
	make map[string]func() *agent.Options
}

func (a *agentsOf) source(s *Server) runs.AgentSource { return &nativeAgents{a, s} }

type nativeAgents struct {
	of     *agentsOf
	server *Server
}

// Ready implements [runs.AgentSource].
func (n *nativeAgents) Ready([]journal.Pin) bool { return true }

func (n *nativeAgents) Open(_ context.Context, t *store.Tenant, spec agents.Spec) (*agents.Handle, error) {
	name, version := spec.Agent, spec.Version
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	makes, ok := n.of.make[name]
	if !ok {
		return nil, fmt.Errorf("agent %s: %w", name, store.ErrNoAgent)
	}
	o := makes()
	stored, err := json.Marshal(agents.Spec{Agent: name, Version: max(version, 1)})
	if err != nil {
		return nil, err
	}
	o.Name = name
	o.Journal = &journal.Options{
		Journal:  t.Journal(),
		Tenant:   t.ID(),
		Owner:    fmt.Sprintf("%p", n.server),
		Drain:    n.server.draining,
		Abort:    n.server.aborted,
		Spec:     stored,
		LeaseTTL: 2 * time.Second,
	}
	a, err := agent.New(o)
	if err != nil {
		return nil, err
	}
	return &agents.Handle{Agent: a, Release: func() {}}, nil
}

// runFixture returns a fixture whose server has native agents instead of those in its store.
func runFixture(t *testing.T, agents map[string]func() *agent.Options, set ...func(*Options)) (*fixture, *agentsOf) {
	t.Helper()
	f := newFixture(t, set...)
	of := &agentsOf{make: agents}
	f.server.runs.Agents = of.source(f.server)
	return f, of
}

// An sse is an event of a stream.
type sse struct{ id, kind, data string }

// events reads a stream of events to its end.
func (f *fixture) events(method, path, key string, body any, header ...string) []sse {
	f.t.Helper()
	r := f.send(method, path, key, body, append(header, "Accept", "text/event-stream")...)
	require.Equal(f.t, 200, r.status, "%s", r.body)
	require.Equal(f.t, "text/event-stream", r.header.Get("Content-Type"))
	return parseSSE(f.t, string(r.body))
}

func parseSSE(t *testing.T, text string) (out []sse) {
	t.Helper()
	var now sse
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch name {
		case "id":
			now.id = value
		case "event":
			now.kind = value
		case "data":
			now.data = value
		case "":
			if now.kind != "" {
				out = append(out, now)
			}
			now = sse{}
		}
	}
	return out
}

func kinds(events []sse) (out []string) {
	for _, e := range events {
		if len(out) == 0 || out[len(out)-1] != e.kind {
			out = append(out, e.kind)
		}
	}
	return out
}

func hello() *agent.Options {
	return &agent.Options{Model: scripted.New(scripted.Text("Hello there, how are you?"))}
}

func (f *fixture) finished(key, id string) *api.Run {
	f.t.Helper()
	var run api.Run
	require.Eventually(f.t, func() bool {
		f.ok("GET", "/v1/runs/"+id, key, nil, &run)
		return run.Status == "finished"
	}, 2*time.Minute, 5*time.Millisecond)
	return &run
}

// TestRun checks that a run can be started, followed, listed, shown and deleted, and counts toward
// its tenant's usage.
func TestRun(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	var run api.Run
	r := f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	require.Equal(t, 202, r.status)
	require.Equal(t, "/v1/runs/"+run.ID, r.header.Get("Location"))
	require.Equal(t, "greeter", run.Agent)
	done := f.finished(f.acme, run.ID)
	require.Equal(t, "Hello there, how are you?", done.Output)
	require.Equal(t, "stop", done.FinishReason)
	require.Equal(t, int64(1), done.Version)

	all := f.events("GET", "/v1/runs/"+run.ID+"/events", f.acme, nil)
	require.Equal(
		t,
		[]string{"run_started", "step_started", "chunk", "message", "step_finished", "run_finished"},
		kinds(all),
	)
	for i, e := range all {
		require.Equal(t, fmt.Sprint(i+1), e.id)
	}
	rest := f.events("GET", "/v1/runs/"+run.ID+"/events", f.acme, nil, "Last-Event-ID", "2")
	require.Equal(t, all[2:], rest)
	require.Equal(
		t,
		204,
		f.send(
			"GET",
			"/v1/runs/"+run.ID+"/events",
			f.acme,
			nil,
			"Accept",
			"text/event-stream",
			"Last-Event-ID",
			all[len(all)-1].id,
		).status,
	)
	f.send("GET", "/v1/runs/"+run.ID+"/events", f.acme, nil, "Last-Event-ID", "x").problem(t, 422)
	var page struct {
		Events []abi.Event
		More   bool
	}
	f.ok("GET", "/v1/runs/"+run.ID+"/events?after=1", f.acme, nil, &page)
	require.Len(t, page.Events, len(all)-1)

	var list struct{ Runs []api.Run }
	f.ok("GET", "/v1/runs?agent=greeter&status=finished", f.acme, nil, &list)
	require.Len(t, list.Runs, 1)
	f.ok("GET", "/v1/runs?status=paused", f.acme, nil, &list)
	require.Empty(t, list.Runs)
	var history api.RunHistory
	f.ok("GET", "/v1/runs/"+run.ID+"/history", f.acme, nil, &history)
	var messages []abi.Message
	require.NoError(t, json.Unmarshal(history.Messages, &messages))
	require.Len(t, messages, 2)
	f.send("POST", "/v1/runs/"+run.ID+"/cancel", f.acme, nil).problem(t, 409)
	require.Equal(t, 204, f.send("DELETE", "/v1/runs/"+run.ID, f.acme, nil).status)
	f.send("GET", "/v1/runs/"+run.ID, f.acme, nil).problem(t, 404)

	var used struct{ Total api.UsageRow }
	f.ok("GET", "/v1/usage", f.acme, nil, &used)
	require.Equal(t, int64(1), used.Total.Runs)
}

func TestRunIsRejected(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	for body, want := range map[string]string{
		`{}`: "agent is missing", `{"agent":"greeter"}`: "either input or messages", `{"agent":"greeter","input":"a","messages":[{"role":"user","content":"a"}]}`: "either input or messages",
		`{"agent":"greeter","messages":[{"role":"robot","content":"a"}]}`: "unknown role", `{"run":"run_1"}`: "set answers", `{"run":"run_1","agent":"a","answers":{"a":1}}`: "remove agent",
		`{"agent":"greeter","input":"a","disconnect":"perhaps"}`: "disconnect", `{"agent":"greeter","input":"a","agnet":1}`: "unknown field", `{"agent":"greeter","input":"a","input":"b"}`: "not valid",
	} {
		require.Contains(t, f.send("POST", "/v1/runs", f.acme, []byte(body)).problem(t, 422, body).Detail, want)
	}
	f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "nobody", Input: "a"}).problem(t, 404)
	f.send("POST", "/v1/runs", f.acme, api.StartRun{
		Run: "run_1", Answers: map[string]json.RawMessage{"int_1": json.RawMessage(`1`)},
	}).
		problem(t, 404)

	_, err := f.store.UpdateTenant(t.Context(), "beta", &store.TenantUpdate{Quota: &store.TenantQuota{RunsPerDay: 1}})
	require.NoError(t, err)
	f.ok("POST", "/v1/runs", f.beta, api.StartRun{Agent: "greeter", Input: "a"}, nil)
	r := f.send("POST", "/v1/runs", f.beta, api.StartRun{Agent: "greeter", Input: "a"})
	require.Equal(t, "runs_per_day", r.problem(t, 429).Quota)
	require.NotEmpty(t, r.header.Get("Retry-After"))
}

// TestRunIdempotency checks that repeating a request with its Idempotency-Key returns the same run,
// that another tenant's key is independent, and that a key that is too long is rejected.
func TestRunIdempotency(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	var ids []string
	for _, key := range []string{f.acme, f.acme, f.beta} {
		var run api.Run
		r := f.send("POST", "/v1/runs", key, api.StartRun{Agent: "greeter", Input: "hi"}, "Idempotency-Key", "once")
		require.Equal(t, 202, r.status, "%s", r.body)
		require.NoError(t, json.Unmarshal(r.body, &run))
		ids = append(ids, run.ID)
	}
	require.Equal(t, ids[0], ids[1])
	require.NotEqual(t, ids[0], ids[2], "tenants' keys are apart")
	f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "greeter", Input: "hi"},
		"Idempotency-Key", strings.Repeat("a", 300)).
		problem(t, 422)
}

// TestIdempotencyKeyOfAnotherRequest checks that a different request with a used Idempotency-Key is
// rejected.
func TestIdempotencyKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello, "other": hello})
	talk := func(last string) []json.RawMessage {
		return []json.RawMessage{[]byte(`{"role":"user","content":[{"type":"text","text":"hi"}],"mine":1}`),
			[]byte(
				`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{ \"a\":1}"}}]}`,
			),
			[]byte(`{"role":"tool","tool_call_id":"c1","content":"seen"}`), []byte(`{"role":"user","content":"` + last + `"}`)}
	}
	for key, first := range map[string]api.StartRun{
		"text": {Agent: "greeter", Input: "hi"}, "talk": {Agent: "greeter", Messages: talk("and?")},
	} {
		begin := func(in api.StartRun) *reply { return f.send("POST", "/v1/runs", f.acme, in, "Idempotency-Key", key) }
		var run, again api.Run
		require.NoError(t, json.Unmarshal(begin(first).body, &run))
		f.finished(f.acme, run.ID)
		require.NoError(t, json.Unmarshal(begin(first).body, &again))
		require.Equal(t, run.ID, again.ID)
		for what, another := range map[string]api.StartRun{"agent": {Agent: "other", Input: first.Input, Messages: first.Messages}, "input": {Agent: "greeter", Input: "hi!"}, "messages": {Agent: "greeter", Messages: talk("or?")}} {
			require.Contains(t, begin(another).problem(t, 422).Detail, "belongs to another request, which started "+run.ID, what)
		}
	}
}

// asks returns the options of an agent whose tool waits for an answer.
func asks() *agent.Options {
	return &agent.Options{Model: scripted.New(scripted.Calls(abi.NewToolCall("1", "ask", "{}")), scripted.Text("thanks")),
		Tools: []tool.Tool{tool.ByClient(abi.Tool{Name: "ask"})}}
}

func TestRunPauses(t *testing.T) {
	t.Parallel()
	shared := asks()
	f, _ := runFixture(t, map[string]func() *agent.Options{"asker": func() *agent.Options { o := *shared; return &o }})
	first := f.events("POST", "/v1/runs", f.acme, api.StartRun{Agent: "asker", Input: "hi"})
	require.Equal(t, "run_paused", first[len(first)-1].kind)
	var paused abi.Event
	require.NoError(t, json.Unmarshal([]byte(first[len(first)-1].data), &paused))
	var run api.Run
	f.ok("GET", "/v1/runs/"+paused.Run, f.acme, nil, &run)
	require.Equal(t, "paused", run.Status)
	require.Len(t, run.Interrupts, 1)

	answers := func(id, answer string) api.StartRun {
		return api.StartRun{Run: run.ID, Answers: map[string]json.RawMessage{id: json.RawMessage(answer)}}
	}
	for range 20 { // a rejected client may answer again at once
		require.Contains(t, f.send("POST", "/v1/runs", f.acme, answers("int_99", `"a"`)).problem(t, 422).Detail, "int_99")
	}
	f.send("POST", "/v1/runs", f.beta, answers(run.Interrupts[0].ID, `"a"`)).problem(t, 404)
	second := f.events("POST", "/v1/runs", f.acme, answers(run.Interrupts[0].ID, `"it is fine"`))
	require.Equal(t, "run_finished", second[len(second)-1].kind)
	require.Equal(t, fmt.Sprint(len(first)+1), second[0].id, "the second response has only new events")
	f.send("POST", "/v1/runs", f.acme, answers(run.Interrupts[0].ID, `"again"`)).problem(t, 409)
}

// slow returns the options of an agent whose tool sends to began when it is called, and runs until
// its run ends or release is closed.
func slow(began chan<- string, release <-chan struct{}) *agent.Options {
	return &agent.Options{Model: scripted.New(scripted.Calls(abi.NewToolCall("1", "wait", "{}")), scripted.Text("done")),
		Tools: []tool.Tool{
			tool.Idempotent(tool.Func(abi.Tool{Name: "wait"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
				began <- "began"
				select {
				case <-release:
					return abi.TextResult("let go"), nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})),
		}}
}

func TestRunIsCanceled(t *testing.T) {
	t.Parallel()
	began := make(chan string, 9)
	f, _ := runFixture(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return slow(began, nil) }, "asker": asks},
	)
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	<-began
	f.send("DELETE", "/v1/runs/"+run.ID, f.acme, nil).problem(t, 409)
	f.send("POST", "/v1/runs/"+run.ID+"/cancel", f.beta, nil).problem(t, 404)
	require.Equal(t, 202, f.ok("POST", "/v1/runs/"+run.ID+"/cancel", f.acme, nil, nil).status)
	require.Equal(t, "canceled", f.finished(f.acme, run.ID).FinishReason)

	events := f.events(
		"POST",
		"/v1/runs",
		f.acme,
		api.StartRun{Agent: "asker", Input: "hi"},
	) // a run that waits for answers
	var paused abi.Event
	require.NoError(t, json.Unmarshal([]byte(events[len(events)-1].data), &paused))
	f.ok("POST", "/v1/runs/"+paused.Run+"/cancel", f.acme, nil, nil)
	require.Equal(t, "canceled", f.finished(f.acme, paused.Run).FinishReason)
}

// TestClientDisconnects checks that a run whose client disconnects continues or is canceled,
// depending on the request.
func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 9), make(chan struct{})
	f, _ := runFixture(t, map[string]func() *agent.Options{"slow": func() *agent.Options { return slow(began, release) }})
	var ids []string
	for _, disconnect := range []string{"cancel", "continue"} {
		ctx, leave := context.WithCancel(t.Context())
		body, err := json.Marshal(api.StartRun{Agent: "slow", Input: "hi", Disconnect: disconnect})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(ctx, "POST", f.url+"/v1/runs", strings.NewReader(string(body)))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+f.acme)
		req.Header.Set("Accept", "text/event-stream")
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		lines := bufio.NewReader(res.Body)
		for {
			line, err := lines.ReadString('\n')
			require.NoError(t, err)
			if strings.HasPrefix(line, "data: ") {
				var e abi.Event
				require.NoError(t, json.Unmarshal([]byte(line[6:]), &e))
				ids = append(ids, e.Run)
				break
			}
		}
		<-began
		leave()
		_ = res.Body.Close()
	}
	require.Equal(t, "canceled", f.finished(f.acme, ids[0]).FinishReason)
	close(release)
	require.Equal(t, "stop", f.finished(f.acme, ids[1]).FinishReason)
}

// TestRunsOutliveTheirServer checks that a server that shuts down releases its runs to the
// journal, and another server resumes them. Followers receive each event once.
func TestRunsOutliveTheirServer(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 9), make(chan struct{})
	shared := slow(began, release)
	f, of := runFixture(t, map[string]func() *agent.Options{"slow": func() *agent.Options { o := *shared; return &o }})
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	<-began
	stream := make(chan []sse)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", f.url+"/v1/runs/"+run.ID+"/events", nil)
		req.Header.Set("Authorization", "Bearer "+f.acme)
		req.Header.Set("Accept", "text/event-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			close(stream)
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		stream <- parseSSE(t, string(b))
	}()
	f.server.drainOnce.Do(func() { close(f.server.draining) })
	close(release) // the tool ends, and with it the phase
	first := <-stream
	require.NotContains(t, kinds(first), "run_finished")
	f.server.work.Wait()

	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	next, err := New(&Options{Store: f.store, Host: h})
	require.NoError(t, err)
	next.runs.Agents = of.source(next)
	hs := httptest.NewServer(next)
	t.Cleanup(hs.Close)
	require.NoError(t, next.runs.TakeOverAll(t.Context()))
	other := *f
	other.url = hs.URL
	require.Equal(t, "done", other.finished(f.acme, run.ID).Output)
	rest := other.events("GET", "/v1/runs/"+run.ID+"/events", f.acme, nil, "Last-Event-ID", first[len(first)-1].id)
	var seqs []string
	for _, e := range slices.Concat(first, rest) {
		seqs = append(seqs, e.id)
	}
	for i, seq := range seqs {
		require.Equal(t, fmt.Sprint(i+1), seq)
	}
	require.Empty(t, began, "the tool was not called again")
	next.work.Wait()
}

// TestOperatorsModulesAreHidden checks that tenants do not see the operator's modules in their
// runs.
func TestOperatorsModulesAreHidden(t *testing.T) {
	t.Parallel()
	guard := &inproc.Middleware{
		BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			c.Log(contract.LogWarn, "a secret thought")
			return nil, nil
		},
		AfterModel: func(context.Context, *hook.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			return &abi.AfterModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "not here"}}}, nil
		},
	}
	f, _ := runFixture(t, map[string]func() *agent.Options{"guarded": func() *agent.Options {
		c, err := chain.New(
			hook.Entry{Name: "secret-guard", Ring: hook.Outer, Middleware: guard},
			hook.Entry{Name: "own", Ring: hook.Tenant, Middleware: &inproc.Middleware{
				BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
					c.Log(contract.LogWarn, "a thought of its own")
					return nil, nil
				}}},
		)
		require.NoError(t, err)
		return &agent.Options{Model: scripted.New(scripted.Text("x")), Chain: c}
	}})
	events := f.events("POST", "/v1/runs", f.acme, api.StartRun{Agent: "guarded", Input: "hi"})
	id := ""
	text := fmt.Sprint(events)
	require.Contains(t, text, "a thought of its own")
	for _, path := range []string{"/events", "/history", ""} {
		var e abi.Event
		require.NoError(t, json.Unmarshal([]byte(events[0].data), &e))
		id = e.Run
		text += string(f.send("GET", "/v1/runs/"+id+path, f.acme, nil).body)
	}
	require.NotContains(t, text, "secret")
	require.Contains(t, text, `"stopped_by":"operator"`)
	require.Equal(t, "stopped by operator: not here", f.finished(f.acme, id).Error)
}

// TestBlockedModuleEndsRuns checks that runs are canceled if the operator blocks a module that they
// use. The tenant sees the digest and the reason only if the module is its own.
func TestBlockedModuleEndsRuns(t *testing.T) {
	t.Parallel()
	began := make(chan string, 9)
	f, _ := runFixture(t, map[string]func() *agent.Options{"slow": func() *agent.Options { return slow(began, nil) }})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go f.server.runs.WatchBlocks(ctx)
	var its, around api.Run
	for digest, run := range map[string]*api.Run{strings.Repeat("ab", 32): &its, strings.Repeat("cd", 32): &around} {
		f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "slow", Input: "hi"}, run)
		<-began
		ring := "tenant"
		if run == &around {
			ring = "outer"
		}
		l := f.server.runs.Active.Get("acme", run.ID)
		l.Pins = []journal.Pin{{Entry: "m", Ring: ring, Digest: digest}} // native middlewares have no digest
		f.ok("PUT", "/v1/blocks/"+digest, f.operator, map[string]string{"reason": "it phones home"}, nil)
		require.Equal(t, "canceled", f.finished(f.acme, run.ID).FinishReason)
	}
	why := "the operator blocks module sha256:" + strings.Repeat("ab", 32) + ": it phones home"
	require.Equal(t, why, f.finished(f.acme, its.ID).Error)
	last := string(f.send("GET", "/v1/runs/"+its.ID+"/events", f.acme, nil).body)
	require.Contains(t, last, `"finish_reason":"canceled"`)
	require.Contains(t, last, `"error":{"code":"denied","message":"`+why+`"}`)

	require.Equal(t, "the operator blocks one of the modules around all agents", f.finished(f.acme, around.ID).Error)
	for _, path := range []string{"", "/events", "/history"} {
		text := string(f.send("GET", "/v1/runs/"+around.ID+path, f.acme, nil).body)
		require.NotContains(t, text, "phones")
		require.NotContains(t, text, "cdcd")
	}
}

// TestRunExceedsTheDrainTime checks that a run that does not end within the drain time is
// released at once, for another server to resume.
func TestRunExceedsTheDrainTime(t *testing.T) {
	t.Parallel()
	began := make(chan string, 9)
	f, of := runFixture(t, map[string]func() *agent.Options{"slow": func() *agent.Options { return slow(began, nil) }})
	srv, err := New(&Options{Store: f.store, Host: f.server.options.Host, DrainTime: time.Millisecond})
	require.NoError(t, err)
	srv.runs.Agents = of.source(srv)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l) }()
	first := *f
	first.url = "http://" + l.Addr().String()
	var run api.Run
	first.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	<-began
	stop()
	require.NoError(t, <-ended, "it was handed back")
	require.Equal(t, 1, srv.HandedBack())
	info, err := f.store.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, journal.StatusRunning, info.Status)
	list, err := f.store.ExpiredRuns(t.Context(), []byte(runs.SpecPrefix), 9, 9)
	require.NoError(t, err)
	require.Len(t, list, 1, "its lease is over")

	require.NoError(t, f.server.runs.TakeOverAll(t.Context()))
	<-began
	f.ok("POST", "/v1/runs/"+run.ID+"/cancel", f.acme, nil, nil)
	require.Equal(t, "canceled", f.finished(f.acme, run.ID).FinishReason)
}

// An uninterruptible is a model that ignores cancellation, and fails when release is closed.
type uninterruptible struct{ began, release chan struct{} }

func (d uninterruptible) Generate(context.Context, *model.Request, func(abi.Chunk) error) (*abi.Response, error) {
	close(d.began)
	<-d.release
	return nil, errors.New("it is too late")
}

// TestRunThatCannotBeHandedBack checks that Serve returns an error if a run can neither end nor
// be released.
func TestRunThatCannotBeHandedBack(t *testing.T) {
	t.Parallel()
	began, release := make(chan struct{}), make(chan struct{})
	f, of := runFixture(t, map[string]func() *agent.Options{"deaf": func() *agent.Options {
		return &agent.Options{Model: uninterruptible{began, release}}
	}})
	srv, err := New(&Options{Store: f.store, Host: f.server.options.Host, DrainTime: time.Millisecond})
	require.NoError(t, err)
	srv.timeouts.HandBack = time.Millisecond
	srv.runs.Agents = of.source(srv)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l) }()
	other := *f
	other.url = "http://" + l.Addr().String()
	other.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "deaf", Input: "hi"}, nil)
	<-began
	stop()
	require.ErrorContains(t, <-ended, "1 runs neither ended in time")
	require.Zero(t, srv.HandedBack())
	close(release)
	srv.work.Wait()
}

// TestMetadataIsBounded checks that a run's metadata may have MaxMetadata bytes, and no more.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	start := func(bytes int) *reply {
		return f.send(
			"POST",
			"/v1/runs",
			f.acme,
			api.StartRun{
				Agent:    "greeter",
				Input:    "hi",
				Metadata: map[string]json.RawMessage{"a": json.RawMessage(`"` + strings.Repeat("x", bytes-3) + `"`)},
			},
		)
	}
	require.Equal(t, 202, start(runs.MaxMetadata).status)
	require.Contains(
		t,
		start(runs.MaxMetadata+1).problem(t, 422).Detail,
		"metadata has 65537 bytes; at most 65536 are allowed",
	)
}

// TestOperatorsRunsAreTakenOver checks that runs of the operator's tenant that a server started are
// taken over. Runs that the command line started in the same store are not.
func TestOperatorsRunsAreTakenOver(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 9), make(chan struct{})
	f, of := runFixture(t, map[string]func() *agent.Options{"slow": func() *agent.Options { return slow(began, release) }})
	gone, err := New(&Options{Store: f.store, Host: f.server.options.Host})
	require.NoError(t, err)
	gone.runs.Agents = of.source(gone)
	other := *f
	hs := httptest.NewServer(gone)
	defer hs.Close()
	other.url = hs.URL
	var run api.Run
	other.ok("POST", "/v1/runs", f.operator, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	<-began
	gone.abort.Do(func() { close(gone.aborted) })
	gone.work.Wait()
	require.NoError(
		t,
		f.store.Create(t.Context(), &journal.Creation{ID: "run_command", Agent: "slow", Owner: "a command", Log: []byte("x"),
			Spec: []byte(`{"version":1,"agent":{"name":"slow"}}`)}),
	)

	require.NoError(t, f.server.runs.TakeOverAll(t.Context()))
	<-began
	close(release)
	require.Equal(t, "done", f.finished(f.operator, run.ID).Output)
	f.server.work.Wait()
	info, err := f.store.Run(t.Context(), "run_command")
	require.NoError(t, err)
	require.Equal(t, journal.StatusRunning, info.Status)
	require.Equal(t, int64(1), info.Epoch)
}
