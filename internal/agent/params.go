package agent

import (
	"maps"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
)

const (
	paramChoice = "tool_choice"

	paramMaxTokens           = "max_tokens"
	paramMaxCompletionTokens = "max_completion_tokens"
)

// Requested holds the parameters, the choice of tools and the format that a client's request sets
// for a run. The zero value sets nothing.
type Requested struct {
	// Params replace parameters of the agent's model calls, and apply also to the agents to which it transfers. A
	// limit of tokens only lowers the agent's, by either of its two names. The caller checks that the agent allows
	// them. Modules change them as they change the agent's own.
	Params abi.Params
	// Choice, if not nil, is the tool_choice of the next model call that offers tools.
	Choice abi.JSON
	// Check returns what is wrong with the text of the final answer, or "". The model is then asked again, once and
	// if the run may have another step. Optional.
	Check func(text string) string
}

// WithRequest returns a copy of a for the run of a request. It is a function, because embedders see the
// methods of [Agent].
func WithRequest(a *Agent, r Requested) *Agent {
	b := *a
	b.requested = &r
	return &b
}

// takeRequest sets the parameters, the choice of tools and the check that the client's request has for
// the run. A run that continues without a request, because its process ended, keeps the parameters of
// the last one.
func (r *run) takeRequest() {
	asked := r.root.requested
	if asked == nil {
		return
	}
	r.choice, r.check, r.state.Requested = asked.Choice, asked.Check, nil
	if len(asked.Params) > 0 {
		r.state.Requested = &runlog.Requested{Params: asked.Params}
	}
}

// params returns the parameters of the current agent with those of the client's request.
func (r *run) params() abi.Params {
	if q := r.state.Requested; q != nil {
		return r.agent.paramsWith(q.Params)
	}
	return r.agent.Params
}

// asksAgain reports whether the model is to be asked again because its final answer is not as requested. If so, it adds
// the message that says why.
func (r *run) asksAgain(last *abi.Message) bool {
	s := &r.state
	if r.check == nil || s.AskedAgain || s.LastLimit != nil || s.Step >= r.limits().MaxSteps {
		return false
	}
	problem := r.check(last.Content.String())
	if problem == "" {
		return false
	}
	m := abi.User("Your answer does not have the requested format: " + problem + ". Answer again, with nothing else.")
	m.Origin, m.ID = abi.OriginHost, r.NewID()
	s.Messages, s.AskedAgain = s.Messages.Append(m), true
	return true
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
			limit = name // the name that the agent uses, since its model understands it
		}
	}
	if limit != "" {
		out[limit] = lower(out[limit], value)
	}
	return out
}

// lower returns the lower of the limits old and next, or next if old is not an integer.
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
