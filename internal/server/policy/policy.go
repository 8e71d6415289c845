package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Policy is what the operator allows a tenant. Its zero value allows a module
// what harms nobody: reading the conversation of its own agent.
type Policy struct {
	Grants   []string `json:"grants,omitempty" doc:"Grants that the tenant's agents may give to modules, as in agent.yaml. A trailing * matches anything: read:*, tool:*. Default: read:*, which cannot affect other tenants."`
	Models   []string `json:"models,omitempty" doc:"Models that the tenant's agents may use. A trailing * matches anything. Default: any, with the tenant's own credentials."`
	Params   []string `json:"params,omitempty" doc:"Additional model parameters that the tenant's agents and modules may set. Parameters that cannot raise the price are always allowed. A trailing * matches anything. Default: none if models is set, else any."`
	Hosts    []string `json:"hosts,omitempty" doc:"Hosts that modules and MCP servers may reach, such as api.example.com or *.example.com. Default: none."`
	MaxSteps int      `json:"max_steps,omitempty" minimum:"0" maximum:"100000" doc:"Maximum number of steps per run, up to 100,000. Default: 1,000."`
}

// defaultMaxSteps is the policy's max_steps where the operator says nothing.
const defaultMaxSteps = 1_000

// StepLimit returns the most steps that a run of the tenant may have. A policy that was stored before
// there was a maximum may exceed it.
func (p *Policy) StepLimit() int { return min(cmp.Or(p.MaxSteps, defaultMaxSteps), agentfile.MaxSteps) }

// Of returns the policy of a tenant.
func Of(info *store.TenantInfo) (p Policy, err error) {
	return p, json.Unmarshal(info.Policy, &p)
}

// usualParams are the parameters of a model that everybody may pass: they choose how it
// answers, and neither another model, nor what it is paid for beside its tokens, nor what
// becomes of the request. Those of a provider's own (service_tier, models, route, plugins,
// web_search_options) may do all of that, and n multiplies what an answer costs.
var commonParams = []string{
	"frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "min_p", "parallel_tool_calls",
	"presence_penalty", "prompt_cache_key", "reasoning_effort", "repetition_penalty", "response_format", "safety_identifier", "seed", "stop",
	"stream_options", "temperature", "tool_choice", "top_k", "top_logprobs", "top_p", "user", "verbosity",
}

// mayPass says why a parameter may not be passed; nil if any may: where no models are
// named the tenant asks its own, at its own cost.
func (p *Policy) ParamCheck() func(param string) error {
	if len(p.Models)+len(p.Params) == 0 {
		return nil
	}
	allowed := p.Params
	return func(param string) error {
		if slices.Contains(commonParams, param) || Matches(allowed, param) {
			return nil
		}
		named := cmp.Or(strings.Join(allowed, ", "), "none")
		return fmt.Errorf("the operator's policy does not allow this tenant to set the parameter %.80q; allowed are the usual ones, and those in params of the tenant's policy: %s", param, named)
	}
}

// matches reports whether one of the patterns, which may end in *, is for s.
func Matches(patterns []string, s string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		start, open := strings.CutSuffix(p, "*")
		return p == s || open && strings.HasPrefix(s, start)
	})
}
