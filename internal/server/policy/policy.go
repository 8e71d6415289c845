package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A Policy holds the operator's limits for a tenant. The only grants that the zero value allows are
// those to read the conversation of the module's own agent.
type Policy api.Policy

// defaultMaxSteps is the default of max_steps.
const defaultMaxSteps = 1_000

// StepLimit returns the maximum number of steps of a tenant's run. It is at most
// [agentfile.MaxSteps], even if the policy was stored before that limit existed and exceeds it.
func (p *Policy) StepLimit() int { return min(cmp.Or(p.MaxSteps, defaultMaxSteps), agentfile.MaxSteps) }

// Of returns the policy of a tenant.
func Of(info *store.TenantInfo) (p Policy, err error) {
	return p, json.Unmarshal(info.Policy, &p)
}

// commonParams lists the model parameters that every tenant may set. They choose how the model
// answers. Other parameters (service_tier, models, route, plugins, web_search_options) may
// choose another model, change the price, or send the request elsewhere; n multiplies the
// price.
var commonParams = []string{
	"frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "min_p", "parallel_tool_calls",
	"presence_penalty", "prompt_cache_key", "reasoning_effort", "repetition_penalty", "response_format",
	"safety_identifier", "seed", "stop", "stream_options", "temperature", "tool_choice", "top_k", "top_logprobs", "top_p",
	"user", "verbosity",
}

// ParamCheck returns a function that returns an error if the tenant may not set a parameter.
// ParamCheck itself returns nil if the policy names neither models nor parameters, because the
// tenant then pays for its own model.
func (p *Policy) ParamCheck() func(param string) error {
	if len(p.Models)+len(p.Params) == 0 {
		return nil
	}
	allowed := p.Params
	return func(param string) error {
		if slices.Contains(commonParams, param) || hook.Matches(allowed, param) {
			return nil
		}
		named := cmp.Or(strings.Join(allowed, ", "), "none")
		return fmt.Errorf(
			"the operator's policy does not allow this tenant to set the parameter %.80q; allowed are the usual ones, and those in params of the tenant's policy: %s",
			param,
			named,
		)
	}
}
