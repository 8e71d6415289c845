package agent

import (
	"maps"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
)

// The names of parameters that [Agent.WithParams] treats apart.
const (
	paramChoice = "tool_choice"

	paramMaxTokens           = "max_tokens"
	paramMaxCompletionTokens = "max_completion_tokens"
)

// WithParams returns a copy of the agent whose model calls have additional parameters, such as those of a
// client's request. They replace the agent's own, and apply also to the agents to which it transfers. A limit
// of tokens only lowers the agent's, by either of its two names. choice, if not nil, is the tool_choice of the
// next model call that offers tools. The caller checks that the agent allows the parameters. Modules change
// them as they change the agent's own.
func (a *Agent) WithParams(params abi.Params, choice abi.JSON) *Agent {
	b := *a
	b.requested, b.choice = params, choice
	return &b
}

// paramsWith returns the agent's parameters with additional ones. It does not change a map.
func (a *Agent) paramsWith(more abi.Params) abi.Params {
	if len(more) == 0 {
		return a.Params
	}
	out := maps.Clone(a.Params)
	if out == nil {
		out = abi.Params{}
	}
	limit, value := "", abi.JSON(nil)
	for name, v := range more {
		if name == paramMaxTokens || name == paramMaxCompletionTokens {
			limit, value = name, v
			continue
		}
		out[name] = v
	}
	for _, name := range []string{paramMaxTokens, paramMaxCompletionTokens} {
		if limit != "" && a.Params[name] != nil {
			limit = name // the agent's spelling, which its model understands
		}
	}
	if limit != "" {
		out[limit] = lower(out[limit], value)
	}
	return out
}

// lower returns the lower one of two limits, of which the first one may be absent.
func lower(old, next abi.JSON) abi.JSON {
	was, err := strconv.ParseInt(string(old), 10, 64)
	if err != nil {
		return next
	}
	if now, err := strconv.ParseInt(string(next), 10, 64); err == nil && now < was {
		return next
	}
	return old
}
