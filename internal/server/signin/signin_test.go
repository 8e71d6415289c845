package signin_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/servertest"
	"github.com/agent-runner/agent-runner/internal/server/signin"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A browser holds the cookies of a person, and follows no redirects.
type browser struct {
	f       *servertest.Fixture
	cookies map[string]string
}

func newBrowser(f *servertest.Fixture) *browser { return &browser{f, map[string]string{}} }

// send sends a request with the browser's cookies, by default from a page of the server.
func (b *browser) send(method, address string, body any, header ...string) *servertest.Reply {
	b.f.T.Helper()
	u, err := url.Parse(address)
	require.NoError(b.f.T, err)
	var cookies []string
	for name, value := range b.cookies {
		cookies = append(cookies, name+"="+value)
	}
	all := append([]string{"Sec-Fetch-Site", "same-origin", "Cookie", strings.Join(cookies, "; ")}, header...)
	r := b.f.Send(method, u.RequestURI(), "", body, all...)
	for _, c := range (&http.Response{Header: r.Header}).Cookies() {
		require.True(b.f.T, c.HttpOnly)
		require.NotEqual(b.f.T, http.SameSiteNoneMode, c.SameSite)
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c.Value
		}
	}
	return r
}

// signIn signs in with the provider, and returns the page to which the browser returns.
func (b *browser) signIn(p *servertest.Provider, to string) string {
	b.f.T.Helper()
	login := b.send("GET", "/auth/login?return_to="+url.QueryEscape(to), nil)
	require.Equal(b.f.T, 303, login.Status, string(login.Body))
	return b.send("GET", p.Authorize(login.Header.Get("Location")), nil).Header.Get("Location")
}

func (b *browser) session() string { return b.cookies["agent-runner-session"] }

func TestSignIn(t *testing.T) {
	t.Parallel()
	p := servertest.NewProvider(t)
	f := servertest.New(t, servertest.WithProvider(p))
	servertest.AddMember(t, f, "acme", "ann@acme.example", "developer")
	var methods api.SignIn
	f.OK("GET", "/auth", "", nil, &methods)
	require.Equal(t, api.SignIn{Name: "Example", URL: "/auth/login"}, methods)

	ann := newBrowser(f)
	ann.cookies["agent-runner-session"] = "ars_" + strings.Repeat("a", 52) // a session that someone else chose
	require.Equal(t, "/#/runs/run_x", ann.signIn(p, "/#/runs/run_x"))
	require.NotEqual(t, "ars_"+strings.Repeat("a", 52), ann.session())
	var me api.Me
	f.Decode(ann.send("GET", "/v1/me", nil), &me)
	require.Equal(t, []string{"user", "ann-1", "acme", "developer"}, []string{me.Kind, me.ID, me.Tenant, me.Role})
	require.Equal(t, 200, ann.send("GET", "/v1/runs", nil).Status)
	ann.send("GET", "/v1/keys", nil).Problem(t, 403)

	// Another person may get the e-mail address: the first sign-in bound the member to the subject.
	p.SetClaims(map[string]any{"sub": "mallory"})
	require.Equal(t, "/?sign_in=no_role", newBrowser(f).signIn(p, "/"))
	p.SetClaims(nil)

	// A removed member loses access at once.
	other := newBrowser(f)
	require.Equal(t, "/", other.signIn(p, "/"))
	members, _, err := f.Store.Tenant("acme").Members(t.Context(), store.Page{})
	require.NoError(t, err)
	require.Equal(t, "ann-1", members[0].Subject)
	_, err = f.Store.Tenant("acme").SetMemberRole(t.Context(), members[0].ID, "viewer", "owner")
	require.NoError(t, err)
	ann.send("PUT", "/v1/secrets/x", map[string]string{"value": "x"}).Problem(t, 403)
	require.NoError(t, f.Store.Tenant("acme").RemoveMember(t.Context(), members[0].ID, "owner"))
	ann.send("GET", "/v1/runs", nil).Problem(t, 403)

	// Signing out ends the session on all servers.
	token := ann.session()
	servertest.AddMember(t, f, "acme", "ann@acme.example", "viewer")
	require.Equal(t, "/", newBrowser(f).signIn(p, "/"))
	require.Equal(t, 204, ann.send("POST", "/v1/sign-out?everywhere=true", nil).Status)
	require.Empty(t, ann.session())
	ann.cookies["agent-runner-session"] = token
	ann.send("GET", "/v1/me", nil).Problem(t, 401)
	other.send("GET", "/v1/me", nil).Problem(t, 401)
	f.Send("POST", "/v1/sign-out", f.Acme, nil).Problem(t, 409)

	var list struct{ Records []api.AuditRecord }
	f.OK("GET", "/v1/audit?actor=user:ann-1", f.Acme, nil, &list)
	require.Len(t, list.Records, 3)
	require.Equal(t, []string{"user.sign-in", "ann@acme.example", "127.0.0.1"},
		[]string{list.Records[0].Action, list.Records[0].ActorName, list.Records[0].Address})
	f.OK("GET", "/v1/audit?action=user.sign-in-failed", f.Operator, nil, &list)
	require.Len(t, list.Records, 1)
	require.Contains(t, string(list.Records[0].Detail), "mallory")
}

