package rerun

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
)

// A Kind is the subject of a line of a transcript.
type Kind string

// The kinds of lines.
const (
	KindRequest  Kind = "request"   // a request to the model
	KindMessage  Kind = "message"   // a message of the model, as the run has it
	KindCall     Kind = "call"      // a tool call
	KindToolSent Kind = "tool_sent" // what a tool was sent
	KindResult   Kind = "result"    // the result of a tool call
	KindDecision Kind = "decision"  // the decision of a gate
	KindFault    Kind = "fault"
	KindEvent    Kind = "event" // another event
	KindEnd      Kind = "end"   // the end of the run
)

// A View selects the content of the lines of a comparison. The zero View shows everything.
type View struct {
	// Event returns the event to show in place of an event, or nil to hide it. Optional.
	Event func(*abi.Event) *abi.Event
	// Entry returns the name under which an entry is shown. Optional.
	Entry func(entry string) string
	// HideRequests hides the content of requests, so that lines only say that they differ.
	HideRequests bool
}

// A transcriptLine describes an event, or a part of the data that was sent to the model or a tool.
type transcriptLine struct {
	kind Kind
	step int
	text string // on one line
	all  string // JSON with everything that is compared; empty if it is hidden
	sum  [sha256.Size]byte
}

// newLine returns a line with the given text that is equal to others with the same text and value.
func newLine(kind Kind, text string, value any) transcriptLine {
	b, err := abijson.Marshal(value)
	if err != nil {
		b = []byte(text)
	}
	l := transcriptLine{kind: kind, text: text, all: string(b)}
	l.sum = sha256.Sum256([]byte(text + "\x00" + l.all))
	return l
}

// transcript returns the lines that describe a replay. If decisions is true, they include the
// decisions of gates, which older versions did not store.
func (r *Pass) transcript(v *View, decisions bool) []transcriptLine {
	t := &transcript{sent: r.index(), run: r.run.Info.ID, view: v, decisions: decisions}
	return t.lines(r.events)
}

// A sentIndex holds the data that was sent to the model and the tools in a replay, by the step of a
// run.
type sentIndex map[stepOf]*sentInStep

type stepOf struct {
	run  string
	step int
}

type sentInStep struct {
	requests []sentRequest       // those of the run, then those that middlewares made for themselves
	calls    map[string][]string // arguments by the id of the call
}

// index returns the index of a replay.
func (r *Pass) index() sentIndex {
	out := sentIndex{}
	at := func(k *runlog.CallKey) *sentInStep {
		step := out[stepOf{k.Run, k.Step}]
		if step == nil {
			step = &sentInStep{calls: map[string][]string{}}
			out[stepOf{k.Run, k.Step}] = step
		}
		return step
	}
	for _, q := range r.inOrder() {
		step := at(&q.CallKey)
		step.requests = append(step.requests, q)
	}
	byKey := func(a, b runlog.CallKey) int { return strings.Compare(a.Key, b.Key) }
	for _, key := range slices.SortedFunc(maps.Keys(r.calls), byKey) {
		step, id := at(&key), strings.TrimPrefix(key.Key, "tool/")
		id = id[:max(0, strings.LastIndexByte(id, '#'))]
		step.calls[id] = append(step.calls[id], r.calls[key])
	}
	return out
}

// A transcript describes the events of one run, and the data that was sent to its model and tools.
// The order of the lines does not depend on the order of concurrent calls.
type transcript struct {
	sent      sentIndex
	run       string
	view      *View
	decisions bool

	at       int // the current step
	indent   string
	out      []transcriptLine
	last     []abi.Message // of the run's last request
	streamed strings.Builder
}

func (t *transcript) line(kind Kind, value any, format string, args ...any) {
	t.add(newLine(kind, t.indent+oneLine(fmt.Sprintf(format, args...)), value))
}

func (t *transcript) add(l transcriptLine) {
	l.step = t.at
	t.out = append(t.out, l)
}

// lines describes the events, step by step.
func (t *transcript) lines(events []abi.Event) []transcriptLine {
	for len(events) > 0 {
		n := slices.IndexFunc(events, func(e abi.Event) bool { return e.Step != events[0].Step })
		if n < 0 {
			n = len(events)
		}
		t.step(events[:n])
		events = events[n:]
	}
	return t.out
}

