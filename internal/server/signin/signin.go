package signin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

const (
	loginPath    = "/auth/login"
	callbackPath = "/auth/callback"
	// maxExchanges limits the sign-ins that wait for the provider at once.
	maxExchanges = 16
	// failuresPerMinute is the number of failed sign-ins in a minute that are recorded one by one.
	// Others are only counted.
	failuresPerMinute = 30
)

// A Service serves sign-ins. A nil Service serves the routes without a provider.
type Service struct {
	o      Options
	store  store.Store
	now    func() time.Time
	http   *http.Client
	origin string // of this server, for browsers
	secure bool

	sessionCookie, attemptCookie string

	mu       sync.Mutex
	provider *oidc.Provider

	exchanges chan struct{}
	failures  *rate.Limiter
	counted   sync.Mutex
	missing   int // failed sign-ins since the last one that was recorded
}

// New returns a service, or an error that says which option to change.
func New(o *Options, s store.Store, now func() time.Time) (*Service, error) {
	origin, secure, err := o.check()
	if err != nil {
		return nil, err
	}
	client, err := egress.New(&egress.Options{Private: o.Private})
	if err != nil {
		return nil, err
	}
	x := &Service{
		o: *o, store: s, now: now, origin: origin, secure: secure,
		http: &http.Client{
			Timeout:       providerTimeout,
			Transport:     &transport{next: client.Guard(), now: now},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		exchanges: make(chan struct{}, maxExchanges),
		failures:  rate.NewLimiter(rate.Every(time.Minute/failuresPerMinute), failuresPerMinute),
	}
	x.o.GroupsClaim = cmp.Or(o.GroupsClaim, "groups")
	x.o.SessionTTL = cmp.Or(o.SessionTTL, 12*time.Hour)
	x.o.IdleTimeout = cmp.Or(o.IdleTimeout, time.Hour)
	if x.o.Name == "" {
		u, _ := url.Parse(o.Issuer)
		x.o.Name = u.Hostname()
	}
	x.sessionCookie, x.attemptCookie = "agent-runner-session", "agent-runner-sign-in"
	if secure {
		x.sessionCookie, x.attemptCookie = "__Host-"+x.sessionCookie, "__Host-"+x.attemptCookie
	}
	return x, nil
}

// Issuer returns the provider's issuer, or "" without a provider.
func (s *Service) Issuer() string {
	if s == nil {
		return ""
	}
	return s.o.Issuer
}

// Cookie implements [httpapi.People].
func (s *Service) Cookie() string { return s.sessionCookie }

// Origin implements [httpapi.People].
func (s *Service) Origin() string { return s.origin }

// Session implements [httpapi.People].
func (s *Service) Session(ctx context.Context, token string) (*store.Person, []store.TenantRole, error) {
	return s.store.Session(ctx, token, s.o.IdleTimeout)
}

// Bearer implements [httpapi.People].
func (s *Service) Bearer(ctx context.Context, token string) (*store.Person, []store.TenantRole, error) {
	if !s.o.Bearer {
		return nil, nil, store.ErrNoSession
	}
	p, err := s.bearer(ctx, token)
	if errors.Is(err, errRejected) {
		return nil, nil, store.ErrNoSession
	}
	if err != nil {
		return nil, nil, err
	}
	roles, err := s.store.Roles(ctx, p)
	return p, roles, err
}

type methodsOutput struct{ Body api.SignIn }

// Routes registers the endpoints for signing in and out.
func (s *Service) Routes(rt *httpapi.Router) {
	const tag = "sign-in"
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-sign-in",
		Method:  "GET",
		Path:    "/auth",
		Scope:   httpapi.Public,
		Tag:     tag,
		Summary: "Get the identity provider's name, and the address at which a browser signs in",
	}, func(context.Context, *httpapi.Caller, *struct{}) (*methodsOutput, error) {
		out := &methodsOutput{}
		if s != nil {
			out.Body = api.SignIn{Name: s.o.Name, URL: loginPath}
		}
		return out, nil
	})
	s.browserRoutes(rt)
	httpapi.Register(rt, httpapi.Route{
		ID:      "get-me",
		Method:  "GET",
		Path:    "/v1/me",
		Scope:   httpapi.SignedIn,
		Tag:     tag,
		Summary: "Show who is signed in, with which role and scopes, and the tenants to choose from",
		About:   "A person with roles in several tenants chooses one with the header X-Tenant; @operator is the operator's own. Default: the tenant of the oldest role.",
	}, func(_ context.Context, c *httpapi.Caller, _ *struct{}) (*meOutput, error) { return me(c), nil })
	rt.Raw(httpapi.Route{
		ID:      "sign-out",
		Method:  "POST",
		Path:    "/v1/sign-out",
		Scope:   httpapi.SignedIn,
		Tag:     tag,
		Summary: "End the session, or all sessions of the person with ?everywhere=true",
	}, func(op *huma.Operation, _ huma.Registry) {
		op.Parameters = append(op.Parameters, &huma.Param{Name: "everywhere", In: "query",
			Schema: &huma.Schema{Type: "boolean"}, Description: "End all sessions of the person."})
		op.Responses["204"] = &huma.Response{Description: "The session has ended"}
	}, s.signOut)
}

