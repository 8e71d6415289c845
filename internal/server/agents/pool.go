package agents

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How long an agent that nobody runs is kept ready, and how much memory all of them may
// take, and those of a tenant.
const (
	idleAgent    = time.Minute
	IdleBytes    = 256 << 20
	IdleOfTenant = IdleBytes / 8
	tidyEvery    = 10 * time.Second
)

// A fleet is the agents of tenants that are ready to run.
type Pool struct {
	options *Options
	agents  *Service
	log     *slog.Logger
	now     func() time.Time
	Builds  func(context.Context, *Plan) (*host.Agent, error)

	Mu    sync.Mutex
	Ready map[string]*PooledAgent
}

func NewPool(a *Service) *Pool {
	f := &Pool{options: a.Options, agents: a, log: a.Options.Logger, now: a.Options.Now, Ready: map[string]*PooledAgent{}}
	f.Builds = f.Build
	return f
}

// A ready is an agent that is made once, and used by all runs of it.
type PooledAgent struct {
	made   chan struct{} // closed when it is, or could not be
	agent  *host.Agent
	err    error
	Tenant string
	Bytes  int64 // that it takes

	uses int
	idle time.Time // since when nobody uses it
}

// open implements [agentSource].
func (f *Pool) Open(ctx context.Context, t *store.Tenant, spec Spec) (*Handle, error) {
	p, err := f.plan(ctx, t, spec)
	if err != nil {
		return nil, err
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	f.Mu.Lock()
	r := f.Ready[key]
	if r == nil {
		r = &PooledAgent{made: make(chan struct{}), Tenant: t.ID()}
		f.Ready[key] = r
		go f.make(context.WithoutCancel(ctx), key, r, p)
	}
	r.uses++
	f.Mu.Unlock()
	release := sync.OnceFunc(func() { f.release(r) })
	select {
	case <-r.made:
	case <-ctx.Done():
		release()
		return nil, context.Cause(ctx)
	}
	if r.err != nil {
		release()
		return nil, r.err
	}
	return &Handle{Agent: r.agent.Agent, Release: release, Memory: p.Info.Quota.MemoryBytes}, nil
}

func (f *Pool) make(ctx context.Context, key string, r *PooledAgent, p *Plan) {
	done, err := f.options.Admission.Build(ctx, r.Tenant)
	var a *host.Agent
	if err == nil {
		a, err = f.fit(sandbox.WithTenant(ctx, f.options.Admission.Sharer(r.Tenant)), p, r.Tenant)
		done()
	}
	bytes := p.bytes()
	f.Mu.Lock()
	r.Bytes = bytes
	if r.agent, r.err = a, err; err != nil {
		delete(f.Ready, key) // who comes next tries again
	} else if r.uses == 0 {
		r.idle = f.now() // who asked for it has left
	}
	f.Mu.Unlock()
	close(r.made)
}

func (f *Pool) release(r *PooledAgent) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if r.uses--; r.uses == 0 {
		r.idle = f.now()
	}
}

// tidy closes agents that nobody uses, until ctx ends; then all of them.
func (f *Pool) Tidy(ctx context.Context) {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			f.Close(0, 0)
			f.options.Modules.CloseIdle()
			return
		case <-ticker.C:
			f.Close(idleAgent, IdleBytes)
			f.options.Modules.CloseOld()
		}
	}
}

// close closes agents that were not used for so long, and where they take more than most
// bytes, or those of a tenant more than he may have, the ones that were not for the
// longest time.
func (f *Pool) Close(age time.Duration, most int64) {
	now := f.now()
	f.Mu.Lock()
	var idle []*PooledAgent
	for _, r := range f.Ready {
		if r.uses == 0 && r.agent != nil {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *PooledAgent) int { return b.idle.Compare(a.idle) })
	f.Mu.Unlock()
	all, of, old := int64(0), map[string]int64{}, map[*PooledAgent]bool{}
	for _, r := range idle {
		all += r.Bytes
		of[r.Tenant] += r.Bytes
		old[r] = all > most || of[r.Tenant] > IdleOfTenant || now.Sub(r.idle) >= age
	}
	f.closeIdle(func(r *PooledAgent) bool { return old[r] })
}

// fit makes an agent. Where images have no room for it modules and agents that nobody
// uses are closed: agents of its tenant, then those of others, more each time.
func (f *Pool) fit(ctx context.Context, p *Plan, tenant string) (*host.Agent, error) {
	a, err := f.Builds(ctx, p)
	own := true
	for most := 8; ; {
		room := (*sandbox.ImageRoomError)(nil)
		if !errors.As(err, &room) {
			return a, err
		}
		modules, closed := f.options.Modules, 0
		if own {
			closed = f.Evict(tenant) + modules.CloseIdle()
		}
		if closed == 0 {
			if f.evictOthers(tenant, most) == 0 {
				return a, err
			}
			most *= 2
			modules.CloseIdle() // what they kept
		}
		own = false
		a, err = f.Builds(ctx, p)
	}
}

// evict closes all agents of a tenant that nobody uses, and returns how many: what they
// hold of the memory of images is the tenant's share of it.
func (f *Pool) Evict(tenant string) int {
	return f.closeIdle(func(r *PooledAgent) bool { return r.Tenant == tenant })
}

// evictOthers closes those agents that were not used for the longest time, up to most, of
// tenants that have no fewer of them than the one who needs the room: who has many
// takes nothing from who has few.
func (f *Pool) evictOthers(tenant string, most int) int {
	f.Mu.Lock()
	of := map[string]int{}
	for _, r := range f.Ready {
		of[r.Tenant]++
	}
	var idle []*PooledAgent
	for _, r := range f.Ready {
		if r.uses == 0 && r.agent != nil && r.Tenant != tenant && of[r.Tenant] >= of[tenant] {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *PooledAgent) int { return a.idle.Compare(b.idle) })
	f.Mu.Unlock()
	chosen := map[*PooledAgent]bool{}
	for _, r := range idle[:min(most, len(idle))] {
		chosen[r] = true
	}
	return f.closeIdle(func(r *PooledAgent) bool { return chosen[r] })
}

// closeIdle closes those agents that nobody uses and that are chosen.
func (f *Pool) closeIdle(chosen func(*PooledAgent) bool) int {
	f.Mu.Lock()
	var old []*host.Agent
	for key, r := range f.Ready {
		if r.uses == 0 && r.agent != nil && chosen(r) {
			old = append(old, r.agent)
			delete(f.Ready, key)
		}
	}
	f.Mu.Unlock()
	for _, a := range old {
		a.Close()
	}
	return len(old)
}

// count is how many agents are ready.
func (f *Pool) Count() int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return len(f.Ready)
}

// An opened is an agent that is ready to run.
type Handle struct {
	*agent.Agent
	Release func()
	Memory  int64 // the tenant's quota; 0: it has none
}
