package server

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
	f, _ := runFixture(t, map[string]func() *agent.Options{
		"talker": func() *agent.Options { return talk(512 << 10) },
		"slow":   func() *agent.Options { return slow(began, nil) },
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.serveOn(t, smallListener{l})
	address := l.Addr().String()
	var run, waiting, neighbour api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "talker", Input: "hi"}, &run)
	f.finished(f.acme, run.ID)
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "slow", Input: "hi"}, &waiting)
	events, history := "/v1/runs/"+run.ID+"/events", "/v1/runs/"+run.ID+"/history"
	require.Greater(t, len(f.send("GET", events, f.acme, nil).body), 512<<10)

	before := heap()
	const each = 67
	statuses := make(chan int, 3*each)
	var stalled sync.WaitGroup
	for range each {
		stalled.Go(func() { statuses <- stall(t, address, events, f.acme, "application/json") })
		stalled.Go(func() { statuses <- stall(t, address, events, f.acme, "text/event-stream") })
		stalled.Go(func() { statuses <- stall(t, address, history, f.acme, "application/json") })
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

	r := f.send("GET", events, f.acme, nil)
	p := r.problem(t, 429)
	require.Equal(t, "response_bytes", p.Quota)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	f.ok("GET", "/v1/runs", f.acme, nil, nil)
	<-began
	f.ok("POST", "/v1/runs/"+waiting.ID+"/cancel", f.acme, nil, nil)
	require.Equal(t, "canceled", f.finished(f.acme, waiting.ID).FinishReason)
	f.ok("POST", "/v1/runs", f.beta, api.StartRun{Agent: "talker", Input: "hi"}, &neighbour)
	f.finished(f.beta, neighbour.ID)
	body := string(f.send("GET", "/v1/runs/"+neighbour.ID+"/events", f.beta, nil).body)
	require.True(t, strings.HasSuffix(body, `],"more":false}`+"\n"))
}

// TestTimelinesDoNotBlockReads checks that a request that waits for the timeline of a run does not
// delay the tenant's other requests.
func TestTimelinesDoNotBlockReads(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	f.finished(f.acme, run.ID)
	var l *runs.ActiveRun
	require.Eventually(t, func() bool {
		l = f.server.runs.Active.Add(run.ID, "acme", nil, nil) // a run that has not stored its timeline
		return l != nil
	}, 20*time.Second, time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", f.url+"/v1/runs/"+run.ID+"/trace", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+f.acme)
	go func() {
		if res, err := http.DefaultClient.Do(req); err == nil {
			_ = res.Body.Close()
		}
	}()
	inFlight := func() int64 {
		requests, _ := f.server.admission.InFlight.Load("acme")
		return requests
	}
	require.Eventually(t, func() bool { return inFlight() == 1 }, 20*time.Second, time.Millisecond)
	f.ok("GET", "/v1/runs", f.acme, nil, nil)
	require.EqualValues(t, 1, inFlight(), "the request still waits")
}

// TestFullResponsesRepeatNoWork checks that requests with an effect, and requests that control runs,
// succeed while the tenant's responses have reached their limit, and that large reads fail.
func TestFullResponsesRepeatNoWork(t *testing.T) {
	t.Parallel()
	const large = 100 << 10
	f, _ := runFixture(t, map[string]func() *agent.Options{
		"talker": func() *agent.Options { return talk(large) },
		"slow":   func() *agent.Options { return slow(make(chan string, 1), nil) },
	})
	var waiting api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "slow", Input: "hi"}, &waiting)
	start := func(key string) (run api.Run) {
		r := f.send("POST", "/v1/runs", f.acme, api.StartRun{Agent: "talker", Input: "hi"}, "Idempotency-Key", key)
		require.Equal(t, 202, r.status, "%s", r.body)
		require.NoError(t, json.Unmarshal(r.body, &run))
		return run
	}
	done := start("x")
	require.Greater(t, len(f.finished(f.acme, done.ID).Output), large-5)
	full := f.server.admission.Responses.Open("acme")
	require.NoError(t, full.Set(2*admission.MaxResponseBytes))
	defer full.Close()

	r := f.send("PUT", "/v1/agents/large", f.acme, []byte("model: {name: m}\n#"+strings.Repeat("x", large)))
	require.Equal(t, 200, r.status, "%s", r.body)
	require.Greater(t, len(r.body), large)
	for _, key := range []string{"x", "y"} {
		run := start(key)
		require.Empty(t, run.Output)
		r = f.send("POST", "/v1/runs/"+run.ID+"/cancel", f.acme, nil)
		require.NotEqual(t, 429, r.status)
	}
	f.ok("GET", "/v1/runs/"+waiting.ID, f.acme, nil, nil)
	f.ok("GET", "/v1/runs", f.acme, nil, nil)
	require.NoError(t, f.server.admission.Read(t.Context(), "acme", false, func() error { // reads fail before their turn
		for _, what := range []string{"history", "trace", "events"} {
			p := f.send("GET", "/v1/runs/"+done.ID+"/"+what, f.acme, nil).problem(t, 429)
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
	f, _ := runFixture(t, map[string]func() *agent.Options{"talker": func() *agent.Options { return talk(1 << 20) }})
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "talker", Input: "hi"}, &run)
	f.finished(f.acme, run.ID)
	path := "/v1/runs/" + run.ID + "/history"
	r := f.ok("GET", path, f.acme, nil, nil)
	others := f.server.admission.Responses.Open("acme")
	defer others.Close()
	require.NoError(t, others.Set(admission.MaxResponseBytes-len(r.body)*3/2))
	require.Equal(t, "response_bytes", f.send("GET", path, f.acme, nil).problem(t, 429).Quota)
	others.Close()
	f.ok("GET", path, f.acme, nil, nil)
}

// TestTimelinesAreReadInTurn checks that only one timeline of a run is in memory while a client
// reads the response, and that unreadable timelines are skipped.
func TestTimelinesAreReadInTurn(t *testing.T) {
	t.Parallel()
	f, _ := runFixture(t, map[string]func() *agent.Options{"greeter": hello})
	var run api.Run
	f.ok("POST", "/v1/runs", f.acme, api.StartRun{Agent: "greeter", Input: "hi"}, &run)
	f.finished(f.acme, run.ID)
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
	acme := f.store.Tenant("acme")
	for i := range parts {
		require.NoError(t, acme.AddTrace(t.Context(), run.ID, pack(text), int64(len(text))))
		if i%2 == 0 {
			require.NoError(t, acme.AddTrace(t.Context(), run.ID, tooLarge, 1))
			require.NoError(t, acme.AddTrace(t.Context(), run.ID, []byte("not compressed"), 1))
		}
	}
	var got struct{ Timelines []api.Timeline }
	f.ok("GET", path, f.acme, nil, &got)
	require.Equal(t, parts, len(got.Timelines))
	require.Equal(t, spans, len(got.Timelines[parts-1].Spans))

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	f.serveOn(t, smallListener{l})
	require.Equal(t, 200, stall(t, l.Addr().String(), path, f.acme, "application/json"))
	others := f.server.admission.Responses.Open("acme")
	defer others.Close()
	require.NoError(t, others.Set(admission.MaxResponseBytes-len(text)), "the response holds one timeline")
	require.Error(t, others.Set(2*admission.MaxResponseBytes))
}