// browserRoutes registers the addresses that browsers open.
func (s *Service) browserRoutes(rt *httpapi.Router) {
	const tag = "sign-in"
	redirects := func(op *huma.Operation, names ...string) {
		for _, name := range names {
			op.Parameters = append(op.Parameters,
				&huma.Param{Name: name, In: "query", Schema: &huma.Schema{Type: "string"}})
		}
		op.Responses["303"] = &huma.Response{Description: "The next page"}
	}
	rt.Raw(httpapi.Route{
		ID: "sign-in", Method: "GET", Path: loginPath, Scope: httpapi.Public, Tag: tag,
		Summary: "Send a browser to the identity provider",
		About:   "return_to is a page of the console, such as /#/runs.",
	}, func(op *huma.Operation, _ huma.Registry) { redirects(op, "return_to") }, s.login)
	rt.Raw(httpapi.Route{
		ID: "sign-in-callback", Method: "GET", Path: callbackPath, Scope: httpapi.Public, Tag: tag,
		Summary: "Complete a sign-in, and send the browser to the console",
		About:   "After a failure, the console's address has sign_in=REASON.",
	}, func(op *huma.Operation, _ huma.Registry) { redirects(op, "code", "state", "error") }, s.callback)
}

var errNoProvider = httpapi.NewProblem(api.CodeNotFound, "the server has no identity provider; sign in with a key")

