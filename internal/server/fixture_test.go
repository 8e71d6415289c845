package server

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/keyring"
	"github.com/agent-runner/agent-runner/internal/store/storetest"
	"github.com/agent-runner/agent-runner/internal/testcache"
)

// A fixture is a server with the tenants acme and beta.
type fixture struct {
	t        *testing.T
	server   *Server
	store    store.Store
	url      string
	operator string // API keys of the operator and of the two tenants
	acme     string
	beta     string
}

func newFixture(t *testing.T, set ...func(*Options)) *fixture {
	t.Helper()
	return newFixtureAt(t, storetest.File(t), set...)
}

// newFixtureAt returns a fixture with its store at the location where: the path of an SQLite file,
// or the URL of a PostgreSQL database.
func newFixtureAt(t *testing.T, where string, set ...func(*Options)) *fixture {
	t.Helper()
	ctx := t.Context()
	keyring, err := keyring.Parse("test:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	require.NoError(t, err)
	s, err := store.Open(ctx, where, &store.Options{Keyring: keyring, Cost: costInTests})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	h, err := host.New(ctx, &host.Options{CacheDir: testcache.Modules()})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(
			context.Background(),
			time.Minute,
		) // a run whose end was reported may still be cleaning up
		defer cancel()
		require.NoError(t, h.Close(ctx))
	})
	o := &Options{Store: s, Host: h, MaxUpload: 8 << 20}
	for _, fn := range set {
		fn(o)
	}
	srv, err := New(o)
	require.NoError(t, err)
	hs := httptest.NewServer(srv)
	t.Cleanup(hs.Close)
	f := &fixture{t: t, server: srv, store: s, url: hs.URL}
	for _, id := range []string{"acme", "beta"} {
		_, err := s.CreateTenant(ctx, id, id, store.TenantQuota{}, nil)
		require.NoError(t, err)
	}
	f.operator, f.acme, f.beta = f.key(
		store.Operator,
		httpapi.OperatorScopes()...), f.key(
		"acme",
		httpapi.ScopeNames(httpapi.TenantScopes)...), f.key(
		"beta",
		httpapi.ScopeNames(httpapi.TenantScopes)...)
	return f
}

// costInTests prices the tokens of models in tests: one and two millionths for a token of the models
// small-cheap and small-dear, and nothing for others.
func costInTests(model string, promptTokens, completionTokens int64) int64 {
	return map[string]int64{"small-cheap": 1000, "small-dear": 2000}[model] * (promptTokens + completionTokens)
}

// key creates an API key of a tenant with the given scopes, and returns it in the form that clients
// send.
func (f *fixture) key(tenant string, scopes ...string) string {
	f.t.Helper()
	_, shown, err := f.store.Tenant(tenant).
		CreateKey(f.t.Context(), &store.KeyOptions{Name: "key of " + tenant, Scopes: scopes})
	require.NoError(f.t, err)
	return shown
}

func keyID(shown string) string { return strings.Split(shown, "_")[1] }

