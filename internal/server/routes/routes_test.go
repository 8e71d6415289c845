package routes_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// chatAnswer is an answer of OpenAI's chat completions.
const chatAnswer = `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`

// An upstream is a model API for routes of tenants. It records the requests that it gets.
type upstream struct {
	*httptest.Server
	answer http.HandlerFunc // the default writes chatAnswer

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	u.requests, u.bodies = append(u.requests, r), append(u.bodies, string(body))
	u.mu.Unlock()
	if u.answer != nil {
		u.answer(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, chatAnswer)
}

// count returns the number of requests that the upstream got.
func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.requests)
}

// routed returns an upstream, and a fixture whose tenants may use upstreams on this machine.
func routed(t *testing.T, answer http.HandlerFunc, set ...func(*server.Options)) (*servertest.Fixture, *upstream) {
	t.Helper()
	u := &upstream{answer: answer}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	f := servertest.New(t, append(set, func(o *server.Options) {
		o.Private = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})...)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go f.Services.Routes.Watch(ctx)
	return f, u
}

// putGateway stores a tenant's gateway. It replaces UPSTREAM in yaml with the address of u.
func putGateway(f *servertest.Fixture, key string, u *upstream, yaml string) *servertest.Reply {
	f.T.Helper()
	if u != nil {
		yaml = strings.ReplaceAll(yaml, "UPSTREAM", u.URL)
	}
	return f.Send("PUT", "/v1/gateway", key, []byte(yaml), "Content-Type", "application/yaml")
}

const ask = `{"model":"gpt","messages":[{"role":"user","content":"hi"}]}`

// chat sends a request for a chat completion.
func chat(f *servertest.Fixture, key, body string, header ...string) *servertest.Reply {
	f.T.Helper()
	return f.Send("POST", "/v1/chat/completions", key, []byte(body), header...)
}

// begin sends a request, and returns its response as soon as it has begun. The test closes it.
func begin(f *servertest.Fixture, key, body string) *http.Response {
	f.T.Helper()
	r, err := http.NewRequestWithContext(f.T.Context(), "POST", f.URL+"/v1/chat/completions", strings.NewReader(body))
	require.NoError(f.T, err)
	r.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(r)
	require.NoError(f.T, err)
	f.T.Cleanup(func() { _ = res.Body.Close() })
	return res
}

// TestRoutes checks that a tenant's requests pass the modules of its route and the operator's rings, and
// that the upstream gets the tenant's key and nothing that identifies the client.
func TestRoutes(t *testing.T) {
	t.Parallel()
	f, u := routed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "a=b")
		w.Header().Set("Alt-Svc", `h3=":443"`)
		w.Header().Set("X-Accel-Redirect", "/internal/secrets")
		w.Header().Set("X-Request-Id", "theirs")
		w.Header().Set("Openai-Version", "1")
		_, _ = io.WriteString(w, chatAnswer)
	})
	f.Upload(f.Acme, "loud", servertest.LoudModule)
	f.Upload(
		f.Operator,
		"stamp",
		strings.NewReplacer("loud", "stamp", ".toUpperCase()", ` + " (checked)"`).Replace(servertest.LoudModule),
	)
	require.Equal(t, 200, f.Apply(f.Operator, "rings", "model: {name: none}\nrings: {outer: [{module: stamp}]}\n").Status)
	f.OK("PUT", "/v1/secrets/UP_KEY", f.Acme, map[string]string{"value": "acme's own key"}, nil)

	var stored api.Gateway
	r := putGateway(f, f.Acme, u, `max_requests: 8
routes:
  - protocol: chat
    models: [gpt, "gpt-*"]
    upstream: UPSTREAM
    api_key_env: UP_KEY
    middlewares: [{module: loud}]
`)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.NoError(t, json.Unmarshal(r.Body, &stored))
	require.Equal(t, int64(1), stored.Version)
	require.Equal(t, "routes[0].middlewares[0]", stored.Modules[0].At)

	r = chat(f, f.Acme, ask, "Cookie", "session=1", "X-Forwarded-For", "192.0.2.7", "X-Stainless-Lang", "js")
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.Contains(t, string(r.Body), `"HELLO (checked)"`)
	for _, name := range []string{"Set-Cookie", "Alt-Svc", "X-Accel-Redirect"} {
		require.Empty(t, r.Header.Get(name), name)
	}
	require.Equal(t, "1", r.Header.Get("Openai-Version"))
	require.Regexp(t, "^req_", r.Header.Get("X-Request-Id"))
	got := u.requests[0].Header
	require.Equal(t, "Bearer acme's own key", got.Get("Authorization"))
	require.Equal(t, "js", got.Get("X-Stainless-Lang"))
	for _, name := range []string{"Cookie", "X-Forwarded-For", "X-Api-Key"} {
		require.Empty(t, got.Get(name), name)
	}
	require.NotContains(t, fmt.Sprint(got), strings.TrimPrefix(f.Acme, "ar_"))

	var models struct{ Data []struct{ ID string } }
	f.OK("GET", "/v1/models", f.Acme, nil, &models)
	require.Len(t, models.Data, 1)
	require.Equal(t, "gpt", models.Data[0].ID)
	f.OK("GET", "/v1/models/gpt", f.Acme, nil, nil)

	require.Equal(t, 404, chat(f, f.Acme, strings.ReplaceAll(ask, `"gpt"`, `"other"`)).Status)
	require.Equal(t, 404, chat(f, f.Beta, ask).Status, "the routes are acme's")
	f.Send("GET", "/v1/gateway", f.Beta, nil).Problem(t, 404)
	require.Equal(t, 1, u.count())

	usage := func() []api.UsageRow {
		var used struct{ Rows []api.UsageRow }
		f.OK("GET", "/v1/usage", f.Acme, nil, &used)
		return used.Rows
	}
	require.Eventually(t, func() bool { return len(usage()) == 2 }, 10*time.Second, 10*time.Millisecond)
	rows := usage()
	require.Equal(t, []any{"gateway:chat", int64(1), int64(7), int64(3)},
		[]any{rows[0].Agent, rows[0].Runs, rows[0].PromptTokens, rows[0].CompletionTokens})
	require.Equal(t, httpapi.TrimDigest(stored.Modules[0].Digest), rows[1].Module)
	require.Positive(t, rows[1].Fuel)

	f.OK("DELETE", "/v1/gateway", f.Acme, nil, nil)
	require.Equal(t, 404, chat(f, f.Acme, ask).Status)
	f.Send("DELETE", "/v1/gateway", f.Acme, nil).Problem(t, 404)
}

