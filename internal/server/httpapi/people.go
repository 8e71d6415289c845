package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/store"
)

// People authenticates people who signed in with an identity provider.
type People interface {
	// Session returns the person of a session's token, and the person's roles. It fails with
	// [store.ErrNoSession] if there is no such session.
	Session(ctx context.Context, token string) (*store.Person, []store.TenantRole, error)
	// Bearer is like Session, for a token of the provider.
	Bearer(ctx context.Context, token string) (*store.Person, []store.TenantRole, error)
	// Cookie returns the name of the cookie with the session's token.
	Cookie() string
	// Origin returns the origin of this server in browsers.
	Origin() string
}

// TenantHeader selects one of the tenants of a person. OperatorTenant is its value for the
// operator's tenant.
const (
	TenantHeader   = "X-Tenant"
	OperatorTenant = "@operator"
)

// KindUser is the kind of an actor who is a person.
const KindUser = "user"

// session authenticates a request with the cookie of a session. It returns nil if the request has no
// such cookie.
func (rt *Router) session(r *http.Request) (*Caller, error) {
	if rt.people == nil {
		return nil, nil
	}
	cookie, err := r.Cookie(rt.people.Cookie())
	if err != nil || cookie.Value == "" {
		return nil, nil //nolint:nilerr // the request has no session
	}
	if !sameOrigin(r, rt.people.Origin()) {
		return nil, NewProblem(api.CodeForbidden, "a request with a session must come from this server's own pages")
	}
	p, roles, err := rt.people.Session(r.Context(), cookie.Value)
	if err != nil {
		return nil, noSession(err)
	}
	c, err := rt.person(r, p, roles)
	if c != nil {
		c.Session = cookie.Value
	}
	return c, err
}

func noSession(err error) error {
	if errors.Is(err, store.ErrNoSession) {
		return unauthorized("the session or token is not valid, or has expired; sign in again")
	}
	return err
}

// sameOrigin reports whether a page of this server's origin sent a request. For reading requests, it
// also accepts addresses that a person opened. Browsers set Sec-Fetch-Site, and older ones Origin.
// Other sites cannot change either.
func sameOrigin(r *http.Request, origin string) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return true
	case "none":
		return reads
	case "":
		o := r.Header.Get("Origin")
		return o == origin || o == "" && reads
	}
	return false
}

// person returns a caller: a person in one of the person's tenants. The request chooses the tenant;
// by default, it is the one in which the person has had a role for the longest time.
func (rt *Router) person(r *http.Request, p *store.Person, roles []store.TenantRole) (*Caller, error) {
	roles = strongest(roles)
	if len(roles) == 0 {
		return nil, NewProblem(api.CodeForbidden, "you have no role here; ask an owner of your tenant to add you as a member")
	}
	role := roles[0]
	if name := r.Header.Get(TenantHeader); name != "" {
		if name == OperatorTenant {
			name = store.Operator
		}
		at := slices.IndexFunc(roles, func(r store.TenantRole) bool { return r.Tenant == name })
		if at < 0 {
			return nil, NewProblem(api.CodeForbidden, "you have no role in the tenant of the header %s; GET /v1/me lists yours",
				TenantHeader)
		}
		role = roles[at]
	}
	info, err := rt.store.TenantInfo(r.Context(), role.Tenant)
	if err != nil {
		return nil, err
	}
	c := &Caller{
		Key: &store.Key{
			Tenant: role.Tenant,
			Name:   cmp.Or(p.Name, p.Email),
			Role:   role.Role,
			Scopes: Role(role.Role).Scopes(role.Tenant),
		},
		Actor:  Actor{KindUser, p.Subject, cmp.Or(p.Email, p.Name)},
		Tenant: rt.store.Tenant(role.Tenant),
		Info:   info,
		Roles:  roles,
	}
	rt.found(r, c)
	return c, nil
}

// strongest returns the role with the most scopes of each tenant, in the order of the tenants'
// first roles. It omits roles that do not exist.
func strongest(roles []store.TenantRole) (out []store.TenantRole) {
	for _, r := range roles {
		rank := slices.Index(RolesOf(r.Tenant), Role(r.Role))
		if rank < 0 {
			continue
		}
		at := slices.IndexFunc(out, func(o store.TenantRole) bool { return o.Tenant == r.Tenant })
		switch {
		case at < 0:
			out = append(out, r)
		case rank < slices.Index(RolesOf(r.Tenant), Role(out[at].Role)):
			out[at].Role = r.Role
		}
	}
	return out
}

// isJWT reports whether a credential has the form of a signed JWT.
func isJWT(text string) bool { return !strings.HasPrefix(text, "ar_") && strings.Count(text, ".") == 2 }

// Anonymous returns the actor of a request without credentials, for records.
func Anonymous(r *http.Request) *store.Actor {
	return &store.Actor{ID: store.ActorAnonymous, Address: clientAddress(r), Request: RequestID(r.Context())}
}
