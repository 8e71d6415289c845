package composition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Predict returns the account that the contract requires for a composition. It ignores streams and
// pauses, because they must not change the account.
func Predict(c *Composition) *Account {
	p := newPrediction(c, question)
	p.run()
	p.account.sort()
	return &p.account
}

func newPrediction(c *Composition, asked string) *prediction {
	p := &prediction{
		root:      c,
		counters:  map[string]int{},
		repeated:  map[string]bool{},
		calls:     map[string]bool{},
		approved:  map[string]bool{},
		toolCalls: map[string]int{},
	}
	p.equip(c)
	p.state = []message{{role: "user", text: asked, origin: "user"}}
	return p
}

// equip sets up the prediction for agent c, as at the start of a run.
func (p *prediction) equip(c *Composition) {
	p.c, p.direct, p.instruction, p.tools, p.active, p.respond = c, c.Direct, instruction, nil, nil, nil
	for _, name := range tools {
		p.tools = append(p.tools, declaration{name: name})
	}
	if c.Kid != nil {
		p.tools = append(p.tools, declaration{name: childTool})
	}
	if p.root.Peer != nil {
		p.tools = append(p.tools, declaration{name: transfer})
	}
}

// A prediction simulates a run according to the contract.
type prediction struct {
	c       *Composition // the current agent
	root    *Composition // the agent with which the run began
	account Account

	instruction  string
	tools        []declaration
	active       []string
	requestTools []string // names of the tools in the last request
	direct       []string
	state        []message
	respond      *message
	step         int

	counters map[string]int  // run-local counters, by entry
	repeated map[string]bool // whether an after hook has requested a repetition, by entry, hook, step and call
	calls    map[string]bool // ids of the calls that were reported
	owns     int             // number of calls that entries made for themselves
	approved map[string]bool // questions of gates that were answered, with the arguments of the calls

	calling   []toolCall // calls of the current round; calling[nth] is the current call
	nth       int
	transfers []string // target agents of the round's transfers, by call

	around          *prediction // the run that called this run as a tool; nil for the outermost run
	modelCalls      int
	toolCalls       map[string]int
	last            *limit // the limit after which the model is offered no tools; nil if none was reached
	calledPastLimit bool   // whether the model has called tools although none were offered
}

type declaration struct{ name, owner string }

type message struct {
	role, text, callID, origin string
	calls                      []toolCall
}

type toolCall struct{ id, name, arguments string }

// ended describes the end of a run. The simulation panics with an *ended to end the run, and caught
// recovers it.
type ended struct {
	reason, by, failed string
	final              *message
	at                 *limit // the limit that ended the run; nil if another reason did
}

// caught runs fn. It returns the *ended with which fn panicked, or nil if fn returned.
func caught(fn func()) (end *ended) {
	defer func() {
		if v := recover(); v != nil {
			e, ok := v.(*ended)
			if !ok {
				panic(v)
			}
			end = e
		}
	}()
	fn()
	return nil
}

func (m *message) String() string {
	if m == nil {
		return "none"
	}
	s := m.role[:1]
	if m.callID != "" {
		s += "#" + m.callID
	}
	s += ":" + m.text
	for _, c := range m.calls {
		s += " " + c.name + "#" + c.id + c.arguments
	}
	return s
}

func lines(list []message) string {
	out := make([]string, len(list))
	for i := range list {
		out[i] = list[i].String()
	}
	return strings.Join(out, " | ")
}

// say appends an event to the account.
func (p *prediction) say(format string, args ...any) {
	p.account.Events = append(p.account.Events, fmt.Sprintf(format, args...))
}

// in returns the current agent's entries in a ring that have the hook h.
func (p *prediction) in(ring int, h abi.Hook) []*Entry {
	var out []*Entry
	for i := range p.c.Entries {
		e := &p.c.Entries[i]
		if _, has := e.Hooks[h]; has && e.Ring == ring {
			out = append(out, e)
		}
	}
	return out
}

// inward returns the entries that have the hook h, from the outermost to the innermost ring.
func (p *prediction) inward(h abi.Hook) []*Entry {
	return slices.Concat(p.in(Outer, h), p.in(Tenant, h), p.in(Inner, h))
}

// outward returns the entries that have the hook h, from the innermost to the outermost ring.
func (p *prediction) outward(h abi.Hook) []*Entry {
	return slices.Concat(p.in(Inner, h), p.in(Tenant, h), p.in(Outer, h))
}

// A verdict is the outcome of a hook that did not end the run.
type verdict struct {
	failed  string // the error that the hook returned
	faulted bool
}

func (v verdict) ok() bool { return v == verdict{} }

func mark(what string, e *Entry, h abi.Hook) string { return puppet.Mark(what, e.Name, h) }

// ofTool reports whether h is a hook of tool calls.
func ofTool(h abi.Hook) bool {
	switch h {
	case contract.HookBeforeTool,
		contract.HookWrapToolCall,
		contract.HookGateTool,
		contract.HookCallTool,
		contract.HookAfterTool,
		contract.HookToolMessages:
		return true
	default:
		return false
	}
}

