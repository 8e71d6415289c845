package server_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// used matches the values in which the responses to two equal requests differ: the time at which the
// key was last used, and the end of a time range, which is the current time.
var used = regexp.MustCompile(`"(used|to)":"[^"]*"`)

func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	for path, status := range map[string]int{
		"/v1": 404, "/index.html": 404, "/v1/tenants/": 404, "/%2e%2e/etc/passwd": 404, "/v1/tenants/%2fx": 422,
		"/\xc3\x28": 400,
	} {
		r := f.Send("GET", path, f.Operator, nil)
		r.Problem(t, status, path)
	}
	r := f.Send("DELETE", "/healthz", "", nil)
	r.Problem(t, 405)
	require.Equal(t, "GET, HEAD", r.Header.Get("Allow"))
	require.Equal(t, 422, f.Send("GET", "/v1/tenants?limits=3", f.Operator, nil).Status, "unknown parameters are rejected")
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	require.Equal(t, "mine-1", f.Send("GET", "/healthz", "", nil, "X-Request-Id", "mine-1").Header.Get("X-Request-Id"))
	for _, bad := range []string{"", "a b", strings.Repeat("a", 65), `"><script>`} {
		require.Regexp(
			t,
			"^req_[A-Z2-7]{26}$",
			f.Send("GET", "/healthz", "", nil, "X-Request-Id", bad).Header.Get("X-Request-Id"),
		)
	}
}

// TestPanics checks that a request whose handler panics or fails receives a problem with status
// 500, whose reason is only in the log, and that a response that has begun is cut off.
func TestPanics(t *testing.T) {
	t.Parallel()
	var log servertest.Buffer
	f := servertest.New(t, servertest.WithLog(&log))
	f.Services.Router.Raw(
		httpapi.Route{ID: "panic", Method: "GET", Path: "/panic", Scope: httpapi.Public},
		nil,
		func(http.ResponseWriter, *http.Request, *httpapi.Caller) error { panic("a secret") },
	)
	f.Services.Router.Raw(
		httpapi.Route{ID: "late", Method: "GET", Path: "/late", Scope: httpapi.Public},
		nil,
		func(w http.ResponseWriter, _ *http.Request, _ *httpapi.Caller) error {
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
			panic("late")
		},
	)
	f.Services.Router.Raw(
		httpapi.Route{ID: "fails", Method: "GET", Path: "/fails", Scope: httpapi.Public},
		nil,
		func(http.ResponseWriter, *http.Request, *httpapi.Caller) error {
			return errors.New("a secret")
		},
	)
	f.Services.Router.Raw(
		httpapi.Route{ID: "fails-late", Method: "GET", Path: "/fails-late", Scope: httpapi.Public},
		nil,
		func(w http.ResponseWriter, _ *http.Request, _ *httpapi.Caller) error {
			_, _ = io.WriteString(w, strings.Repeat("x", 10_000))
			return errors.New("after the response began")
		},
	)
	for _, path := range []string{"/panic", "/fails"} {
		r := f.Send("GET", path, "", nil)
		require.NotContains(t, r.Problem(t, 500).Detail, "secret")
		require.Contains(t, log.String(), "a secret", "the log has it")
		require.Contains(t, log.String(), r.Header.Get("X-Request-Id"))
	}
	for _, path := range []string{"/late", "/fails-late"} {
		res, err := http.Get(f.URL + path)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			res.Body.Close()
		}
		require.Error(t, err, "the client notices an incomplete response")
	}
	require.Contains(t, log.String(), "after the response began")
	f.OK("GET", "/healthz", "", nil, nil)
}

// TestSecretsStayOut checks that keys are in neither the log nor problems.
func TestSecretsStayOut(t *testing.T) {
	t.Parallel()
	var log servertest.Buffer
	f := servertest.New(t, servertest.WithLog(&log))
	var made api.Key
	f.OK("POST", "/v1/keys", f.Acme, map[string]any{"name": "ci"}, &made)
	f.Send("GET", "/v1/keys", made.Secret+"x", nil).Problem(t, 401)
	r := f.Send("POST", "/v1/keys", f.Acme, map[string]any{"name": map[string]string{"token": "hush-hush"}})
	r.Problem(t, 422)
	require.NotContains(t, string(r.Body), "hush-hush", "values may be secrets")
	require.NotContains(t, string(f.OK("GET", "/v1/keys", f.Acme, nil, nil).Body), made.Secret[15:])
	require.NotContains(t, log.String(), made.Secret[15:])
	require.NotContains(t, log.String(), f.Acme[15:])
	require.Contains(t, log.String(), servertest.KeyID(f.Acme))
}

