package agents

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
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

// A Pool caches built agents, and the routes of gateways. All runs with the same plan share one agent.
type Pool struct {
	options *Options
	agents  *Service
	log     *slog.Logger
	now     func() time.Time
	cache   *refcache.Cache[poolKey, *pooled]

	// BuildAgent builds an agent. Tests replace it; the default is [Pool.Build].
	BuildAgent func(context.Context, *Plan) (*host.Agent, error)
}

// A poolKey identifies a value by its tenant and the hash of its plan.
type poolKey struct{ tenant, plan string }

// A builtAgent is an agent in the pool.
type builtAgent struct {
	*host.Agent
	requests RequestPolicy
}

// Pooled is implemented by the values that a pool caches: agents, and the routes of gateways. The
// pool closes an unused value.
type Pooled interface{ Close() }

// A pooled is a cached value with an estimate of its memory.
type pooled struct {
	Pooled
	bytes int64 // estimate
}

// A Handle is an agent that is ready to run. The caller calls Release once its run has ended.
type Handle struct {
	*agent.Agent
	Release func()
	Memory  int64 // the tenant's quota memory_bytes; 0 is the default
	// Requests determines which parameters requests of model APIs may set.
	Requests *RequestPolicy
}

// NewPool returns an empty pool of the agents of a service.
func NewPool(a *Service) *Pool {
	p := &Pool{options: a.Options, agents: a, log: a.Options.Logger, now: a.Options.Now}
	p.cache = refcache.New[poolKey](
		refcache.Options[*pooled]{Close: func(v *pooled) { v.Close() }, KeepIdle: true, Now: p.now},
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
	if plan.Arm == store.ArmStable && spec.Thread != "" {
		if err := t.KeepThread(ctx, plan.Rollout, spec.Thread); err != nil {
			return nil, err
		}
	}
	key, err := plan.key()
	if err != nil {
		return nil, err
	}
	v, release, err := p.Acquire(ctx, t.ID(), key, func(ctx context.Context) (Pooled, int64, error) {
		a, err := p.BuildAgent(ctx, plan)
		if err != nil {
			return nil, 0, err
		}
		return &builtAgent{a, plan.requests()}, plan.bytes(), nil
	})
	if err != nil {
		return nil, err
	}
	a := v.(*builtAgent)
	return &Handle{
		Agent: a.Agent.Agent, Release: release, Memory: plan.Info.Quota.MemoryBytes, Requests: &a.requests,
	}, nil
}

// Ready reports whether all modules of a run are compiled on this machine, or are being compiled.
func (p *Pool) Ready(pins []journal.Pin) bool {
	for _, pin := range pins {
		if pin.Digest != "" && !p.options.Modules.Compiled(pin.Digest) {
			return false
		}
	}
	return true
}

// Acquire returns the value of a tenant's key, such as an agent or a route. It calls build if the pool
// does not have the value; build also estimates the value's memory in bytes. The caller calls release
// when it no longer uses the value.
func (p *Pool) Acquire(
	ctx context.Context,
	tenant, key string,
	build func(context.Context) (Pooled, int64, error),
) (v Pooled, release func(), err error) {
	ref, err := p.cache.Acquire(ctx, poolKey{tenant, key}, func(ctx context.Context) (*pooled, error) {
		done, err := p.options.Admission.Build(ctx, tenant)
		if err != nil {
			return nil, err
		}
		defer done()
		return p.buildInRoom(sandbox.WithTenant(ctx, p.options.Admission.Sharer(tenant)), tenant, build)
	})
	if err != nil {
		return nil, nil, err
	}
	return ref.Value.Pooled, ref.Release, nil
}

// buildInRoom calls build. If memory for the images of modules is missing, it closes idle modules and
// values and tries again. It first closes values of the same tenant, and then values of other
// tenants. With each attempt, it closes more of them.
func (p *Pool) buildInRoom(
	ctx context.Context,
	tenant string,
	build func(context.Context) (Pooled, int64, error),
) (*pooled, error) {
	once := func() (*pooled, error) {
		v, bytes, err := build(ctx)
		if err != nil {
			return nil, err
		}
		return &pooled{v, bytes}, nil
	}
	v, err := once()
	own := true
	for n := 8; ; {
		room := (*sandbox.ImageRoomError)(nil)
		if !errors.As(err, &room) {
			return v, err
		}
		modules, closed := p.options.Modules, 0
		if own {
			closed = p.EvictTenant(tenant) + modules.CloseIdle()
		}
		if closed == 0 {
			if p.evictOthers(tenant, n) == 0 {
				return v, err
			}
			n *= 2
			modules.CloseIdle() // the modules of these agents
		}
		own = false
		v, err = once()
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

// Evict closes the agents that have been idle for ttl. It then closes the least recently used of the
// remaining idle agents, until these have at most maxBytes together, and at most maxTenantBytes for
// each tenant.
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

type idleAgent = refcache.Idle[poolKey, *pooled]

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
