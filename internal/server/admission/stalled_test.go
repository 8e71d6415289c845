package admission_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// smallBuffer is the size in bytes of the kernel's buffers for connections that stall. Larger
// buffers would hold the responses instead of the server.
const smallBuffer = 4 << 10

// A smallListener accepts connections that have small buffers.
type smallListener struct{ net.Listener }

func (l smallListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(smallBuffer)
	}
	return conn, err
}

// stall sends a GET request, and reads only the status of its response. It returns 0 if the
// connection fails before a status arrives.
func stall(t *testing.T, address, path, key, accept string) (status int) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return 0
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.(*net.TCPConn).SetReadBuffer(smallBuffer)
	_, _ = fmt.Fprintf(
		conn,
		"GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: %s\r\n\r\n",
		path,
		key,
		accept,
	)
	line := make([]byte, len("HTTP/1.1 200"))
	if _, err := io.ReadFull(conn, line); err != nil {
		return 0
	}
	_, _ = fmt.Sscanf(string(line), "HTTP/1.1 %d", &status)
	return status
}

// heap returns the size of the reachable objects in bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees objects that had finalizers or were in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestStalledReadersAreBounded checks that responses that a tenant's clients do not read take no more
// memory than the tenant's limit. The responses are pages of events, streams and histories. At the
// same time, small requests of the tenant and of other tenants must succeed.
func TestStalledReadersAreBounded(t *testing.T) {
	longtest.Skip(t)
	began := make(chan string, 9)
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{
		"talker": func() *agent.Options { return servertest.TalkingAgent(512 << 10) },
		"slow":   func() *agent.Options { return servertest.SlowAgent(began, nil) },
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.ServeOn(t, smallListener{l})
	address := l.Addr().String()
	var run, waiting, neighbour api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "talker", Input: "hi"}, &run)
	f.Finished(f.Acme, run.ID)
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, &waiting)
	events, history := "/v1/runs/"+run.ID+"/events", "/v1/runs/"+run.ID+"/history"
	require.Greater(t, len(f.Send("GET", events, f.Acme, nil).Body), 512<<10)

	before := heap()
	const each = 67
	statuses := make(chan int, 3*each)
	var stalled sync.WaitGroup
	for range each {
		stalled.Go(func() { statuses <- stall(t, address, events, f.Acme, "application/json") })
		stalled.Go(func() { statuses <- stall(t, address, events, f.Acme, "text/event-stream") })
		stalled.Go(func() { statuses <- stall(t, address, history, f.Acme, "application/json") })
	}
	stalled.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	require.Equal(t, 3*each, count[200]+count[429], "%v", count)
	require.Greater(t, count[200], each, "streams begin, and wait for their share")
	require.NotZero(t, count[429])
	const perRequest, slack = 64 << 10, 32 << 20
	require.Less(t, heap()-before, int64(admission.MaxResponseBytes+3*each*perRequest+slack))

	r := f.Send("GET", events, f.Acme, nil)
	p := r.Problem(t, 429)
	require.Equal(t, "response_bytes", p.Quota)
	require.NotEmpty(t, r.Header.Get("Retry-After"))
	f.OK("GET", "/v1/runs", f.Acme, nil, nil)
	<-began
	f.OK("POST", "/v1/runs/"+waiting.ID+"/cancel", f.Acme, nil, nil)
	require.Equal(t, "canceled", f.Finished(f.Acme, waiting.ID).FinishReason)
	f.OK("POST", "/v1/runs", f.Beta, api.StartRun{Agent: "talker", Input: "hi"}, &neighbour)
	f.Finished(f.Beta, neighbour.ID)
	body := string(f.Send("GET", "/v1/runs/"+neighbour.ID+"/events", f.Beta, nil).Body)
	require.True(t, strings.HasSuffix(body, `],"more":false}`+"\n"))
}

