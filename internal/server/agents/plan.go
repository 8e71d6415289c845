package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

// Estimates of an agent's memory, in bytes: twice the measured values, for the garbage
// collector. They exclude module images, which the sandbox limits.
const (
	AgentBytes  = 32 << 10
	entryBytes  = 16 << 10 // per middleware
	serverBytes = 1 << 20  // per MCP server: a connection, and a session at its other end
)

// A Plan holds the data from which [Pool.Build] builds an agent.
type Plan struct {
	*store.AgentSnapshot
	tenant *store.Tenant
	policy policy.Policy
	Spec   Spec

	// Set by read.
	file  *agentfile.File
	rings *Rings
}

// planOf looks up the agent of a spec, its tenant's policy and secrets, and the operator's rings. The
// Spec of the plan has the versions that it found.
func planOf(ctx context.Context, t *store.Tenant, spec Spec) (*Plan, error) {
	around := RingsName
	if t.ID() == store.Operator || spec.Rings < 0 { // no rings surround the agent
		around = ""
	}
	plan := &Plan{tenant: t, Spec: spec}
	ref := store.AgentRef{Name: spec.Agent, Version: spec.Version, Alias: spec.Alias, Run: spec.Run, Thread: spec.Thread}
	var err error
	if plan.AgentSnapshot, err = t.AgentSnapshot(ctx, ref, around, max(0, spec.Rings)); err != nil {
		return nil, err
	}
	if plan.policy, err = policy.Of(plan.Info); err != nil {
		return nil, err
	}
	plan.Spec.Version = plan.Agent.Version
	if plan.Rollout != "" {
		plan.Spec.Rollout, plan.Spec.Arm = plan.Rollout, plan.Arm
	}
	switch {
	case around == "":
	case plan.Around != nil:
		plan.Spec.Rings = plan.Around.Version
	case spec.Rings == 0:
		plan.Spec.Rings = -1
	default:
		return nil, fmt.Errorf("agent %s of the operator: %w", RingsName, store.ErrNoAgent)
	}
	return plan, nil
}

// key returns a hash of the plan. Equal plans build equal agents.
func (p *Plan) key() (string, error) {
	parts := []any{p.tenant.ID(), p.Info.Policy, p.Spec, p.Secrets}
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

// bytes estimates the agent's memory. It returns AgentBytes if read has not parsed the file.
func (p *Plan) bytes() int64 {
	n := int64(AgentBytes)
	if p.file == nil {
		return n
	}
	walk(p.file, func(*agentfile.File, string, *agentfile.Middleware) { n += entryBytes })
	return n + int64(countServers(p.file))*serverBytes
}

// countServers returns the number of MCP servers of an agent and its sub-agents.
func countServers(f *agentfile.File) int {
	n := len(f.Tools.MCP)
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			n += countServers(inner)
		}
	}
	return n
}

// read parses the agent's file and the file of the operator's rings, if there is one.
func (p *Plan) read() (err error) {
	if p.file, _, err = readStored(p.Agent); err != nil {
		return err
	}
	p.rings, err = ReadRings(p.Around)
	return err
}

// complete adds the operator's rings to the file, and lowers max_steps to the tenant's limit. It
// reports whether the file asked for more steps. The caller has called read.
func (p *Plan) complete() (lowered bool) {
	if p.rings != nil {
		p.file.Rings = p.rings.Rings
	}
	return p.tenant.ID() != store.Operator && capSteps(p.file, p.policy.StepLimit())
}

// restrict sets the options that limit the models and parameters that modules of a tenant other
// than the operator may choose.
func (p *Plan) restrict(o *host.FileOptions) {
	if p.tenant.ID() == store.Operator {
		return
	}
	if models := p.policy.Models; len(models) > 0 {
		o.AllowModel = func(model string) bool { return hook.Matches(models, model) }
	}
	o.CheckParam = p.policy.ParamCheck()
}

// StoredAgent returns the file of the agent that a server ran, with the operator's rings, and sets
// the tenant's restrictions in o. The path of each module is its digest and ".wasm".
func StoredAgent(
	ctx context.Context,
	s store.Store,
	info *journal.RunInfo,
	o *host.FileOptions,
) (*agentfile.File, error) {
	spec, err := SpecOf(info)
	if err != nil {
		return nil, err
	}
	plan, err := planOf(ctx, s.Tenant(info.Tenant), spec)
	if err != nil {
		return nil, err
	}
	if err := plan.read(); err != nil {
		return nil, err
	}
	plan.complete()
	plan.restrict(o)
	return plan.file, nil
}
