package server

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// usualParams are the parameters of a model that everybody may pass: they choose how it
// answers, and neither another model, nor what it is paid for beside its tokens, nor what
// becomes of the request. Those of a provider's own (service_tier, models, route, plugins,
// web_search_options) may do all of that, and n multiplies what an answer costs.
var usualParams = []string{
	"frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "min_p", "parallel_tool_calls",
	"presence_penalty", "prompt_cache_key", "reasoning_effort", "repetition_penalty", "response_format", "safety_identifier", "seed", "stop",
	"stream_options", "temperature", "tool_choice", "top_k", "top_logprobs", "top_p", "user", "verbosity",
}

// mayPass says why a parameter may not be passed; nil if any may: where no models are
// named the tenant asks its own, at its own cost.
func (p *Policy) mayPass() func(param string) error {
	if len(p.Models)+len(p.Params) == 0 {
		return nil
	}
	allowed := p.Params
	return func(param string) error {
		if slices.Contains(usualParams, param) || matches(allowed, param) {
			return nil
		}
		named := cmp.Or(strings.Join(allowed, ", "), "none")
		return fmt.Errorf("the operator's policy does not allow this tenant to set the parameter %.80q; allowed are the usual ones, and those in params of the tenant's policy: %s", param, named)
	}
}