// lenient maps the hooks whose faults never end a run to the effect of a fault.
var lenient = map[abi.Hook]string{
	contract.HookGateTool:     "denied",
	contract.HookCallTool:     "error_result",
	contract.HookToolMessages: "default_message",
	contract.HookAfterAgent:   "passed_over",
}

// call simulates hook h of entry e and returns its verdict, or panics if the hook ends the run.
// Unless h is on_chunk, call first adds the hook's input, shown, to the account and makes the
// entry's own call. during, if not nil, makes the calls of a wrapper.
func (p *prediction) call(e *Entry, h abi.Hook, shown string, during func()) verdict {
	s := e.Hooks[h]
	counters := p.counters[e.Name]
	if s.Keep {
		shown += " | after " + strconv.Itoa(counters)
	}
	if h != contract.HookOnChunk {
		p.say("custom %s.%s shown %s", e.Name, h, shown)
		about := ""
		if ofTool(h) {
			about, _, _ = strings.Cut(shown, " ")
		}
		p.own(e, h, about)
	}
	if during != nil {
		during()
	}
	stops := h != contract.HookToolMessages && h != contract.HookAfterAgent
	gate := h == contract.HookGateTool && s.Do != puppet.Allow && s.Do != puppet.Deny && s.Do != puppet.Ask
	switch {
	case s.Do == puppet.Fail:
		return verdict{failed: mark(puppet.Fail, e, h)}
	case s.Do == puppet.Stop && stops:
		panic(&ended{reason: "stopped", by: e.Name + "." + string(h) + " " + mark(puppet.Stop, e, h)})
	case s.Do == puppet.Pause && mayPause(h):
		p.account.Paused = append(p.account.Paused, e.Name+"."+string(h))
	case s.Do == puppet.Fault, gate && s.Do != puppet.Pause:
		return p.fault(e, h)
	}
	if s.Keep {
		p.counters[e.Name] = counters + 1
	}
	return verdict{}
}

// fault adds a fault of a hook to the account. It ends the run, unless the hook is lenient or the
// entry skips faults.
func (p *prediction) fault(e *Entry, h abi.Hook) verdict {
	action, ends := lenient[h], false
	switch {
	case action != "":
	case e.Skip:
		action = "skipped"
	default:
		action, ends = "run_ended", true
	}
	p.say("fault %s.%s %s", e.Name, h, action)
	if ends {
		panic(&ended{reason: "error", failed: fmt.Sprintf("fault:%s.%s", e.Name, h)})
	}
	return verdict{faulted: true}
}

// pipeline calls state hook h of the given entries and applies their changes. If one of the hooks
// ends the run, pipeline undoes all changes.
func (p *prediction) pipeline(
	entries []*Entry,
	h abi.Hook,
	shown func() string,
	apply func(*Entry, puppet.Script) (last bool),
) {
	before := *p
	end := caught(func() {
		failed := ""
		for _, e := range entries {
			v := p.call(e, h, shown(), nil)
			if v.failed != "" && failed == "" {
				failed = v.failed
			}
			if failed != "" && !p.c.ContinueOnError || v.ok() && apply(e, e.Hooks[h]) {
				break
			}
		}
		if failed != "" {
			panic(&ended{reason: "error", failed: failed})
		}
	})
	if end != nil {
		p.state, p.tools, p.active = before.state, before.tools, before.active
		p.direct, p.instruction, p.respond = before.direct, before.instruction, before.respond
		panic(end)
	}
}

// persist applies a state hook's changes to the messages.
func (p *prediction) persist(e *Entry, h abi.Hook, s puppet.Script) {
	switch n := len(p.state); {
	case s.Do == puppet.Insert && h == contract.HookBeforeAgent:
		p.state = append([]message{p.inserted(e, h)}, p.state...)
	case s.Do == puppet.Insert:
		p.state = append(slices.Clone(p.state), p.inserted(e, h))
	case s.Do == puppet.Edit && n > 0 && h != contract.HookBeforeAgent:
		p.state = slices.Clone(p.state)
		p.state[n-1].text += "+" + e.Name
	}
}

func (p *prediction) inserted(e *Entry, h abi.Hook) message {
	return message{role: "user", text: mark(puppet.Insert, e, h), origin: "module:" + e.Name}
}

// run simulates the agent's run and returns the end.
func (p *prediction) run() *ended {
	end := caught(func() {
		p.beforeAgent()
		for {
			p.oneStep()
		}
	})
	if end.at != nil {
		p.limited(end)
	}
	p.answerOpen()
	p.account.State = lines(p.state)
	p.afterAgent(end)
	p.say("run_finished %s by %s error %s: %s", end.reason, end.by, end.failed, end.final)
	return end
}

// afterAgent calls after_agent at the end of the run, or before the conversation is transferred.
func (p *prediction) afterAgent(end *ended) {
	for _, e := range p.outward(contract.HookAfterAgent) {
		failed := ""
		if end.failed != "" {
			failed = " error " + end.failed
		}
		v := p.call(
			e,
			contract.HookAfterAgent,
			fmt.Sprintf("%s %s%s: %s", end.reason, end.final, failed, lines(p.state)),
			nil,
		)
		if v.ok() && e.Hooks[contract.HookAfterAgent].Do == puppet.Edit && end.final != nil {
			edited := *end.final
			edited.text += "+" + e.Name
			end.final = &edited
		}
	}
}

