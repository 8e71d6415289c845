package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/native"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/chat"
	"github.com/agent-runner/agent-runner/internal/module"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// An upstream is a scripted model API.
type upstream struct {
	*httptest.Server
	mu      sync.Mutex
	bodies  []string
	headers []http.Header
	answer  func(w http.ResponseWriter, r *http.Request)
}

func newUpstream(t *testing.T, answer func(w http.ResponseWriter, r *http.Request)) *upstream {
	u := &upstream{answer: answer}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.bodies, u.headers = append(u.bodies, string(body)), append(u.headers, r.Header)
		u.mu.Unlock()
		u.answer(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) requests() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]string(nil), u.bodies...)
}

// answers returns a handler that responds with text: as events if the text contains some, otherwise as JSON.
func answers(text string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-Id", "req_1")
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(text, "data:") {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		for part := range strings.SplitAfterSeq(text, "\n\n") {
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	}
}

// A setting is a gateway with one route in front of an upstream.
type setting struct {
	at     string
	events func() []abi.Event
}

// newGateway starts a gateway with the middlewares mws, which are called m1, m2 and so on.
func newGateway(t *testing.T, u *upstream, change func(*Options), mws ...*native.Middleware) *setting {
	at, err := url.Parse(u.URL)
	require.NoError(t, err)
	loader, err := module.NewLoader(t.Context(), &module.LoaderOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, loader.Close(context.Background())) })
	o := Options{Loader: loader, Client: NewClient(), Routes: []Route{{
		Name: "test", Upstream: Upstream{Protocol: chat.Protocol{}, Path: "/v1/chat/completions", URL: at},
	}}}
	t.Cleanup(o.Client.CloseIdleConnections)
	var mu sync.Mutex
	var events []abi.Event
	o.OnEvent = func(e abi.Event) {
		mu.Lock()
		defer mu.Unlock()
		events = append(events, e)
	}
	var entries []hook.Entry
	for i, mw := range mws {
		entries = append(
			entries,
			hook.Entry{Name: fmt.Sprint("m", i+1), Ring: hook.Tenant, Middleware: (*inproc.Middleware)(mw)},
		)
	}
	if len(entries) > 0 {
		o.Routes[0].Chain, err = chain.New(entries...)
		require.NoError(t, err)
	}
	if change != nil {
		change(&o)
	}
	g, err := New(o)
	require.NoError(t, err)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return &setting{at: s.URL, events: func() []abi.Event {
		mu.Lock()
		defer mu.Unlock()
		return append([]abi.Event(nil), events...)
	}}
}

// ask posts a chat completion, and returns the response's status, body and header.
func (s *setting) ask(t *testing.T, body string, headers ...string) (int, string, http.Header) {
	return s.post(t, "/v1/chat/completions", body, headers...)
}

func (s *setting) post(t *testing.T, path, body string, headers ...string) (int, string, http.Header) {
	req, err := http.NewRequestWithContext(t.Context(), "POST", s.at+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	http.DefaultClient.CloseIdleConnections()
	return res.StatusCode, string(b), res.Header
}

const (
	question = `{"model": "m-1", "stream":true, "messages":[ {"role":"user","content":"my key is abc"} ], "vendor_field": {"b":1,"a":1.50}}`
	streamed = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"x":1}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{"content":"Hello "},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{"content":"world"},"finish_reason":null}]}

`
	call = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"rm","arguments":"{\"file\":"}}]},"finish_reason":null}]}

data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"a\"}"}}]},"finish_reason":null}]}

`
	endStop = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}

data: [DONE]

`
	endCalls = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m-1","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: [DONE]

`
	whole = `{"id":"c","object":"chat.completion","created":1,"model":"m-1","choices":[{"index":0,"message":{"role":"assistant","content":"Hello world"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5},"x":[1]}`
)

// reader is a middleware that changes nothing.
func reader() *native.Middleware {
	return &native.Middleware{
		OnChunk: func(context.Context, *native.Call, *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			return &abi.OnChunkAnswer{}, nil
		},
		AfterModel: func(context.Context, *native.Call, *abi.AfterModelInput) (*abi.AfterModelAnswer, error) {
			return &abi.AfterModelAnswer{}, nil
		},
	}
}

// gate is a middleware whose gate answers with a decision.
func gate(decision, why string) *native.Middleware {
	return &native.Middleware{
		GateTool: func(context.Context, *native.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return &abi.GateToolAnswer{Decision: decision, Message: why}, nil
		},
	}
}

