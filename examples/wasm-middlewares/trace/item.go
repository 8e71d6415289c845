package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/middleware"
)

// An item is a line before formatting: a span of a finished operation, or a record of an event. The
// names of items and attributes are those of OpenTelemetry's semantic conventions for generative AI
// and of the host's own spans.
type item struct {
	name    string
	id      string // the span's id; empty for a record
	parent  string // the enclosing span; empty for none
	client  bool   // a span of a call that leaves the process
	begin   int64  // start of a span, Unix time in milliseconds
	end     int64  // end of a span, or time of the event
	step    int
	level   int    // log level
	failed  string // error.type
	attrs   []attr
	content []attr // content, which may be omitted or cut
}

// An attr is an attribute. Its value is a string, an int, an int64 or a []string.
type attr struct {
	key   string
	value any
}

func (it *item) add(key string, value any) { it.attrs = append(it.attrs, attr{key, value}) }

// opt adds an attribute unless its value is empty.
func (it *item) opt(key, value string) {
	if value != "" {
		it.add(key, value)
	}
}

func (it *item) addText(key, text string) {
	if text != "" {
		it.content = append(it.content, attr{key, text})
	}
}

// fails sets an item's error type and log level. It replaces a kind that may contain content.
func (it *item) fails(kind string, level int) {
	it.failed, it.level = clean(kind), level
}

func (it *item) error(e *abi.Error, level int) {
	if e != nil {
		it.fails(string(e.Code), level)
		it.addText("exception.message", e.Message)
	}
}

// open holds the unfinished operations of a run, and its agent and model.
type open struct {
	Run    string           `json:"run"`
	Parent string           `json:"parent,omitempty"`
	Agent  string           `json:"agent"`
	Model  string           `json:"model,omitempty"`
	Began  int64            `json:"began,omitempty"` // Unix time in milliseconds, as below
	Chat   int64            `json:"chat,omitempty"`  // start of the step's model call; 0: none
	Calls  map[string]int64 `json:"calls,omitempty"` // starts of tool calls by id
}

func (o *open) where(run *abi.Run) {
	o.Run, o.Parent = run.ID, run.Parent
	if o.Agent == "" {
		o.Agent = run.Agent
	}
}

// trace returns the id of the run's trace. A sub-agent's run shares the trace of its
// parent.
func (o *open) trace() string {
	if o.Parent != "" {
		return hash(o.Parent)[:32]
	}
	return hash(o.Run)[:32]
}

// id returns the id of one of the run's spans. It is deterministic, so an event that is
// repeated after a crash gives the same line.
func (o *open) id(what string) string { return spanID(o.Run, what) }

func spanID(run, what string) string { return hash(run + " " + what)[32:48] }

