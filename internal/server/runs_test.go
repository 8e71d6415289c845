package server_test

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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// TestRun checks that a run can be started, followed, listed, shown and deleted, and counts toward
// its tenant's usage.
func TestRun(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	var run api.Run
	r := f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	require.Equal(t, 202, r.Status)
	require.Equal(t, "/v1/runs/"+run.ID, r.Header.Get("Location"))
	require.Equal(t, "greeter", run.Agent)
	done := f.Finished(f.Acme, run.ID)
	require.Equal(t, "Hello there, how are you?", done.Output)
	require.Equal(t, "stop", done.FinishReason)
	require.Equal(t, int64(1), done.Version)

	all := f.Events("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil)
	require.Equal(
		t,
		[]string{"run_started", "step_started", "chunk", "message", "step_finished", "run_finished"},
		servertest.Kinds(all),
	)
	for i, e := range all {
		require.Equal(t, fmt.Sprint(i+1), e.ID)
	}
	rest := f.Events("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil, "Last-Event-ID", "2")
	require.Equal(t, all[2:], rest)
	require.Equal(
		t,
		204,
		f.Send(
			"GET",
			"/v1/runs/"+run.ID+"/events",
			f.Acme,
			nil,
			"Accept",
			"text/event-stream",
			"Last-Event-ID",
			all[len(all)-1].ID,
		).Status,
	)
	f.Send("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil, "Last-Event-ID", "x").Problem(t, 422)
	var page struct {
		Events []abi.Event
		More   bool
	}
	f.OK("GET", "/v1/runs/"+run.ID+"/events?after=1", f.Acme, nil, &page)
	require.Len(t, page.Events, len(all)-1)

	var list struct{ Runs []api.Run }
	f.OK("GET", "/v1/runs?agent=greeter&status=finished", f.Acme, nil, &list)
	require.Len(t, list.Runs, 1)
	f.OK("GET", "/v1/runs?status=paused", f.Acme, nil, &list)
	require.Empty(t, list.Runs)
	var history api.RunHistory
	f.OK("GET", "/v1/runs/"+run.ID+"/history", f.Acme, nil, &history)
	var messages []abi.Message
	require.NoError(t, json.Unmarshal(history.Messages, &messages))
	require.Len(t, messages, 2)
	f.Send("POST", "/v1/runs/"+run.ID+"/cancel", f.Acme, nil).Problem(t, 409)
	require.Equal(t, 204, f.Send("DELETE", "/v1/runs/"+run.ID, f.Acme, nil).Status)
	f.Send("GET", "/v1/runs/"+run.ID, f.Acme, nil).Problem(t, 404)

	var used struct{ Total api.UsageRow }
	f.OK("GET", "/v1/usage", f.Acme, nil, &used)
	require.Equal(t, int64(1), used.Total.Runs)
}

func TestRunIsRejected(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	for body, want := range map[string]string{
		`{}`: "agent is missing", `{"agent":"greeter"}`: "either input or messages", `{"agent":"greeter","input":"a","messages":[{"role":"user","content":"a"}]}`: "either input or messages",
		`{"agent":"greeter","messages":[{"role":"robot","content":"a"}]}`: "unknown role", `{"run":"run_1"}`: "set answers", `{"run":"run_1","agent":"a","answers":{"a":1}}`: "remove agent",
		`{"agent":"greeter","input":"a","disconnect":"perhaps"}`: "disconnect", `{"agent":"greeter","input":"a","agnet":1}`: "unknown field", `{"agent":"greeter","input":"a","input":"b"}`: "not valid",
	} {
		require.Contains(t, f.Send("POST", "/v1/runs", f.Acme, []byte(body)).Problem(t, 422, body).Detail, want)
	}
	f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "nobody", Input: "a"}).Problem(t, 404)
	f.Send("POST", "/v1/runs", f.Acme, api.StartRun{
		Run: "run_1", Answers: map[string]json.RawMessage{"int_1": json.RawMessage(`1`)},
	}).
		Problem(t, 404)

	_, err := f.Store.UpdateTenant(t.Context(), "beta", &store.TenantUpdate{Quota: &store.TenantQuota{RunsPerDay: 1}})
	require.NoError(t, err)
	f.OK("POST", "/v1/runs", f.Beta, api.StartRun{Agent: "greeter", Input: "a"}, nil)
	r := f.Send("POST", "/v1/runs", f.Beta, api.StartRun{Agent: "greeter", Input: "a"})
	require.Equal(t, "runs_per_day", r.Problem(t, 429).Quota)
	require.NotEmpty(t, r.Header.Get("Retry-After"))
}

// TestRunIdempotency checks that repeating a request with its Idempotency-Key returns the same run,
// that another tenant's key is independent, and that a key that is too long is rejected.
func TestRunIdempotency(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	var ids []string
	for _, key := range []string{f.Acme, f.Acme, f.Beta} {
		var run api.Run
		r := f.Send("POST", "/v1/runs", key, api.StartRun{Agent: "greeter", Input: "hi"}, "Idempotency-Key", "once")
		require.Equal(t, 202, r.Status, "%s", r.Body)
		require.NoError(t, json.Unmarshal(r.Body, &run))
		ids = append(ids, run.ID)
	}
	require.Equal(t, ids[0], ids[1])
	require.NotEqual(t, ids[0], ids[2], "tenants' keys are apart")
	f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"},
		"Idempotency-Key", strings.Repeat("a", 300)).
		Problem(t, 422)
}