// A reply is a response of the server.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// send sends a request. It sends a body of bytes unchanged, and others as JSON.
func (f *fixture) send(method, path, key string, body any, header ...string) *reply {
	f.t.Helper()
	var sent io.Reader
	kind := "application/json"
	switch b := body.(type) {
	case nil:
	case []byte:
		sent = bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		require.NoError(f.t, err)
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(f.t.Context(), method, f.url+path, sent)
	require.NoError(f.t, err)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if sent != nil {
		r.Header.Set("Content-Type", kind)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := noRedirects.Do(r)
	require.NoError(f.t, err, "%s %s", method, path)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(f.t, err)
	return &reply{res.StatusCode, res.Header, b}
}

var noRedirects = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// decode decodes a successful response.
func (f *fixture) decode(r *reply, out any) {
	f.t.Helper()
	require.Less(f.t, r.status, 300, string(r.body))
	require.NoError(f.t, json.Unmarshal(r.body, out))
}

// ok sends a request that must succeed, and decodes its response.
func (f *fixture) ok(method, path, key string, body, out any) *reply {
	f.t.Helper()
	r := f.send(method, path, key, body)
	require.Less(f.t, r.status, 300, "%s %s: %s", method, path, r.body)
	if out != nil {
		require.NoError(f.t, json.Unmarshal(r.body, out))
	}
	return r
}

// anthropic returns an error in Anthropic's format as a problem, or nil if the reply is none.
func (r *reply) anthropic() *httpapi.Problem {
	var e struct {
		Type      string
		Error     struct{ Type, Message string }
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(r.body, &e) != nil || e.Type != "error" || e.Error.Type == "" || e.RequestID == "" {
		return nil
	}
	return &httpapi.Problem{Problem: api.Problem{Status: r.status, Detail: e.Error.Message}}
}

// problem requires a response to be a problem with a status, and returns it.
func (r *reply) problem(t *testing.T, status int, what ...any) *httpapi.Problem {
	t.Helper()
	require.Equal(t, status, r.status, "%v: %s", what, r.body)
	if a := r.anthropic(); a != nil {
		return a
	}
	require.Equal(t, "application/problem+json", r.header.Get("Content-Type"), what...)
	var p httpapi.Problem
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&p), string(r.body))
	require.Equal(t, status, p.Status)
	require.NotEmpty(t, p.Title)
	require.True(t, strings.HasPrefix(p.Type, api.ProblemType), p.Type)
	require.Equal(t, "urn:agent-runner:request:"+r.header.Get("X-Request-Id"), p.Instance)
	return &p
}

// An operation describes one operation of the OpenAPI document.
type operation struct {
	ID, Method, Path string
	Scope            httpapi.Scope
	MaxBody          int64
	JSON, Body       bool
	Schema           map[string]any
	Params           []string // path parameters
}

// operations returns the operations of the server's OpenAPI document.
func (f *fixture) operations() []operation {
	f.t.Helper()
	var doc struct {
		Paths map[string]map[string]struct {
			ID          string        `json:"operationId"`
			Scope       httpapi.Scope `json:"x-scope"`
			MaxBody     int64         `json:"x-max-body"`
			RequestBody *struct {
				Content map[string]struct{ Schema map[string]any }
			} `json:"requestBody"`
		}
		Components struct{ Schemas map[string]map[string]any }
	}
	f.ok("GET", "/openapi.json", "", nil, &doc)
	var out []operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			o := operation{ID: op.ID, Method: strings.ToUpper(method), Path: path, Scope: op.Scope, MaxBody: op.MaxBody}
			for _, part := range strings.Split(path, "/") {
				if name, ok := strings.CutPrefix(part, "{"); ok {
					o.Params = append(o.Params, strings.TrimSuffix(name, "}"))
				}
			}
			if op.RequestBody != nil {
				o.Body = true
				content, ok := op.RequestBody.Content["application/json"]
				o.JSON = ok
				o.Schema = resolve(doc.Components.Schemas, content.Schema)
			}
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	require.NotEmpty(f.t, out)
	return out
}

func resolve(all map[string]map[string]any, schema map[string]any) map[string]any {
	if ref, ok := schema["$ref"].(string); ok {
		return all[strings.TrimPrefix(ref, "#/components/schemas/")]
	}
	return schema
}

// at returns the operation's path with values for its parameters.
func (o *operation) at(t *testing.T, values map[string]string) string {
	t.Helper()
	path := o.Path
	for _, name := range o.Params {
		value, ok := values[name]
		require.True(
			t,
			ok,
			"%s %s: there is no sample of {%s}; add one to the samples of TestEveryOperation",
			o.Method,
			o.Path,
			name,
		)
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	return path
}

// sample returns a body with the required fields of the operation's schema, one byte if the body is
// not JSON, or nil if the operation has no body.
func (o *operation) sample(t *testing.T) any {
	t.Helper()
	if !o.Body {
		return nil
	}
	if !o.JSON {
		return []byte("x")
	}
	out := map[string]any{}
	properties, _ := o.Schema["properties"].(map[string]any)
	required, _ := o.Schema["required"].([]any)
	for _, name := range required {
		p, _ := properties[name.(string)].(map[string]any)
		if examples, ok := p["examples"].([]any); ok && len(examples) > 0 {
			out[name.(string)] = examples[0]
			continue
		}
		switch p["type"] {
		case "string":
			out[name.(string)] = "sample"
		case "integer", "number":
			out[name.(string)] = 1
		case "boolean":
			out[name.(string)] = true
		case "object":
			out[name.(string)] = map[string]any{}
		default:
			out[name.(string)] = []any{}
		}
	}
	return out
}

// expired returns a tenant's key that has the operator's scopes and has expired.
func (f *fixture) expired(tenant string) string {
	f.t.Helper()
	_, shown, err := f.store.Tenant(tenant).
		CreateKey(f.t.Context(), &store.KeyOptions{Scopes: httpapi.OperatorScopes(), TTL: time.Millisecond})
	require.NoError(f.t, err)
	require.Eventually(f.t, func() bool {
		_, _, err := f.store.Authenticate(f.t.Context(), shown)
		return err != nil
	}, 10*time.Second, time.Millisecond)
	return shown
}

func testLogger(to io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// withLog returns a function that sets a logger that writes all levels to w.
func withLog(w io.Writer) func(*Options) { return func(o *Options) { o.Logger = testLogger(w) } }

// withOwner returns a function that sets the name of the server's process.
func withOwner(owner string) func(*Options) { return func(o *Options) { o.Owner = owner } }
