package composition

import (
	"encoding/json"
	"fmt"
	"slices"
)

// A limit is a limit that a run has reached.
type limit struct {
	name, tool string
	value      int
}

// String returns the first words of the line for the limit's event.
func (l *limit) String() string { return fmt.Sprintf("limit %s %s %d", l.name, l.tool, l.value) }

// endAt ends the run at a limit.
func (p *prediction) endAt(l *limit) { panic(&ended{at: l}) }

// limited completes the end of a run that reached a limit. Depending on the settings of the limits,
// the run ends with the answer so far, without an answer, or with an error.
func (p *prediction) limited(end *ended) {
	p.say("%s run_ended", end.at)
	on := p.root.Limits.On
	end.reason, end.failed = "limit", tooManyCalls
	switch end.at.name {
	case "max_steps":
		end.reason, end.failed = "max_steps", tooManySteps
	case "tool_calls":
		on = p.root.Limits.OnTool
	}
	if on != "" {
		end.final = p.partialAnswer()
	}
	if end.final != nil || on == "end" {
		end.failed = ""
	}
}

// partialAnswer returns the last assistant message that has text, without its tool calls, or nil if
// there is none.
func (p *prediction) partialAnswer() *message {
	for _, m := range slices.Backward(p.state) {
		if m.role == "assistant" && m.text != "" {
			m.calls = nil
			return &m
		}
	}
	return nil
}

// mayStep starts a step, or ends the run if its steps or model calls are used up. If the limits are
// set to "answer", the last allowed step offers the model no tools.
func (p *prediction) mayStep() {
	before := p.last
	for _, of := range []struct {
		name       string
		most, used int
	}{{"max_steps", p.root.MaxSteps, p.step}, {"model_calls", p.root.Limits.ModelCalls, p.modelCalls}} {
		reached := &limit{name: of.name, value: of.most}
		switch left := of.most - of.used; {
		case of.most == 0:
		case left <= 0:
			p.endAt(reached)
		case left == 1 && p.root.Limits.On == "answer" && p.last == nil:
			p.last = reached
		}
	}
	if p.step++; before == nil && p.last != nil {
		p.say("%s last_call", p.last)
	}
}

// countModelCall counts a model call in this run and in the runs that enclose it. If the call
// exceeds a limit of one of them, countModelCall ends the run.
func (p *prediction) countModelCall() {
	for at := p; at != nil; at = at.around {
		l := at.root.Limits
		most := l.ModelCalls
		if at != p && l.On == "answer" {
			most-- // one call is reserved for the final answer
		}
		if l.ModelCalls > 0 && at.modelCalls >= most {
			p.endAt(&limit{name: "model_calls", value: l.ModelCalls})
		}
	}
	for at := p; at != nil; at = at.around {
		at.modelCalls++
	}
}

// countTool counts a tool call in this run and in the runs that enclose it. If the call exceeds a
// limit of one of them, countTool returns that limit.
func (p *prediction) countTool(name string) *limit {
	seenBy := name
	for at := p; at != nil; at = at.around {
		l, all := at.root.Limits, 0
		if seenBy == plainTool && l.Plain > 0 && at.toolCalls[seenBy] >= l.Plain {
			return &limit{"tool_calls", seenBy, l.Plain}
		}
		for _, n := range at.toolCalls {
			all += n
		}
		if l.ToolCalls > 0 && all >= l.ToolCalls {
			return &limit{"tool_calls", "", l.ToolCalls}
		}
		seenBy = "inside/" + seenBy
	}
	for at := p; at != nil; at = at.around {
		at.toolCalls[name]++
		name = "inside/" + name
	}
	return nil
}

// allot returns the limit that each call of a round exceeds, or nil for a call that may run. It may
// end the run before any of the calls runs.
func (p *prediction) allot(calls []toolCall) []*limit {
	out := make([]*limit, len(calls))
	if p.last != nil {
		p.calledPastLimit = true
		for i := range out {
			out[i] = p.last
		}
		return out
	}
	var beyond []*limit
	for i, c := range calls {
		var arguments map[string]any
		parses := c.arguments == "" || json.Unmarshal([]byte(c.arguments), &arguments) == nil
		if !parses || !slices.Contains(p.requestTools, c.name) {
			continue // the step calls no tool
		}
		out[i] = p.countTool(c.name)
		if out[i] != nil && !slices.ContainsFunc(beyond, func(l *limit) bool { return *l == *out[i] }) {
			beyond = append(beyond, out[i])
		}
	}
	on := p.root.Limits.OnTool
	if len(beyond) > 0 && (on == "" || on == "end") {
		p.endAt(beyond[0])
	}
	for _, l := range beyond {
		if on == "answer" && p.last == nil {
			p.last = l
		}
		p.say("%s refused", l)
	}
	return out
}