// TestRoutesOfProtocols checks that each protocol has its routes, and that an agent comes before a route.
func TestRoutesOfProtocols(t *testing.T) {
	t.Parallel()
	f, u := routed(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprintf(w, `{"path":%q}`, r.URL.RequestURI())
	})
	require.Equal(t, 200, putGateway(f, f.Acme, u, `routes:
  - {protocol: responses, upstream: UPSTREAM, models: ["gpt*"]}
  - {protocol: messages, upstream: UPSTREAM/base, models: ["claude*"]}
`).Status)
	for path, body := range map[string]string{
		"/v1/responses":                       `{"model":"gpt","input":"hi"}`,
		"/v1/messages?beta=true":              `{"model":"claude/x","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`,
		"/v1/messages/count_tokens?beta=true": `{"model":"claude","messages":[{"role":"user","content":"hi"}]}`,
	} {
		r := f.Send("POST", path, "", []byte(body), "X-Api-Key", f.Acme)
		require.Equal(t, http.StatusTeapot, r.Status, "%s: %s", path, r.Body)
		require.Contains(t, string(r.Body), path, "it is the upstream's answer")
		other := strings.Replace(body, `"model":"`, `"model":"x`, 1)
		require.Equal(t, 404, f.Send("POST", path, f.Acme, []byte(other)).Status)
	}
	require.Equal(t, 200, f.Apply(f.Acme, "gpt", "model: {name: small, base_url: http://127.0.0.1:1}\n").Status)
	n := u.count()
	r := f.Send("POST", "/v1/chat/completions", f.Acme, []byte(ask))
	require.NotEqual(t, 200, r.Status, "the agent's own model cannot be reached")
	require.Equal(t, n, u.count())
	r = f.Send("GET", "/v1/responses", f.Acme, nil, "Upgrade", "websocket", "Connection", "Upgrade")
	require.Equal(t, http.StatusUpgradeRequired, r.Status, "clients then use HTTP at once")
}

