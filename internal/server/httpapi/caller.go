package httpapi

import (
	"context"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Caller is the authenticated sender of a request.
type Caller struct {
	// Key has the tenant, the scopes and the role of the caller. If the caller has another credential
	// than an API key, Key has no id.
	Key    *store.Key
	Actor  Actor
	Tenant *store.Tenant     // gives access to the data of the caller's tenant only
	Info   *store.TenantInfo // the tenant's quota and policy when the request arrived

	// Session is the token of the person's session, and Roles are the person's roles, one of each
	// tenant. Both are empty for API keys.
	Session string
	Roles   []store.TenantRole

	// Token is the end user's token with which the caller was authenticated, or nil. It limits the
	// caller to the runs and threads of the token's subject; see [Caller.Run] and [Caller.Thread].
	Token *store.Token

	BodyBytes   int    // size of the request's body, once it is read
	ReleaseBody func() // reports that the request's body is no longer in memory

	Response *admission.Response // counts the response's bytes in memory; nil until the request is admitted
}

// Has reports whether the caller has a scope. Only callers of the operator's tenant can have
// [OperatorScope] and [OperatorRead].
func (c *Caller) Has(s Scope) bool {
	return s.In(c.Key.Scopes) && (!s.operates() || c.Key.Tenant == store.Operator)
}

// Lacks returns a scope of a list that the caller does not have, or an empty string if there is
// none.
func (c *Caller) Lacks(scopes []string) string {
	for _, s := range scopes {
		if !c.Has(Scope(s)) {
			return s
		}
	}
	return ""
}

// Parse calls fn, which parses the caller's body, once the admission controller admits it. bytes is
// the body's size.
func (c *Caller) Parse(ctx context.Context, a *admission.Controller, bytes int, fn func() error) error {
	c.BodyBytes = bytes
	return a.Parse(ctx, c.Key.Tenant, bytes, fn)
}

// Read calls fn, which reads and encodes a large response for the caller, once the admission
// controller admits it. It fails with an [*admission.QuotaError], and does not call fn, if the
// responses in memory have reached a limit. The size of the data that fn reads is not
// checked, but the calls of a tenant run one at a time.
func (c *Caller) Read(ctx context.Context, a *admission.Controller, fn func() error) error {
	if err := c.Response.Check(); err != nil {
		return err
	}
	return a.Read(ctx, c.Key.Tenant, false, func() error {
		if err := c.Response.Check(); err != nil { // other requests may have read data meanwhile
			return err
		}
		return fn()
	})
}

type callerKey struct{}

// callerOf returns the caller of a request that passed guard, or nil on a public route.
func callerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// authorize returns an error if the caller's key lacks the scope of a route, or if the caller's token
// does not give access to the route.
func (c *Caller) authorize(r *Route) error {
	if c.Token != nil && !r.allowsToken(c.Token) {
		return NewProblem(api.CodeForbidden, "a token of an end user does not give access to %s %s", r.Method, r.Path)
	}
	if r.Scope == SignedIn || c.Has(r.Scope) || r.Or != "" && c.Has(r.Or) {
		return nil
	}
	return c.forbid(r.Scope)
}

// Require returns an error if the caller lacks a scope.
func (c *Caller) Require(s Scope) error {
	if c.Has(s) {
		return nil
	}
	return c.forbid(s)
}

func (c *Caller) forbid(s Scope) error {
	return NewProblem(api.CodeForbidden, "%s has the scopes %s; this needs %s",
		c.Actor.label(), strings.Join(c.Key.Scopes, ", "), s)
}
