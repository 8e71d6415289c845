package server

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/agent"
	"github.com/agent-runner/agent-runner/host/agentfile"
	"github.com/agent-runner/agent-runner/host/egress"
	"github.com/agent-runner/agent-runner/host/sandbox"
	"github.com/agent-runner/agent-runner/host/store"
)

// How long an agent that nobody runs is kept ready, and how much memory all of them may
// take, and those of a tenant.
const (
	idleAgent    = time.Minute
	idleBytes    = 256 << 20
	idleOfTenant = idleBytes / 8
	tidyEvery    = 10 * time.Second
)

// What an agent takes, in bytes: twice of what was measured, for the garbage collector.
// What its images take is bounded too, by the sandbox, which has room only where agents
// are closed.
const (
	agentBytes  = 32 << 10
	entryBytes  = 16 << 10 // of a middleware
	serverBytes = 1 << 20  // of a server of tools, which has a connection, and a session at its other end
)

// How many agents are made at once, of which some wait for servers of tools.
const (
	makeMost     = 64
	makeOfTenant = 2
	makeWaiting  = 256 // of a tenant
)

// ringsName is the agent of the operator's whose rings are around the agents of
// all tenants.
const ringsName = "rings"

// A fleet is the agents of tenants that are ready to run.
type fleet struct {
	server *Server
	making *turns
	builds func(context.Context, *agentPlan) (*host.Agent, error)

	mu    sync.Mutex
	ready map[string]*ready
}

func newFleet(s *Server) *fleet {
	f := &fleet{server: s, ready: map[string]*ready{}, making: newTurns("agents that are made", makeMost, makeOfTenant, makeWaiting)}
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
	return &opened{Agent: r.agent.Agent, release: release}, nil
}

func (f *fleet) make(ctx context.Context, key string, r *ready, p *agentPlan) {
	done, err := f.making.take(ctx, r.tenant)
	var a *host.Agent
	if err == nil {
		a, err = f.fit(sandbox.Sharing(ctx, f.server.sharer(r.tenant)), p, r.tenant)
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

// An agentPlan is all that an agent is made of.
type agentPlan struct {
	*store.Parts
	tenant *store.Tenant
	policy Policy
	spec   runSpec

	// What is read when it is made.
	file  *agentfile.File
	rings *agentfile.Rings
	rival map[string]bool // digests of the operator's modules
}

// plan looks up what an agent is made of, as it is now.
func (f *fleet) plan(ctx context.Context, t *store.Tenant, spec runSpec) (*agentPlan, error) {
	around := ringsName
	if t.ID() == store.Operator || spec.Rings < 0 { // it began when there were none
		around = ""
	}
	p := &agentPlan{tenant: t, spec: spec}
	var err error
	if p.Parts, err = t.Parts(ctx, spec.Agent, spec.Version, around, max(0, spec.Rings)); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(p.Info.Policy, &p.policy); err != nil {
		return nil, err
	}
	p.spec.Version = p.Agent.Version
	switch {
	case around == "":
	case p.Around != nil:
		p.spec.Rings = p.Around.Version
	case spec.Rings == 0:
		p.spec.Rings = -1
	default:
		return nil, fmt.Errorf("agent %s of the operator: %w", ringsName, store.ErrNoAgent)
	}
	return p, nil
}

// key names the plan: the same plan makes the same agent.
func (p *agentPlan) key() (string, error) {
	parts := []any{p.tenant.ID(), p.Info.Policy, p.spec, p.Secrets}
	for _, a := range []*store.StoredAgent{p.Agent, p.Around} {
		if a != nil {
			parts = append(parts, a.Name, a.Version, a.Created.UnixMilli(), a.Digest, a.Modules)
		}
	}
	b, err := json.Marshal(parts)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// bytes is how much memory its agent takes, once it was read.
func (p *agentPlan) bytes() int64 {
	n := int64(agentBytes)
	if p.file == nil {
		return n
	}
	walk(p.file, func(*agentfile.File, string, *agentfile.Middleware) { n += entryBytes })
	return n + int64(serversOf(p.file))*serverBytes
}

// serversOf is how many servers of tools a file names, with the agents inside of it.
func serversOf(f *agentfile.File) int {
	n := len(f.Tools.MCP)
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			n += serversOf(inner)
		}
	}
	return n
}

// read reads the files of the plan, and puts the operator's rings around a tenant's agent.
func (p *agentPlan) read() (err error) {
	p.rival = map[string]bool{}
	if p.file, _, err = pinned(p.Agent); err != nil || p.Around == nil {
		return err
	}
	file, shown, err := pinned(p.Around)
	if err != nil {
		return err
	}
	for _, e := range shown.Modules {
		p.rival[bare(e.Digest)] = true
	}
	p.rings = &file.Rings
	for _, list := range [][]agentfile.Middleware{file.Rings.Outer, file.Rings.Inner} {
		for i := range list {
			list[i].Name = operators + "." + list[i].Name
		}
	}
	return nil
}

// build makes the agent.
func (f *fleet) build(ctx context.Context, p *agentPlan) (*host.Agent, error) {
	s := f.server
	if err := p.read(); err != nil {
		return nil, err
	}
	file := p.file
	if p.rings != nil {
		file.Rings = *p.rings
	}
	if most := p.policy.MaxSteps; most > 0 && p.tenant.ID() != store.Operator {
		limitSteps(file, most)
	}
	spec, err := json.Marshal(p.spec)
	if err != nil {
		return nil, err
	}
	operator := p.tenant.ID() == store.Operator
	vault := &vault{fleet: f, plan: p}
	o := &host.FileOptions{
		Getenv: vault.getenv(ctx), Logger: s.log, Values: s.store, Tenant: p.tenant.ID(), Tracer: s.tracer(p.tenant),
		Journal: &agent.JournalOptions{Journal: p.tenant.Journal(), Tenant: p.tenant.ID(), Owner: s.options.Owner, Gone: s.options.Gone, Lease: s.options.Lease, HandBack: s.draining, Leave: s.left, Spec: spec},
		Network: &egress.Options{Hosts: append([]string{}, p.policy.Hosts...), Private: s.options.Private}, GuardMCP: true, GuardModels: true, ModelURL: f.modelURL(p),
		LoadModule: f.loadModule(p),
	}
	if operator {
		o.Network.Hosts = nil
	} else if models := p.policy.Models; len(models) > 0 {
		o.MayAsk = func(model string) bool { return matches(models, model) } // the file's own were checked when it was kept
	}
	if p.shared() {
		o.Model = s.options.Model
	}
	a, err := s.host.NewAgentFromFile(ctx, file, o)
	if lost := vault.lost(); lost != nil {
		if err == nil {
			a.Close()
		}
		return nil, lost
	}
	var known *Problem
	if err != nil && !errors.As(err, &known) && ctx.Err() == nil {
		return nil, &notReadyError{p.spec.Agent, err}
	}
	return a, err
}

// limitSteps lets an agent, and each of those inside of it, have no more steps.
func limitSteps(f *agentfile.File, most int) {
	if f.Limits.MaxSteps == 0 || f.Limits.MaxSteps > most {
		f.Limits.MaxSteps = most
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			limitSteps(inner, most)
		}
	}
}

