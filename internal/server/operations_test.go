package server

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server/console"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// populate creates one resource of each kind for acme, and returns the values of path parameters.
func populate(t *testing.T, f *fixture) map[string]string {
	t.Helper()
	ctx := t.Context()
	acme := f.store.Tenant("acme")
	digest, err := f.store.PutModule(ctx, []byte("acme's bytes"))
	require.NoError(t, err)
	require.NoError(
		t,
		acme.PutModule(
			ctx,
			&store.TenantModule{Digest: digest, Kind: "wasm", Size: 12, About: []byte(`{}`)},
			"acme-module",
			"1.0",
		),
	)
	_, err = acme.PutAgent(ctx, "acme-agent", []byte("name: acme-agent\n"), nil)
	require.NoError(t, err)
	_, err = acme.PutGateway(ctx, []byte("routes: [{protocol: chat, name: acme, models: [acme-model]}]\n"), nil)
	require.NoError(t, err)
	_, err = acme.SetAlias(ctx, "acme-agent", "acme-alias", 1, store.AliasChange{})
	require.NoError(t, err)
	_, err = acme.PutAgent(ctx, "acme-agent", []byte("name: acme-agent\ninstruction: x\n"), nil)
	require.NoError(t, err)
	_, err = acme.SetAlias(ctx, "acme-agent", "stable", 1, store.AliasChange{})
	require.NoError(t, err)
	require.NoError(
		t,
		acme.CreateRollout(ctx, &store.Rollout{ID: "ro_acme", Agent: "acme-agent", Alias: "stable", Canary: 2,
			Plan: []byte(`{"steps":[{"percent":10,"seconds":0}]}`), Percent: 10}),
	)
	require.NoError(t, acme.CreateReplay(ctx, &store.Replay{ID: "rp_acme", Agent: "acme-agent", Candidate: []byte(`{}`)},
		[]string{"run_acme"}))
	require.NoError(t, acme.SetSecret(ctx, "acme-secret", []byte("hush")))
	require.NoError(t, acme.AddUsage(ctx, store.Usage{Day: store.Day(time.Now()), Agent: "acme-agent", Runs: 1}))
	require.NoError(
		t,
		f.store.Create(
			ctx,
			&journal.Creation{
				ID:       "run_acme",
				Tenant:   "acme",
				Agent:    "acme-agent",
				Owner:    "me",
				LeaseTTL: time.Hour,
				Log:      []byte(`{"head":{"id":"run_acme","phase":"start"},"fixed":{}}` + "\n"),
			},
		),
	)
	member, err := acme.AddMember(ctx, &store.Member{Email: "ann@acme.example", Role: string(httpapi.RoleOwner)})
	require.NoError(t, err)
	group, err := f.store.MapGroup(ctx, "acme-group", "acme", string(httpapi.RoleViewer))
	require.NoError(t, err)
	_, err = acme.CreateThread(ctx, &store.Thread{ID: "thr_acme"})
	require.NoError(t, err)
	token, _, err := acme.CreateToken(ctx, &store.Token{Issuer: keyID(f.acme), Subject: "acme-user"}, time.Hour)
	require.NoError(t, err)
	require.NoError(t, acme.SetOrigins(ctx, []string{"https://acme.example"}))
	return map[string]string{
		"token":   token.ID,
		"member":  member.ID,
		"group":   group.ID,
		"thread":  "thr_acme",
		"tenant":  "acme",
		"key":     keyID(f.acme),
		"digest":  digest,
		"agent":   "acme-agent",
		"module":  "acme-module",
		"version": "1",
		"run":     "run_acme",
		"secret":  "acme-secret",
		"alias":   "acme-alias",
		"replay":  "rp_acme",
		"rollout": "ro_acme",
	}
}

// operates reports whether only keys of the operator can have a scope.
func operates(s httpapi.Scope) bool { return s == httpapi.OperatorScope || s == httpapi.OperatorRead }