func hash(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

// plain matches names that are safe to log even if a model or a module chose them. Other names may
// contain content; clean replaces them.
var plain = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,128}$`)

// clean returns name if plain matches it, and "_OTHER" otherwise.
func clean(name string) string {
	if plain.MatchString(name) {
		return name
	}
	return "_OTHER"
}

// items returns the spans and records for an event. It also records the starts of operations, for
// the spans of later events.
func (o *open) items(e *abi.Event) []item {
	switch e.Type {
	case abi.EventRunStarted:
		o.Began, o.Agent, o.Model = e.TimeMS, e.Agent, e.Model
		return nil
	case abi.EventStepStarted:
		o.Chat = e.TimeMS
		return nil
	case abi.EventToolCall:
		if o.Calls == nil {
			o.Calls = map[string]int64{}
		}
		o.Calls[e.Call.ID] = e.TimeMS
		return nil
	case abi.EventStepFinished:
		return nil
	case abi.EventMessage:
		if e.Message.Origin == abi.OriginModel {
			return []item{o.chat(e)}
		}
		return []item{o.record(e)}
	case abi.EventToolResult:
		return []item{o.tool(e)}
	case abi.EventRunFinished:
		return o.finished(e)
	default:
		return []item{o.record(e)}
	}
}

func (o *open) chat(e *abi.Event) item {
	it := item{
		name:   strings.TrimSpace("chat " + o.Model),
		id:     o.id(fmt.Sprintf("chat %d", e.Step)),
		parent: o.id("run"),
		client: true,
		begin:  since(o.Chat, e),
		end:    e.TimeMS,
		step:   e.Step,
		level:  middleware.LogInfo,
	}
	o.Chat = 0
	it.add("gen_ai.operation.name", "chat")
	it.opt("gen_ai.request.model", o.Model)
	if e.Message == nil {
		return it
	}
	it.message(e.Message)
	return it
}

func (it *item) message(m *abi.Message) {
	it.add("agent_runner.message.bytes", len(m.Content.String()))
	if n := len(m.ToolCalls); n > 0 {
		it.add("agent_runner.message.tool_calls", n)
	}
	it.addText("agent_runner.message.text", m.Content.String())
}

func (o *open) tool(e *abi.Event) item {
	name, id := clean(e.Call.Name), clean(e.Call.ID)
	it := item{name: "execute_tool " + name, id: o.id(fmt.Sprintf("tool %d %s", e.Step, e.Call.ID)), parent: o.id("run"),
		begin: since(o.Calls[e.Call.ID], e), end: e.TimeMS, step: e.Step, level: middleware.LogInfo}
	delete(o.Calls, e.Call.ID)
	it.add("gen_ai.operation.name", "execute_tool")
	it.add("gen_ai.tool.name", name)
	it.add("gen_ai.tool.call.id", id)
	if e.Source != "tool" {
		it.opt("agent_runner.source", e.Source)
	}
	it.addText("gen_ai.tool.call.arguments", e.Call.Arguments)
	if e.Result != nil {
		it.add("agent_runner.result.bytes", len(e.Result.Content.String()))
		it.addText("gen_ai.tool.call.result", e.Result.Content.String())
		if e.Result.IsError {
			it.fails("tool_error", middleware.LogWarn)
		}
	}
	return it
}

// since returns the start of an operation, or the time of its last event if the start is
// unknown.
func since(began int64, e *abi.Event) int64 {
	if began == 0 {
		return e.TimeMS
	}
	return began
}

// finished returns the spans of the run and of a model call that failed with it, and the
// resource usage of each entry.
func (o *open) finished(e *abi.Event) []item {
	var out []item
	if o.Chat != 0 && e.Error != nil {
		failed := o.chat(&abi.Event{Step: e.Step, TimeMS: e.TimeMS})
		failed.error(e.Error, middleware.LogError)
		out = append(out, failed)
	}
	for i := range e.Entries {
		s := &e.Entries[i]
		it := item{name: "agent_runner.entry", parent: o.id("run"), end: e.TimeMS, level: middleware.LogDebug}
		it.add("agent_runner.entry", s.Entry)
		it.opt("agent_runner.module.digest", s.Digest)
		for _, n := range []attr{
			{"calls", s.Calls}, {"faults", s.Faults}, {"fuel", s.Fuel}, {"bytes_in", s.BytesIn}, {"bytes_out", s.BytesOut},
			{"wall_us", s.WallUS},
		} {
			it.add("agent_runner."+n.key, n.value)
		}
		out = append(out, it)
	}
	run := item{
		name:  strings.TrimSpace("invoke_agent " + o.Agent),
		id:    o.id("run"),
		begin: since(o.Began, e),
		end:   e.TimeMS,
		step:  e.Step,
		level: middleware.LogInfo,
	}
	if o.Parent != "" {
		run.parent = spanID(o.Parent, "run")
	}
	run.add("gen_ai.operation.name", "invoke_agent")
	if u := e.Usage; u != nil {
		run.add("gen_ai.usage.input_tokens", u.PromptTokens)
		run.add("gen_ai.usage.output_tokens", u.CompletionTokens)
	}
	run.add("gen_ai.response.finish_reasons", []string{clean(e.FinishReason)})
	run.opt("agent_runner.stopped_by", e.StoppedBy)
	run.addText("agent_runner.reason", e.Reason)
	if e.StopCode != "" {
		run.add("agent_runner.stop_code", clean(e.StopCode))
	}
	switch e.FinishReason {
	case abi.RunStop, abi.RunReturnDirectly, abi.RunTransfer:
	case abi.RunStopped, abi.RunCanceled:
		run.fails(e.FinishReason, middleware.LogWarn)
	default:
		run.fails(e.FinishReason, middleware.LogError)
	}
	if e.Error != nil {
		run.add("agent_runner.error.code", clean(string(e.Error.Code)))
		run.addText("exception.message", e.Error.Message)
	}
	*o = open{Run: o.Run, Parent: o.Parent, Agent: o.Agent}
	return append(out, run)
}

// record returns the item of an event without a duration.
func (o *open) record(e *abi.Event) item {
	it := item{
		name:   "agent_runner." + string(e.Type),
		parent: o.id("run"),
		end:    e.TimeMS,
		step:   e.Step,
		level:  middleware.LogInfo,
	}
	it.opt("agent_runner.entry", e.Entry)
	it.opt("agent_runner.hook", string(e.Hook))
	switch e.Type {
	case abi.EventMessage: // a module answered in the model's place
		it.add("agent_runner.origin", e.Message.Origin)
		it.message(e.Message)
	case abi.EventCustom:
		it.level = middleware.LogDebug
		it.add("agent_runner.event", clean(e.Name))
		it.addText("agent_runner.data", string(e.Data))
	case abi.EventFault:
		it.fails("fault", middleware.LogError)
		it.opt("agent_runner.module.digest", e.Digest)
		it.opt("agent_runner.stage", e.Stage)
		it.opt("agent_runner.limit", e.Limit)
		it.opt("agent_runner.action", e.Action)
		it.addText("exception.message", e.Cause)
	case abi.EventModelAttempt:
		it.add("gen_ai.request.model", e.Model)
		it.add("agent_runner.attempt", e.Attempt)
		it.add("agent_runner.delay_ms", e.DelayMS)
		it.opt("agent_runner.next_model", e.Next)
		it.error(e.Error, middleware.LogWarn)
	case abi.EventLimit:
		it.level = middleware.LogWarn
		it.opt("agent_runner.limit", e.Limit)
		it.add("agent_runner.value", e.Value)
		it.opt("agent_runner.action", e.Action)
	case abi.EventRepair:
		it.opt("agent_runner.action", e.Action)
	case abi.EventTransfer:
		o.Agent, o.Model = e.Agent, e.Model
		it.add("agent_runner.from", e.From)
		it.add("gen_ai.agent.name", e.Agent)
	case abi.EventRunPaused:
		it.add("agent_runner.interrupts", len(e.Interrupts))
	}
	return it
}