// TestIdempotencyKeyOfAnotherRequest checks that a different request with a used Idempotency-Key is
// rejected.
func TestIdempotencyKeyOfAnotherRequest(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"greeter": servertest.HelloAgent, "other": servertest.HelloAgent},
	)
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
		begin := func(in api.StartRun) *servertest.Reply {
			return f.Send("POST", "/v1/runs", f.Acme, in, "Idempotency-Key", key)
		}
		var run, again api.Run
		require.NoError(t, json.Unmarshal(begin(first).Body, &run))
		f.Finished(f.Acme, run.ID)
		require.NoError(t, json.Unmarshal(begin(first).Body, &again))
		require.Equal(t, run.ID, again.ID)
		for what, another := range map[string]api.StartRun{"agent": {Agent: "other", Input: first.Input, Messages: first.Messages}, "input": {Agent: "greeter", Input: "hi!"}, "messages": {Agent: "greeter", Messages: talk("or?")}} {
			require.Contains(t, begin(another).Problem(t, 422).Detail, "belongs to another request, which started "+run.ID, what)
		}
	}
}

func TestRunPauses(t *testing.T) {
	t.Parallel()
	shared := servertest.AskingAgent()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"asker": func() *agent.Options { o := *shared; return &o }},
	)
	first := f.Events("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "asker", Input: "hi"})
	require.Equal(t, "run_paused", first[len(first)-1].Kind)
	var paused abi.Event
	require.NoError(t, json.Unmarshal([]byte(first[len(first)-1].Data), &paused))
	var run api.Run
	f.OK("GET", "/v1/runs/"+paused.Run, f.Acme, nil, &run)
	require.Equal(t, "paused", run.Status)
	require.Len(t, run.Interrupts, 1)

	answers := func(id, answer string) api.StartRun {
		return api.StartRun{Run: run.ID, Answers: map[string]json.RawMessage{id: json.RawMessage(answer)}}
	}
	for range 20 { // a rejected client may answer again at once
		require.Contains(t, f.Send("POST", "/v1/runs", f.Acme, answers("int_99", `"a"`)).Problem(t, 422).Detail, "int_99")
	}
	f.Send("POST", "/v1/runs", f.Beta, answers(run.Interrupts[0].ID, `"a"`)).Problem(t, 404)
	second := f.Events("POST", "/v1/runs", f.Acme, answers(run.Interrupts[0].ID, `"it is fine"`))
	require.Equal(t, "run_finished", second[len(second)-1].Kind)
	require.Equal(t, fmt.Sprint(len(first)+1), second[0].ID, "the second response has only new events")
	f.Send("POST", "/v1/runs", f.Acme, answers(run.Interrupts[0].ID, `"again"`)).Problem(t, 409)
}

func TestRunIsCanceled(t *testing.T) {
	t.Parallel()
	began := make(chan string, 9)
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{
			"slow":  func() *agent.Options { return servertest.SlowAgent(began, nil) },
			"asker": servertest.AskingAgent,
		},
	)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	<-began
	f.Send("DELETE", "/v1/runs/"+run.ID, f.Acme, nil).Problem(t, 409)
	f.Send("POST", "/v1/runs/"+run.ID+"/cancel", f.Beta, nil).Problem(t, 404)
	require.Equal(t, 202, f.OK("POST", "/v1/runs/"+run.ID+"/cancel", f.Acme, nil, nil).Status)
	require.Equal(t, "canceled", f.Finished(f.Acme, run.ID).FinishReason)

	events := f.Events(
		"POST",
		"/v1/runs",
		f.Acme,
		api.StartRun{Agent: "asker", Input: "hi"},
	) // a run that waits for answers
	var paused abi.Event
	require.NoError(t, json.Unmarshal([]byte(events[len(events)-1].Data), &paused))
	f.OK("POST", "/v1/runs/"+paused.Run+"/cancel", f.Acme, nil, nil)
	require.Equal(t, "canceled", f.Finished(f.Acme, paused.Run).FinishReason)
}