// login redirects a browser to the provider.
func (s *Service) login(w http.ResponseWriter, r *http.Request, _ *httpapi.Caller) error {
	if s == nil {
		return errNoProvider
	}
	p, err := s.discover(r.Context())
	if err != nil {
		s.fail(w, r, "provider", err)
		return nil
	}
	a := newAttempt(returnPath(r.URL.Query().Get("return_to")))
	http.SetCookie(w, s.cookie(a))
	w.Header().Set("Cache-Control", "no-store")
	to := s.oauth(p).AuthCodeURL(a.state(), oidc.Nonce(a.nonce()), oauth2.S256ChallengeOption(a.verifier()))
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// callback completes a sign-in: it creates a session, and redirects the browser to the console.
func (s *Service) callback(w http.ResponseWriter, r *http.Request, _ *httpapi.Caller) error {
	if s == nil {
		return errNoProvider
	}
	w.Header().Set("Cache-Control", "no-store")
	a, ok := s.attemptOf(r)
	http.SetCookie(w, s.expired(s.attemptCookie))
	q := r.URL.Query()
	switch {
	case !ok || subtle.ConstantTimeCompare([]byte(q.Get("state")), []byte(a.state())) != 1:
		s.fail(w, r, "expired", errors.New("the browser did not begin this sign-in"))
		return nil
	case q.Get("code") == "" || len(q.Get("code")) > 4096:
		s.fail(w, r, "denied", errors.New("the provider denies the sign-in: "+clean(q.Get("error"), 100)))
		return nil
	}
	select {
	case s.exchanges <- struct{}{}:
		defer func() { <-s.exchanges }()
	default:
		s.fail(w, r, "busy", errors.New("too many sign-ins at once"))
		return nil
	}
	token, why, err := s.signIn(r, q.Get("code"), a)
	if err != nil {
		s.fail(w, r, why, err)
		return nil
	}
	http.SetCookie(w, &http.Cookie{Name: s.sessionCookie, Value: token, Path: "/", HttpOnly: true, Secure: s.secure,
		SameSite: http.SameSiteStrictMode, MaxAge: int(s.o.SessionTTL / time.Second)})
	http.Redirect(w, r, a.to, http.StatusSeeOther)
	return nil
}

// signIn returns the token of a new session. If it fails, why is the reason that the browser shows.
func (s *Service) signIn(r *http.Request, code string, a attempt) (token, why string, err error) {
	p, err := s.discover(r.Context())
	if err != nil {
		return "", "provider", err
	}
	person, err := s.exchange(r.Context(), p, code, a)
	if errors.Is(err, errRejected) {
		return "", "denied", err
	}
	if err != nil {
		return "", "provider", err
	}
	state := sha256.Sum256([]byte(a.state()))
	ctx := store.WithActor(r.Context(), httpapi.Anonymous(r))
	token, _, err = s.store.SignIn(ctx, &store.NewSession{Person: *person, State: state[:], TTL: s.o.SessionTTL})
	switch {
	case errors.Is(err, store.ErrNoMember):
		return "", "no_role", errors.New("the person " + person.Subject + " has no role")
	case errors.Is(err, store.ErrExists):
		return "", "expired", err
	case err != nil:
		return "", "server", err
	}
	return token, "", nil
}

// fail records a failed sign-in, and redirects the browser to the console with the reason.
func (s *Service) fail(w http.ResponseWriter, r *http.Request, why string, err error) {
	_ = httpapi.LogProblem(r, httpapi.NewProblem(api.CodeUnauthorized, "sign-in failed").WithCause(err))
	s.counted.Lock()
	missing, record := s.missing, s.failures.Allow()
	if s.missing++; record {
		s.missing = 0
	}
	s.counted.Unlock()
	if record {
		detail := map[string]any{"reason": why, "error": clean(err.Error(), 300)}
		if missing > 0 {
			detail["not_recorded"] = missing
		}
		ctx := store.WithActor(r.Context(), httpapi.Anonymous(r))
		_ = s.store.Tenant(store.Operator).Audit(ctx, "user.sign-in-failed", "", detail)
	}
	http.Redirect(w, r, "/?sign_in="+url.QueryEscape(why), http.StatusSeeOther)
}

func (s *Service) expired(name string) *http.Cookie {
	return &http.Cookie{
		Name:     name,
		Path:     "/",
		MaxAge:   -1,
		HttpOnly: true,
		Secure:   s.secure,
		SameSite: http.SameSiteLaxMode,
	}
}

// signOut ends the session of the request's cookie.
func (s *Service) signOut(w http.ResponseWriter, r *http.Request, c *httpapi.Caller) error {
	if s == nil || c.Session == "" {
		return httpapi.NewProblem(api.CodeConflict, "the request has no session; a key is revoked with DELETE /v1/keys/{key}")
	}
	everywhere := strings.EqualFold(r.URL.Query().Get("everywhere"), "true")
	if err := s.store.SignOut(r.Context(), c.Session, everywhere); err != nil {
		return err
	}
	http.SetCookie(w, s.expired(s.sessionCookie))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type meOutput struct{ Body api.Me }

func me(c *httpapi.Caller) *meOutput {
	out := &meOutput{}
	out.Body = api.Me{Kind: c.Actor.Kind, ID: c.Actor.ID, Name: c.Actor.Name, Tenant: c.Key.Tenant, Role: c.Key.Role,
		Scopes: c.Key.Scopes, Tenants: []api.MyTenant{}}
	for _, r := range c.Roles {
		out.Body.Tenants = append(out.Body.Tenants, api.MyTenant{Tenant: r.Tenant, Role: r.Role})
	}
	if len(c.Roles) == 0 {
		out.Body.Tenants = append(out.Body.Tenants, api.MyTenant{Tenant: c.Key.Tenant, Role: c.Key.Role})
	}
	return out
}
