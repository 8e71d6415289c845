package httpapi

import (
	"context"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Caller is the authenticated sender of a request.
type Caller struct {
	Key    *store.Key
	Tenant *store.Tenant     // gives access to the data of the caller's tenant only
	Info   *store.TenantInfo // the tenant's quota and policy when the request arrived

	BodyBytes   int    // size of the request's body, once it is read
	ReleaseBody func() // reports that the request's body is no longer in memory

	Response *admission.Response // counts the response's bytes in memory; nil until the request is admitted
}

// Has reports whether the caller's key has a scope. Only keys of the operator's tenant can have
// [OperatorScope].
func (c *Caller) Has(s Scope) bool {
	return slices.Contains(c.Key.Scopes, string(s)) && (s != OperatorScope || c.Key.Tenant == store.Operator)
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

// authorize returns an error if the caller's key lacks the scope of a route.
func (c *Caller) authorize(r *Route) error {
	if c.Has(r.Scope) {
		return nil
	}
	return NewProblem(api.CodeForbidden, "key %s has the scopes %s; this needs %s",
		c.Key.ID, strings.Join(c.Key.Scopes, ", "), r.Scope)
}
