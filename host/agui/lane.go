package agui

import (
	"fmt"
	"maps"
	"reflect"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

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
	calls     map[int]string  // ids of the message's calls, by index; "" for calls that are sent with the message
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
		// The client's run id, which differs between requests, makes the message's id unique: a
		// resumed run keeps its own id, and streams starts at 0 again.
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

// callChunk sends a chunk of a tool call. A call without an id or a name, or with the id of another
// call, is sent complete with its message.
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
