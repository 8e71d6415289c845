package server

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// preflight sends a preflight request: it asks whether a page of an origin may send a request.
func (f *fixture) preflight(origin, method, path string, more ...string) *reply {
	f.t.Helper()
	return f.send("OPTIONS", path, "", nil, append([]string{"Origin", origin, "Access-Control-Request-Method", method,
		"Access-Control-Request-Headers", "authorization,content-type", "Sec-Fetch-Site", "cross-site"}, more...)...)
}

func TestCORS(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	ann, beta := f.token(api.CreateToken{Subject: "ann"}).Secret, f.betaToken("ann")
	f.ok(
		"PUT",
		"/v1/cors",
		f.acme,
		api.CORS{Origins: []string{"https://app.example.com", "https://*.preview.example.com:8443"}},
		nil,
	)
	f.ok("PUT", "/v1/tenants/beta/cors", f.operator, api.CORS{Origins: []string{"https://beta.example"}}, nil)
	for origin, want := range map[string]struct{ preflight, acme bool }{
		"https://app.example.com":                {true, true},
		"https://pr-1.preview.example.com:8443":  {true, true},
		"https://beta.example":                   {true, false}, // the tenant of a preflight is not known
		"https://preview.example.com:8443":       {false, false},
		"https://a.b.preview.example.com:8443":   {false, false},
		"https://pr-1.preview.example.com":       {false, false},
		"https://*.preview.example.com:8443":     {false, false},
		"https://.preview.example.com:8443":      {false, false},
		"http://app.example.com":                 {false, false},
		"https://app.example.com:443":            {false, false},
		"https://app.example.com:444":            {false, false},
		"https://app.example.com.":               {false, false},
		"https://APP.example.com":                {false, false},
		"https://app.example.com.evil.example":   {false, false},
		"https://evilapp.example.com":            {false, false},
		"https://app.example.com/":               {false, false},
		"https://app.example.com@evil.example":   {false, false},
		"https://app.example.com, https://b.com": {false, false},
		"https://app.example.com\tx":             {false, false},
		"null":                                   {false, false},
		"file://":                                {false, false},
		"*":                                      {false, false},
		"https://":                               {false, false},
		strings.Repeat("https://a", 1000):        {false, false},
	} {
		r := f.preflight(origin, "POST", "/v1/runs")
		allowed := func(r *reply) string { return r.header.Get("Access-Control-Allow-Origin") }
		if want.preflight {
			require.Equal(t, 204, r.status, origin)
			require.Equal(t, origin, allowed(r))
			require.Contains(t, r.header.Get("Access-Control-Allow-Headers"), "Authorization")
			require.Contains(t, r.header.Get("Access-Control-Allow-Headers"), "Last-Event-ID")
			require.Equal(t, "600", r.header.Get("Access-Control-Max-Age"))
		} else {
			r.problem(t, 403, origin)
			require.Empty(t, allowed(r), origin)
		}
		require.Contains(t, strings.Join(r.header.Values("Vary"), ", "), "Origin")

		// The request itself needs an origin that the token's tenant allows.
		in := api.StartRun{Agent: "counter", Input: "x"}
		r = f.send("POST", "/v1/runs", ann, in, "Origin", origin, "Sec-Fetch-Site", "cross-site")
		if want.acme {
			require.Equal(t, 202, r.status, origin)
			require.Equal(t, origin, allowed(r))
			require.Equal(t, "Location, Retry-After, X-Request-Id", r.header.Get("Access-Control-Expose-Headers"))
		} else {
			r.problem(t, 403, origin)
			require.Empty(t, allowed(r), origin)
		}
		require.Contains(t, r.header.Values("Vary"), "Origin")
		require.Equal(
			t,
			origin == "https://beta.example",
			allowed(f.send("POST", "/v1/runs", beta, in, "Origin", origin)) != "",
			origin,
		)

		// A page of another origin gets no access with a key or a session.
		for _, key := range []string{f.acme, ""} {
			r = f.send("GET", "/v1/runs", key, nil, "Origin", origin, "Sec-Fetch-Site", "cross-site")
			require.Empty(t, allowed(r), origin)
		}
		for _, header := range []string{"Access-Control-Allow-Credentials", "Set-Cookie"} {
			require.Empty(t, r.header.Values(header))
		}
	}
	require.Empty(
		t,
		f.send(
			"GET",
			"/openapi.json",
			"",
			nil,
			"Origin",
			"https://app.example.com",
		).header.Get(
			"Access-Control-Allow-Origin",
		),
	)

	// A page can read the reason why its token is rejected, and the error for a reached quota.
	r := f.send("POST", "/v1/runs", ann[:len(ann)-1], nil, "Origin", "https://app.example.com")
	r.problem(t, 401)
	require.Equal(t, "https://app.example.com", r.header.Get("Access-Control-Allow-Origin"))
	r = f.send("GET", "/v1/runs", ann, nil, "Origin", "https://app.example.com")
	r.problem(t, 403)
	require.Equal(t, "https://app.example.com", r.header.Get("Access-Control-Allow-Origin"))

	// Clients other than browsers, and pages of the server itself, need no allowed origin.
	require.Equal(t, 403, f.send("GET", "/v1/runs/run_x", ann, nil, "Origin", "https://other.example").status)
	require.Equal(t, 404, f.send("GET", "/v1/runs/run_x", ann, nil).status)
	require.Equal(t, 404, f.send("GET", "/v1/runs/run_x", ann, nil, "Origin", f.url).status)
	require.Equal(
		t,
		404,
		f.send("GET", "/v1/runs/run_x", ann, nil, "Origin", "https://x.example", "Sec-Fetch-Site", "same-origin").status,
	)
	require.Equal(
		t,
		403,
		f.send("GET", "/v1/runs/run_x", ann, nil, "Origin", f.url, "Sec-Fetch-Site", "cross-site").status,
	)

	// An OPTIONS request that is no preflight request is rejected.
	f.send("OPTIONS", "/v1/runs", "", nil).problem(t, 405)
	f.send("OPTIONS", "/v1/runs", "", nil, "Origin", "https://app.example.com").problem(t, 405)

	// An origin that an owner removes loses access at once.
	f.ok("PUT", "/v1/cors", f.acme, api.CORS{Origins: []string{}}, nil)
	f.send("POST", "/v1/runs", ann, nil, "Origin", "https://app.example.com").problem(t, 403)
	f.preflight("https://app.example.com", "POST", "/v1/runs").problem(t, 403)
	var audit struct{ Records []api.AuditRecord }
	f.ok("GET", "/v1/audit?action=cors.set", f.acme, nil, &audit)
	require.Len(t, audit.Records, 2)
	require.Contains(
		t,
		string(audit.Records[0].Detail),
		`"before":["https://*.preview.example.com:8443","https://app.example.com"]`,
	)
}

