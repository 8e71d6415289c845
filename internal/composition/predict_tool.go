package composition

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// round makes the tool calls of a message and then calls after_tools. Afterwards it ends the run or
// transfers the conversation if a call requires that. An error of one call does not affect the
// others.
func (p *prediction) round(calls []toolCall) {
	var end *ended
	var answers, trailing []message
	direct := ""
	p.transfers = make([]string, len(calls))
	beyond := p.allot(calls)
	errs := make([]bool, len(calls))
	for i, c := range calls {
		p.recordCall(c)
		if beyond[i] != nil {
			_, messages := p.refuse(c, beyondLimit)
			errs[i] = true
			answers = append(answers, messages...)
			continue
		}
		ending := caught(func() {
			p.nth, p.calling = i, calls
			a, messages := p.callTool(c)
			errs[i] = a.isError
			answers = append(answers, messages[0])
			trailing = append(trailing, messages[1:]...)
			if !a.isError && slices.Contains(p.direct, c.name) {
				direct = c.id
			}
		})
		if end == nil {
			end = ending
		}
	}
	p.state = slices.Concat(p.state, answers, trailing)
	if end != nil {
		p.account.Open = p.account.Open || len(calls) > 1 && len(p.account.Paused) > 0
		panic(end)
	}
	p.pipeline(
		p.outward(contract.HookAfterTools),
		contract.HookAfterTools,
		func() string { return lines(p.state) },
		func(e *Entry, s puppet.Script) bool {
			p.persist(e, contract.HookAfterTools, s)
			return false
		},
	)
	for _, m := range p.state {
		if direct != "" && m.callID == direct {
			panic(&ended{reason: "return_directly", final: &m})
		}
	}
	if p.calledPastLimit {
		p.endAt(p.last)
	}
	for i, to := range p.transfers {
		if to != "" && !errs[i] {
			p.transferTo(to)
			break
		}
	}
}

// callTool makes one call. It returns the outcome and the messages that record the call. The first
// of them has the result.
func (p *prediction) callTool(c toolCall) (answer, []message) {
	var arguments map[string]any
	switch {
	case !slices.Contains(p.requestTools, c.name):
		return p.refuse(c, unknownTool)
	case c.arguments == "":
		c.arguments = "{}"
	case json.Unmarshal([]byte(c.arguments), &arguments) != nil:
		return p.refuse(c, badArguments)
	}
	x, a := p.toolCall(c, nil)
	c.arguments = x.executed
	messages := p.toolMessages(c, a)
	p.say("tool_result %s %s %s", c, a.source, x.says(a))
	return a, messages
}

// toolCall makes a call with valid arguments. It converts an error to an error result.
func (p *prediction) toolCall(c toolCall, passes func(*Entry) bool) (*exchange, answer) {
	x := &exchange{
		prediction: p,
		before:     contract.HookBeforeTool,
		wrap:       contract.HookWrapToolCall,
		after:      contract.HookAfterTool,
		call:       &c,
		executed:   c.arguments,
		passes:     passes,
	}
	if passes != nil {
		p.owns++
		x.serial = p.owns
	}
	x.core = func(q request) answer {
		x.executed = q.arguments
		if a := x.gates(q); a != nil {
			return *a
		}
		return x.runTool(q)
	}
	a := x.ring(Outer, request{arguments: c.arguments})
	if a.failed {
		a.failed, a.isError = false, true
	}
	return x, a
}

// refuse rejects a call before any hook is called.
func (p *prediction) refuse(c toolCall, why string) (answer, []message) {
	p.say("tool_result %s host is_error %s", c, why)
	return answer{isError: true}, []message{{role: "tool", callID: c.id, text: why}}
}

// gates returns the answer of the gate that denies call q, or nil if all gates allow it.
func (x *exchange) gates(q request) *answer {
	var denied *answer
	asks := ""
	const hook = contract.HookGateTool
	for _, e := range slices.Concat(x.in(Outer, hook), x.in(Tenant, hook), x.in(Inner, hook)) {
		v := x.prediction.call(e, contract.HookGateTool, x.shown(q), nil)
		text := ""
		switch do := e.Hooks[contract.HookGateTool].Do; {
		case v.faulted:
			text = "fault:" + e.Name
		case v.failed != "":
			text = v.failed
		case do == puppet.Deny:
			text = mark(puppet.Deny, e, contract.HookGateTool)
		}
		if e.Hooks[contract.HookGateTool].Do == puppet.Ask && asks == "" {
			asks = e.Name + ".gate_tool " + x.shown(q)
		}
		if text != "" && denied == nil {
			denied = &answer{isError: true, text: text, source: e.Name}
		}
	}
	if key := fmt.Sprint(x.step, x.serial, asks); asks != "" && denied == nil && !x.approved[key] {
		x.approved[key] = true
		x.account.Paused = append(x.account.Paused, asks)
	}
	return denied
}

// runTool runs the tool of the host, or the hook call_tool of the entry that added the tool.
func (x *exchange) runTool(q request) answer {
	name := x.call.name
	for i := range x.c.Entries {
		e := &x.c.Entries[i]
		if name != puppet.Tool(e.Name) {
			continue
		}
		v := x.prediction.call(e, contract.HookCallTool, x.shown(q), nil)
		switch {
		case v.failed != "":
			return answer{failed: true, text: v.failed, source: "tool"}
		case v.faulted:
			return answer{failed: true, text: "fault:" + e.Name, source: "tool"}
		}
		return answer{text: mark(puppet.Answer, e, contract.HookCallTool) + q.arguments, source: "tool"}
	}
	if name == childTool {
		return x.runChild(q)
	}
	if name == transfer {
		return x.askTransfer(q)
	}
	x.account.Ran = append(x.account.Ran, x.shown(q))
	switch name {
	case failsTool:
		return answer{failed: true, text: toolFails, source: "tool"}
	case errorsTool:
		return answer{isError: true, text: name + q.arguments, source: "tool"}
	default:
		return answer{text: name + q.arguments, source: "tool"}
	}
}

// runChild runs the sub-agent Kid as a tool.
func (x *exchange) runChild(q request) answer {
	child := newPrediction(x.c.Kid, q.arguments)
	child.around = x.prediction
	end := child.run()
	for _, line := range child.account.Events {
		x.say("child %s %s", x.call.id, line)
	}
	x.account.Kids = slices.Concat(x.account.Kids, child.account.Asked, child.account.Ran)
	x.account.Paused = append(x.account.Paused, child.account.Paused...)
	x.account.Open = x.account.Open || child.account.Open
	if end.final == nil || end.failed != "" || end.reason == "stopped" {
		return answer{isError: true, text: childFailed, source: "tool"}
	}
	return answer{text: end.final.text, source: "tool"}
}

// toolMessages returns the messages that record a result. The first entry whose hook returns
// messages or fails determines them.
func (p *prediction) toolMessages(c toolCall, a answer) []message {
	def := message{role: "tool", callID: c.id, text: a.text}
	says := a.text
	if a.isError {
		says = "is_error " + says
	}
	for _, e := range p.inward(contract.HookToolMessages) {
		v := p.call(e, contract.HookToolMessages, c.id+" "+c.name+c.arguments+" "+says+" | "+def.String(), nil)
		if !v.ok() {
			return []message{def}
		}
		switch e.Hooks[contract.HookToolMessages].Do {
		case puppet.Edit:
			def.text += "+" + e.Name
			return []message{def}
		case puppet.Insert:
			return []message{def, {role: "user", text: mark(puppet.Insert, e, contract.HookToolMessages)}}
		}
	}
	return []message{def}
}
