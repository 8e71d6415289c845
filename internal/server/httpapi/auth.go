package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/store"
)

// guard returns a middleware that authenticates the caller, checks the route's scope and admits the
// request, and answers rejected requests with a problem. The context of a request with an end user's token is
// canceled if the token ends. Requests for public routes need none of this.
func (rt *Router) guard(r Route) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if r.Scope == Public {
			next(ctx)
			return
		}
		req, w := humago.Unwrap(ctx)
		c, err := rt.authenticate(w, req)
		if err == nil {
			err = c.authorize(&r)
		}
		var leave func()
		if err == nil {
			leave, err = rt.admit(c, &r, req)
		}
		if err != nil {
			rt.reject(w, req, err)
			return
		}
		defer leave()
		c.Response = rt.admission.Responses.Open(c.Key.Tenant)
		defer c.Response.Close()
		within := ctx.Context()
		if c.Token != nil {
			var done func()
			within, done = rt.tokens.enter(within, c.Token.ID)
			defer done()
		}
		next(huma.WithContext(ctx, store.WithActor(context.WithValue(within, callerKey{}, c), c.storeActor(req))))
	}
}

// authenticate returns the caller that a request's key, token or session identifies. It fails with a
// [*Problem] if the credential is missing or invalid.
func (rt *Router) authenticate(w http.ResponseWriter, r *http.Request) (*Caller, error) {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		shown = ""
	}
	if shown == "" {
		shown = r.Header.Get("X-Api-Key") // of Anthropic's clients
	}
	if shown == "" {
		if c, err := rt.session(r); c != nil || err != nil {
			return c, err
		}
		return nil, unauthorized("send a key of this server, as Authorization: Bearer ar_… or X-Api-Key: ar_…")
	}
	shown = strings.TrimSpace(shown)
	if rt.people != nil && isJWT(shown) {
		p, roles, err := rt.people.Bearer(r.Context(), shown)
		if err != nil {
			return nil, noSession(err)
		}
		return rt.person(r, p, roles)
	}
	var wrong *store.KeyError
	if store.IsToken(shown) {
		c, err := rt.endUser(w, r, shown)
		if errors.As(err, &wrong) {
			_ = rt.allowOrigin(w, r, rt.store) // so that the page can read that it needs a new token
			return nil, unauthorized(wrong.Error())
		}
		return c, err
	}
	k, info, err := rt.store.Authenticate(r.Context(), shown)
	if errors.As(err, &wrong) {
		return nil, unauthorized(wrong.Error())
	}
	if err != nil {
		return nil, err
	}
	if k.Role != "" {
		k.Scopes = Role(k.Role).Scopes(k.Tenant)
	}
	c := &Caller{Key: k, Tenant: rt.store.Tenant(k.Tenant), Info: info, Actor: Actor{KindKey, k.ID, k.Name}}
	rt.found(r, c)
	return c, nil
}

// found sets the caller of a request for its log record.
func (*Router) found(r *http.Request, c *Caller) {
	if a := recorderOf(r.Context()); a != nil {
		a.caller = c
	}
}

func unauthorized(why string) *Problem {
	return NewProblem(api.CodeUnauthorized, "%s",
		why).WithHeader(http.Header{"Www-Authenticate": {`Bearer realm="agent-runner"`}})
}
