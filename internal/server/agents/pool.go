package agents

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/refcache"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Limits on agents that no run uses.
const (
	idleTTL            = time.Minute
	MaxIdleBytes       = 256 << 20 // for all tenants together
	MaxIdleTenantBytes = MaxIdleBytes / 8
	evictInterval      = 10 * time.Second
)

// A Pool caches built agents. All runs with the same plan share one agent.
type Pool struct {
	options *Options
	agents  *Service
	log     *slog.Logger
	now     func() time.Time
	cache   *refcache.Cache[poolKey, *builtAgent]

	// BuildAgent builds an agent. Tests replace it; the default is [Pool.Build].
	BuildAgent func(context.Context, *Plan) (*host.Agent, error)
}

// A poolKey identifies an agent by its tenant and the hash of its plan.
type poolKey struct{ tenant, plan string }

// A builtAgent is an agent in the pool.
type builtAgent struct {
	*host.Agent
	bytes    int64 // estimate of the agent's memory
	requests RequestPolicy
}

// A Handle is an agent that is ready to run. The caller calls Release once its run has ended.
type Handle struct {
	*agent.Agent
	Release func()
	Memory  int64 // the tenant's quota memory_bytes; 0 is the default
	// Requests says what requests of model APIs may set.
	Requests *RequestPolicy
}

// NewPool returns an empty pool of the agents of a service.
func NewPool(a *Service) *Pool {
	p := &Pool{options: a.Options, agents: a, log: a.Options.Logger, now: a.Options.Now}
	p.cache = refcache.New[poolKey](
		refcache.Options[*builtAgent]{Close: func(a *builtAgent) { a.Close() }, KeepIdle: true, Now: p.now},
	)
	p.BuildAgent = p.Build
	return p
}

// Open returns an agent of a tenant. It builds the agent if the pool does not have it.
func (p *Pool) Open(ctx context.Context, t *store.Tenant, spec Spec) (*Handle, error) {
	plan, err := planOf(ctx, t, spec)
	if err != nil {
		return nil, err
	}
	key, err := plan.key()
	if err != nil {
		return nil, err
	}
	ref, err := p.cache.Acquire(ctx, poolKey{t.ID(), key},
		func(ctx context.Context) (*builtAgent, error) { return p.load(ctx, plan, t.ID()) })
	if err != nil {
		return nil, err
	}
	return &Handle{
		Agent: ref.Value.Agent.Agent, Release: ref.Release, Memory: plan.Info.Quota.MemoryBytes,
		Requests: &ref.Value.requests,
	}, nil
}

// load waits until a tenant may build an agent, and builds it.
func (p *Pool) load(ctx context.Context, plan *Plan, tenant string) (*builtAgent, error) {
	done, err := p.options.Admission.Build(ctx, tenant)
	if err != nil {
		return nil, err
	}
	defer done()
	a, err := p.buildInRoom(sandbox.WithTenant(ctx, p.options.Admission.Sharer(tenant)), plan, tenant)
	if err != nil {
		return nil, err
	}
	return &builtAgent{a, plan.bytes(), plan.requests()}, nil
}

// buildInRoom builds an agent. If memory for its images is missing, it closes idle modules and
// agents and tries again: first agents of the same tenant, then those of others, more each time.
func (p *Pool) buildInRoom(ctx context.Context, plan *Plan, tenant string) (*host.Agent, error) {
	a, err := p.BuildAgent(ctx, plan)
	own := true
	for n := 8; ; {
		room := (*sandbox.ImageRoomError)(nil)
		if !errors.As(err, &room) {
			return a, err
		}
		modules, closed := p.options.Modules, 0
		if own {
			closed = p.EvictTenant(tenant) + modules.CloseIdle()
		}
		if closed == 0 {
			if p.evictOthers(tenant, n) == 0 {
				return a, err
			}
			n *= 2
			modules.CloseIdle() // the modules of these agents
		}
		own = false
		a, err = p.BuildAgent(ctx, plan)
	}
}

// Watch closes agents and modules that have been idle for too long, until ctx is done. Then it
// closes all idle ones.
func (p *Pool) Watch(ctx context.Context) {
	ticker := time.NewTicker(evictInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			p.CloseIdle()
			p.options.Modules.CloseIdle()
			return
		case <-ticker.C:
			p.Evict(idleTTL, MaxIdleBytes, MaxIdleTenantBytes)
			p.options.Modules.CloseOld()
		}
	}
}

// Evict closes the agents that have been idle for ttl. It also closes the least recently used of the
// others, until all idle agents together have at most maxBytes, and those of each tenant at most
// maxTenantBytes.
func (p *Pool) Evict(ttl time.Duration, maxBytes, maxTenantBytes int64) {
	now := p.now()
	p.cache.Evict(func(idle []idleAgent) (old []idleAgent) {
		all, of := int64(0), map[string]int64{}
		for i := len(idle) - 1; i >= 0; i-- { // the most recently used first
			a := idle[i]
			all += a.Value.bytes
			of[a.Key.tenant] += a.Value.bytes
			if all > maxBytes || of[a.Key.tenant] > maxTenantBytes || now.Sub(a.Since) >= ttl {
				old = append(old, a)
			}
		}
		return old
	})
}

type idleAgent = refcache.Idle[poolKey, *builtAgent]

// CloseIdle closes all idle agents, and returns their number.
func (p *Pool) CloseIdle() int { return p.cache.EvictAll() }

// EvictTenant closes the idle agents of a tenant, and returns their number. The images of these
// agents count against the tenant's share of the memory for module images.
func (p *Pool) EvictTenant(tenant string) int {
	return p.cache.Evict(func(idle []idleAgent) []idleAgent {
		return selected(idle, len(idle), func(a idleAgent) bool { return a.Key.tenant == tenant })
	})
}

// evictOthers closes up to n idle agents of other tenants, the least recently used ones first. It
// closes no agents of tenants that have fewer agents in the pool than the given tenant.
func (p *Pool) evictOthers(tenant string, n int) int {
	of := p.Count()
	return p.cache.Evict(func(idle []idleAgent) []idleAgent {
		return selected(idle, n, func(a idleAgent) bool { return a.Key.tenant != tenant && of[a.Key.tenant] >= of[tenant] })
	})
}

// selected returns the first n of the idle agents for which ok reports true.
func selected(idle []idleAgent, n int, ok func(idleAgent) bool) (out []idleAgent) {
	for _, a := range idle {
		if len(out) < n && ok(a) {
			out = append(out, a)
		}
	}
	return out
}

// Count returns the number of agents in the pool by tenant, including those that are being built.
func (p *Pool) Count() map[string]int {
	out := map[string]int{}
	for _, key := range p.cache.Keys() {
		out[key.tenant]++
	}
	return out
}

// Len returns the number of agents in the pool.
func (p *Pool) Len() int { return len(p.cache.Keys()) }