// TestClientDisconnects checks that a run whose client disconnects continues or is canceled,
// depending on the request.
func TestClientDisconnects(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 9), make(chan struct{})
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return servertest.SlowAgent(began, release) }},
	)
	var ids []string
	for _, disconnect := range []string{"cancel", "continue"} {
		ctx, leave := context.WithCancel(t.Context())
		body, err := json.Marshal(api.StartRun{Agent: "slow", Input: "hi", Disconnect: disconnect})
		require.NoError(t, err)
		req, err := http.NewRequestWithContext(ctx, "POST", f.URL+"/v1/runs", strings.NewReader(string(body)))
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+f.Acme)
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
	require.Equal(t, "canceled", f.Finished(f.Acme, ids[0]).FinishReason)
	close(release)
	require.Equal(t, "stop", f.Finished(f.Acme, ids[1]).FinishReason)
}

// TestRunsOutliveTheirServer checks that a server that shuts down releases its runs to the
// journal, and another server resumes them. Followers receive each event once.
func TestRunsOutliveTheirServer(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 9), make(chan struct{})
	shared := servertest.SlowAgent(began, release)
	f, of := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { o := *shared; return &o }},
	)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	<-began
	stream := make(chan []servertest.Event)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), "GET", f.URL+"/v1/runs/"+run.ID+"/events", nil)
		req.Header.Set("Authorization", "Bearer "+f.Acme)
		req.Header.Set("Accept", "text/event-stream")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			close(stream)
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		stream <- servertest.ParseEvents(t, string(b))
	}()
	f.Server.Drain()
	close(release) // the tool ends, and with it the phase
	first := <-stream
	require.NotContains(t, servertest.Kinds(first), "run_finished")
	f.Server.Work().Wait()

	h, err := host.New(t.Context(), &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	next, err := server.New(&server.Options{Store: f.Store, Host: h})
	require.NoError(t, err)
	server.ServicesOf(next).Runs.Agents = of.Source(next)
	hs := httptest.NewServer(next)
	t.Cleanup(hs.Close)
	require.NoError(t, server.ServicesOf(next).Runs.TakeOverAll(t.Context()))
	other := *f
	other.URL = hs.URL
	require.Equal(t, "done", other.Finished(f.Acme, run.ID).Output)
	rest := other.Events("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil, "Last-Event-ID", first[len(first)-1].ID)
	var seqs []string
	for _, e := range slices.Concat(first, rest) {
		seqs = append(seqs, e.ID)
	}
	for i, seq := range seqs {
		require.Equal(t, fmt.Sprint(i+1), seq)
	}
	require.Empty(t, began, "the tool was not called again")
	next.Work().Wait()
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
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"guarded": func() *agent.Options {
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
	events := f.Events("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "guarded", Input: "hi"})
	id := ""
	text := fmt.Sprint(events)
	require.Contains(t, text, "a thought of its own")
	for _, path := range []string{"/events", "/history", ""} {
		var e abi.Event
		require.NoError(t, json.Unmarshal([]byte(events[0].Data), &e))
		id = e.Run
		text += string(f.Send("GET", "/v1/runs/"+id+path, f.Acme, nil).Body)
	}
	require.NotContains(t, text, "secret")
	require.Contains(t, text, `"stopped_by":"operator"`)
	require.Equal(t, "stopped by operator: not here", f.Finished(f.Acme, id).Error)
}

// TestBlockedModuleEndsRuns checks that runs are canceled if the operator blocks a module that they
// use. The tenant sees the digest and the reason only if the module is its own.
func TestBlockedModuleEndsRuns(t *testing.T) {
	t.Parallel()
	began := make(chan string, 9)
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return servertest.SlowAgent(began, nil) }},
	)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go f.Services.Runs.WatchBlocks(ctx)
	var its, around api.Run
	for digest, run := range map[string]*api.Run{strings.Repeat("ab", 32): &its, strings.Repeat("cd", 32): &around} {
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, run)
		<-began
		ring := "tenant"
		if run == &around {
			ring = "outer"
		}
		l := f.Services.Runs.Active.Get("acme", run.ID)
		l.Pins = []journal.Pin{{Entry: "m", Ring: ring, Digest: digest}} // native middlewares have no digest
		f.OK("PUT", "/v1/blocks/"+digest, f.Operator, map[string]string{"reason": "it phones home"}, nil)
		require.Equal(t, "canceled", f.Finished(f.Acme, run.ID).FinishReason)
	}
	why := "the operator blocks module sha256:" + strings.Repeat("ab", 32) + ": it phones home"
	require.Equal(t, why, f.Finished(f.Acme, its.ID).Error)
	last := string(f.Send("GET", "/v1/runs/"+its.ID+"/events", f.Acme, nil).Body)
	require.Contains(t, last, `"finish_reason":"canceled"`)
	require.Contains(t, last, `"error":{"code":"denied","message":"`+why+`"}`)

	require.Equal(t, "the operator blocks one of the modules around all agents", f.Finished(f.Acme, around.ID).Error)
	for _, path := range []string{"", "/events", "/history"} {
		text := string(f.Send("GET", "/v1/runs/"+around.ID+path, f.Acme, nil).Body)
		require.NotContains(t, text, "phones")
		require.NotContains(t, text, "cdcd")
	}
}