func TestSessionOfAnotherSite(t *testing.T) {
	t.Parallel()
	p := servertest.NewProvider(t)
	f := servertest.New(t, servertest.WithProvider(p))
	servertest.AddMember(t, f, "acme", "ann@acme.example", "owner")
	ann := newBrowser(f)
	ann.signIn(p, "/")
	body := api.CreateKey{Name: "x"}
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "none"},
		{"Sec-Fetch-Site", ""}, {"Sec-Fetch-Site", "", "Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "", "Origin", "null"}, {"Sec-Fetch-Site", "", "Origin", "http://localhost.evil.example"},
		{"Sec-Fetch-Site", "x", "Origin", "http://localhost"},
	} {
		require.Contains(t, ann.send("POST", "/v1/keys", body, header...).Problem(t, 403, header).Detail, "own pages")
	}
	ann.send("GET", "/v1/runs", nil, "Sec-Fetch-Site", "cross-site").Problem(t, 403)
	require.Equal(t, 200, ann.send("GET", "/v1/runs", nil, "Sec-Fetch-Site", "none").Status)
	require.Equal(t, 201, ann.send("POST", "/v1/keys", body, "Sec-Fetch-Site", "", "Origin", "http://localhost").Status)
	require.Equal(t, 201, ann.send("POST", "/v1/keys", body).Status)
}

func TestSignInReplays(t *testing.T) {
	t.Parallel()
	p := servertest.NewProvider(t)
	f := servertest.New(t, servertest.WithProvider(p))
	servertest.AddMember(t, f, "acme", "ann@acme.example", "owner")
	b := newBrowser(f)
	login := b.send("GET", "/auth/login", nil)
	cookies := map[string]string{"agent-runner-sign-in": b.cookies["agent-runner-sign-in"]}
	callback := p.Authorize(login.Header.Get("Location"))
	require.Equal(t, "/?sign_in=expired", newBrowser(f).send("GET", callback, nil).Header.Get("Location"),
		"a browser that did not begin the sign-in")
	require.Equal(t, "/?sign_in=expired", b.send("GET", "/auth/callback?code=x&state=y", nil).Header.Get("Location"))
	b.cookies = map[string]string{"agent-runner-sign-in": cookies["agent-runner-sign-in"]}
	require.Equal(t, "/", b.send("GET", callback, nil).Header.Get("Location"))
	require.NotEmpty(t, b.session())
	again := newBrowser(f)
	again.cookies = cookies
	require.Equal(t, "/?sign_in=expired", again.send("GET", callback, nil).Header.Get("Location"), "the state was used")
	require.Empty(t, again.session())

	// A code of another sign-in has another challenge and another nonce.
	eve := newBrowser(f)
	mine, _ := url.Parse(p.Authorize(eve.send("GET", "/auth/login", nil).Header.Get("Location")))
	theirs, _ := url.Parse(callback)
	q := mine.Query()
	q.Set("code", theirs.Query().Get("code"))
	require.Equal(t, "/?sign_in=denied", eve.send("GET", "/auth/callback?"+q.Encode(), nil).Header.Get("Location"))
}

