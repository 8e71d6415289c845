package agents

import (
	"maps"
	"net/http"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
)

// A RequestPolicy says which parameters requests of model APIs may set.
type RequestPolicy struct {
	lists [][]string         // each of which must allow a parameter
	check func(string) error // the tenant's policy; nil if it allows any
}

// requestParams are the parameters that a request may set unless the agent's file has a list. They choose how
// the model answers, cost no more, and give the client nothing that the agent does not have.
var requestParams = []string{
	"frequency_penalty", "min_p", "parallel_tool_calls", "presence_penalty", "response_format", "seed", "stop",
	"temperature", "tool_choice", "top_k", "top_p",
}

// lowering are the parameters that every request may set, because they only lower a limit of the agent. Clients
// of Anthropic's API always send one.
var lowering = []string{"max_tokens", "max_completion_tokens"}

// requests returns the policy for requests to the agent of a plan.
func (p *Plan) requests() RequestPolicy {
	out := RequestPolicy{lists: [][]string{requestParams}}
	if p.file != nil && p.file.Requests.Params != nil {
		out.lists[0] = p.file.Requests.Params
	}
	if p.rings != nil && p.rings.Requests.Params != nil {
		out.lists = append(out.lists, p.rings.Requests.Params)
	}
	if p.tenant.ID() != store.Operator {
		out.check = p.policy.ParamCheck()
	}
	return out
}

// Check returns a problem that names the first parameter that a request may not set. choice is the request's
// tool_choice, if it sets one.
func (r *RequestPolicy) Check(params abi.Params, choice abi.JSON) error {
	names := slices.Sorted(maps.Keys(params))
	if choice != nil {
		names = append(names, "tool_choice")
	}
	for _, name := range names {
		for _, list := range r.lists {
			if !slices.Contains(lowering, name) && !hook.Matches(list, name) {
				return badParam(name, "requests to this agent may not set "+name+
					"; remove it, or let requests.params of the agent's file list it")
			}
		}
		if r.check == nil {
			continue
		}
		if err := r.check(name); err != nil {
			return badParam(name, err.Error())
		}
	}
	return nil
}

func badParam(name, text string) error {
	p := httpapi.NewProblem(api.CodeInvalid, "%s", text)
	p.Status = http.StatusBadRequest
	p.OpenAI = &api.OpenAIError{Message: text, Type: "invalid_request_error", Param: &name}
	return p
}
