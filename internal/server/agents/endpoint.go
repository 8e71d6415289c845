package agents

import (
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/store"
)

// shared reports whether the agent may ask the operator's model: the policy names its
// models, neither the file nor a secret of the tenant says that it is elsewhere, and
// the file wants the operator's key nowhere else.
func (p *Plan) usesOperatorModel() bool {
	for _, s := range p.Secrets {
		if s.Name == host.EnvBaseURL {
			return false
		}
	}
	if p.tenant.ID() == store.Operator {
		return !setsEndpoint(p.file)
	}
	return len(p.policy.Models) > 0 && !setsEndpoint(p.file) && !usesOperatorKey(p.file)
}

// modelURL is where the operator's model is, if the agent may ask it.
func (f *Pool) modelURL(p *Plan) string {
	if !p.usesOperatorModel() {
		return ""
	}
	return f.options.Getenv(host.EnvBaseURL)
}

// namesEndpoint reports whether a file, or one of an agent inside of it, says where a
// model is.
func setsEndpoint(f *agentfile.File) bool {
	if f.Model.BaseURL != "" {
		return true
	}
	for _, other := range f.Model.Fallbacks {
		if other.BaseURL != "" {
			return true
		}
	}
	for i := range f.Agents {
		if inner := f.Agents[i].Spec(); inner != nil && setsEndpoint(inner) {
			return true
		}
	}
	return false
}

// takesKey reports whether a file, or one of an agent inside of it, would send what
// the operator's model is asked with to somebody else: to a server of tools, or to
// hosts that modules reach.
func usesOperatorKey(f *agentfile.File) bool {
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
		if inner := f.Agents[i].Spec(); inner != nil && usesOperatorKey(inner) {
			return true
		}
	}
	return false
}
