package server

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/store"
)

// How long an agent that nobody runs is kept ready, and how much memory all of them may
// take, and those of a tenant.
const (
	idleAgent    = time.Minute
	idleBytes    = 256 << 20
	idleOfTenant = idleBytes / 8
	tidyEvery    = 10 * time.Second
)

// A fleet is the agents of tenants that are ready to run.
type fleet struct {
	server *Server
	builds func(context.Context, *agentPlan) (*host.Agent, error)

	mu    sync.Mutex
	ready map[string]*ready
}

func newFleet(s *Server) *fleet {
	f := &fleet{server: s, ready: map[string]*ready{}}
	f.builds = f.build
	return f
}

// A ready is an agent that is made once, and used by all runs of it.
type ready struct {
	made   chan struct{} // closed when it is, or could not be
	agent  *host.Agent
	err    error
	tenant string
	bytes  int64 // that it takes

	uses int
	idle time.Time // since when nobody uses it
}

// open implements [agentSource].
func (f *fleet) open(ctx context.Context, t *store.Tenant, spec runSpec) (*opened, error) {
	p, err := f.plan(ctx, t, spec)
	if err != nil {
		return nil, err
	}
	key, err := p.key()
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	r := f.ready[key]
	if r == nil {
		r = &ready{made: make(chan struct{}), tenant: t.ID()}
		f.ready[key] = r
		go f.make(context.WithoutCancel(ctx), key, r, p)
	}
	r.uses++
	f.mu.Unlock()
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
	return &opened{Agent: r.agent.Agent, release: release, memory: p.Info.Quota.MemoryBytes}, nil
}

func (f *fleet) make(ctx context.Context, key string, r *ready, p *agentPlan) {
	done, err := f.server.admission.Build(ctx, r.tenant)
	var a *host.Agent
	if err == nil {
		a, err = f.fit(sandbox.Sharing(ctx, f.server.admission.Sharer(r.tenant)), p, r.tenant)
		done()
	}
	bytes := p.bytes()
	f.mu.Lock()
	r.bytes = bytes
	if r.agent, r.err = a, err; err != nil {
		delete(f.ready, key) // who comes next tries again
	} else if r.uses == 0 {
		r.idle = f.server.now() // who asked for it has left
	}
	f.mu.Unlock()
	close(r.made)
}

func (f *fleet) release(r *ready) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.uses--; r.uses == 0 {
		r.idle = f.server.now()
	}
}

// tidy closes agents that nobody uses, until ctx ends; then all of them.
func (f *fleet) tidy(ctx context.Context) {
	ticker := time.NewTicker(tidyEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			f.close(0, 0)
			f.server.modules.shelf.close(0, 0)
			return
		case <-ticker.C:
			f.close(idleAgent, idleBytes)
			f.server.modules.shelf.close(idleModule, idleModules)
		}
	}
}

// close closes agents that were not used for so long, and where they take more than most
// bytes, or those of a tenant more than he may have, the ones that were not for the
// longest time.
func (f *fleet) close(age time.Duration, most int64) {
	now := f.server.now()
	f.mu.Lock()
	var idle []*ready
	for _, r := range f.ready {
		if r.uses == 0 && r.agent != nil {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *ready) int { return b.idle.Compare(a.idle) })
	f.mu.Unlock()
	all, of, old := int64(0), map[string]int64{}, map[*ready]bool{}
	for _, r := range idle {
		all += r.bytes
		of[r.tenant] += r.bytes
		old[r] = all > most || of[r.tenant] > idleOfTenant || now.Sub(r.idle) >= age
	}
	f.closeIdle(func(r *ready) bool { return old[r] })
}

// fit makes an agent. Where images have no room for it modules and agents that nobody
// uses are closed: agents of its tenant, then those of others, more each time.
func (f *fleet) fit(ctx context.Context, p *agentPlan, tenant string) (*host.Agent, error) {
	a, err := f.builds(ctx, p)
	own := true
	for most := 8; ; {
		room := (*sandbox.ImageRoomError)(nil)
		if !errors.As(err, &room) {
			return a, err
		}
		shelf, closed := f.server.modules.shelf, 0
		if own {
			closed = f.evict(tenant) + shelf.close(0, 0)
		}
		if closed == 0 {
			if f.evictOthers(tenant, most) == 0 {
				return a, err
			}
			most *= 2
			shelf.close(0, 0) // what they kept
		}
		own = false
		a, err = f.builds(ctx, p)
	}
}

// evict closes all agents of a tenant that nobody uses, and returns how many: what they
// hold of the memory of images is the tenant's share of it.
func (f *fleet) evict(tenant string) int {
	return f.closeIdle(func(r *ready) bool { return r.tenant == tenant })
}

// evictOthers closes those agents that were not used for the longest time, up to most, of
// tenants that have no fewer of them than the one who needs the room: who has many
// takes nothing from who has few.
func (f *fleet) evictOthers(tenant string, most int) int {
	f.mu.Lock()
	of := map[string]int{}
	for _, r := range f.ready {
		of[r.tenant]++
	}
	var idle []*ready
	for _, r := range f.ready {
		if r.uses == 0 && r.agent != nil && r.tenant != tenant && of[r.tenant] >= of[tenant] {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *ready) int { return a.idle.Compare(b.idle) })
	f.mu.Unlock()
	chosen := map[*ready]bool{}
	for _, r := range idle[:min(most, len(idle))] {
		chosen[r] = true
	}
	return f.closeIdle(func(r *ready) bool { return chosen[r] })
}

// closeIdle closes those agents that nobody uses and that are chosen.
func (f *fleet) closeIdle(chosen func(*ready) bool) int {
	f.mu.Lock()
	var old []*host.Agent
	for key, r := range f.ready {
		if r.uses == 0 && r.agent != nil && chosen(r) {
			old = append(old, r.agent)
			delete(f.ready, key)
		}
	}
	f.mu.Unlock()
	for _, a := range old {
		a.Close()
	}
	return len(old)
}

// count is how many agents are ready.
func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.ready)
}
