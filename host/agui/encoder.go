package agui

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/modelfailure"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// Options configure an encoder; see [NewEncoder].
type Options struct {
	// Thread and Run are the client's ids. The default of both is the id of the run.
	Thread, Run string
	// Messages holds the client's messages before the run, from [Input.Raw]. With them, the
	// encoder sends a snapshot of all messages if the final message differs from the streamed
	// one. Without them, or if the run's messages exceed 4 MiB, it sends a custom event
	// "message_replaced" with the final message.
	Messages []json.RawMessage
	// Internals also sends events for the agent's developers: faults and log lines of modules,
	// retried model calls, and limits.
	Internals bool
}

// An encoder encodes the events of one run in AG-UI for one client.
type encoder struct {
	o        Options
	started  bool
	lanes    map[string]*lane // lanes of the run, under "", and of its inner runs
	messages []json.RawMessage
	size     int    // total bytes of the run's messages, including dropped ones
	answer   string // text of the last message
	out      []chain.Encoded
	now      int64
}

// NewEncoder returns an encoder of the events of one run, new or resumed, in AG-UI for one client.
func NewEncoder(o Options) chain.Encoder {
	return &encoder{o: o, lanes: map[string]*lane{}}
}

// Protocol returns "ag-ui".
func (e *encoder) Protocol() string { return "ag-ui" }

// Encode encodes an event as zero or more AG-UI events.
func (e *encoder) Encode(ev abi.Event) []chain.Encoded {
	e.out, e.now = nil, ev.TimeMS
	e.start(ev)
	e.lane("").encode(ev)
	return e.out
}

// start sends RUN_STARTED once, before all other events.
func (e *encoder) start(ev abi.Event) {
	if e.started {
		return
	}
	e.started = true
	e.o.Thread, e.o.Run = either(e.o.Thread, ev.Run), either(e.o.Run, ev.Run)
	e.send(&event{Type: typeRunStarted, ThreadID: e.o.Thread, RunID: e.o.Run, ProtocolVersion: protocolVersion})
}

// fixed returns the keys of AG-UI events that modules cannot change.
func fixed() []string {
	return []string{
		"type",
		"timestamp",
		"subagentRunId",
		"threadId",
		"runId",
		"protocolVersion",
		"parentRunId",
		"stepName",
		"messageId",
		"role",
		"toolCallId",
		"toolCallName",
		"parentMessageId",
		"parentSubagentRunId",
		"parentToolCallId",
		"code",
		"outcome",
		"usage",
	}
}

func (e *encoder) send(x *event) {
	x.Timestamp = e.now
	b, err := abijson.Marshal(x)
	if err != nil {
		return // unreachable: an event has only strings and numbers
	}
	keep := true
	switch x.Type {
	case typeTextContent, typeReasoningContent, typeCallArgs, typeCallResult, typeCustom, typeMessages:
		keep = false
	}
	e.out = append(e.out, chain.Encoded{JSON: b, Fixed: fixed(), Keep: keep})
}

// maxMessageBytes limits the bytes of a run's messages that an encoder stores for snapshots. Beyond it,
// clients receive the custom event "message_replaced" instead of a snapshot.
const maxMessageBytes = 4 << 20

// addMessage stores a message for snapshots. Beyond maxMessageBytes, it drops all messages.
func (e *encoder) addMessage(m message) {
	if e.size > maxMessageBytes {
		return
	}
	b, err := abijson.Marshal(m)
	if err != nil {
		return
	}
	if e.size += len(b); e.size > maxMessageBytes {
		e.messages = nil
		return
	}
	e.messages = append(e.messages, b)
}

// snapshot sends all messages to the client, or only the changed message m if the encoder does not
// have all of them.
func (e *encoder) snapshot(m message) {
	if e.o.Messages == nil || e.size > maxMessageBytes {
		e.send(&event{
			Type:     typeCustom,
			Subagent: m.Subagent,
			Name:     "message_replaced",
			Value:    map[string]any{"messageId": m.ID, "content": m.Content},
		})
		return
	}
	e.send(&event{Type: typeMessages, Messages: slices.Concat(e.o.Messages, e.messages)})
}