// TestTimelinesDoNotBlockReads checks that a request that waits for the timeline of a run does not
// delay the tenant's other requests.
func TestTimelinesDoNotBlockReads(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	f.Finished(f.Acme, run.ID)
	var l *runs.ActiveRun
	require.Eventually(t, func() bool {
		l = f.Services.Runs.Active.Add(run.ID, "acme", nil, nil) // a run that has not stored its timeline
		return l != nil
	}, 20*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", f.URL+"/v1/runs/"+run.ID+"/trace", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+f.Acme)
	go func() {
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	inFlight := func() int64 {
		requests, _ := f.Services.Admission.InFlight.Load("acme")
		return requests
	}
	require.Eventually(t, func() bool { return inFlight() == 1 }, 20*time.Second, time.Millisecond)
	f.OK("GET", "/v1/runs", f.Acme, nil, nil)
	require.EqualValues(t, 1, inFlight(), "the request still waits")
}

// TestFullResponsesRepeatNoWork checks that requests with an effect, and requests that control runs,
// succeed while the tenant's responses have reached their limit, and that large reads fail.
func TestFullResponsesRepeatNoWork(t *testing.T) {
	t.Parallel()
	const large = 100 << 10
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{
		"talker": func() *agent.Options { return servertest.TalkingAgent(large) },
		"slow":   func() *agent.Options { return servertest.SlowAgent(make(chan string, 1), nil) },
	})
	var waiting api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "slow", Input: "hi"}, &waiting)
	start := func(key string) (run api.Run) {
		r := f.Send("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "talker", Input: "hi"}, "Idempotency-Key", key)
		require.Equal(t, 202, r.Status, "%s", r.Body)
		require.NoError(t, json.Unmarshal(r.Body, &run))
		return run
	}
	done := start("x")
	require.Greater(t, len(f.Finished(f.Acme, done.ID).Output), large-5)
	full := f.Services.Admission.Responses.Open("acme")
	require.NoError(t, full.Set(2*admission.MaxResponseBytes))
	defer full.Close()

	r := f.Send("PUT", "/v1/agents/large", f.Acme, []byte("model: {name: m}\n#"+strings.Repeat("x", large)))
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.Greater(t, len(r.Body), large)
	for _, key := range []string{"x", "y"} {
		run := start(key)
		require.Empty(t, run.Output)
		r = f.Send("POST", "/v1/runs/"+run.ID+"/cancel", f.Acme, nil)
		require.NotEqual(t, 429, r.Status)
	}
	f.OK("GET", "/v1/runs/"+waiting.ID, f.Acme, nil, nil)
	f.OK("GET", "/v1/runs", f.Acme, nil, nil)
	require.NoError(t, f.Services.Admission.Read(t.Context(), "acme", false, func() error { // reads fail before their turn
		for _, what := range []string{"history", "trace", "events"} {
			p := f.Send("GET", "/v1/runs/"+done.ID+"/"+what, f.Acme, nil).Problem(t, 429)
			require.Equal(t, "response_bytes", p.Quota)
		}
		return nil
	}))
}

// TestHistoryIsHeldBeforeItIsRead checks that the history of a run is not read unless the limit of
// the tenant's responses leaves room for the memory that reading takes. Reading takes more than the
// response.
func TestHistoryIsHeldBeforeItIsRead(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it takes seconds")
	}
	t.Parallel()
	f, _ := servertest.NewWithAgents(
		t,
		map[string]func() *agent.Options{"talker": func() *agent.Options { return servertest.TalkingAgent(1 << 20) }},
	)
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "talker", Input: "hi"}, &run)
	f.Finished(f.Acme, run.ID)
	path := "/v1/runs/" + run.ID + "/history"
	r := f.OK("GET", path, f.Acme, nil, nil)
	others := f.Services.Admission.Responses.Open("acme")
	defer others.Close()
	require.NoError(t, others.Set(admission.MaxResponseBytes-len(r.Body)*3/2))
	require.Equal(t, "response_bytes", f.Send("GET", path, f.Acme, nil).Problem(t, 429).Quota)
	others.Close()
	f.OK("GET", path, f.Acme, nil, nil)
}

// TestTimelinesAreReadInTurn checks that only one timeline of a run is in memory while a client
// reads the response, and that unreadable timelines are skipped.
func TestTimelinesAreReadInTurn(t *testing.T) {
	t.Parallel()
	f, _ := servertest.NewWithAgents(t, map[string]func() *agent.Options{"greeter": servertest.HelloAgent})
	var run api.Run
	f.OK("POST", "/v1/runs", f.Acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	f.Finished(f.Acme, run.ID)
	path := "/v1/runs/" + run.ID + "/trace"
	const spans, parts = 2000, 12
	line := &api.Timeline{Run: run.ID}
	for i := range spans {
		line.Spans = append(line.Spans, api.Span{ID: i + 1, Kind: "tool", CallID: strings.Repeat("x", 100)})
	}
	text, err := json.Marshal(line)
	require.NoError(t, err)
	pack := func(b []byte) []byte {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(b)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		return packed.Bytes()
	}
	tooLarge := pack([]byte(`{"run":"` + strings.Repeat("x", 8<<20) + `"}`))
	acme := f.Store.Tenant("acme")
	for i := range parts {
		require.NoError(t, acme.AddTrace(t.Context(), run.ID, pack(text), int64(len(text))))
		if i%2 == 0 {
			require.NoError(t, acme.AddTrace(t.Context(), run.ID, tooLarge, 1))
			require.NoError(t, acme.AddTrace(t.Context(), run.ID, []byte("not compressed"), 1))
		}
	}
	var got struct{ Timelines []api.Timeline }
	f.OK("GET", path, f.Acme, nil, &got)
	require.Equal(t, parts, len(got.Timelines))
	require.Equal(t, spans, len(got.Timelines[parts-1].Spans))

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.ServeOn(t, smallListener{l})
	require.Equal(t, 200, stall(t, l.Addr().String(), path, f.Acme, "application/json"))
	others := f.Services.Admission.Responses.Open("acme")
	defer others.Close()
	require.NoError(t, others.Set(admission.MaxResponseBytes-len(text)), "the response holds one timeline")
	require.Error(t, others.Set(2*admission.MaxResponseBytes))
}