// TestEveryOperation checks keys, scopes, bodies and paths of all operations of the document.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	samples := populate(t, f)
	revoked, expired := f.key("acme", httpapi.OperatorScopes()...), f.expired("acme")
	require.NoError(t, f.store.Tenant("acme").RevokeKey(t.Context(), keyID(revoked)))
	unscoped := map[httpapi.Scope]string{}
	for _, scope := range httpapi.OperatorScopes() {
		unscoped[httpapi.Scope(scope)] = f.key(
			store.Operator,
			slices.DeleteFunc(httpapi.OperatorScopes(), func(s string) bool {
				return s == scope || httpapi.Scope(scope).In([]string{s})
			})...)
	}
	posing := f.key("beta", httpapi.OperatorScopes()...) // a tenant's key with the operator's scopes

	for _, op := range f.operations() {
		t.Run(op.ID, func(t *testing.T) {
			path := op.at(t, samples)
			if op.Scope == httpapi.Public {
				require.Contains(
					t,
					[]string{"healthz", "readyz", "openapi", "get-sign-in", "sign-in", "sign-in-callback"},
					op.ID,
					"a new operation is for everybody; is it meant to be?",
				)
				return
			}
			if op.Scope == httpapi.SignedIn {
				require.Contains(t, []string{"get-me", "sign-out"}, op.ID, "a new operation needs no scope; is it meant to be?")
				return
			}
			require.True(t, op.Scope.Known(), "it declares no scope")
			for why, key := range map[string]string{
				"Authorization": "",
				"unknown key":   "ar_" + strings.Repeat("a", 10) + "_" + strings.Repeat("a", 52),
				"revoked":       revoked,
				"expired":       expired,
			} {
				r := f.send(op.Method, path, key, op.sample(t))
				require.Contains(t, r.problem(t, 401, why).Detail, why)
				require.Contains(t, r.header.Get("WWW-Authenticate"), "Bearer")
			}
			require.Contains(
				t,
				f.send(op.Method, path, unscoped[op.Scope], op.sample(t)).problem(t, 403).Detail,
				string(op.Scope),
			)
			if operates(op.Scope) {
				f.send(op.Method, path, posing, op.sample(t)).problem(t, 403)
			}
			checkBodies(t, f, &op, path)
			checkPaths(t, f, &op, samples)
		})
	}
}

// checkBodies checks that bodies that are too large, or not JSON, are rejected.
func checkBodies(t *testing.T, f *fixture, op *operation, path string) {
	t.Helper()
	if !op.Body {
		return
	}
	require.Positive(t, op.MaxBody)
	f.send(op.Method, path, f.operator, bytes.Repeat([]byte(" "), int(op.MaxBody)+1)).problem(t, 413)
	if !op.JSON {
		return
	}
	for name, body := range map[string]string{
		"invalid UTF-8": "{\"name\":\"\xff\"}",
		"cut off":       `{"name":`,
		"no JSON":       "name=x",
		"two":           "{}{}",
		"an array":      "[]",
		"deep":          strings.Repeat(`{"a":`, 100_000),
		"unknown":       `{"no such thing":1}`,
		"a huge number": `{"name":1e999}`,
		"zero":          "\x00",
	} {
		r := f.send(op.Method, path, f.operator, []byte(body))
		require.Contains(t, []int{400, 422}, r.status, "%s: %s", name, r.body)
		r.problem(t, r.status)
	}
	f.send(op.Method, path, f.operator, []byte("<a/>"), "Content-Type", "text/xml").problem(t, 415)
}

// checkPaths checks that invalid values of path parameters are rejected.
func checkPaths(t *testing.T, f *fixture, op *operation, samples map[string]string) {
	t.Helper()
	for _, name := range op.Params {
		for _, bad := range []string{
			"%ff", "%00", "a%0ab", "%2e%2e%2f%2e%2e%2fetc", strings.Repeat("a", 5000), "'%20OR%201=1--",
		} {
			values := map[string]string{}
			for k, v := range samples {
				values[k] = v
			}
			values[name] = bad
			r := f.send(op.Method, op.at(t, values), f.operator, op.sample(t))
			require.Contains(t, []int{400, 404, 422}, r.status, "%s=%s: %s", name, bad, r.body)
			r.problem(t, r.status)
		}
	}
}