func (e *encoder) lane(run string) *lane {
	l := e.lanes[run]
	if l == nil {
		l = &lane{e: e, sub: run, calls: map[int]string{}, sentCalls: map[string]bool{}}
		e.lanes[run] = l
	}
	return l
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// A lane encodes the events of one run: the encoder's own run or an inner one.
type lane struct {
	e     *encoder
	sub   string // id of the inner run, or ""
	begun bool   // an inner run's start has been sent
	step  string // name of the open step
	model string
	tools []string // open calls, whose arguments may still arrive

	id        string // id of the message in progress
	streams   int
	text      bool // the message's text has been started
	reasoning bool
	chunks    []abi.Chunk
	calls     map[int]string  // ids of the message's calls, by index
	sentCalls map[string]bool // calls that have been sent
}

func (l *lane) send(x *event) {
	x.Subagent = l.sub
	l.e.send(x)
}

// encode sends the AG-UI events for one event of the run.
func (l *lane) encode(ev abi.Event) {
	switch ev.Type {
	case abi.EventRunStarted:
		l.model = ev.Model
	case abi.EventStepStarted:
		l.closeStep()
		l.step = fmt.Sprintf("step %d", ev.Step)
		l.send(&event{Type: typeStepStarted, StepName: l.step})
	case abi.EventStepFinished:
		l.closeMessage()
		l.closeStep()
	case abi.EventChunk:
		l.chunk(ev)
	case abi.EventMessage:
		l.message(ev)
	case abi.EventToolCall:
		l.toolCall(ev)
	case abi.EventToolResult:
		l.toolResult(ev)
	case abi.EventCustom:
		l.send(&event{Type: typeCustom, Name: ev.Name, Value: ev.Data, Metadata: map[string]any{"entry": ev.Entry}})
	case abi.EventTransfer:
		l.model = either(ev.Model, l.model)
		l.send(&event{Type: typeCustom, Name: "transfer", Value: map[string]any{"from": ev.From, "to": ev.Agent}})
	case abi.EventChild:
		if ev.Event != nil {
			l.child(ev)
		}
	case abi.EventRunPaused:
		l.pause(ev)
	case abi.EventRunFinished:
		l.finish(ev)
	default:
		l.internal(ev)
	}
}

// internal sends an event for the agent's developers if Options.Internals is set.
func (l *lane) internal(ev abi.Event) {
	if !l.e.o.Internals {
		return
	}
	value := map[string]any{
		"entry":   ev.Entry,
		"hook":    ev.Hook,
		"level":   ev.Level,
		"text":    ev.Text,
		"cause":   ev.Cause,
		"action":  ev.Action,
		"limit":   ev.Limit,
		"name":    ev.Name,
		"attempt": ev.Attempt,
		"model":   ev.Model,
		"next":    ev.Next,
		"reason":  ev.Reason,
		"value":   ev.Value,
	}
	maps.DeleteFunc(value, func(_ string, v any) bool { return reflect.ValueOf(v).IsZero() })
	if ev.Call != nil {
		value["toolCallId"], value["toolCallName"] = ev.Call.ID, ev.Call.Name
	}
	if ev.Error != nil {
		value["error"] = ev.Error.Message
	}
	if ev.Decision != nil {
		value["decision"] = ev.Decision
	}
	l.send(&event{Type: typeCustom, Name: string(ev.Type), Value: value})
}

// chunk sends a chunk of an answer or of a tool's result.
func (l *lane) chunk(ev abi.Event) {
	c := ev.Chunk
	if c == nil {
		return
	}
	switch c.Kind {
	case abi.ChunkToolResult, abi.ChunkPart:
		if c.CallID != "" {
			l.send(
				&event{Type: typeCustom, Name: "tool_result_chunk", Value: map[string]any{"toolCallId": c.CallID, "delta": c.Text}},
			)
			return
		}
	}
	l.open(ev)
	l.chunks = append(l.chunks, *c)
	switch c.Kind {
	case abi.ChunkText:
		l.addText(c.Text)
	case abi.ChunkReasoning:
		l.addReasoning(c.Text)
	case abi.ChunkToolCall:
		l.callChunk(c)
	}
}

// open sets the id of the message in progress, if it has none yet.
func (l *lane) open(ev abi.Event) {
	if l.id == "" {
		l.streams++
		// A resumed run keeps its id, and each request of a client has a run id of its own.
		l.id = fmt.Sprintf("%s_%s_%d", l.e.o.Run, ev.Run, l.streams)
	}
}

func (l *lane) addText(text string) {
	l.closeReasoning()
	if text == "" {
		return
	}
	if !l.text {
		l.text = true
		l.send(&event{Type: typeTextStart, MessageID: l.id, Role: "assistant"})
	}
	l.send(&event{Type: typeTextContent, MessageID: l.id, Delta: &text})
}

func (l *lane) addReasoning(text string) {
	if text == "" {
		return
	}
	id := l.id + "_reasoning"
	if !l.reasoning {
		l.reasoning = true
		l.send(&event{Type: typeReasoningStart, MessageID: id})
		l.send(&event{Type: typeReasoningMessage, MessageID: id, Role: "reasoning"})
	}
	l.send(&event{Type: typeReasoningContent, MessageID: id, Delta: &text})
}

func (l *lane) closeReasoning() {
	if !l.reasoning {
		return
	}
	l.reasoning = false
	id := l.id + "_reasoning"
	l.send(&event{Type: typeReasoningDone, MessageID: id})
	l.send(&event{Type: typeReasoningEnd, MessageID: id})
}

// callChunk sends a chunk of a tool call. A call without an id, or with the id of another call, is
// sent complete with its message.
func (l *lane) callChunk(c *abi.Chunk) {
	l.closeReasoning()
	id, known := l.calls[c.Index]
	if !known {
		id = c.ID
		if c.ID == "" || c.Name == "" || l.sentCalls[c.ID] {
			id = ""
		}
		l.calls[c.Index] = id
		if id != "" {
			l.sentCalls[id] = true
			l.tools = append(l.tools, id)
			l.send(&event{Type: typeCallStart, ToolCallID: id, ToolCallName: c.Name, ParentMessageID: l.id})
		}
	}
	if id != "" && c.Arguments != "" {
		l.send(&event{Type: typeCallArgs, ToolCallID: id, Delta: &c.Arguments})
	}
}

// closeMessage sends the end events for the message in progress.
func (l *lane) closeMessage() {
	l.closeReasoning()
	if l.text {
		l.send(&event{Type: typeTextEnd, MessageID: l.id})
	}
	for _, id := range l.tools {
		l.send(&event{Type: typeCallEnd, ToolCallID: id})
	}
	l.id, l.text, l.tools, l.chunks = "", false, nil, nil
	clear(l.calls)
}

// message ends a streamed message of the assistant, or sends the message if it was not streamed. If
// the streamed chunks differ from the message, it then sends a snapshot. It ignores messages of
// other roles.
func (l *lane) message(ev abi.Event) {
	m := ev.Message
	if m == nil || m.Role != abi.RoleAssistant {
		return
	}
	streamed := l.id != ""
	incorrect := streamed && (ev.Replaced || !chain.Says(l.chunks, m))
	if !streamed {
		l.open(ev)
		l.addReasoning(m.ReasoningContent)
		l.addText(m.Content.String())
	}
	out := message{ID: l.id, Role: "assistant", Subagent: l.sub, Content: m.Content.String()}
	for _, c := range m.ToolCalls {
		if !l.sentCalls[c.ID] {
			l.call(c.ID, c.Function.Name, c.Function.Arguments)
		}
		out.ToolCalls = append(out.ToolCalls, toolCall{c.ID, "function", functionCall{c.Function.Name, c.Function.Arguments}})
	}
	l.closeMessage()
	l.e.addMessage(out)
	if l.sub == "" {
		l.e.answer = m.Content.String()
	}
	if incorrect {
		l.e.snapshot(out)
	}
}

// call sends a complete tool call: its start, its arguments and its end.
func (l *lane) call(id, name, arguments string) {
	l.sentCalls[id] = true
	l.send(&event{Type: typeCallStart, ToolCallID: id, ToolCallName: name, ParentMessageID: l.id})
	if arguments != "" {
		l.send(&event{Type: typeCallArgs, ToolCallID: id, Delta: &arguments})
	}
	l.send(&event{Type: typeCallEnd, ToolCallID: id})
}

func (l *lane) toolCall(ev abi.Event) {
	switch {
	case ev.Call == nil:
	case ev.Call.By != nil: // a module's own call is not part of the conversation
		l.send(&event{Type: typeCustom, Name: "module_tool_call",
			Value: map[string]any{"toolCallId": ev.Call.ID, "toolCallName": ev.Call.Name, "entry": ev.Call.By.Entry}})
	case !l.sentCalls[ev.Call.ID]:
		l.call(ev.Call.ID, ev.Call.Name, ev.Call.Arguments)
	}
}

func (l *lane) toolResult(ev abi.Event) {
	if ev.Call == nil || ev.Result == nil {
		return
	}
	x := &event{
		Type:       typeCallResult,
		MessageID:  "result_" + ev.Call.ID,
		ToolCallID: ev.Call.ID,
		Role:       "tool",
		Content:    contentOf(ev.Result.Content),
	}
	if ev.Call.By != nil {
		l.send(&event{Type: typeCustom, Name: "module_tool_result",
			Value: map[string]any{
				"toolCallId":   ev.Call.ID,
				"toolCallName": ev.Call.Name,
				"entry":        ev.Call.By.Entry,
				"isError":      ev.Result.IsError,
			}})
		return
	}
	out := message{ID: x.MessageID, Role: "tool", Subagent: l.sub, ToolCallID: ev.Call.ID, Content: x.Content}
	if ev.Result.IsError {
		x.Metadata = map[string]any{"isError": true}
		out.Error = ev.Result.Content.String()
	}
	l.send(x)
	l.e.addMessage(out)
}

// child encodes an event of an inner run. Before the first event, it sends the start of that run.
func (l *lane) child(ev abi.Event) {
	in := l.e.lane(ev.Event.Run)
	if !in.begun {
		in.begun = true
		call := ""
		if ev.Call != nil {
			call = ev.Call.ID
		}
		in.send(&event{
			Type:             typeSubagentStarted,
			Name:             either(ev.Event.Agent, "agent"),
			ParentSubagent:   l.sub,
			ParentToolCallID: call,
		})
	}
	in.encode(*ev.Event)
}

func (l *lane) closeStep() {
	if l.step != "" {
		l.send(&event{Type: typeStepFinished, StepName: l.step})
		l.step = ""
	}
}

// close ends the message in progress and the open step.
func (l *lane) close() {
	l.closeMessage()
	l.closeStep()
}

// pause sends the pending interrupts of the run. It reports a paused inner run as suspended. Calls of
// front-end tools are not sent as interrupts: the client runs these tools, and sends the results as
// messages of its next request. A run with no other interrupts is reported as finished.
func (l *lane) pause(ev abi.Event) {
	l.close()
	if l.sub != "" {
		o := &outcome{Type: "suspended"}
		for _, p := range ev.Interrupts {
			o.InterruptIDs = append(o.InterruptIDs, p.ID)
		}
		l.begun = false // the client's next run may continue it
		l.send(&event{Type: typeSubagentFinished, Outcome: o})
		return
	}
	l.e.closeChildren()
	o := &outcome{Type: "interrupt"}
	for _, p := range ev.Interrupts {
		if !toolcall.IsClient(p) {
			o.Interrupts = append(o.Interrupts, interruptOf(p))
		}
	}
	if len(o.Interrupts) == 0 {
		o.Type = "success"
	}
	l.send(&event{Type: typeRunFinished, ThreadID: l.e.o.Thread, RunID: l.e.o.Run, Outcome: o})
}

// closeChildren reports an inner run as suspended if the encoder has not received the end of that
// run.
func (e *encoder) closeChildren() {
	for _, run := range slices.Backward(slices.Sorted(maps.Keys(e.lanes))) {
		if l := e.lanes[run]; run != "" && l.begun {
			l.begun = false
			l.close()
			l.send(&event{Type: typeSubagentFinished, Outcome: &outcome{Type: "suspended"}})
		}
	}
}

// Values of interrupt.Reason. A client may show a different form for each.
const (
	reasonApproval = "tool_call_approval"
	reasonInput    = "input_required"
)

func interruptOf(p abi.Pending) interrupt {
	out := interrupt{ID: p.ID, Subagent: p.Run, Reason: reasonInput, Message: p.Reason, Metadata: map[string]any{}}
	if p.Entry != "" {
		out.Metadata["entry"] = p.Entry
	}
	if len(p.Payload) > 0 {
		out.Metadata["payload"] = p.Payload
	}
	if p.Call != nil {
		out.ToolCallID = p.Call.ID
		out.Metadata["toolCallName"], out.Metadata["arguments"] = p.Call.Name, p.Call.Arguments
	}
	if p.Hook == abi.HookGateTool {
		out.Reason = reasonApproval
		out.ResponseSchema = map[string]any{
			"type": "object",
			"properties": map[string]any{
				"decision":  map[string]any{"enum": []string{abi.Approve, abi.Reject, abi.Edit}},
				"message":   map[string]any{"type": "string"},
				"arguments": map[string]any{"type": "string"},
			},
			"required": []string{"decision"},
		}
	}
	return out
}

// finish closes the open message and step, and sends the outcome of the run. If the run is not an
// inner one, finish also closes the inner runs, and corrects the answer if the final one differs.
func (l *lane) finish(ev abi.Event) {
	l.close()
	if l.sub != "" {
		l.finishChild(ev)
		return
	}
	l.e.closeChildren()
	if m := ev.Message; m != nil && m.Role == abi.RoleAssistant && m.Content.String() != l.e.answer {
		l.e.correct(ev, m)
	}
	x := &event{Type: typeRunFinished, ThreadID: l.e.o.Thread, RunID: l.e.o.Run, Outcome: &outcome{Type: "success"}}
	switch ev.FinishReason {
	case abi.RunStop, abi.RunReturnDirectly:
	case abi.RunCanceled:
		x.Outcome.Type = "cancelled"
	default:
		x = &event{Type: typeRunError, Code: ev.FinishReason, Message: l.failure(ev)}
	}
	if u := ev.Usage; u != nil && u.TotalTokens > 0 {
		x.Usage = []usage{
			{Model: l.model, InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, TotalTokens: u.TotalTokens},
		}
	}
	l.send(x)
}

func (l *lane) finishChild(ev abi.Event) {
	l.begun = false
	delete(l.e.lanes, l.sub)
	if ev.FinishReason == abi.RunStop || ev.FinishReason == abi.RunReturnDirectly {
		x := &event{Type: typeSubagentFinished, Outcome: &outcome{Type: "success"}}
		if ev.Message != nil {
			x.Result = ev.Message.Content.String()
		}
		l.send(x)
		return
	}
	l.send(&event{Type: typeSubagentError, Code: ev.FinishReason, Message: l.failure(ev)})
}

// failure returns the reason of a run's end. Only a client with Internals receives the model's
// address and its endpoint's message.
func (l *lane) failure(ev abi.Event) string {
	how, byModel := modelfailure.EndedBy(&ev)
	switch {
	case ev.Reason != "":
		return ev.Reason
	case byModel && !l.e.o.Internals:
		return how
	case ev.Error != nil:
		return ev.Error.Message
	}
	return "the run ended: " + ev.FinishReason
}

// correct sends m, the run's final answer, which differs from the last answer that was sent. If the
// run's last assistant message has no tool calls, correct replaces the message's content with the
// content of m. Otherwise it sends m as another message.
func (e *encoder) correct(ev abi.Event, m *abi.Message) {
	text := m.Content.String()
	for i := len(e.messages) - 1; i >= 0; i-- {
		var last message
		if json.Unmarshal(e.messages[i], &last) != nil || last.Role != "assistant" || last.Subagent != "" {
			continue
		}
		if len(last.ToolCalls) > 0 {
			break
		}
		last.Content = text
		if b, err := abijson.Marshal(last); err == nil {
			e.messages[i] = b
		}
		e.snapshot(last)
		return
	}
	l := e.lane("")
	l.open(ev)
	l.addText(text)
	l.closeMessage()
}