// TestGatewayFiles checks the errors for invalid gateway.yaml files and their positions.
func TestGatewayFiles(t *testing.T) {
	t.Parallel()
	f, u := routed(t, nil)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"policy": policy.Policy{
		Upstreams: []string{"api.example.com"}, Models: []string{"small*"}}}, nil)
	f.Upload(f.Acme, "loud", servertest.LoudModule)
	const route = "routes:\n  - {protocol: chat, upstream: \"https://api.example.com\""
	for yaml, want := range map[string]string{
		"listen: 0.0.0.0:1\n" + route + "}\n":                                        "gateway.yaml:1:1: listen: remove it; the routes are served at the address of this server",
		"keys: [{name: a, env: B}]\n" + route + "}\n":                                "clients send keys of this server",
		"max_memory: 2MiB\n" + route + "}\n":                                         "max_memory: remove it; it has no effect on a server",
		"timeout: 2h\n" + route + "}\n":                                              "want at most 1h0m0s",
		"max_requests: 257\n" + route + "}\n":                                        "want at most 256",
		route + ", name: \"a b\"}\n":                                                 "name: want up to 64 letters",
		route + "}\n  - {protocol: chat}\n":                                          "two routes are named",
		route + ", rings: {outer: [{module: loud}]}}\n":                              "only the operator can set rings",
		route + ", middlewares: [{module: none}]}\n":                                 "gateway.yaml:2:",
		route + ", middlewares: [{module: /etc/passwd}]}\n":                          "no such module",
		route + ", middlewares: [{module: loud, grants: [model]}]}\n":                "does not allow this tenant to grant model",
		route + ", middlewares: [{module: loud, limits: {memory: 4GiB}}]}\n":         "limits.memory exceeds the default",
		route + ", model: large}\n":                                                  `policy does not allow this tenant to use "large"`,
		"routes:\n  - {protocol: chat, upstream: UPSTREAM}\n":                        "allowed are api.example.com; a host without a port",
		"routes:\n  - {protocol: chat, upstream: \"https://a:b@api.example.com\"}\n": "without a user",
		"routes: []\n":  "no routes",
		"nonsense: 1\n": "nonsense",
		"":              "no routes",
	} {
		p := putGateway(f, f.Acme, u, yaml).Problem(t, 422, yaml)
		require.Contains(t, p.Detail, want, yaml)
	}
	require.Equal(t, 200, putGateway(f, f.Acme, u, route+", middlewares: [{module: loud}]}\n").Status)
	r := chat(f, f.Acme, ask)
	require.Equal(t, 403, r.Status, "%s: the policy applies to the models of requests", r.Body)
	f.Send("DELETE", "/v1/modules/loud", f.Acme, nil).Problem(t, 409)
}

// TestRouteAddresses checks that upstreams of tenants must have public addresses, even after a
// redirect.
func TestRouteAddresses(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	u := &upstream{}
	u.Server = httptest.NewServer(u)
	t.Cleanup(u.Close)
	port := u.URL[strings.LastIndexByte(u.URL, ':'):]
	for _, host := range []string{
		"127.0.0.1" + port, "localhost" + port, "[::1]" + port, "[::ffff:127.0.0.1]" + port, "0.0.0.0" + port,
		"169.254.169.254", "10.0.0.1", "0x7f.1" + port, "2130706433" + port, "127.1" + port, "[fd00:ec2::254]",
	} {
		r := putGateway(f,
			f.Acme,
			nil,
			fmt.Sprintf("routes: [{protocol: chat, timeout: 5s, upstream: \"http://%s\"}]\n", host),
		)
		if r.Status == 422 {
			continue
		}
		require.Equal(t, 200, r.Status, "%s: %s", host, r.Body)
		r = chat(f, f.Acme, ask)
		require.Equal(t, 502, r.Status, "%s: %s", host, r.Body)
		require.NotContains(t, string(r.Body), "hello", host)
	}
	require.Zero(t, u.count())

	f, u = routed(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
	})
	require.Equal(t, 200, putGateway(f, f.Acme, u, "routes: [{protocol: chat, upstream: UPSTREAM}]\n").Status)
	r := chat(f, f.Acme, ask)
	require.Equal(t, 502, r.Status, "%s", r.Body)
	require.Empty(t, r.Header.Get("Location"))
	require.Equal(t, 1, u.count())
}

