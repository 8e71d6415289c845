package agents

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/policy"
	"github.com/agent-runner/agent-runner/internal/store"
)

// ringsName is the agent of the operator's whose rings are around the agents of
// all tenants.
const ringsName = "rings"

// What an agent takes, in bytes: twice of what was measured, for the garbage collector.
// What its images take is bounded too, by the sandbox, which has room only where agents
// are closed.
const (
	AgentBytes  = 32 << 10
	entryBytes  = 16 << 10 // of a middleware
	serverBytes = 1 << 20  // of a server of tools, which has a connection, and a session at its other end
)

// An agentPlan is all that an agent is made of.
type Plan struct {
	*store.AgentSnapshot
	tenant *store.Tenant
	policy policy.Policy
	Spec   Spec

	// What is read when it is made.
	file            *agentfile.File
	rings           *agentfile.Rings
	operatorModules map[string]bool // digests of the operator's modules
}

// plan looks up what an agent is made of, as it is now.
func (f *Pool) plan(ctx context.Context, t *store.Tenant, spec Spec) (*Plan, error) {
	around := ringsName
	if t.ID() == store.Operator || spec.Rings < 0 { // it began when there were none
		around = ""
	}
	p := &Plan{tenant: t, Spec: spec}
	var err error
	if p.AgentSnapshot, err = t.AgentSnapshot(ctx, spec.Agent, spec.Version, around, max(0, spec.Rings)); err != nil {
		return nil, err
	}
	if p.policy, err = policy.Of(p.Info); err != nil {
		return nil, err
	}
	p.Spec.Version = p.Agent.Version
	switch {
	case around == "":
	case p.Around != nil:
		p.Spec.Rings = p.Around.Version
	case spec.Rings == 0:
		p.Spec.Rings = -1
	default:
		return nil, fmt.Errorf("agent %s of the operator: %w", ringsName, store.ErrNoAgent)
	}
	return p, nil
}

// key names the plan: the same plan makes the same agent.
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

// bytes is how much memory its agent takes, once it was read.
func (p *Plan) bytes() int64 {
	n := int64(AgentBytes)
	if p.file == nil {
		return n
	}
	walk(p.file, func(*agentfile.File, string, *agentfile.Middleware) { n += entryBytes })
	return n + int64(countServers(p.file))*serverBytes
}

// serversOf is how many servers of tools a file names, with the agents inside of it.
func countServers(f *agentfile.File) int {
	n := len(f.Tools.MCP)
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil {
			n += countServers(inner)
		}
	}
	return n
}

// read reads the files of the plan, and puts the operator's rings around a tenant's agent.
func (p *Plan) read() (err error) {
	p.operatorModules = map[string]bool{}
	if p.file, _, err = readStored(p.Agent); err != nil || p.Around == nil {
		return err
	}
	file, shown, err := readStored(p.Around)
	if err != nil {
		return err
	}
	for _, e := range shown.Modules {
		p.operatorModules[httpapi.TrimDigest(e.Digest)] = true
	}
	p.rings = &file.Rings
	for _, list := range [][]agentfile.Middleware{file.Rings.Outer, file.Rings.Inner} {
		for i := range list {
			list[i].Name = OperatorName + "." + list[i].Name
		}
	}
	return nil
}
