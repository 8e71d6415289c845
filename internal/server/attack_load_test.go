package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Attacks of a hostile tenant on shared resources: slots, memory, connections and time.

// TestQuotaUnderConcurrency checks that concurrent requests to the endpoints that start or resume
// runs do not exceed the quota concurrent_runs.
func TestQuotaUnderConcurrency(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 99), make(chan struct{})
	asker := servertest.AskingAgent()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return servertest.SlowAgent(began, release) },
			"asker": func() *agent.Options {
				o := *asker
				o.Model = scripted.New(scripted.Calls(abi.NewToolCall("1", "ask", "{}")))
				return &o
			}},
	)
	_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "slow", []byte("{}"), nil)
	require.NoError(t, err)
	// Paused runs are resumed while others start.
	var waiting []api.Run
	for range 5 {
		events := f.Events("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "asker", Input: "hi"})
		var e abi.Event
		require.NoError(t, json.Unmarshal([]byte(events[len(events)-1].Data), &e))
		var run api.Run
		f.OK("GET", "/v1/runs/"+e.Run, f.Acme, nil, &run)
		waiting = append(waiting, run)
	}
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"concurrent_runs": 2}}, nil)
	for range 2 {
		f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, nil)
	}
	<-began
	<-began
	var wg sync.WaitGroup
	refused := make(chan *servertest.Reply, 99)
	for i := range 20 {
		wg.Go(func() {
			var r *servertest.Reply
			switch i % 4 {
			case 0:
				r = f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"})
			case 1:
				r = f.Send(
					"POST",
					"/v1/chat/completions",
					f.Acme,
					[]byte(`{"model":"slow","messages":[{"role":"user","content":"hi"}]}`),
				)
			case 2:
				r = f.Send(
					"POST",
					"/v1/agents/slow/agui",
					f.Acme,
					fmt.Appendf(nil, `{"threadId":"t%d","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}`, i),
				)
			default:
				run := waiting[i/4]
				r = f.Send(
					"POST",
					"/v1/runs",
					f.Acme,
					api.StartRun{Run: run.ID, Answers: map[string]json.RawMessage{run.Interrupts[0].ID: json.RawMessage(`"a"`)}},
				)
			}
			refused <- r
		})
	}
	wg.Wait()
	close(refused)
	for r := range refused {
		require.Equal(t, "concurrent_runs", r.Problem(t, 429).Quota)
		require.Equal(t, "1", r.Header.Get("Retry-After"))
	}
	require.Empty(t, began)
	f.OK("POST", "/v1/runs", f.Beta, api.StartRun{Agent: "slow", Input: "hi"}, nil) // other tenants have their own quotas
	close(release)
	// A run releases its quota as soon as it is over.
	require.Eventually(t, func() bool {
		return f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}).Status == 202
	}, 10*time.Second, 5*time.Millisecond)
}