// TestRouteLimits checks that a tenant with too many requests gets 429 at once, while others are served,
// and that it is served again afterwards.
func TestRouteLimits(t *testing.T) {
	t.Parallel()
	proceed := make(chan struct{})
	f, u := routed(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Wait") != "" {
			<-proceed
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, chatAnswer)
	})
	quota := api.TenantQuota{ConcurrentRuns: 3, RunsPerDay: 20}
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": quota}, nil)
	const yaml = "routes: [{protocol: chat, upstream: UPSTREAM}]\n"
	require.Equal(t, 200, putGateway(f, f.Acme, u, yaml).Status)
	require.Equal(t, 200, putGateway(f, f.Beta, u, yaml).Status)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			r := chat(f, f.Acme, ask, "X-Wait", "1")
			require.Equal(t, 200, r.Status, "%s", r.Body)
		})
	}
	require.Eventually(t, func() bool { return u.count() == 3 }, 10*time.Second, time.Millisecond)
	for range 100 {
		r := chat(f, f.Acme, ask)
		require.Equal(t, 429, r.Status, "%s", r.Body)
		require.NotEmpty(t, r.Header.Get("Retry-After"))
	}
	require.Equal(t, 200, chat(f, f.Beta, ask).Status)
	close(proceed)
	all.Wait()
	require.Equal(t, 200, chat(f, f.Acme, ask).Status)

	day := store.Day(time.Now())
	require.NoError(t, f.Store.Tenant("acme").AddUsage(t.Context(), store.Usage{Day: day, Agent: "a", Runs: 20}))
	r := chat(f, f.Acme, ask)
	require.Equal(t, 429, r.Status)
	require.Contains(t, string(r.Body), "runs_per_day")
}