// A notReadyError says that an agent, which was checked when it was kept, cannot be
// made now: a key is missing, say, or a server of tools does not answer.
type notReadyError struct {
	agent string
	err   error
}

// Error says why.
func (e *notReadyError) Error() string { return fmt.Sprintf("agent %s cannot run: %v", e.agent, e.err) }

// Unwrap returns the cause.
func (e *notReadyError) Unwrap() error { return e.err }

// loadModule loads modules by their digests: the operator's from the operator.
func (f *fleet) loadModule(p *agentPlan) func(ctx context.Context, entry, path string, limits host.Limits) (*host.Module, func(), error) {
	own, operators := f.server.agents.loadModule(p.tenant), f.server.agents.loadModule(f.server.store.Tenant(store.Operator))
	return func(ctx context.Context, entry, path string, limits host.Limits) (*host.Module, func(), error) {
		if p.rival[strings.TrimSuffix(path, ".wasm")] && p.ringed(entry) {
			return operators(ctx, entry, path, limits)
		}
		return own(ctx, entry, path, limits)
	}
}

// ringed reports whether an entry is one of the operator's.
func (p *agentPlan) ringed(entry string) bool {
	for _, list := range [][]agentfile.Middleware{p.rings.Outer, p.rings.Inner} {
		for i := range list {
			if list[i].Name == entry {
				return true
			}
		}
	}
	return false
}

// shared reports whether the agent may ask the operator's model: the policy names its
// models, neither the file nor a secret of the tenant says that it is elsewhere, and
// the file wants the operator's key nowhere else.
func (p *agentPlan) shared() bool {
	for _, s := range p.Secrets {
		if s.Name == host.EnvBaseURL {
			return false
		}
	}
	if p.tenant.ID() == store.Operator {
		return !namesEndpoint(p.file)
	}
	return len(p.policy.Models) > 0 && !namesEndpoint(p.file) && !takesKey(p.file)
}

// modelURL is where the operator's model is, if the agent may ask it.
func (f *fleet) modelURL(p *agentPlan) string {
	if !p.shared() {
		return ""
	}
	return f.server.options.Getenv(host.EnvBaseURL)
}

// namesEndpoint reports whether a file, or one of an agent inside of it, says where a
// model is.
func namesEndpoint(f *agentfile.File) bool {
	if f.Model.BaseURL != "" {
		return true
	}
	for _, other := range f.Model.Fallbacks {
		if other.BaseURL != "" {
			return true
		}
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil && namesEndpoint(inner) {
			return true
		}
	}
	return false
}

// takesKey reports whether a file, or one of an agent inside of it, would send what
// the operator's model is asked with to somebody else: to a server of tools, or to
// hosts that modules reach.
func takesKey(f *agentfile.File) bool {
	operators := func(name string) bool { return name == host.EnvAPIKey || name == host.EnvBaseURL }
	for _, s := range f.Secrets {
		if operators(s.Env) {
			return true
		}
	}
	for _, s := range f.Tools.MCP {
		if operators(s.APIKeyEnv) {
			return true
		}
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil && takesKey(inner) {
			return true
		}
	}
	return false
}
