package server

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/agent-runner/agent-runner/internal/store"
)

// A Scope is what a key may do.
type Scope string

// Scopes of keys. A key of the operator's tenant may have all of them; one of
// another tenant has all but OperatorScope.
const (
	OperatorScope Scope = "operator" // tenants, their keys, and blocks
	KeysRead      Scope = "keys:read"
	KeysWrite     Scope = "keys:write"
	ModulesRead   Scope = "modules:read"
	ModulesWrite  Scope = "modules:write"
	AgentsRead    Scope = "agents:read"
	AgentsWrite   Scope = "agents:write"
	RunsRead      Scope = "runs:read"
	RunsWrite     Scope = "runs:write"
	UsageRead     Scope = "usage:read"
	SecretsWrite  Scope = "secrets:write"

	// Public is no scope: the route is for everybody, without a key.
	Public Scope = "public"
)

// TenantScopes are all scopes that a tenant's key may have.
var TenantScopes = []Scope{KeysRead, KeysWrite, ModulesRead, ModulesWrite, AgentsRead, AgentsWrite, RunsRead, RunsWrite, UsageRead, SecretsWrite}

// OperatorScopes are those of the operator's own key.
func OperatorScopes() []string {
	return append([]string{string(OperatorScope)}, texts(TenantScopes)...)
}

func (s Scope) known() bool { return s == OperatorScope || slices.Contains(TenantScopes, s) }

// texts are scopes as the store has them.
func texts(scopes []Scope) []string {
	out := make([]string, len(scopes))
	for i, s := range scopes {
		out[i] = string(s)
	}
	return out
}

// A Caller is who a request came from.
type Caller struct {
	Key    *store.Key
	Tenant *store.Tenant     // what the caller may see
	Info   *store.TenantInfo // with its quota and policy, as of this request

	body     int    // bytes of the request's, once it is read
	bodyRead func() // the request's body, and what was read from it, is held no more here, see [admission.InFlight]
}

// Has reports whether the caller's key has a scope.
func (c *Caller) Has(s Scope) bool {
	return slices.Contains(c.Key.Scopes, string(s)) && (s != OperatorScope || c.Key.Tenant == store.Operator)
}

type callerKey struct{}

// callerOf is the caller of a request that went through guard; nil on routes
// for everybody.
func callerOf(ctx context.Context) *Caller {
	c, _ := ctx.Value(callerKey{}).(*Caller)
	return c
}

// guard lets a request pass that may.
func (s *Server) guard(r Route) func(huma.Context, func(huma.Context)) {
	return func(ctx huma.Context, next func(huma.Context)) {
		if r.Scope == Public {
			next(ctx)
			return
		}
		req, w := humago.Unwrap(ctx)
		c, err := s.authenticate(req)
		if err == nil {
			err = s.allow(c, r)
		}
		if err == nil {
			err = s.accept(&r)
		}
		if err == nil && r.Input && req.ContentLength > r.most(c) {
			err = r.tooLarge(c)
		}
		var leave func()
		if err == nil {
			c.bodyRead, leave, err = s.admission.InFlight.Enter(c.Key.Tenant, c.Info.Quota.Requests, r.Control, r.bodyBytes(req, c))
		}
		if err != nil {
			s.reject(w, req, err)
			return
		}
		defer leave()
		next(huma.WithValue(ctx, callerKey{}, c))
	}
}

// authenticate finds out who calls.
func (s *Server) authenticate(r *http.Request) (*Caller, error) {
	scheme, shown, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || shown == "" {
		return nil, unauthorized("send a key of this server, as Authorization: Bearer ar_…")
	}
	k, info, err := s.store.Authenticate(r.Context(), strings.TrimSpace(shown))
	var wrong *store.KeyError
	if errors.As(err, &wrong) {
		return nil, unauthorized(wrong.Error())
	}
	if err != nil {
		return nil, err
	}
	c := &Caller{Key: k, Tenant: s.store.Tenant(k.Tenant), Info: info}
	if a := answerOf(r.Context()); a != nil {
		a.caller = c
	}
	return c, nil
}

func unauthorized(why string) *Problem {
	p := problem(codeUnauthorized, "%s", why)
	p.header = http.Header{"Www-Authenticate": {`Bearer realm="agent-runner"`}}
	return p
}

// allow says whether the caller may use a route now.
func (s *Server) allow(c *Caller, r Route) error {
	if !c.Has(r.Scope) {
		return problem(codeForbidden, "key %s has the scopes %s; this needs %s", c.Key.ID, strings.Join(c.Key.Scopes, ", "), r.Scope)
	}
	return s.admission.CheckRate(c.Key.Tenant, r.Control, c.Info.Quota.RequestsPerMin)
}