// TestSlowloris checks that connections whose requests do not arrive in time are closed, with a
// response if the header has arrived, and that stalled uploads use only the slots of their own
// tenant.
func TestSlowloris(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f := servertest.New(t)
	timeouts := f.Services.Timeouts
	timeouts.Header, timeouts.Body = time.Second, 100*time.Millisecond
	timeouts.Upload, timeouts.Idle = 300*time.Millisecond, 100*time.Millisecond
	address := f.Serve(t)
	late := map[string]net.Conn{}
	for what, text := range map[string]string{
		"nothing":       "",
		"half a line":   "GET /heal",
		"half a header": "GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ",
		"no end":        "GET /healthz HTTP/1.1\r\nHost: x\r\n",
	} {
		late[what] = servertest.SendText(t, address, text)
	}
	for what, conn := range late {
		b, _ := io.ReadAll(conn) // returns when the server closes the connection
		require.NotContains(t, string(b), "200 OK", what)
	}
	conn := servertest.SendText(t, address, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") // no second request follows
	b, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Contains(t, string(b), "200 OK")

	head := func(method, path, key string, more string) string {
		return method + " " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nContent-Type: application/json\r\n" + more + "\r\n"
	}
	for _, path := range []string{
		"POST /v1/runs", "POST /v1/chat/completions", "POST /v1/agents/a/agui", "PUT /v1/agents/a", "PUT /v1/modules",
		"POST /v1/keys", "PUT /v1/secrets/x",
	} {
		method, path, _ := strings.Cut(path, " ")
		if path == "/v1/keys" || path == "/v1/secrets/x" {
			continue // huma's own timeout is longer
		}
		conn := servertest.SendText(t, address, head(method, path, f.Acme, "Content-Length: 100\r\n")+"{")
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err, path)
		require.Equal(t, 422, res.StatusCode, path)
		res.Body.Close()
	}
	upload := func(f *servertest.Fixture, address string) net.Conn {
		return servertest.SendText(t, address, head("PUT", "/v1/modules", f.Acme, "Content-Length: 100\r\n")+"x")
	}
	// Stalled uploads use only their own tenant's slots.
	slow := servertest.New(t)
	slow.Services.Timeouts.Upload = time.Minute
	slowAddress := slow.Serve(t)
	conns := make([]net.Conn, admission.MaxUploads)
	for i := range conns {
		conns[i] = upload(slow, slowAddress)
	}
	uploading := func() int64 {
		requests, _ := slow.Services.Admission.InFlight.Load("acme")
		return requests
	}
	require.Eventually(t, func() bool { return uploading() == admission.MaxUploads }, time.Minute, time.Millisecond)
	require.Eventually(t, func() bool {
		r := slow.PushModule(slow.Acme, "", servertest.Wasm(t, "own.wasm"), "application/wasm")
		return r.Status == 429 && r.Problem(t, 429).Quota == "uploads"
	}, time.Minute, time.Millisecond)
	require.Equal(t, 200, slow.PushModule(slow.Beta, "", servertest.Wasm(t, "own.wasm"), "application/wasm").Status)
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	require.Eventually(t, func() bool { return uploading() == 0 }, time.Minute, time.Millisecond)
	require.Equal(t, 200, slow.PushModule(slow.Acme, "", servertest.Wasm(t, "own.wasm"), "application/wasm").Status)
	// Uploads that time out release their slots.
	for i := range conns {
		conns[i] = upload(f, address)
	}
	for _, conn := range conns {
		_, _ = io.ReadAll(conn)
	}
	require.Equal(t, 200, f.PushModule(f.Acme, "", servertest.Wasm(t, "own.wasm"), "application/wasm").Status)
}

// TestSlowReaders checks that a client that does not read its event stream is disconnected. Other
// followers of the run get all events.
func TestSlowReaders(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"talker": func() *agent.Options { return servertest.TalkingAgent(2 << 20) }},
	)
	f.Services.Timeouts.Write = 2 * time.Second
	address := f.Serve(t)
	_, err := f.Store.Tenant("acme").PutAgent(t.Context(), "talker", []byte("{}"), nil)
	require.NoError(t, err)
	post := func(path, body string) string {
		return fmt.Sprintf(
			"POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: text/event-stream\r\nContent-Length: %d\r\n\r\n%s",
			path,
			f.Acme,
			len(body),
			body,
		)
	}
	servertest.SendText(t, address, post("/v1/runs", `{"agent":"talker","input":"hi"}`))
	servertest.SendText(
		t,
		address,
		post("/v1/agents/talker/agui", `{"threadId":"t","runId":"r","messages":[{"id":"1","role":"user","content":"hi"}]}`),
	)
	servertest.SendText(t, address, post("/v1/runs", `{"agent":"talker","input":"hi","disconnect":"cancel"}`))
	var list struct{ Runs []api.Run }
	require.Eventually(t, func() bool {
		f.OK("GET", "/v1/runs", f.Acme, nil, &list)
		return len(list.Runs) == 3
	}, 20*time.Second, 5*time.Millisecond)
	for _, run := range list.Runs[:1] {
		for range 5 {
			servertest.SendText(
				t,
				address,
				"GET /v1/runs/"+run.ID+"/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: Bearer "+f.Acme+"\r\n\r\n",
			)
		}
		all := f.Events("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil)
		for i, e := range all {
			require.Equal(t, fmt.Sprint(i+1), e.ID)
		}
	}
	require.Eventually(t, func() bool {
		requests, _ := f.Services.Admission.InFlight.Load("acme")
		return requests == 0
	}, 20*time.Second, 5*time.Millisecond, "nobody waits for who does not read")
}

// TestConcurrentRequests checks the quota concurrent_requests: event streams count until they end,
// and other tenants are not affected.
func TestConcurrentRequests(t *testing.T) {
	t.Parallel()
	began, release := make(chan string, 99), make(chan struct{})
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"slow": func() *agent.Options { return servertest.SlowAgent(began, release) }},
	)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"concurrent_requests": 3}}, nil)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, &run)
	inFlight := func(want int64) {
		t.Helper()
		require.Eventually(t, func() bool {
			requests, _ := f.Services.Admission.InFlight.Load("acme")
			return requests == want
		}, time.Minute, time.Millisecond)
	}
	inFlight(0) // finished requests no longer count
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() { f.Events("GET", "/v1/runs/"+run.ID+"/events", f.Acme, nil) })
	}
	inFlight(3)
	r := f.Send("GET", "/v1/keys", f.Acme, nil)
	require.Equal(t, "concurrent_requests", r.Problem(t, 429).Quota)
	require.Equal(t, "1", r.Header.Get("Retry-After"))
	f.OK("GET", "/v1/keys", f.Beta, nil, nil)
	close(release)
	wg.Wait()
	inFlight(0)
	f.OK("GET", "/v1/keys", f.Acme, nil, nil)
}

