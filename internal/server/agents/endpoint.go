package agents

import (
	"slices"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/store"
)

// usesOperatorModel reports whether the agent uses the operator's models. It does if neither its
// file nor a secret of the tenant sets another endpoint. Agents of other tenants than the
// operator's must also have a policy that lists their models, and must not use the operator's key
// for anything else.
func (p *Plan) usesOperatorModel() bool {
	for _, s := range p.Secrets {
		if s.Name == agentfile.EnvBaseURL || s.Name == agentfile.EnvAnthropicBaseURL {
			return false
		}
	}
	if p.tenant.ID() == store.Operator {
		return !setsEndpoint(p.file)
	}
	return len(p.policy.Models) > 0 && !setsEndpoint(p.file) && !usesOperatorKey(p.file)
}

// modelURLs returns the URLs of the operator's models if the agent uses them.
func (p *Pool) modelURLs(plan *Plan) []string {
	if !plan.usesOperatorModel() {
		return nil
	}
	return []string{p.options.Getenv(agentfile.EnvBaseURL), p.options.Getenv(agentfile.EnvAnthropicBaseURL)}
}

// setsEndpoint reports whether a file, or one of its sub-agents, sets a model's endpoint.
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

// usesOperatorKey reports whether a file, or one of its sub-agents, would send the operator's
// key or URL to an MCP server, or declares it as a secret for modules.
func usesOperatorKey(f *agentfile.File) bool {
	operators := func(name string) bool { return slices.Contains(agentfile.ModelEnv, name) }
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