func TestSignInReturnsOnlyToTheConsole(t *testing.T) {
	t.Parallel()
	p := servertest.NewProvider(t)
	f := servertest.New(t, servertest.WithProvider(p))
	servertest.AddMember(t, f, "acme", "ann@acme.example", "owner")
	for _, to := range []string{
		"https://evil.example", "//evil.example", "/\\evil.example", "/#/\\evil", "/%2f/evil.example", "/v1/runs",
		"javascript:alert(1)",
		"/#/\r\nSet-Cookie: x=y", "/#/é", "/#/" + strings.Repeat("a", 600), "", "/.evil.example", "/#/ x",
	} {
		require.Equal(t, "/", newBrowser(f).signIn(p, to), to)
	}
	require.Equal(t, "/#/agents?x=1", newBrowser(f).signIn(p, "/#/agents?x=1"))
	b := newBrowser(f)
	login := b.send("GET", "/auth/login", nil)
	secret, _, _ := strings.Cut(b.cookies["agent-runner-sign-in"], ".")
	b.cookies["agent-runner-sign-in"] = secret + "." + base64.RawURLEncoding.EncodeToString([]byte("//evil.example"))
	require.Equal(t, "/", b.send("GET", p.Authorize(login.Header.Get("Location")), nil).Header.Get("Location"))
}

func TestSignInRejectsTokens(t *testing.T) {
	t.Parallel()
	p := servertest.NewProvider(t)
	f := servertest.New(t, servertest.WithProvider(p, func(o *signin.Options) { o.Domains = []string{"acme.example"} }))
	servertest.AddMember(t, f, "acme", "ann@acme.example", "owner")
	for name, claims := range map[string]map[string]any{
		"audience":     {"aud": "other"},
		"no audience":  {"aud": nil},
		"issuer":       {"iss": "https://evil.example"},
		"expired":      {"exp": time.Now().Add(-time.Hour).Unix()},
		"no expiry":    {"exp": nil},
		"nonce":        {"nonce": "other"},
		"no nonce":     {"nonce": nil},
		"subject":      {"sub": ""},
		"long subject": {"sub": strings.Repeat("a", 300)},
		"zero subject": {"sub": "a\x00b"},
		"unverified":   {"email_verified": false},
		"no verified":  {"email_verified": nil},
		"no address":   {"email": nil},
		"domain":       {"email": "ann@acme.example.evil"},
		"two domains":  {"email": "ann@acme.example@evil.example"},
		"other party":  {"aud": []string{"client", "other"}, "azp": "other"},
	} {
		p.SetClaims(claims)
		require.Equal(t, "/?sign_in=denied", newBrowser(f).signIn(p, "/"), name)
	}
	p.SetClaims(nil)
	encode := base64.RawURLEncoding.EncodeToString
	for name, sign := range map[string]func([]byte) string{
		"alg none": func(b []byte) string { return encode([]byte(`{"alg":"none"}`)) + "." + encode(b) + "." },
		"HS256": func(b []byte) string {
			return encode([]byte(`{"alg":"HS256","kid":"k"}`)) + "." + encode(b) + "." + encode(b[:32])
		},
		"unsigned": func(b []byte) string {
			return encode([]byte(`{"alg":"RS256","kid":"k"}`)) + "." + encode(b) + "." + encode(make([]byte, 256))
		},
		"no JWT": func([]byte) string { return "x" },
		"huge":   func([]byte) string { return strings.Repeat("x", 2<<20) },
	} {
		p.SetSignature(sign)
		require.Contains(t, []string{"/?sign_in=denied", "/?sign_in=provider"}, newBrowser(f).signIn(p, "/"), name)
	}
	p.SetSignature(nil)
	require.Equal(t, "/", newBrowser(f).signIn(p, "/"))
	require.LessOrEqual(t, p.KeyRequests(), 1, "unknown keys cause no requests")
}

