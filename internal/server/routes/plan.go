package routes

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/gateway"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A plan holds the data from which a tenant's routes are built.
type plan struct {
	*store.GatewaySnapshot
	tenant *store.Tenant
	policy policy.Policy
	key    string // contains a hash of the plan; equal plans have equal keys
}

// planOf reads the newest version of a tenant's gateway, with the tenant's policy and secrets and the
// operator's rings. It fails with [store.ErrNoGateway] if the tenant has no gateway.
func planOf(ctx context.Context, t *store.Tenant) (*plan, error) {
	around := agents.RingsName
	if t.ID() == store.Operator {
		around = ""
	}
	snapshot, err := t.GatewaySnapshot(ctx, around)
	if err != nil {
		return nil, err
	}
	p := &plan{GatewaySnapshot: snapshot, tenant: t}
	if p.policy, err = policy.Of(p.Info); err != nil {
		return nil, err
	}
	g := p.Gateway
	parts := []any{p.Info.Policy, g.Version, g.Created.UnixMilli(), g.Digest, g.Modules, p.Secrets}
	if a := p.Around; a != nil {
		parts = append(parts, a.Version, a.Created.UnixMilli(), a.Digest, a.Modules)
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	p.key = "gateway " + hex.EncodeToString(sum[:])
	return p, nil
}

// A table holds the parsed routes of a plan, with the operator's rings around each of them.
type table struct {
	*agentfile.Gateway
	rings *agents.Rings
}

// Close implements [agents.Pooled]. A table has nothing to close.
func (*table) Close() {}

// tableFactor is the estimated memory of a table divided by the length of its text.
const tableFactor = 16

// table returns the parsed routes of a plan from the pool, which parses them if it does not have
// them. The caller must call release.
func (s *Service) table(ctx context.Context, p *plan) (t *table, release func(), err error) {
	v, release, err := s.o.Pool.Acquire(ctx, p.tenant.ID(), p.key,
		func(context.Context) (agents.Pooled, int64, error) {
			t, err := p.read()
			return t, tableFactor * int64(len(p.Gateway.Body)), err
		})
	if err != nil {
		return nil, nil, err
	}
	return v.(*table), release, nil
}

// read parses the plan's file, pins its modules and adds the operator's rings.
func (p *plan) read() (*table, error) {
	g, err := agentfile.ParseGateway(fileName, p.Gateway.Body)
	if err != nil {
		return nil, err // the file parsed when it was stored
	}
	t := &table{Gateway: g}
	if t.rings, err = agents.ReadRings(p.Around); err != nil {
		return nil, err
	}
	n := 0
	walk(g, func(_ *agentfile.File, _, _ string, m *agentfile.Middleware) {
		if n < len(p.Gateway.Modules) {
			m.Module = agentfile.Path(p.Gateway.Modules[n] + ".wasm")
		}
		n++
	})
	if n != len(p.Gateway.Modules) {
		return nil, errors.New("the stored modules of the gateway do not match its file; store the gateway again")
	}
	for i := range g.Routes {
		if t.rings != nil {
			g.Routes[i].Chain().Rings = t.rings.Rings
		}
	}
	return t, nil
}

// find returns the index of the first route that serves an endpoint's path and a model, or -1.
func (t *table) find(path, model string) int {
	for i := range t.Routes {
		r := &t.Routes[i]
		if gateway.Serves(string(r.Protocol), path) && gateway.Match(r.Models, model) {
			return i
		}
	}
	return -1
}

// walk calls fn for each module of a gateway. f is the file of the module's route, and at is the
// module's location in f, such as "middlewares[0]". place is the module's location in the gateway,
// such as "routes[0].middlewares[0]".
func walk(g *agentfile.Gateway, fn func(f *agentfile.File, at, place string, m *agentfile.Middleware)) {
	for i := range g.Routes {
		f := g.Routes[i].Chain()
		for _, ring := range []struct {
			at   string
			list []agentfile.Middleware
		}{{"rings.outer", f.Rings.Outer}, {"middlewares", f.Middlewares}, {"rings.inner", f.Rings.Inner}} {
			for j := range ring.list {
				at := fmt.Sprintf("%s[%d]", ring.at, j)
				fn(f, at, fmt.Sprintf("routes[%d].%s", i, at), &ring.list[j])
			}
		}
	}
}