// step describes the events of a step. Those about tool calls are in the order of the calls.
func (t *transcript) step(events []abi.Event) {
	t.at = events[0].Step
	if events[0].Type != abi.EventStepStarted {
		t.requests(events[0].Step)
	}
	calls, order := callsOf(events)
	for i := range events {
		e := &events[i]
		switch {
		case e.Type == abi.EventChunk && e.Chunk.CallID == "" && e.Chunk.Kind == abi.ChunkText:
			t.streamed.WriteString(e.Chunk.Text)
		case e.Type == abi.EventMessage:
			t.message(e)
		case e.Call != nil && order != nil:
			for _, id := range order {
				t.call(id, calls[id])
			}
			order = nil
		case e.Call == nil:
			t.event(e)
		}
		if e.Type == abi.EventStepStarted {
			t.requests(e.Step)
		}
	}
}

// callsOf returns the events about each tool call of a step, and the ids of the calls: first the
// calls of messages, in the order of the messages, then all others.
func callsOf(events []abi.Event) (calls map[string][]abi.Event, order []string) {
	calls = map[string][]abi.Event{}
	for _, e := range events {
		if e.Call != nil {
			calls[e.Call.ID] = append(calls[e.Call.ID], e)
		}
	}
	seen := map[string]bool{}
	add := func(id string) {
		if !seen[id] && calls[id] != nil {
			seen[id] = true
			order = append(order, id)
		}
	}
	for _, e := range events {
		if e.Type == abi.EventMessage {
			for _, c := range e.Message.ToolCalls {
				add(c.ID)
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		add(id)
	}
	return calls, order
}

// call describes the events of a tool call, the arguments that were sent to the tool, and the runs of
// sub-agents within the call.
func (t *transcript) call(id string, events []abi.Event) {
	inner := map[string][]abi.Event{}
	for _, e := range events {
		if e.Type == abi.EventChild {
			inner[e.Event.Run] = append(inner[e.Event.Run], *e.Event)
		}
	}
	sent := func() {
		t.arguments(id, events[0].Call.Name, events[0].Step)
		for _, run := range slices.Sorted(maps.Keys(inner)) {
			child := &transcript{sent: t.sent, run: run, view: t.view, decisions: t.decisions, indent: t.indent + "  "}
			t.out = append(t.out, child.lines(inner[run])...)
		}
	}
	for i := range events {
		if events[i].Type == abi.EventToolResult && sent != nil {
			sent()
			sent = nil
		}
		t.event(&events[i])
	}
	if sent != nil {
		sent()
	}
}

// arguments describes the arguments that were sent to the tool of a call.
func (t *transcript) arguments(id, name string, step int) {
	if sent := t.sent[stepOf{t.run, step}]; sent != nil {
		for _, arguments := range sent.calls[id] {
			t.line(KindToolSent, arguments, "%s gets %s", name, arguments)
		}
	}
}

// requests describes the requests of a step. It omits messages that were already in the run's last
// request.
func (t *transcript) requests(step int) {
	sent := t.sent[stepOf{t.run, step}]
	if sent == nil {
		return
	}
	for _, q := range sent.requests {
		messages, earlier := sentMessages(&q), 0
		if !q.isOwn() {
			earlier = equalMessages(t.last, messages)
			t.last = messages
		}
		t.request(&q, messages, earlier)
	}
}

// request describes a request, and its messages after the first earlier ones.
func (t *transcript) request(q *sentRequest, messages []abi.Message, earlier int) {
	does := "model " + q.Model + " gets"
	if q.isOwn() {
		does = t.entry(q.entry) + " calls model " + q.Model + " with"
	}
	whole := map[string]any{"params": q.Params, "earlier": earlier, "tools": q.Tools}
	if t.view.HideRequests {
		whole["messages"] = messages[earlier:]
		l := newLine(KindRequest, t.indent+does+" "+count(len(messages), "message"), whole)
		l.all = ""
		t.add(l)
		return
	}
	t.line(KindRequest, whole, "%s %s and %s%s", does, count(len(messages), "message"), count(len(q.Tools), "tool"),
		after(", ", ParamsText(q.Params)))
	for i := range messages[earlier:] {
		m := &messages[earlier+i]
		t.add(newLine(KindRequest, t.indent+"  "+oneLine(MessageText(m)), m))
	}
}

// entry returns the name under which an entry is shown.
func (t *transcript) entry(name string) string {
	if t.view.Entry == nil {
		return name
	}
	return t.view.Entry(name)
}

// sentMessages returns the messages of a request without the fields that are not sent to the model.
func sentMessages(q *sentRequest) []abi.Message {
	out := slices.Clone(q.Messages)
	for i := range out {
		m := &out[i]
		m.ID, m.Origin, m.Labels, m.PartLabels = "", "", nil, nil
	}
	return out
}

// equalMessages returns the length of the common prefix of a and b.
func equalMessages(a, b []abi.Message) int {
	n := 0
	for n < min(len(a), len(b)) && equalMessage(&a[n], &b[n]) {
		n++
	}
	return n
}

// equalMessage reports whether two messages are equal as JSON. Most messages of a request share their
// text with those of the request before, which makes the first comparison fast.
func equalMessage(a, b *abi.Message) bool {
	return reflect.DeepEqual(a, b) || newLine("", "", a).sum == newLine("", "", b).sum
}

// ParamsText returns parameters of a request as JSON, or an empty string if there are none.
func ParamsText(params abi.Params) string {
	if len(params) == 0 {
		return ""
	}
	b, _ := abijson.Marshal(params)
	return string(b)
}

// MessageText summarizes a message: its role, text and calls.
func MessageText(m *abi.Message) string {
	text := m.Role + ": " + ContentText(m.Content)
	for _, c := range m.ToolCalls {
		text += fmt.Sprintf(" [%s %s]", c.Function.Name, c.Function.Arguments)
	}
	return text
}

// message describes a message of the model, and its chunks if they differ from the message.
func (t *transcript) message(e *abi.Event) {
	streamed := t.streamed.String()
	t.streamed.Reset()
	m := *e.Message
	m.ID, m.Origin = "", ""
	if streamed != "" && streamed != ContentText(m.Content) {
		t.line(KindMessage, streamed, "streamed: %s", streamed)
	}
	t.line(KindMessage, &m, "message: %s", strings.TrimPrefix(MessageText(&m), m.Role+": "))
}

// event describes an event by the parts that do not depend on time. It adds nothing for events that
// are not compared.
func (t *transcript) event(e *abi.Event) {
	if t.view.Event != nil {
		if e = t.view.Event(e); e == nil {
			return
		}
	}
	switch e.Type {
	case abi.EventStepStarted:
		t.line(KindEvent, nil, "step %d", e.Step)
	case abi.EventToolCall:
		t.line(KindCall, e.Call.Arguments, "call %s %s", e.Call.Name, e.Call.Arguments)
	case abi.EventToolResult:
		t.line(KindResult, e.Result, "result of %s %s by %s: %s",
			e.Call.Name, e.Call.Arguments, e.Source, ContentText(e.Result.Content))
	case abi.EventDecision:
		if d := e.Decision; t.decisions {
			t.line(KindDecision, nil, "%s decides %s for %s%s", e.Entry, d.Decision, d.Tool, after(": ", d.Reason))
		}
	case abi.EventCustom:
		t.line(KindEvent, string(e.Data), "%s says %s %s", e.Entry, e.Name, e.Data)
	case abi.EventFault:
		t.line(KindFault, e.Cause, "%s faults in %s: %s (%s)", e.Entry, e.Hook, e.Cause, e.Action)
	case abi.EventLimit:
		t.line(KindEvent, nil, "limit %s: %s", e.Limit, e.Action)
	case abi.EventTransfer:
		t.line(KindEvent, nil, "%s transfers to %s", e.From, e.Agent)
	case abi.EventRunPaused:
		var reasons []string
		for _, p := range e.Interrupts {
			reasons = append(reasons, p.Reason)
		}
		t.line(KindEvent, reasons, "waits: %s", strings.Join(reasons, "; "))
	case abi.EventRunFinished:
		t.finished(e)
	}
}

// finished describes the end of the run.
func (t *transcript) finished(e *abi.Event) {
	text := "ends: " + e.FinishReason
	var content abi.Content
	if e.Message != nil {
		content = e.Message.Content
		text += ": " + ContentText(content)
	}
	if e.Error != nil {
		text += ": " + string(e.Error.Code) + ": " + e.Error.Message
	}
	t.line(KindEnd, content, "%s%s%s", text, after(" by ", e.StoppedBy), after(": ", e.Reason))
}
