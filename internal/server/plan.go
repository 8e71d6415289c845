package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/egress"
	"github.com/agent-runner/agent-runner/internal/store"
)

// ringsName is the agent of the operator's whose rings are around the agents of
// all tenants.
const ringsName = "rings"

// What an agent takes, in bytes: twice of what was measured, for the garbage collector.
// What its images take is bounded too, by the sandbox, which has room only where agents
// are closed.
const (
	agentBytes  = 32 << 10
	entryBytes  = 16 << 10 // of a middleware
	serverBytes = 1 << 20  // of a server of tools, which has a connection, and a session at its other end
)

// An agentPlan is all that an agent is made of.
type agentPlan struct {
	*store.AgentSnapshot
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
	if p.AgentSnapshot, err = t.AgentSnapshot(ctx, spec.Agent, spec.Version, around, max(0, spec.Rings)); err != nil {
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
	if most := p.policy.maxSteps(); p.tenant.ID() != store.Operator && limitSteps(file, most) {
		s.log.Warn("an agent runs with fewer steps than its file says", slog.String("tenant", p.tenant.ID()), slog.String("agent", p.spec.Agent), slog.Int("max_steps", most))
	}
	spec, err := json.Marshal(p.spec)
	if err != nil {
		return nil, err
	}
	operator := p.tenant.ID() == store.Operator
	vault := &vault{fleet: f, plan: p}
	o := &host.FileOptions{
		Getenv: vault.getenv(ctx), Logger: s.log, Values: s.store, Tenant: p.tenant.ID(), Tracer: s.tracer(p.tenant),
		Journal: &journal.Options{Journal: p.tenant.Journal(), Tenant: p.tenant.ID(), Owner: s.options.Owner, Gone: s.options.Gone, LeaseTTL: s.options.Lease, Drain: s.draining, Abort: s.left, Originals: s.options.Originals, Dropped: &s.dropped, Spec: spec},
		Network: &egress.Options{Hosts: append([]string{}, p.policy.Hosts...), Private: s.options.Private}, GuardMCP: true, StartMCP: s.options.commandsOf(p.tenant.ID()), GuardModels: true, ModelURL: f.modelURL(p),
		LoadModule: f.loadModule(p),
	}
	if operator {
		o.Network.Hosts = nil
	} else if models := p.policy.Models; len(models) > 0 {
		o.MayAsk = func(model string) bool { return matches(models, model) }
	}
	if !operator {
		o.MayPass = p.policy.mayPass()
		if err := checkSpending(file, &p.policy); err != nil { // the policy may be another one than when it was kept
			return nil, &notReadyError{p.spec.Agent, err}
		}
	}
	if p.shared() {
		o.Model = s.options.Model
		if !operator {
			o.ModelFailed = f.modelFailed(p)
		}
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

// modelFailed logs what the operator's model says of a failed call. The tenant is not
// shown it: it has the address of the model and the text of its endpoint.
func (f *fleet) modelFailed(p *agentPlan) func(context.Context, *model.Request, *model.Error) {
	return func(ctx context.Context, req *model.Request, e *model.Error) {
		f.server.log.WarnContext(ctx, "a call of the operator's model failed", "tenant", p.tenant.ID(), "agent", p.spec.Agent, "model", req.Model, "code", e.Code, "status", e.Status, "error", e.Message)
	}
}

// limitSteps lowers the steps of an agent, and of each agent inside it, to most. It reports whether a
// file says more.
func limitSteps(f *agentfile.File, most int) (lowered bool) {
	lowered = f.Limits.MaxSteps > most
	f.Limits.MaxSteps = min(cmp.Or(f.Limits.MaxSteps, agent.DefaultMaxSteps), most)
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil && limitSteps(inner, most) {
			lowered = true
		}
	}
	return lowered
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
