package routes

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/gateway"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Estimates of a route's memory, in bytes, as for agents. They exclude module images.
const (
	routeBytes  = 32<<10 + 2*maxChanges*changeBytes
	entryBytes  = 16 << 10
	changeBytes = 40
)

// maxChanges limits the changes of prompts that a route stores, in each of two lists.
const maxChanges = 1 << 10

// maxConns limits the connections of a route to its upstream.
const maxConns = 1024

// A route is a route of a tenant's gateway, with loaded modules and a handler for requests. The
// pool closes it once no request uses it.
type route struct {
	name    string
	handler http.Handler
	pins    []journal.Pin
	closers []func()
}

// Close releases the modules and the connections of the route.
func (r *route) Close() {
	for _, c := range r.closers {
		c()
	}
}

// route returns route i of a table from the pool, which builds it if it does not have it. The
// caller must call release.
func (s *Service) route(ctx context.Context, p *plan, t *table, i int) (r *route, release func(), err error) {
	v, release, err := s.o.Pool.Acquire(ctx, p.tenant.ID(), fmt.Sprintf("%s %d", p.key, i),
		func(ctx context.Context) (agents.Pooled, int64, error) {
			r, err := s.build(ctx, p, t, i)
			if err != nil {
				return nil, 0, err
			}
			return r, routeBytes + int64(len(r.pins))*entryBytes, nil
		})
	if err != nil {
		return nil, nil, err
	}
	return v.(*route), release, nil
}

// build loads the modules of a route and creates its handler. It fails with an
// [*agents.NotReadyError] if the route cannot be served now.
func (s *Service) build(ctx context.Context, p *plan, t *table, i int) (_ *route, err error) {
	from := &t.Routes[i]
	out := &route{name: from.Name}
	defer func() {
		if err != nil {
			out.Close()
		}
	}()
	vault := &agents.Vault{Tenant: p.tenant, Secrets: p.Secrets, Logger: s.o.Logger, User: "route " + from.Name}
	getenv := vault.Getenv(ctx)
	to, err := s.upstream(p, from, getenv)
	if lost := vault.Err(); lost != nil {
		return nil, lost
	}
	if err != nil {
		return nil, &agents.NotReadyError{What: "route " + from.Name, Err: err}
	}
	client, err := egress.New(&egress.Options{Hosts: p.policy.Upstreams, Private: s.o.Private, ConnsPerHost: maxConns})
	if err != nil {
		return nil, err
	}
	out.closers = append(out.closers, client.Close)
	chain, err := s.o.Host.NewChainFromFile(ctx, from.Chain(), s.chainOptions(p, t, getenv))
	if chain != nil {
		out.closers = append(out.closers, chain.Close)
	}
	if lost := vault.Err(); lost != nil {
		return nil, lost
	}
	if err != nil {
		return nil, agents.NotReady(ctx, "route "+from.Name, err)
	}
	for _, e := range chain.Chain.Entries() {
		pin := journal.Pin{Entry: e.Name, Ring: e.Ring.String(), Digest: e.Middleware.Describe().Digest}
		out.pins = append(out.pins, pin)
	}
	if len(out.pins) > 0 {
		to.Chain = chain.Chain
	}
	out.handler, err = gateway.New(gateway.Options{
		Routes: []gateway.Route{to},
		Loader: s.o.Host.Loader(),
		Client: &http.Client{
			Transport:     client.Guard(),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Tracer:      s.o.Tracer,
		OnEvent:     func(e abi.Event) { s.observe(p.tenant.ID(), out, e) },
		OnEnd:       func(e *gateway.End) { s.ended(p.tenant.ID(), out, e) },
		MaxRequests: maxRequests,
		MaxChanges:  maxChanges,
		Timeout:     time.Duration(cmp.Or(t.Timeout, agentfile.Duration(gateway.DefaultTimeout))),
		Hidden:      out.hidden(),
		Work:        s.work(p.tenant.ID()),
	})
	return out, err
}

// upstream returns the gateway's form of the route from, without its modules.
func (s *Service) upstream(
	p *plan,
	from *agentfile.GatewayRoute,
	getenv func(string) string,
) (to gateway.Route, err error) {
	up, err := gateway.NewUpstream(from)
	if err != nil {
		return to, err
	}
	if from.APIKeyEnv != "" {
		if up.Key = getenv(from.APIKeyEnv); up.Key == "" {
			return to, fmt.Errorf("the secret %s, the key of its upstream, is not stored", from.APIKeyEnv)
		}
	}
	to = gateway.Route{Name: from.Name, Models: from.Models, Upstream: up, Model: from.Model, Hold: from.Hold}
	if models := p.policy.Models; len(models) > 0 && p.tenant.ID() != store.Operator {
		to.AllowModel = func(model string) bool { return hook.Matches(models, model) }
	}
	return to, nil
}

// chainOptions returns the options for loading a route's modules, which are like those for an
// agent's.
func (s *Service) chainOptions(p *plan, t *table, getenv func(string) string) *host.FileOptions {
	o := &host.FileOptions{
		Getenv: getenv, Logger: s.o.Logger, Values: s.o.Store, Tenant: p.tenant.ID(), Tracer: s.o.Tracer,
		Network:    &egress.Options{Hosts: append([]string{}, p.policy.Hosts...), Private: s.o.Private},
		LoadModule: s.o.Agents.LoadModule(p.tenant, t.rings),
	}
	if p.tenant.ID() == store.Operator {
		o.Network.Hosts = nil
	}
	return o
}

// hidden returns the names of the operator's modules in the route, which clients must not see.
func (r *route) hidden() []string {
	var out []string
	for _, p := range r.pins {
		if strings.HasPrefix(p.Entry, agents.OperatorName+".") && p.Ring != hook.Tenant.String() {
			out = append(out, p.Entry)
		}
	}
	return out
}

// work returns a function for [gateway.Options]. It parses bodies of a tenant's requests once the
// admission controller admits them.
func (s *Service) work(tenant string) func(context.Context, int, func() error) error {
	return func(ctx context.Context, bytes int, fn func() error) error {
		return s.o.Admission.Parse(ctx, tenant, bytes, fn)
	}
}