// TestRunExceedsTheDrainTime checks that a run that does not end within the drain time is
// released at once, for another server to resume.
func TestRunExceedsTheDrainTime(t *testing.T) {
	t.Parallel()
	began := make(chan string, 9)
	f, of := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return servertest.SlowAgent(began, nil) }},
	)
	srv, err := server.New(&server.Options{Store: f.Store, Host: f.Host, DrainTime: time.Millisecond})
	require.NoError(t, err)
	server.ServicesOf(srv).Runs.Agents = of.Source(srv)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l) }()
	first := *f
	first.URL = "http://" + l.Addr().String()
	var run api.Run
	first.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	<-began
	stop()
	require.NoError(t, <-ended, "it was handed back")
	require.Equal(t, 1, srv.HandedBack())
	info, err := f.Store.Run(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, journal.StatusRunning, info.Status)
	list, err := f.Store.ExpiredRuns(t.Context(), []byte(runs.SpecPrefix), 9, 9)
	require.NoError(t, err)
	require.Len(t, list, 1, "its lease is over")

	require.NoError(t, f.Services.Runs.TakeOverAll(t.Context()))
	<-began
	f.OK("POST", "/v1/runs/"+run.ID+"/cancel", f.Acme, nil, nil)
	require.Equal(t, "canceled", f.Finished(f.Acme, run.ID).FinishReason)
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
	f, of := servertest.NewWithAgents(t, map[string]func() *agent.Options{"deaf": func() *agent.Options {
		return &agent.Options{Model: uninterruptible{began, release}}
	}})
	srv, err := server.New(&server.Options{Store: f.Store, Host: f.Host, DrainTime: time.Millisecond})
	require.NoError(t, err)
	server.ServicesOf(srv).Timeouts.HandBack = time.Millisecond
	server.ServicesOf(srv).Runs.Agents = of.Source(srv)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(ctx, l) }()
	other := *f
	other.URL = "http://" + l.Addr().String()
	other.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "deaf", Input: "hi"}, nil)
	<-began
	stop()
	require.ErrorContains(t, <-ended, "1 runs neither ended in time")
	require.Zero(t, srv.HandedBack())
	close(release)
	srv.Work().Wait()
}

// TestMetadataIsBounded checks that a run's metadata may have MaxMetadata bytes, and no more.
func TestMetadataIsBounded(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	start := func(bytes int) *servertest.Reply {
		return f.Send(
			"POST",
			"/v1/runs",
			f.Acme,
			api.StartRun{
				Agent:    "greeter",
				Input:    "hi",
				Metadata: map[string]json.RawMessage{"a": json.RawMessage(`"` + strings.Repeat("x", bytes-3) + `"`)},
			},
		)
	}
	require.Equal(t, 202, start(runs.MaxMetadata).Status)
	require.Contains(
		t,
		start(runs.MaxMetadata+1).Problem(t, 422).Detail,
		"metadata has 65537 bytes; at most 65536 are allowed",
	)
}

// TestOperatorsRunsAreTakenOver checks that runs of the operator's tenant that a server started are
// taken over. Runs that the command line started in the same store are not.
func TestOperatorsRunsAreTakenOver(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 9), make(chan struct{})
	f, of := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return servertest.SlowAgent(began, release) }},
	)
	gone, err := server.New(&server.Options{Store: f.Store, Host: f.Host})
	require.NoError(t, err)
	server.ServicesOf(gone).Runs.Agents = of.Source(gone)
	other := *f
	hs := httptest.NewServer(gone)
	defer hs.Close()
	other.URL = hs.URL
	var run api.Run
	other.OK("POST", "/v1/runs", f.Operator, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	<-began
	gone.Abort()
	gone.Work().Wait()
	require.NoError(
		t,
		f.Store.Create(t.Context(), &journal.Creation{ID: "run_command", Agent: "slow", Owner: "a command", Log: []byte("x"),
			Spec: []byte(`{"version":1,"agent":{"name":"slow"}}`)}),
	)

	require.NoError(t, f.Services.Runs.TakeOverAll(t.Context()))
	<-began
	close(release)
	require.Equal(t, "done", f.Finished(f.Operator, run.ID).Output)
	f.Server.Work().Wait()
	info, err := f.Store.Run(t.Context(), "run_command")
	require.NoError(t, err)
	require.Equal(t, journal.StatusRunning, info.Status)
	require.Equal(t, int64(1), info.Epoch)
}