func TestUnchanged(t *testing.T) {
	for name, mws := range map[string][]*native.Middleware{
		"no modules":                  nil,
		"modules that change nothing": {reader(), gate(abi.DecideAllow, "")},
		"a module that sees requests": {{BeforeModel: func(context.Context, *native.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			return &abi.BeforeModelAnswer{}, nil
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, answer := range []string{
				streamed + endStop, streamed + call + endCalls, streamed + strings.TrimSpace(endStop), whole,
			} {
				u := newUpstream(t, answers(answer))
				g := newGateway(t, u, nil, mws...)
				body := question
				if answer == whole {
					body = strings.Replace(question, "true", "false", 1)
				}
				status, got, header := g.ask(t, body, "Authorization", "Bearer key-of-client", "X-Beta", "b")
				require.Equal(t, 200, status, got)
				require.Equal(t, answer, got)
				require.Equal(t, []string{body}, u.requests())
				require.Equal(t, "Bearer key-of-client", u.headers[0].Get("Authorization"))
				require.Equal(t, "b", u.headers[0].Get("X-Beta"))
				require.Equal(t, "req_1", header.Get("X-Request-Id"))
			}
		})
	}
}

func TestChangedRequest(t *testing.T) {
	u := newUpstream(t, answers(streamed+endStop))
	g := newGateway(t, u, nil, &native.Middleware{
		BeforeModel: func(_ context.Context, c *native.Call, in *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			m := c.List(abi.ListRequest).At(0)
			m.Content = abi.Text(strings.ReplaceAll(m.Content.String(), "abc", "[KEY]"))
			change := abi.ListPatch{Splice: []abi.Splice{{Remove: 1, Insert: []abi.Message{m}}}}
			return &abi.BeforeModelAnswer{Request: abi.RequestPatch{Messages: change}}, nil
		},
	})
	status, got, _ := g.ask(t, question)
	require.Equal(t, 200, status)
	require.Equal(t, streamed+endStop, got)
	require.Equal(t, []string{strings.Replace(question, "abc", "[KEY]", 1)}, u.requests())
}

func TestChangedText(t *testing.T) {
	u := newUpstream(t, answers(streamed+endStop))
	g := newGateway(t, u, nil, &native.Middleware{
		OnChunk: func(_ context.Context, _ *native.Call, in *abi.OnChunkInput) (*abi.OnChunkAnswer, error) {
			out := append([]abi.Chunk{}, in.Chunks...)
			for i := range out {
				out[i].Text = strings.ReplaceAll(out[i].Text, "world", "there")
			}
			return &abi.OnChunkAnswer{Chunks: out}, nil
		},
	})
	_, got, _ := g.ask(t, question)
	require.Contains(t, got, "Hello ")
	require.Contains(t, got, "there")
	require.NotContains(t, got, "world")
	require.True(t, strings.HasSuffix(got, "data: [DONE]\n\n"), got)
}

func TestDeniedCall(t *testing.T) {
	u := newUpstream(t, answers(streamed+call+endCalls))
	for name, mw := range map[string]*native.Middleware{
		"denied":  gate(abi.DecideDeny, "files stay"),
		"stopped": gate(abi.DecideStop, "files stay"),
		"asked":   gate(abi.DecideAsk, "files stay?"),
		"failed": {GateTool: func(context.Context, *native.Call, *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			return nil, io.ErrUnexpectedEOF
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, u, nil, mw)
			_, got, _ := g.ask(t, question)
			require.NotContains(t, got, "tool_calls")
			require.Contains(t, got, "denied the call of rm")
			require.Contains(t, got, `"finish_reason":"stop"`)
			var kinds []string
			for _, e := range g.events() {
				kinds = append(kinds, string(e.Type))
			}
			require.Contains(t, kinds, "decision")
			require.Equal(t, "run_finished", kinds[len(kinds)-1])
		})
	}
}

// TestCallWaitsForGate checks that the client gets the text before a call at once, and no byte of the
// call before the gate has decided.
func TestCallWaitsForGate(t *testing.T) {
	decide := make(chan struct{})
	u := newUpstream(t, answers(streamed+call+endCalls))
	g := newGateway(t, u, nil, &native.Middleware{
		GateTool: func(ctx context.Context, _ *native.Call, _ *abi.GateToolInput) (*abi.GateToolAnswer, error) {
			<-decide
			return &abi.GateToolAnswer{Decision: abi.DecideAllow}, nil
		},
	})
	res, err := http.Post(g.at+"/v1/chat/completions", "application/json", strings.NewReader(question))
	require.NoError(t, err)
	defer res.Body.Close()
	r := bufio.NewReader(res.Body)
	first := make([]byte, len(streamed))
	_, err = io.ReadFull(r, first)
	require.NoError(t, err)
	require.Equal(t, streamed, string(first))
	rest := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		rest <- string(b)
	}()
	select {
	case b := <-rest:
		t.Fatalf("the client got %q before the decision", b)
	case <-time.After(50 * time.Millisecond):
	}
	close(decide)
	require.Equal(t, call+endCalls, <-rest)
	http.DefaultClient.CloseIdleConnections()
}