func TestSetCORS(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	set := func(key string, origins ...string) *reply {
		return f.send("PUT", "/v1/cors", key, api.CORS{Origins: origins})
	}
	for _, bad := range []string{
		"", "*", "null", "https://*", "https://*.com", "https://*.co.uk", "https://*.github.io", "https://a.*.example.com",
		"https://*.*.example.com", "https://*a.example.com", "http://*.example.com", "http://example.com",
		"https://Example.com", "https://example.com.", "https://example.com/", "https://example.com:443",
		"https://example.com:", "https://example.com:08", "https://user@example.com", "https://example.com?x",
		"https://example.com#x", "https://exämple.com", "wss://example.com", "https://example.com\r\nX: y",
		"https://*.0.0.1", "https://256.1.1.1", "https://[::1", "javascript://x", "https://a b.com",
		"https://-a.com", "https://localhost.", "http://127.0.0.2.example.com", "//example.com", "example.com",
		"https://" + strings.Repeat("a", 300) + ".com", "https://*.localhost",
	} {
		set(f.acme, bad).problem(t, 422, bad)
	}
	good := []string{"http://127.0.0.1:3000", "http://[::1]:3000", "http://localhost:5173", "https://*.example.com",
		"https://10.1.2.3", "https://app.example.com:8443", "https://xn--exmple-cua.com"}
	f.ok("PUT", "/v1/cors", f.acme, api.CORS{Origins: good}, nil)
	var got api.CORS
	f.ok("GET", "/v1/tenants/acme/cors", f.operator, nil, &got)
	require.Equal(t, good, got.Origins)
	set(f.acme, make([]string, 51)...).problem(t, 422)
	set(f.roleKey("acme", httpapi.RoleDeveloper), good...).problem(t, 403)
	set(f.operator, good...).problem(t, 403)
	f.send("PUT", "/v1/tenants/none/cors", f.operator, api.CORS{Origins: good}).problem(t, 404)
	f.send("GET", "/v1/tenants/none/cors", f.operator, nil).problem(t, 404)
	require.Equal(t, 200, f.send("GET", "/v1/cors", f.roleKey("acme", httpapi.RoleViewer), nil).status)
}
