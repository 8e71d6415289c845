package composition

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// An answer is an answer of the model or a tool, or the answer with which an entry replaced it.
type answer struct {
	failed  bool // whether the answer is an error; text is then the error's message
	isError bool // whether the answer is an error result of a tool
	text    string
	calls   []toolCall
	source  string
}

func (a answer) origin() string {
	if a.source == "model" {
		return "model"
	}
	return "module:" + a.source
}

// A request is the messages of a model call or the arguments of a tool call.
type request struct {
	messages  []message
	arguments string
}

// An exchange simulates a call of the model or a tool through its rings.
type exchange struct {
	*prediction
	before, wrap, after abi.Hook
	tools               []string             // names of the tools that the model is offered
	passes              func(*Entry) bool    // reports whether an entry's hooks apply to the call; nil means all do
	serial              int                  // number of an entry's own call, whose ID is a placeholder
	call                *toolCall            // the tool call; nil for a model call
	executed            string               // the arguments with which the tool last ran
	core                func(request) answer // calls the model, or the gates and the tool
}

// in returns the entries in a ring that have the hook h, without entries that passes rejects.
func (x *exchange) in(ring int, h abi.Hook) []*Entry {
	return slices.DeleteFunc(x.prediction.in(ring, h), func(e *Entry) bool { return x.passes != nil && !x.passes(e) })
}

// askModel makes the model call of a step and returns its answer. A failed call ends the run.
func (p *prediction) askModel() answer {
	messages := append([]message{{role: "system", text: p.instruction}}, p.state...)
	if p.last != nil {
		messages = append(messages, message{role: "user", text: lastCall})
	}
	a := p.modelCall(p.requestTools, nil).ring(Outer, request{messages: messages})
	if a.failed {
		panic(&ended{reason: "error", failed: a.text})
	}
	return a
}

// modelCall returns an exchange for a model call that offers tools. passes selects the entries
// whose hooks apply; nil selects all.
func (p *prediction) modelCall(tools []string, passes func(*Entry) bool) *exchange {
	x := &exchange{
		prediction: p,
		before:     contract.HookBeforeModel,
		wrap:       contract.HookWrapModel,
		after:      contract.HookAfterModel,
		tools:      tools,
		passes:     passes,
	}
	x.core = func(q request) answer {
		p.countModelCall()
		p.account.Asked = append(p.account.Asked, x.shown(q))
		r := p.c.reply(p.step)
		if r.Fails {
			return answer{failed: true, text: modelFails, source: "model"}
		}
		a := answer{text: said(r, len(q.messages)), source: "model"}
		for i, c := range r.Calls {
			a.calls = append(a.calls, toolCall{callID(p.step, i), c.Tool, c.Arguments})
		}
		return a
	}
	return x
}

// own makes the call that hook h of entry e makes for itself, if its script has one, and reports
// the outcome. The hooks of e do not apply to the call. If the call is a model call, the hooks of
// entries in the tenant's ring do not apply either.
func (p *prediction) own(e *Entry, h abi.Hook, about string) {
	said := ""
	switch e.Hooks[h].Own {
	case puppet.OwnModel:
		x := p.modelCall(nil, func(o *Entry) bool { return o.Name != e.Name && o.Ring != Tenant })
		said = x.says(x.ring(Outer, request{messages: []message{{role: "user", text: mark(puppet.OwnModel, e, h)}}}))
	case puppet.OwnTool:
		c := toolCall{ownCall(e.Name, h, about), plainTool, puppet.OwnArguments(e.Name)}
		if beyond := p.countTool(c.name); beyond != nil {
			if on := p.root.Limits.OnTool; on == "" || on == "end" {
				p.endAt(beyond)
			}
			p.say("%s refused", beyond)
			said = "error " + beyondLimit
			break
		}
		p.say("tool_call %s", c)
		var x *exchange
		var a answer
		if end := caught(func() { x, a = p.toolCall(c, func(o *Entry) bool { return o.Name != e.Name }) }); end != nil {
			p.say("tool_result %s host is_error %s", c, notRun)
			panic(end)
		}
		c.arguments = x.executed
		p.say("tool_result %s %s %s", c, a.source, x.says(a))
		said = x.says(a)
	default:
		return
	}
	if about != "" {
		said = about + " " + said
	}
	p.say("custom %s.%s own %s", e.Name, h, said)
}

// ring makes the call through the given ring and all rings inside it.
func (x *exchange) ring(ring int, q request) answer {
	if ring == rings {
		return x.core(q)
	}
	q, a, short := x.runBefore(ring, q)
	for again := 0; ; again++ {
		if !short {
			a = x.onion(ring, x.in(ring, x.wrap), q)
		}
		a = x.passChunks(ring, a)
		var retry *request
		if a, retry = x.runAfter(ring, q, a, again); retry == nil {
			return a
		}
		q, short = *retry, false
	}
}

// shown formats a request as the hooks of a puppet report it.
func (x *exchange) shown(q request) string {
	if x.call != nil {
		return x.call.id + " " + x.call.name + q.arguments
	}
	return strings.Join(x.tools, ",") + ": " + lines(q.messages)
}

// says formats an answer as the hooks of a puppet report it.
func (x *exchange) says(a answer) string {
	switch {
	case a.failed:
		return "error " + a.text
	case a.isError:
		return "is_error " + a.text
	case x.call != nil:
		return a.text
	default:
		return (&message{role: "assistant", text: a.text, calls: a.calls}).String()
	}
}

// own returns the answer that hook h of an entry substitutes for the received one.
func own(e *Entry, h abi.Hook) answer { return answer{text: mark(puppet.Answer, e, h), source: e.Name} }