// TestHostileBodies checks that compressed bodies are rejected, and that YAML and JSON that
// expands or nests deeply does not exhaust the server.
func TestHostileBodies(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	for _, path := range []string{
		"POST /v1/runs", "PUT /v1/modules", "PUT /v1/agents/a", "POST /v1/keys", "POST /v1/chat/completions",
	} {
		method, path, _ := strings.Cut(path, " ")
		f.Send(method, path, f.Acme, []byte("\x1f\x8b"), "Content-Encoding", "gzip").Problem(t, 415, path)
	}
	yaml := func(body string) { f.Apply(f.Acme, "a", body).Problem(t, 422) }
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf(
			"%c: &%c [%[3]s]\n",
			c,
			c,
			strings.Join(strings.Split(strings.Repeat(fmt.Sprintf("*%c ", c-1), 10), " ")[:10], ","),
		)
	}
	yaml("model: {name: x}\nmetadata:\n  " + strings.ReplaceAll(bomb, "\n", "\n  "))
	yaml("model: " + strings.Repeat("[", 200_000))
	yaml("model: " + strings.Repeat("{a: ", 50_000))
	yaml(strings.Repeat("- ", 100_000))
	yaml("a: &a [*a]")
	yaml("a: &a {<<: *a}")
	var deep bytes.Buffer
	for i := range 600 {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	yaml(deep.String())
	deeper := `{"agent":"a","input":"x","metadata":{"a":` + strings.Repeat(
		"[",
		100_000,
	) + strings.Repeat(
		"]",
		100_000,
	) + `}}`
	f.Send("POST", "/v1/runs", f.Acme, []byte(deeper)).Problem(t, 422)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"input_bytes": 8 << 20}}, nil)
	wide := `{"agent":"a","input":"x","metadata":{"a":[` + strings.Repeat("{},", 1_000_000) + `{}]}}`
	require.Less(t, f.Send("POST", "/v1/runs", f.Acme, []byte(wide)).Status, 500)
	f.OK("GET", "/healthz", "", nil, nil)
}

// TestTakeoverIsFair checks that runs of one tenant that cannot resume do not delay the resumption
// of other tenants' runs.
func TestTakeoverIsFair(t *testing.T) {
	t.Parallel()
	f, of := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	stuck := make(chan struct{})
	source := of.Source(f.Server)
	f.Services.Runs.Agents = agentSourceFunc(
		func(ctx context.Context, tn *store.Tenant, spec agents.Spec) (*agents.Handle, error) {
			if tn.ID() == "acme" {
				<-stuck // an MCP server that does not respond
				return nil, fmt.Errorf("not now")
			}
			return source.Open(ctx, tn, spec)
		},
	)
	create := func(tenant, id string) {
		require.NoError(
			t,
			f.Store.Create(
				t.Context(),
				&journal.Creation{
					ID:     id,
					Tenant: tenant,
					Agent:  "greeter",
					Owner:  "gone",
					Spec:   []byte(`{"agent":"greeter","version":1}`),
					Log:    []byte(`{"head":{"id":"` + id + `","phase":"start"},"fixed":{}}` + "\n"),
				},
			),
		)
	}
	for i := range 50 {
		create("acme", fmt.Sprint("run_a", i))
	}
	create("beta", "run_b")
	require.NoError(t, f.Services.Runs.TakeOverAll(t.Context()))
	require.NoError(t, f.Services.Runs.TakeOverAll(t.Context()))
	require.Eventually(t, func() bool {
		info, err := f.Store.Run(t.Context(), "run_b")
		return err == nil && info.Status == journal.StatusFinished
	}, 20*time.Second, 5*time.Millisecond)
	close(stuck)
	f.Server.Work().Wait()
}

type agentSourceFunc func(ctx context.Context, t *store.Tenant, spec agents.Spec) (*agents.Handle, error)

func (f agentSourceFunc) Open(ctx context.Context, t *store.Tenant, spec agents.Spec) (*agents.Handle, error) {
	return f(ctx, t, spec)
}

func (f agentSourceFunc) Ready([]journal.Pin) bool { return true }
