package server_test

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/server/console"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// operates reports whether only keys of the operator can have a scope.
func operates(s httpapi.Scope) bool { return s == httpapi.OperatorScope || s == httpapi.OperatorRead }

// TestEveryOperation checks keys, scopes, bodies and paths of all operations of the document.
func TestEveryOperation(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	samples := servertest.Samples(t, f)
	revoked, expired := f.Key("acme", httpapi.OperatorScopes()...), expired(f, "acme")
	require.NoError(t, f.Store.Tenant("acme").RevokeKey(t.Context(), servertest.KeyID(revoked)))
	unscoped := map[httpapi.Scope]string{}
	for _, scope := range httpapi.OperatorScopes() {
		unscoped[httpapi.Scope(scope)] = f.Key(
			store.Operator,
			slices.DeleteFunc(httpapi.OperatorScopes(), func(s string) bool {
				return s == scope || httpapi.Scope(scope).In([]string{s})
			})...)
	}
	posing := f.Key("beta", httpapi.OperatorScopes()...) // a tenant's key with the operator's scopes

	for _, op := range f.Operations() {
		t.Run(op.ID, func(t *testing.T) {
			path := op.At(t, samples)
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
				r := f.Send(op.Method, path, key, op.Sample(t))
				require.Contains(t, r.Problem(t, 401, why).Detail, why)
				require.Contains(t, r.Header.Get("WWW-Authenticate"), "Bearer")
			}
			require.Contains(
				t,
				f.Send(op.Method, path, unscoped[op.Scope], op.Sample(t)).Problem(t, 403).Detail,
				string(op.Scope),
			)
			if operates(op.Scope) {
				f.Send(op.Method, path, posing, op.Sample(t)).Problem(t, 403)
			}
			checkBodies(t, f, &op, path)
			checkPaths(t, f, &op, samples)
		})
	}
}

// checkBodies checks that bodies that are too large, or not JSON, are rejected.
func checkBodies(t *testing.T, f *servertest.Fixture, op *servertest.Operation, path string) {
	t.Helper()
	if !op.Body {
		return
	}
	require.Positive(t, op.MaxBody)
	f.Send(op.Method, path, f.Operator, bytes.Repeat([]byte(" "), int(op.MaxBody)+1)).Problem(t, 413)
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
		r := f.Send(op.Method, path, f.Operator, []byte(body))
		require.Contains(t, []int{400, 422}, r.Status, "%s: %s", name, r.Body)
		r.Problem(t, r.Status)
	}
	f.Send(op.Method, path, f.Operator, []byte("<a/>"), "Content-Type", "text/xml").Problem(t, 415)
}

// checkPaths checks that invalid values of path parameters are rejected.
func checkPaths(t *testing.T, f *servertest.Fixture, op *servertest.Operation, samples map[string]string) {
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
			r := f.Send(op.Method, op.At(t, values), f.Operator, op.Sample(t))
			require.Contains(t, []int{400, 404, 422}, r.Status, "%s=%s: %s", name, bad, r.Body)
			r.Problem(t, r.Status)
		}
	}
}

// TestTenantIsolation checks that no operation reads or changes another tenant's resources by
// their ids, or reveals that they exist.
func TestTenantIsolation(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	samples := servertest.Samples(t, f)
	look := func() (all []string) {
		for _, op := range f.Operations() {
			if op.Method == "GET" && op.Scope != httpapi.Public && op.Scope != httpapi.SignedIn && !operates(op.Scope) &&
				!strings.Contains(op.Path, "/events") {
				all = append(all, op.ID+string(used.ReplaceAll(f.Send("GET", op.At(t, samples), f.Acme, nil).Body, nil)))
			}
		}
		return all
	}
	before := look()
	require.Contains(t, strings.Join(before, "\n"), "acme")
	all := f.Operations()
	slices.SortStableFunc(all, func(a, b servertest.Operation) int { // reads come before writes
		return strings.Compare(strings.TrimPrefix(a.Method, "GET"), strings.TrimPrefix(b.Method, "GET"))
	})
	for _, op := range all {
		if op.Scope == httpapi.Public || op.Scope == httpapi.SignedIn || operates(op.Scope) {
			continue // TestEveryOperation checks that a tenant's keys lack this scope
		}
		r := f.Send(op.Method, op.At(t, samples), f.Beta, op.Sample(t))
		require.Less(t, r.Status, 500, "%s: %s", op.ID, r.Body)
		if len(op.Params) > 0 && op.Method != "PUT" && op.ID != "check-agent" { // PUT and check-agent need no existing object
			r.Problem(t, 404, op.ID)
			other := f.Send(
				op.Method,
				strings.NewReplacer(
					samples["key"], "aaaaaaaaaa",
					samples["member"], "aaaaaaaaaa",
					samples["token"], "aaaaaaaaaa",
					samples["digest"], strings.Repeat("0", 64),
				).Replace(op.At(t, samples)),
				f.Beta,
				op.Sample(t),
			)
			require.Equal(t, 404, other.Status, "a missing resource has the same response")
		} else if r.Status < 300 && op.Method == "GET" {
			require.NotContains(t, string(r.Body), "acme", op.ID)
		}
	}
	require.Equal(t, before, look(), "and nothing of it changed")
}

// TestRoutesAreDocumented checks that all routes are in the document, because TestEveryOperation
// tests only documented ones.
func TestRoutesAreDocumented(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	var documented []string
	for _, op := range f.Operations() {
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
	for _, pattern := range f.Services.Router.Patterns() {
		require.Contains(t, documented, pattern, "register it with route or raw")
	}
}

func TestRouteNeedsScope(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	for _, scope := range []httpapi.Scope{"", "modules:delete"} {
		require.PanicsWithValue(t, "route GET /x: it declares no scope; set Public if it needs no key", func() {
			f.Services.Router.Raw(
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
	f := servertest.New(t)
	require.Panics(t, func() {
		httpapi.Register(
			f.Services.Router,
			httpapi.Route{ID: "x", Method: "GET", Path: "/x/{tenant}", Scope: httpapi.OperatorScope},
			func(context.Context, *httpapi.Caller, *struct{ lostPath }) (*struct{}, error) { return nil, nil },
		)
	})
}

// expired returns a tenant's key that has the operator's scopes and has expired.
func expired(f *servertest.Fixture, tenant string) string {
	f.T.Helper()
	_, shown, err := f.Store.Tenant(tenant).
		CreateKey(f.T.Context(), &store.KeyOptions{Scopes: httpapi.OperatorScopes(), TTL: time.Millisecond})
	require.NoError(f.T, err)
	require.Eventually(f.T, func() bool {
		_, _, err := f.Store.Authenticate(f.T.Context(), shown)
		return err != nil
	}, 10*time.Second, time.Millisecond)
	return shown
}