// TestKeyLife checks that a tenant's keys can be created, rotated and revoked, and that no key
// can create or rotate one with more scopes than its own.
func TestKeyLife(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var first, second api.Key
	f.OK("POST", "/v1/tenants/acme/keys", f.Operator, map[string]any{"name": "first", "expires_in_seconds": 3600}, &first)
	require.Len(t, first.Scopes, len(httpapi.TenantScopes))
	require.NotNil(t, first.Expires)
	f.Send("POST", "/v1/tenants/acme/keys", f.Operator, map[string]any{"name": "x", "scopes": []string{"operator"}}).
		Problem(t, 403)
	f.Send("POST", "/v1/tenants/none/keys", f.Operator, map[string]any{"name": "x"}).Problem(t, 404)

	var small api.Key
	f.OK(
		"POST",
		"/v1/keys",
		first.Secret,
		map[string]any{"name": "small", "scopes": []string{"keys:write", "runs:read"}},
		&small,
	)
	f.Send("POST", "/v1/keys", small.Secret, map[string]any{"name": "x", "scopes": []string{"runs:write"}}).Problem(t, 403)
	f.Send("POST", "/v1/keys/"+first.ID+"/rotate", small.Secret, nil).Problem(t, 403)

	f.OK("POST", "/v1/keys/"+first.ID+"/rotate", first.Secret, map[string]any{"grace_seconds": 60}, &second)
	f.OK("GET", "/v1/keys", first.Secret, nil, nil)
	f.OK("DELETE", "/v1/keys/"+first.ID, second.Secret, nil, nil)
	f.Send("GET", "/v1/keys", first.Secret, nil).Problem(t, 401)
	f.OK("DELETE", "/v1/tenants/acme", f.Operator, nil, nil)
	f.Send("GET", "/v1/keys", second.Secret, nil).Problem(t, 401)
}

func TestRateOfTenant(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	f.OK("PATCH", "/v1/tenants/acme", f.Operator, map[string]any{"quota": map[string]any{"requests_per_minute": 2}}, nil)
	f.OK("GET", "/v1/keys", f.Acme, nil, nil)
	f.OK("GET", "/v1/keys", f.Key("acme", string(httpapi.KeysRead)), nil, nil)
	r := f.Send(
		"GET",
		"/v1/keys",
		f.Key("acme", string(httpapi.KeysRead)),
		nil,
	) // all keys of a tenant share one rate limit
	require.Equal(t, "requests_per_minute", r.Problem(t, 429).Quota)
	require.NotEmpty(t, r.Header.Get("Retry-After"))
	f.OK("GET", "/v1/keys", f.Beta, nil, nil)
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	digest := strings.Repeat("ab", 32)
	_, changed := f.Services.Blocks.Current()
	f.OK("PUT", "/v1/blocks/sha256:"+digest, f.Operator, map[string]any{"reason": "it leaks"}, nil)
	<-changed
	why, blocked := f.Services.Blocks.Reason(digest)
	require.True(t, blocked)
	require.Equal(t, "it leaks", why)
	require.Contains(t, string(f.OK("GET", "/v1/blocks", f.Operator, nil, nil).Body), digest)

	// Another server that uses the same database sees the block.
	other := blocks.NewList(f.Store, hints.None{}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	_, changed = other.Current()
	go func() { other.Watch(ctx); close(done) }()
	<-changed
	_, blocked = other.Reason(digest)
	require.True(t, blocked)
	_, changed = other.Current()
	f.OK("DELETE", "/v1/blocks/"+digest, f.Operator, nil, nil)
	<-changed
	_, blocked = other.Reason(digest)
	require.False(t, blocked)
	cancel()
	<-done
	f.Send("DELETE", "/v1/blocks/"+digest, f.Operator, nil).Problem(t, 404)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	acme := f.Store.Tenant("acme")
	require.NoError(
		t,
		acme.AddUsage(
			t.Context(),
			store.Usage{Day: "2026-01-30", Agent: "a", Runs: 1, PromptTokens: 5},
			store.Usage{Day: "2026-01-31", Agent: "a", Module: "m", Fuel: 7},
		),
	)
	var out struct {
		Total api.UsageRow
		Rows  []api.UsageRow
	}
	f.OK("GET", "/v1/usage?from=2026-01-01&to=2026-01-31", f.Acme, nil, &out)
	require.Len(t, out.Rows, 2)
	require.Equal(t, api.UsageRow{Runs: 1, PromptTokens: 5, Fuel: 7}, out.Total)
	f.OK("GET", "/v1/tenants/acme/usage?from=2026-01-31&to=2026-01-31", f.Operator, nil, &out)
	require.Len(t, out.Rows, 1)
	f.Send("GET", "/v1/usage?from=yesterday", f.Acme, nil).Problem(t, 422)
}

// TestDrain checks that a server that shuts down is not ready, and answers the request in
// progress.
func TestDrain(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	began, end := make(chan struct{}), make(chan struct{})
	f.Services.Router.Raw(
		httpapi.Route{ID: "slow", Method: "GET", Path: "/slow", Scope: httpapi.Public},
		nil,
		func(w http.ResponseWriter, _ *http.Request, _ *httpapi.Caller) error {
			close(began)
			<-end
			_, _ = io.WriteString(w, "answered")
			return nil
		},
	)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.Server.Serve(ctx, l) }()
	answered := make(chan string, 1)
	go func() {
		res, err := http.Get("http://" + l.Addr().String() + "/slow")
		if err != nil {
			answered <- err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		answered <- string(b)
	}()
	<-began
	stop()
	<-f.Services.Draining
	require.Contains(t, f.Send("GET", "/readyz", "", nil).Problem(t, 503).Detail, "shutting down")
	close(end)
	require.Equal(t, "answered", <-answered)
	require.NoError(t, <-served)
}

// TestHeaderBomb checks that a request whose header is too large receives status 431.
func TestHeaderBomb(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- f.Server.Serve(ctx, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	defer conn.Close()
	_, _ = io.WriteString(
		conn,
		"GET /healthz HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("a", 2*server.HeaderBytes)+"\r\n\r\n",
	)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 431, res.StatusCode)
	res.Body.Close()
	stop()
	require.NoError(t, <-served)
}
