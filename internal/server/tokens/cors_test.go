package tokens_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
)

// preflight sends a preflight request: it asks whether a page of an origin may send a request.
func preflight(f *servertest.Fixture, origin, method, path string, more ...string) *servertest.Reply {
	f.T.Helper()
	return f.Send("OPTIONS", path, "", nil, append([]string{"Origin", origin, "Access-Control-Request-Method", method,
		"Access-Control-Request-Headers", "authorization,content-type", "Sec-Fetch-Site", "cross-site"}, more...)...)
}

func TestCORS(t *testing.T) {
	t.Parallel()
	f := tokenFixture(t)
	ann, beta := token(f, api.CreateToken{Subject: "ann"}).Secret, betaToken(f, "ann")
	f.OK(
		"PUT",
		"/v1/cors",
		f.Acme,
		api.CORS{Origins: []string{"https://app.example.com", "https://*.preview.example.com:8443"}},
		nil,
	)
	f.OK("PUT", "/v1/tenants/beta/cors", f.Operator, api.CORS{Origins: []string{"https://beta.example"}}, nil)
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
		r := preflight(f, origin, "POST", "/v1/runs")
		allowed := func(r *servertest.Reply) string { return r.Header.Get("Access-Control-Allow-Origin") }
		if want.preflight {
			require.Equal(t, 204, r.Status, origin)
			require.Equal(t, origin, allowed(r))
			require.Contains(t, r.Header.Get("Access-Control-Allow-Headers"), "Authorization")
			require.Contains(t, r.Header.Get("Access-Control-Allow-Headers"), "Last-Event-ID")
			require.Equal(t, "600", r.Header.Get("Access-Control-Max-Age"))
		} else {
			r.Problem(t, 403, origin)
			require.Empty(t, allowed(r), origin)
		}
		require.Contains(t, strings.Join(r.Header.Values("Vary"), ", "), "Origin")

		// The request itself needs an origin that the token's tenant allows.
		in := api.StartRun{Agent: "counter", Input: "x"}
		r = f.Send("POST", "/v1/runs", ann, in, "Origin", origin, "Sec-Fetch-Site", "cross-site")
		if want.acme {
			require.Equal(t, 202, r.Status, origin)
			require.Equal(t, origin, allowed(r))
			require.Equal(t, "Location, Retry-After, X-Request-Id", r.Header.Get("Access-Control-Expose-Headers"))
		} else {
			r.Problem(t, 403, origin)
			require.Empty(t, allowed(r), origin)
		}
		require.Contains(t, r.Header.Values("Vary"), "Origin")
		require.Equal(
			t,
			origin == "https://beta.example",
			allowed(f.Send("POST", "/v1/runs", beta, in, "Origin", origin)) != "",
			origin,
		)

		// A page of another origin gets no access with a key or a session.
		for _, key := range []string{f.Acme, ""} {
			r = f.Send("GET", "/v1/runs", key, nil, "Origin", origin, "Sec-Fetch-Site", "cross-site")
			require.Empty(t, allowed(r), origin)
		}
		for _, header := range []string{"Access-Control-Allow-Credentials", "Set-Cookie"} {
			require.Empty(t, r.Header.Values(header))
		}
	}
	require.Empty(
		t,
		f.Send(
			"GET",
			"/openapi.json",
			"",
			nil,
			"Origin",
			"https://app.example.com",
		).Header.Get(
			"Access-Control-Allow-Origin",
		),
	)

	// A page can read the reason why its token is rejected, and the error for a reached quota.
	r := f.Send("POST", "/v1/runs", ann[:len(ann)-1], nil, "Origin", "https://app.example.com")
	r.Problem(t, 401)
	require.Equal(t, "https://app.example.com", r.Header.Get("Access-Control-Allow-Origin"))
	r = f.Send("GET", "/v1/runs", ann, nil, "Origin", "https://app.example.com")
	r.Problem(t, 403)
	require.Equal(t, "https://app.example.com", r.Header.Get("Access-Control-Allow-Origin"))

	// Clients other than browsers, and pages of the server itself, need no allowed origin.
	require.Equal(t, 403, f.Send("GET", "/v1/runs/run_x", ann, nil, "Origin", "https://other.example").Status)
	require.Equal(t, 404, f.Send("GET", "/v1/runs/run_x", ann, nil).Status)
	require.Equal(t, 404, f.Send("GET", "/v1/runs/run_x", ann, nil, "Origin", f.URL).Status)
	require.Equal(
		t,
		404,
		f.Send("GET", "/v1/runs/run_x", ann, nil, "Origin", "https://x.example", "Sec-Fetch-Site", "same-origin").Status,
	)
	require.Equal(
		t,
		403,
		f.Send("GET", "/v1/runs/run_x", ann, nil, "Origin", f.URL, "Sec-Fetch-Site", "cross-site").Status,
	)

	// An OPTIONS request that is no preflight request is rejected.
	f.Send("OPTIONS", "/v1/runs", "", nil).Problem(t, 405)
	f.Send("OPTIONS", "/v1/runs", "", nil, "Origin", "https://app.example.com").Problem(t, 405)

	// An origin that an owner removes loses access at once.
	f.OK("PUT", "/v1/cors", f.Acme, api.CORS{Origins: []string{}}, nil)
	f.Send("POST", "/v1/runs", ann, nil, "Origin", "https://app.example.com").Problem(t, 403)
	preflight(f, "https://app.example.com", "POST", "/v1/runs").Problem(t, 403)
	var audit struct{ Records []api.AuditRecord }
	f.OK("GET", "/v1/audit?action=cors.set", f.Acme, nil, &audit)
	require.Len(t, audit.Records, 2)
	require.Contains(
		t,
		string(audit.Records[0].Detail),
		`"before":["https://*.preview.example.com:8443","https://app.example.com"]`,
	)
}

func TestSetCORS(t *testing.T) {
	t.Parallel()
	f := servertest.New(t)
	set := func(key string, origins ...string) *servertest.Reply {
		return f.Send("PUT", "/v1/cors", key, api.CORS{Origins: origins})
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
		set(f.Acme, bad).Problem(t, 422, bad)
	}
	good := []string{"http://127.0.0.1:3000", "http://[::1]:3000", "http://localhost:5173", "https://*.example.com",
		"https://10.1.2.3", "https://app.example.com:8443", "https://xn--exmple-cua.com"}
	f.OK("PUT", "/v1/cors", f.Acme, api.CORS{Origins: good}, nil)
	var got api.CORS
	f.OK("GET", "/v1/tenants/acme/cors", f.Operator, nil, &got)
	require.Equal(t, good, got.Origins)
	set(f.Acme, make([]string, 51)...).Problem(t, 422)
	set(f.RoleKey("acme", httpapi.RoleDeveloper), good...).Problem(t, 403)
	set(f.Operator, good...).Problem(t, 403)
	f.Send("PUT", "/v1/tenants/none/cors", f.Operator, api.CORS{Origins: good}).Problem(t, 404)
	f.Send("GET", "/v1/tenants/none/cors", f.Operator, nil).Problem(t, 404)
	require.Equal(t, 200, f.Send("GET", "/v1/cors", f.RoleKey("acme", httpapi.RoleViewer), nil).Status)
}
