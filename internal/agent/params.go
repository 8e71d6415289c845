package agent

import (
	"maps"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
)

const (
	paramChoice = "tool_choice"

	paramMaxTokens           = "max_tokens"
	paramMaxCompletionTokens = "max_completion_tokens"
)

// Requested has the settings that a client's request makes for a run. The zero value changes
// nothing.
type Requested struct {
	// Params replaces parameters of the agent's model calls, and of those of agents to which the
	// run is transferred. A limit of tokens, under either of its names, can only lower the agent's
	// limit. The caller must check that the agent allows the parameters. Modules can change them
	// like the agent's own.
	Params abi.Params
	// Choice, if not nil, is the tool_choice of the next model call that offers tools.
	Choice abi.JSON
	// Check describes the mistakes in the text of the final answer, or returns "" if there are
	// none. If there is a mistake, the model is asked again, but only once, and only if the run may
	// have another step. Optional.
	Check func(text string) string
}

// WithRequest returns a copy of a for the run of a request. It is a function because the methods of
// [Agent] are visible to embedders.
func WithRequest(a *Agent, r Requested) *Agent {
	b := *a
	b.requested = &r
	return &b
}

// takeRequest sets the parameters, the choice of tools and the check of the client's request for
// the run. A run that continues without a request, because its process ended, keeps the parameters
// of the last request.
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

// params returns the parameters of the current agent, changed by those of the client's request.
func (r *run) params() abi.Params {
	if q := r.state.Requested; q != nil {
		return r.agent.paramsWith(q.Params)
	}
	return r.agent.Params
}

// asksAgain reports whether the model must be asked again because its final answer does not pass
// the request's check. If so, it appends a message with the mistake.
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

// paramsWith returns a copy of the agent's parameters, changed by more. If both have a token limit,
// the lower one applies, under the agent's name for it. If more has a limit under both names, the
// lower of the two counts, under max_completion_tokens unless the agent uses max_tokens.
func (a *Agent) paramsWith(more abi.Params) abi.Params {
	if len(more) == 0 {
		return a.Params
	}
	out := maps.Clone(a.Params)
	if out == nil {
		out = abi.Params{}
	}
	names := []string{paramMaxTokens, paramMaxCompletionTokens}
	limit, value := "", abi.JSON(nil)
	for _, name := range names {
		if v, ok := more[name]; ok {
			limit, value = name, lower(value, v)
		}
	}
	for name, v := range more {
		if !slices.Contains(names, name) {
			out[name] = v
		}
	}
	for _, name := range names {
		if limit != "" && a.Params[name] != nil {
			limit = name // use the name that the agent uses, because its model supports that name
		}
	}
	if limit != "" {
		out[limit] = lower(out[limit], value)
	}
	return out
}

// lower returns the lower of the integers old and next, or next if old is not an integer.
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