func edited(e *Entry, h abi.Hook, a answer) answer {
	if a.failed {
		return own(e, h)
	}
	a.text, a.source = a.text+"+"+e.Name, e.Name
	return a
}

// more returns q as entry e changes it: with a further message, or with the entry's arguments for a
// tool call.
func (x *exchange) more(q request, e *Entry, text string) request {
	if x.call != nil {
		q.arguments = fmt.Sprintf(`{"by":%q}`, e.Name)
		return q
	}
	q.messages = append(slices.Clone(q.messages), message{role: "user", text: text})
	return q
}

// runBefore calls the hooks of a ring that precede the call, and returns the changed request. If
// short is true, a hook answered or failed: a is the answer or the error, and the call is not made.
func (x *exchange) runBefore(ring int, q request) (_ request, a answer, short bool) {
	var failed *answer
	for _, e := range x.in(ring, x.before) {
		v := x.prediction.call(e, x.before, x.shown(q), nil)
		do := e.Hooks[x.before].Do
		switch {
		case v.failed != "" && failed == nil:
			failed = &answer{failed: true, text: v.failed, source: e.Name}
		case !v.ok():
		case do == puppet.Insert && x.call == nil, do == puppet.Edit && x.call != nil:
			q = x.more(q, e, mark(puppet.Insert, e, x.before))
			x.executed = q.arguments
		case do == puppet.Answer:
			a, short = own(e, x.before), true
		}
		if v.failed != "" && !x.c.ContinueOnError || v.ok() && do == puppet.Answer && !x.c.ContinueOnResponse {
			break
		}
	}
	if failed != nil {
		return q, *failed, true
	}
	return q, a, short
}

// onion calls the given wrappers of a ring, each inside the previous one, and makes the call inside
// the last.
func (x *exchange) onion(ring int, wrappers []*Entry, q request) answer {
	if len(wrappers) == 0 {
		return x.ring(ring+1, q)
	}
	e, inside := wrappers[0], wrappers[1:]
	var last, good *answer
	v := x.prediction.call(e, x.wrap, x.shown(q), func() {
		for _, change := range e.Hooks[x.wrap].Next {
			changed := q
			switch {
			case change == "" || change == puppet.Read:
			case x.call != nil:
				changed.arguments = fmt.Sprintf(`{"change":%q}`, change)
			default:
				changed.messages = append(slices.Clone(q.messages), message{role: "user", text: change})
			}
			a := x.onion(ring, inside, changed)
			if last = &a; !a.failed {
				good = &a
			}
			reply := x.says(a)
			if x.call != nil {
				reply = x.call.id + " " + reply
			}
			x.say("custom %s.%s reply %s", e.Name, x.wrap, reply)
		}
	})
	do := e.Hooks[x.wrap].Do
	switch {
	case v.failed != "":
		return answer{failed: true, text: v.failed, source: e.Name}
	case v.faulted && good != nil:
		return *good
	case v.ok() && do == puppet.Edit && good != nil:
		return edited(e, x.wrap, *good)
	case v.ok() && (do == puppet.Edit || do == puppet.Answer):
		return own(e, x.wrap)
	case last != nil:
		return *last
	default:
		return x.onion(ring, inside, q)
	}
}

// passChunks returns the answer after the changes by the on_chunk hooks of a ring.
func (x *exchange) passChunks(ring int, a answer) answer {
	if a.failed {
		return a
	}
	for _, e := range x.in(ring, contract.HookOnChunk) {
		if s := e.Hooks[contract.HookOnChunk]; s.Late && !strings.Contains(a.text, puppet.LateSign) {
			continue
		}
		v := x.prediction.call(e, contract.HookOnChunk, "", nil)
		if v.failed != "" {
			return answer{failed: true, text: v.failed, source: e.Name}
		}
		if v.ok() {
			switch e.Hooks[contract.HookOnChunk].Do {
			case puppet.Edit:
				a.text = puppet.Edited(e.Name, a.text)
			case puppet.Drop:
				a.text = ""
			}
		}
	}
	return a
}

// runAfter calls the hooks of a ring that follow the call. It returns the changed answer or, if a
// hook wants to repeat the call, the request for that. again is the number of repetitions so far.
func (x *exchange) runAfter(ring int, q request, a answer, again int) (answer, *request) {
	var failed *answer
	for _, e := range x.in(ring, x.after) {
		shown := a.source + " " + x.says(a)
		if x.call != nil {
			shown = x.call.id + " " + x.call.name + x.executed + " " + shown
		}
		v := x.prediction.call(e, x.after, shown, nil)
		switch do := e.Hooks[x.after].Do; {
		case v.failed != "" && x.c.ContinueOnError:
			if failed == nil {
				failed = &answer{failed: true, text: v.failed, source: e.Name}
			}
		case v.failed != "":
			a = answer{failed: true, text: v.failed, source: e.Name}
		case v.faulted:
		case do == puppet.Error:
			a = answer{failed: true, text: mark(puppet.Error, e, x.after), source: e.Name}
		case do == puppet.Edit:
			a = edited(e, x.after, a)
		case do == puppet.Answer:
			a = own(e, x.after)
		case do == puppet.Again:
			key := fmt.Sprint(e.Name, x.after, x.step)
			if x.call != nil {
				key += x.call.id + fmt.Sprint(x.serial)
			}
			if !x.repeated[key] && again < 3 {
				x.repeated[key] = true
				changed := x.more(q, e, mark(puppet.Again, e, x.after))
				return a, &changed
			}
			x.repeated[key] = true
		}
	}
	if failed != nil {
		return *failed, nil
	}
	return a, nil
}