// beforeAgent calls before_agent and then activates all tools.
func (p *prediction) beforeAgent() {
	shown := func() string {
		names := make([]string, len(p.tools))
		for i, t := range p.tools {
			names[i] = t.name
		}
		direct := ""
		for _, name := range p.direct {
			direct += " " + name
		}
		return p.instruction + " tools " + strings.Join(names, ",") + " direct" + direct + ": " + lines(p.state)
	}
	p.pipeline(p.inward(contract.HookBeforeAgent), contract.HookBeforeAgent, shown, func(e *Entry, s puppet.Script) bool {
		p.persist(e, contract.HookBeforeAgent, s)
		switch s.Do {
		case puppet.Edit:
			p.instruction += "+" + e.Name
		case puppet.Drop:
			p.tools = slices.DeleteFunc(slices.Clone(p.tools), func(d declaration) bool { return d.name == plainTool })
		case puppet.Add:
			p.tools = append(slices.Clone(p.tools), declaration{puppet.Tool(e.Name), e.Name})
		case puppet.Direct:
			p.direct = []string{piecesTool}
		case puppet.Answer:
			p.respond = &message{
				role:   "assistant",
				text:   mark(puppet.Answer, e, contract.HookBeforeAgent),
				origin: "module:" + e.Name,
			}
			return !p.c.ContinueOnResponse
		}
		return false
	})
	for _, t := range p.tools {
		p.active = append(p.active, t.name)
	}
}

// activeTools returns the names of the tools that the model is offered.
func (p *prediction) activeTools() []string {
	var out []string
	for _, t := range p.tools {
		if slices.Contains(p.active, t.name) {
			out = append(out, t.name)
		}
	}
	return out
}

// oneStep simulates a step. It panics with an *ended if the step ends the run.
func (p *prediction) oneStep() {
	p.mayStep()
	p.requestTools = p.activeTools()
	if p.respond != nil {
		p.state, p.respond = append(slices.Clone(p.state), *p.respond), nil
	} else {
		p.pipeline(p.inward(contract.HookBeforeModelRewriteState), contract.HookBeforeModelRewriteState,
			func() string { return strings.Join(p.activeTools(), ",") + ": " + lines(p.state) },
			func(e *Entry, s puppet.Script) bool {
				p.persist(e, contract.HookBeforeModelRewriteState, s)
				if s.Do == puppet.Fewer {
					p.active = []string{plainTool}
				}
				return false
			})
		p.answerOpen()
		if p.requestTools = p.activeTools(); p.last != nil {
			p.requestTools = nil
		}
		a := p.askModel()
		p.state = append(slices.Clone(p.state), message{role: "assistant", text: a.text, calls: a.calls, origin: a.origin()})
	}
	p.decide()
}

// decide calls after_model_rewrite_state and adds the response to the account. It then makes the
// tool calls of the last message, or ends the run if the message has none.
func (p *prediction) decide() {
	at := len(p.state) - 1 // the index of the response
	end := caught(func() {
		p.pipeline(
			p.outward(contract.HookAfterModelRewriteState),
			contract.HookAfterModelRewriteState,
			func() string { return lines(p.state) },
			func(e *Entry, s puppet.Script) bool {
				p.persist(e, contract.HookAfterModelRewriteState, s)
				return false
			},
		)
	})
	p.say("message %s of %s", &p.state[at], p.state[at].origin)
	if end != nil {
		panic(end)
	}
	switch last := p.state[len(p.state)-1]; {
	case last.role != "assistant":
		p.answerOpen()
	case len(last.calls) == 0:
		panic(&ended{reason: "stop", final: &last})
	default:
		p.round(last.calls)
	}
}

// answerOpen adds an error result for every call without a result. It puts the results of a message
// with such calls in the order of the calls.
func (p *prediction) answerOpen() {
	for i := 0; i < len(p.state); i++ {
		results, end := map[string]message{}, i+1
		for ; end < len(p.state) && p.state[end].role == "tool"; end++ {
			results[p.state[end].callID] = p.state[end]
		}
		calls := p.state[i].calls
		if len(results) >= len(calls) {
			continue
		}
		var ordered []message
		for _, c := range calls {
			result, ok := results[c.id]
			if !ok {
				p.recordCall(c)
				p.say("tool_result %s host is_error %s", c, notRun)
				result = message{role: "tool", callID: c.id, text: notRun, origin: "tool"}
			}
			ordered = append(ordered, result)
		}
		p.state = slices.Replace(slices.Clone(p.state), i+1, end, ordered...)
	}
}

// recordCall adds a call to the account, unless the account has it.
func (p *prediction) recordCall(c toolCall) {
	if !p.calls[c.id] {
		p.calls[c.id] = true
		p.say("tool_call %s", c)
	}
}

func (c toolCall) String() string { return c.id + " " + c.name + c.arguments }