func TestSignInWithGroups(t *testing.T) {
	t.Parallel()
	p := servertest.NewProvider(t)
	f := servertest.New(t, servertest.WithProvider(p))
	ctx := t.Context()
	_, err := f.Store.MapGroup(ctx, "eng", "acme", "developer")
	require.NoError(t, err)
	_, err = f.Store.MapGroup(ctx, "leads", "acme", "owner")
	require.NoError(t, err)
	time.Sleep(2 * time.Millisecond) // the role in acme is older, in milliseconds
	_, err = f.Store.MapGroup(ctx, "help", store.Operator, "support")
	require.NoError(t, err)
	groups := []string{"help", "eng", "leads", ""}
	for i := range 10_000 {
		groups = append(groups, fmt.Sprint("group-", i))
	}
	p.SetClaims(map[string]any{"groups": groups})
	b := newBrowser(f)
	require.Equal(t, "/", b.signIn(p, "/"))
	var me api.Me
	f.Decode(b.send("GET", "/v1/me", nil), &me)
	require.Equal(t, "owner", me.Role, "the role with the most scopes")
	require.Equal(t, []api.MyTenant{{Tenant: "acme", Role: "owner"}, {Role: "support"}}, me.Tenants)
	f.Decode(b.send("GET", "/v1/me", nil, "X-Tenant", "@operator"), &me)
	require.Equal(t, "support", me.Role)
	require.Equal(t, 200, b.send("GET", "/v1/tenants", nil, "X-Tenant", "@operator").Status)
	b.send("GET", "/v1/tenants", nil).Problem(t, 403)
	b.send("GET", "/v1/me", nil, "X-Tenant", "beta").Problem(t, 403)

	for _, bad := range []any{map[string]any{"eng": true}, 7, []any{1, 2}, nil} {
		p.SetClaims(map[string]any{"groups": bad})
		require.Equal(t, "/?sign_in=no_role", newBrowser(f).signIn(p, "/"), bad)
	}
	p.SetClaims(map[string]any{"groups": "eng"})
	require.Equal(t, "/", newBrowser(f).signIn(p, "/"))
	list, _, err := f.Store.GroupRoles(ctx, store.Page{})
	require.NoError(t, err)
	for _, g := range list {
		require.NoError(t, f.Store.UnmapGroup(ctx, g.ID))
	}
	b.send("GET", "/v1/me", nil).Problem(t, 403)
}

func TestProviderTokensAsBearer(t *testing.T) {
	t.Parallel()
	p := servertest.NewProvider(t)
	f := servertest.New(
		t,
		servertest.WithProvider(p, func(o *signin.Options) { o.Bearer, o.Audiences = true, []string{"api"} }),
	)
	servertest.AddMember(t, f, "acme", "ann@acme.example", "viewer")
	var me api.Me
	f.OK("GET", "/v1/me", p.JWT(nil), nil, &me)
	require.Equal(t, "viewer", me.Role)
	f.OK("GET", "/v1/me", p.JWT(map[string]any{"aud": "api"}), nil, nil)
	f.Send("GET", "/v1/me", p.JWT(map[string]any{"aud": "other"}), nil).Problem(t, 401)
	f.Send("GET", "/v1/me", p.JWT(map[string]any{"exp": 1}), nil).Problem(t, 401)
	f.Send("GET", "/v1/me", p.JWT(map[string]any{"sub": "eve", "email": "eve@acme.example"}), nil).Problem(t, 403)
	for i := range 20 {
		f.Send("GET", "/v1/me", base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"alg":"RS256","kid":"%d"}`, i))+".e30.AA", nil).
			Problem(t, 401)
	}
	require.LessOrEqual(t, p.KeyRequests(), 1)

	closed := servertest.New(t, servertest.WithProvider(p))
	closed.Send("GET", "/v1/me", p.JWT(nil), nil).Problem(t, 401)
}

func TestSignInOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []signin.Options{
		{}, {Issuer: "https://id.example", ClientID: "x"},
		{Issuer: "http://id.example", ClientID: "x", RedirectURL: "https://a.example/auth/callback"},
		{Issuer: "https://id.example", ClientID: "x", RedirectURL: "http://a.example/auth/callback"},
		{Issuer: "https://id.example", ClientID: "x", RedirectURL: "https://a.example/"},
	} {
		_, err := signin.New(&o, nil, time.Now)
		require.Error(t, err)
	}
	s, err := signin.New(&signin.Options{Issuer: "https://id.example", ClientID: "x",
		RedirectURL: "https://a.example/auth/callback"}, nil, time.Now)
	require.NoError(t, err)
	require.Equal(t, []string{"https://a.example", "__Host-agent-runner-session"}, []string{s.Origin(), s.Cookie()})
}