func TestModuleAnswers(t *testing.T) {
	u := newUpstream(t, answers(whole))
	g := newGateway(t, u, nil, &native.Middleware{
		BeforeModel: func(context.Context, *native.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			return &abi.BeforeModelAnswer{Response: &abi.Response{Message: abi.Assistant("from the cache")}}, nil
		},
	})
	for _, body := range []string{question, strings.Replace(question, "true", "false", 1)} {
		status, got, _ := g.ask(t, body)
		require.Equal(t, 200, status)
		require.Contains(t, got, "from the cache")
	}
	require.Empty(t, u.requests())
}

func TestStopped(t *testing.T) {
	u := newUpstream(t, answers(whole))
	g := newGateway(t, u, nil, &native.Middleware{
		BeforeModel: func(context.Context, *native.Call, *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			return &abi.BeforeModelAnswer{Control: abi.Control{Stop: &abi.Stop{Reason: "no secrets"}}}, nil
		},
	})
	status, got, _ := g.ask(t, question)
	require.Equal(t, 400, status)
	require.Contains(t, got, "no secrets")
	require.Empty(t, u.requests())
}

func TestRefusalOfUpstream(t *testing.T) {
	u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(429)
		_, _ = io.WriteString(w, `{"error":{"message":"slow down"}}`)
	})
	for _, mws := range [][]*native.Middleware{nil, {reader()}} {
		g := newGateway(t, u, nil, mws...)
		status, got, header := g.ask(t, question)
		require.Equal(t, 429, status)
		require.Equal(t, `{"error":{"message":"slow down"}}`, got)
		require.Equal(t, "7", header.Get("Retry-After"))
	}
}

func TestCutStream(t *testing.T) {
	for name, cut := range map[string]string{
		"after an event":  streamed,
		"within an event": streamed + call[:40],
		"after a call":    streamed + call,
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answers(cut))
			g := newGateway(t, u, nil, gate(abi.DecideAllow, ""))
			_, got, _ := g.ask(t, question)
			require.True(t, strings.HasPrefix(got, streamed), got)
			require.Contains(t, got[len(streamed):], "error")
			require.NotContains(t, got, "tool_calls")
		})
	}
}

func TestClientLeaves(t *testing.T) {
	ended := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		answers(streamed)(w, r)
		<-r.Context().Done()
		close(ended)
	})
	g := newGateway(t, u, nil, reader())
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", g.at+"/v1/chat/completions", strings.NewReader(question))
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	_, err = io.ReadFull(res.Body, make([]byte, 10))
	require.NoError(t, err)
	cancel()
	res.Body.Close()
	<-ended
}

func TestRefusals(t *testing.T) {
	u := newUpstream(t, answers(whole))
	for name, c := range map[string]struct {
		path, body string
		headers    []string
		change     func(*Options)
		status     int
		want       string
	}{
		"no such path":    {path: "/v1/embeddings", status: 404, want: "it has POST /v1/chat/completions"},
		"not JSON":        {body: "{", status: 400, want: "the request is not valid"},
		"another upgrade": {body: "{}", headers: []string{"Upgrade", "h2c"}, status: 400, want: "with a model"},
		"count of chat":   {path: "/v1/chat/completions/count_tokens", body: question, status: 404, want: "it has POST"},
		"no model":        {body: "{}", status: 400, want: "an object with a model"},
		"duplicate name":  {body: `{"model":"a","model":"b"}`, status: 400, want: "duplicate object member name"},
		"compressed": {body: "x", headers: []string{"Content-Encoding", "gzip"}, status: 400,
			want: "send it uncompressed"},
		"too large": {body: question, change: func(o *Options) { o.MaxBody = 20 }, status: 413, want: "more than 20 bytes"},
		"no route": {body: question, change: func(o *Options) { o.Routes[0].Models = []string{"gpt-*"} },
			status: 404, want: `has the model \"m-1\"`},
		"no key": {body: question, change: func(o *Options) { o.Keys = []Key{{Name: "a", Secret: "k"}} },
			headers: []string{"Authorization", "Bearer x"}, status: 401, want: "no key of the gateway"},
		"a web page": {body: question, headers: []string{"Origin", "https://example.com"}, status: 403, want: "web pages"},
		"a WebSocket": {body: question, headers: []string{"Upgrade", "websocket", "Connection", "Upgrade"},
			status: 426, want: "use HTTP"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t, u, c.change, reader())
			path := c.path
			if path == "" {
				path = "/v1/chat/completions"
			}
			status, got, _ := g.post(t, path, c.body, c.headers...)
			require.Equal(t, c.status, status, got)
			require.Contains(t, got, c.want)
			require.Empty(t, u.requests())
		})
	}
}