// endless streams text until the client disconnects or stop is closed.
func endless(stop <-chan struct{}) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for {
			_, err := io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m",`+
				`"choices":[{"index":0,"delta":{"content":"la "},"finish_reason":null}]}`+"\n\n")
			if err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
				return
			case <-stop:
				_, _ = io.WriteString(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m",`+
					`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
}

const askStream = `{"model":"gpt","stream":true,"messages":[{"role":"user","content":"hi"}]}`

// shout changes each chunk of a stream.
const shout = `import { defineMiddleware } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "shout",
	onChunk: ({ chunks }) => ({ chunks: chunks.map((c) => (c.kind === "text" ? { ...c, text: c.text.toUpperCase() } : c)) }),
});
`

// TestRouteEnds checks that a stream through a route ends if one of its modules is blocked, if the
// tenant is deleted, and at the route's timeout. It must not end if the gateway is changed or
// deleted.
func TestRouteEnds(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	f, u := routed(t, endless(stop))
	f.Upload(f.Acme, "shout", shout)
	const yaml = "routes: [{protocol: chat, upstream: UPSTREAM, middlewares: [{module: shout}]}]\n"
	var stored api.Gateway
	require.NoError(t, json.Unmarshal(putGateway(f, f.Acme, u, yaml).Body, &stored))
	require.Equal(t, 200, putGateway(f, f.Beta, u, "routes: [{protocol: chat, upstream: UPSTREAM}]\n").Status)

	stays := begin(f, f.Beta, askStream)
	require.Equal(t, 200, stays.StatusCode)
	blocked := begin(f, f.Acme, askStream)
	first, err := bufio.NewReader(blocked.Body).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, first, "LA ")
	f.OK("DELETE", "/v1/gateway", f.Beta, nil, nil)
	require.Equal(t, 200, putGateway(f, f.Acme, u, "timeout: 400ms\n"+yaml).Status)
	slow := begin(f, f.Acme, askStream)
	rest, _ := io.ReadAll(slow.Body)
	require.Contains(t, string(rest), "LA ")
	require.Contains(t, string(rest), `"error"`, "the timeout ends it")

	f.OK("PUT", "/v1/blocks/"+stored.Modules[0].Digest, f.Operator, map[string]string{"reason": "it shouts"}, nil)
	rest, _ = io.ReadAll(blocked.Body) // the test's timeout is the limit
	require.Contains(t, string(rest), `"error"`)
	require.Contains(t, string(rest), "it shouts")
	r := chat(f, f.Acme, ask)
	require.Equal(t, 403, r.Status, "%s", r.Body)
	require.Contains(t, string(r.Body), "it shouts")

	close(stop)
	rest, err = io.ReadAll(stays.Body)
	require.NoError(t, err)
	require.Contains(t, string(rest), "[DONE]", "the deletion of the gateway does not end it")
}

// TestDeletedTenantsHaveNoRequests checks that the deletion of a tenant ends its requests within seconds.
func TestDeletedTenantsHaveNoRequests(t *testing.T) {
	t.Parallel()
	f, u := routed(t, endless(nil))
	require.Equal(t, 200, putGateway(f, f.Acme, u, "routes: [{protocol: chat, upstream: UPSTREAM}]\n").Status)
	res := begin(f, f.Acme, askStream)
	f.OK("DELETE", "/v1/tenants/acme", f.Operator, nil, nil)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(io.Discard, res.Body)
	}()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		require.Fail(t, "the stream goes on")
	}
}

// TestRoutesChangeLive checks that requests use a new version at once, and that unused routes hold
// nothing.
func TestRoutesChangeLive(t *testing.T) {
	t.Parallel()
	f, u := routed(t, nil)
	f.Upload(f.Acme, "loud", servertest.LoudModule)
	for yaml, want := range map[string]string{
		"routes: [{protocol: chat, upstream: UPSTREAM}]\n":                                "hello",
		"routes: [{protocol: chat, upstream: UPSTREAM, middlewares: [{module: loud}]}]\n": "HELLO",
	} {
		require.Equal(t, 200, putGateway(f, f.Acme, u, yaml).Status)
		for range 2 {
			require.Contains(t, string(chat(f, f.Acme, ask).Body), want)
		}
	}
	require.Equal(t, map[string]int{"acme": 4}, f.Services.Pool.Count(), "two versions, each with a route")
	require.Eventually(t, func() bool { // a request uses a route until shortly after its answer
		f.Services.Pool.CloseIdle()
		return len(f.Services.Pool.Count()) == 0
	}, 10*time.Second, 10*time.Millisecond)

	f.OK("PUT", "/v1/secrets/K", f.Acme, map[string]string{"value": "first"}, nil)
	require.Equal(
		t,
		200,
		putGateway(f, f.Acme, u, "routes: [{protocol: chat, upstream: UPSTREAM, api_key_env: K}]\n").Status,
	)
	for _, value := range []string{"second", "third"} {
		f.OK("PUT", "/v1/secrets/K", f.Acme, map[string]string{"value": value}, nil)
		require.Equal(t, 200, chat(f, f.Acme, ask).Status)
		require.Equal(t, "Bearer "+value, u.requests[u.count()-1].Header.Get("Authorization"))
	}
	f.OK("DELETE", "/v1/secrets/K", f.Acme, nil, nil)
	require.Contains(t, chat(f, f.Acme, ask).Problem(t, 422).Detail, "route chat cannot run: the secret K")

	reader := f.Key("acme", string(httpapi.AgentsRead))
	f.Send("PUT", "/v1/gateway", reader, []byte("x")).Problem(t, 403)
	require.Equal(t, 403, chat(f, reader, ask).Status)
}

// TestRouteHidesRings checks that clients of a tenant see the operator's modules as "operator", without
// the text of their faults, and that a fault affects one request only.
func TestRouteHidesRings(t *testing.T) {
	t.Parallel()
	f, u := routed(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,`+
			`"message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",`+
			`"function":{"name":"rm","arguments":"{}"}}]},"finish_reason":"tool_calls"}],`+
			`"usage":{"prompt_tokens":9000000000000000000,"completion_tokens":-5}}`)
	})
	f.Upload(f.Operator, "warden", `import { defineMiddleware, deny } from "@agent-runner/middleware";

export default defineMiddleware({
	name: "warden",
	beforeModel({ request }) {
		if (JSON.stringify([...request.messages]).includes("trap")) return { request: { messages: "a secret" } };
	},
	gateTool: () => deny("not here"),
});
`)
	require.Equal(t, 200, f.Apply(f.Operator, "rings", "model: {name: none}\nrings: {inner: [{module: warden}]}\n").Status)
	require.Equal(t, 200, putGateway(f, f.Acme, u, "routes: [{protocol: chat, upstream: UPSTREAM}]\n").Status)
	r := chat(f, f.Acme, strings.Replace(ask, "hi", "trap", 1))
	require.Equal(t, 400, r.Status, "%s", r.Body)
	require.Contains(t, string(r.Body), "a module of the operator failed")
	require.NotContains(t, string(r.Body), "secret")
	require.NotContains(t, string(r.Body), "warden")
	require.Zero(t, u.count())

	r = chat(f, f.Acme, ask)
	require.Equal(t, 200, r.Status, "%s", r.Body)
	require.Contains(t, string(r.Body), "[operator denied the call of rm: not here]")
	require.NotContains(t, string(r.Body), "warden")
	require.NotContains(t, string(r.Body), "tool_calls\":[{")
	require.Eventually(t, func() bool {
		total, err := f.Store.Tenant("acme").UsageTotal(t.Context(), "2020-01-01", "2999-01-01")
		require.NoError(t, err)
		return total.Runs == 2 && total.PromptTokens <= 200_000_000 && total.CompletionTokens >= 0
	}, 10*time.Second, 10*time.Millisecond)
}