// TestTenantIsolation checks that no operation reads or changes another tenant's resources by
// their ids, or reveals that they exist.
func TestTenantIsolation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	samples := populate(t, f)
	look := func() (all []string) {
		for _, op := range f.operations() {
			if op.Method == "GET" && op.Scope != httpapi.Public && op.Scope != httpapi.SignedIn && !operates(op.Scope) &&
				!strings.Contains(op.Path, "/events") {
				all = append(all, op.ID+string(used.ReplaceAll(f.send("GET", op.at(t, samples), f.acme, nil).body, nil)))
			}
		}
		return all
	}
	before := look()
	require.Contains(t, strings.Join(before, "\n"), "acme")
	all := f.operations()
	slices.SortStableFunc(all, func(a, b operation) int { // reads come before writes
		return strings.Compare(strings.TrimPrefix(a.Method, "GET"), strings.TrimPrefix(b.Method, "GET"))
	})
	for _, op := range all {
		if op.Scope == httpapi.Public || op.Scope == httpapi.SignedIn || operates(op.Scope) {
			continue // TestEveryOperation checks that a tenant's keys lack this scope
		}
		r := f.send(op.Method, op.at(t, samples), f.beta, op.sample(t))
		require.Less(t, r.status, 500, "%s: %s", op.ID, r.body)
		if len(op.Params) > 0 && op.Method != "PUT" && op.ID != "check-agent" { // PUT and check-agent need no existing object
			r.problem(t, 404, op.ID)
			other := f.send(
				op.Method,
				strings.NewReplacer(
					samples["key"], "aaaaaaaaaa",
					samples["member"], "aaaaaaaaaa",
					samples["token"], "aaaaaaaaaa",
					samples["digest"], strings.Repeat("0", 64),
				).Replace(op.at(t, samples)),
				f.beta,
				op.sample(t),
			)
			require.Equal(t, 404, other.status, "a missing resource has the same response")
		} else if r.status < 300 && op.Method == "GET" {
			require.NotContains(t, string(r.body), "acme", op.ID)
		}
	}
	require.Equal(t, before, look(), "and nothing of it changed")
}

// TestRoutesAreDocumented checks that all routes are in the document, because TestEveryOperation
// tests only documented ones.
func TestRoutesAreDocumented(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var documented []string
	for _, op := range f.operations() {
		documented = append(documented, op.Method+" "+op.Path)
	}
	console.Mount(func(pattern string, _ http.Handler) {
		require.Regexp(
			t,
			`^GET /(\{\$\}|console/[0-9a-f]{16}/([a-z]+/)?[a-z]+\.(js|css|svg)|console/[0-9a-f]{16}/agent\.schema\.json)$`,
			pattern,
			"files for everybody are those of the console",
		)
		documented = append(documented, pattern)
	})
	for _, pattern := range f.server.router.Patterns() {
		require.Contains(t, documented, pattern, "register it with route or raw")
	}
}

func TestRouteNeedsScope(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, scope := range []httpapi.Scope{"", "modules:delete"} {
		require.PanicsWithValue(t, "route GET /x: it declares no scope; set Public if it needs no key", func() {
			f.server.router.Raw(
				httpapi.Route{ID: "x", Method: "GET", Path: "/x", Scope: scope},
				nil,
				func(http.ResponseWriter, *http.Request, *httpapi.Caller) error { return nil },
			)
		})
	}
}

type lostPath struct {
	Tenant string `path:"tenant"`
}

func TestRouteNeedsItsParameters(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	require.Panics(t, func() {
		httpapi.Register(
			f.server.router,
			httpapi.Route{ID: "x", Method: "GET", Path: "/x/{tenant}", Scope: httpapi.OperatorScope},
			func(context.Context, *httpapi.Caller, *struct{ lostPath }) (*struct{}, error) { return nil, nil },
		)
	})
}