func TestKeys(t *testing.T) {
	u := newUpstream(t, answers(whole))
	g := newGateway(t, u, func(o *Options) {
		o.Keys = []Key{{Name: "a", Secret: "client-key"}}
		o.Routes[0].Upstream.Key = "upstream-key"
		o.Routes[0].Models, o.Routes[0].Model = []string{"m-*"}, "real"
	})
	status, _, _ := g.ask(t, question, "X-Api-Key", "client-key")
	require.Equal(t, 200, status)
	require.Equal(t, "Bearer upstream-key", u.headers[0].Get("Authorization"))
	require.Empty(t, u.headers[0].Get("X-Api-Key"))
	require.Equal(t, strings.Replace(question, "m-1", "real", 1), u.requests()[0])
}

// TestAnswerIsLimited checks that the gateway holds at most a limited part of an upstream's answer.
func TestAnswerIsLimited(t *testing.T) {
	var long bytes.Buffer
	for range 100 {
		long.WriteString(call)
	}
	u := newUpstream(t, answers(streamed+long.String()+endCalls))
	g := newGateway(t, u, func(o *Options) { o.MaxHeld = 4 << 10 }, gate(abi.DecideAllow, ""))
	_, got, _ := g.ask(t, question)
	require.Contains(t, got, "more than 4096 bytes")
	require.NotContains(t, got, "tool_calls")
}

func TestArgumentsWithDuplicateNames(t *testing.T) {
	twice := strings.Replace(call, `{\"file\":`, `{\"file\":\"b\",\"file\":`, 1)
	u := newUpstream(t, answers(streamed+twice+endCalls))
	g := newGateway(t, u, nil, gate(abi.DecideAllow, ""))
	_, got, _ := g.ask(t, question)
	require.NotContains(t, got, "tool_calls")
	require.Contains(t, got, "the gateway denied the call of rm")
}

// TestOtherStatus checks that a client gets a status other than 200 only if it reports an error. A client would
// follow a redirect, and take other responses for the model's answer.
func TestOtherStatus(t *testing.T) {
	for _, status := range []int{0, 99, 101, 201, 204, 206, 302, 307, 308, 600, 999} {
		u := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) { // net/http writes only statuses that exist
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			const body = `{"choices":[{"message":{"tool_calls":[{"id":"c1"}]}}]}`
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 %03d Other\r\nLocation: https://example.com/v1/chat/completions\r\n"+
				"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body)
		})
		for name, c := range map[string]struct {
			change func(*Options)
			mws    []*native.Middleware
		}{
			"without modules": {}, "a gate": {mws: []*native.Middleware{gate(abi.DecideDeny, "")}}, "translated": {change: toMessages},
		} {
			g := newGateway(t, u, c.change, c.mws...)
			got, body, header := g.ask(t, plainQuestion)
			require.Equal(t, http.StatusBadGateway, got, "%s, %d", name, status)
			require.Contains(t, body, "which the gateway does not pass on", "%s, %d", name, status)
			require.NotContains(t, body, "c1")
			require.Empty(t, header.Get("Location"))
			if events := g.events(); len(c.mws) > 0 {
				require.Equal(t, abi.CodeModel, events[len(events)-1].Error.Code)
			}
		}
	}
}

// TestEventsAfterEnd checks that a call after the end of an answer does not bypass the gates.
func TestEventsAfterEnd(t *testing.T) {
	u := newUpstream(t, answers(streamed+endStop+call+endCalls))
	g := newGateway(t, u, nil, gate(abi.DecideDeny, ""))
	_, got, _ := g.ask(t, question)
	require.NotContains(t, got, "tool_calls")
}

// TestOpenEnd checks that an upstream that keeps the connection open does not delay the end of an answer.
func TestOpenEnd(t *testing.T) {
	gone := make(chan struct{})
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		answers(streamed+endStop)(w, r)
		<-r.Context().Done()
		close(gone)
	})
	g := newGateway(t, u, nil, reader())
	_, got, _ := g.ask(t, question)
	require.Equal(t, streamed+endStop, got)
	<-gone
}

func TestUnreachable(t *testing.T) {
	u := newUpstream(t, answers(whole))
	u.URL = "http://127.0.0.1:1" // an address without a server; another test could take the port of a closed one
	for _, mws := range [][]*native.Middleware{nil, {reader()}} {
		g := newGateway(t, u, nil, mws...)
		status, got, _ := g.ask(t, question)
		require.Equal(t, http.StatusBadGateway, status)
		require.Contains(t, got, "cannot be reached")
	}
}
