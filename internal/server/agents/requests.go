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

// A RequestPolicy determines which parameters requests of model APIs may set.
type RequestPolicy struct {
	lists [][]string         // a parameter must match a pattern in each list
	check func(string) error // rejects parameters that the tenant's policy does not allow; nil allows all
}

// requestParams lists the parameters that a request may set if the agent's file has no list. They
// change how the model answers, but neither raise its costs nor give the client anything that the
// agent does not have.
var requestParams = []string{
	"frequency_penalty", "min_p", "parallel_tool_calls", "presence_penalty", "response_format", "seed", "stop",
	"temperature", "tool_choice", "top_k", "top_p",
}

// lowering lists the parameters that every request may set, because they can only lower a limit of
// the agent. Clients of Anthropic's API always send max_tokens.
var lowering = []string{"max_tokens", "max_completion_tokens"}

// requests returns the policy for requests of model APIs to the plan's agent.
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

// Check returns a problem for the first parameter that a request may not set. choice is the
// request's tool_choice, or nil if it has none.
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
