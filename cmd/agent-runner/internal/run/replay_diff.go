package run

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// A runDiff is the difference between two replays of a run: one with its own modules, and one with
// another module.
type runDiff struct {
	Run    string `json:"run"`
	Entry  string `json:"entry"`
	Digest string `json:"digest"` // of the replaced module
	// Same is set if the replays are the same, and the first one reproduces the stored run.
	Same       bool       `json:"same"`
	Reproduced bool       `json:"reproduced"`
	Lines      []diffLine `json:"lines"`
	Note       string     `json:"note,omitempty"` // why a replay ended early, or does not reproduce the run
}

// A diffLine is the summary of an event, or of data that the model or a tool was sent. Op is " "
// for both replays, "-" for the one with the run's own modules and "+" for the other.
type diffLine struct {
	Op   string `json:"op"`
	Text string `json:"text"`
}

// compare sets the difference of two replays. stored holds the events of the stored run.
func (d *runDiff) compare(stored []abi.Event, own, other *replayed) {
	d.Lines = compareLines(own.transcript(), other.transcript())
	d.Note = other.note
	run := &replayed{run: own.run, events: stored}
	again := &replayed{run: own.run, events: own.events}
	differs := func(l diffLine) bool { return l.Op != " " }
	at := compareLines(run.transcript(), again.transcript())
	d.Reproduced = !slices.ContainsFunc(at, differs)
	d.Same = d.Reproduced && !d.Differs()
	if !d.Reproduced {
		first := at[slices.IndexFunc(at, differs)]
		where := map[string]string{"-": "the run had", "+": "the replay has"}[first.Op]
		d.Note = strings.TrimSpace(
			d.Note + "\nThe run is not reproducible: with its own modules its replay differs from what is stored. " +
				"Modules that use the clock, random numbers, stored values or HTTP, and runs that were canceled or timed out, cannot be reproduced.\n" +
				"The first difference is that " + where + ": " + first.Text,
		)
	}
}

// Differs reports whether the two replays differ.
func (d *runDiff) Differs() bool {
	return slices.ContainsFunc(d.Lines, func(l diffLine) bool { return l.Op != " " })
}

// diffContext is the number of equal lines shown around a difference.
const diffContext = 2

// text formats the difference.
func (d *runDiff) text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "run %s with another %s (was sha256:%s)\n", d.Run, d.Entry, cli.Short(d.Digest, 13))
	skipped := false
	for i, l := range d.Lines {
		near := slices.ContainsFunc(d.Lines[max(0, i-diffContext):min(len(d.Lines), i+diffContext+1)],
			func(l diffLine) bool { return l.Op != " " })
		if !near {
			skipped = true
			continue
		}
		if skipped {
			out.WriteString("  …\n")
			skipped = false
		}
		out.WriteString(l.Op + " " + cli.Clean(l.Text) + "\n")
	}
	if d.Note != "" {
		fmt.Fprintf(&out, "\n%s\n", cli.Clean(d.Note))
	}
	if d.Same {
		out.WriteString("the same run\n")
	}
	return out.String()
}

// A transcriptLine describes an event, or a part of what the model or a tool was sent.
type transcriptLine struct {
	text string // on one line
	all  string // JSON with everything that is compared
	sum  [sha256.Size]byte
}

// newLine returns a line with the given text that is equal to others with the same text and value.
func newLine(text string, value any) transcriptLine {
	b, err := abijson.Marshal(value)
	if err != nil {
		b = []byte(text)
	}
	l := transcriptLine{text: text, all: string(b)}
	l.sum = sha256.Sum256([]byte(text + "\x00" + l.all))
	return l
}

// transcript returns the lines that describe a replay.
func (r *replayed) transcript() []transcriptLine {
	t := &transcript{sent: r.index(), run: r.run.Run.ID}
	return t.lines(r.events)
}

// A sentIndex holds what the model and the tools were sent in a replay, by the step of a run.
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
func (r *replayed) index() sentIndex {
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

// A transcript describes the events of one run, and what its model and tools were sent. The order
// of the lines does not depend on the order of concurrent calls.
type transcript struct {
	sent     sentIndex
	run      string
	indent   string
	out      []transcriptLine
	last     []abi.Message // of the run's last request
	streamed strings.Builder
}

func (t *transcript) line(value any, format string, args ...any) {
	t.out = append(t.out, newLine(t.indent+cli.OneLine(fmt.Sprintf(format, args...)), value))
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

// callsOf returns the events about each tool call of a step, and the ids of the calls: those of
// messages in their order, then others.
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

// call describes the events of a tool call, what the tool was sent, and the runs of sub-agents
// within the call.
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
			child := &transcript{sent: t.sent, run: run, indent: t.indent + "  "}
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

// arguments describes the arguments that the tool of a call was sent.
func (t *transcript) arguments(id, name string, step int) {
	if sent := t.sent[stepOf{t.run, step}]; sent != nil {
		for _, arguments := range sent.calls[id] {
			t.line(arguments, "%s gets %s", name, arguments)
		}
	}
}

// requests describes the requests of a step that the model was sent. It describes only the messages
// that the run's last request did not have.
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
		does := "model " + q.Model + " gets"
		if q.isOwn() {
			does = q.entry + " calls model " + q.Model + " with"
		}
		t.line(
			map[string]any{"params": q.Params, "earlier": earlier, "tools": q.Tools},
			"%s %s and %s%s",
			does,
			cli.Count(
				int64(len(messages)),
				"message",
			),
			cli.Count(int64(len(q.Tools)), "tool"),
			cli.After(", ", paramsText(q.Params)),
		)
		for i := range messages[earlier:] {
			m := &messages[earlier+i]
			t.out = append(t.out, newLine(t.indent+"  "+cli.OneLine(messageText(m)), m))
		}
	}
}

// sentMessages returns the messages of a request without the parts that the model is not sent.
func sentMessages(q *sentRequest) []abi.Message {
	out := slices.Clone(q.Messages)
	for i := range out {
		m := &out[i]
		m.ID, m.Origin, m.Labels, m.PartLabels = "", "", nil, nil
	}
	return out
}

// equalMessages returns the number of messages that both lists begin with.
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
	return reflect.DeepEqual(a, b) || newLine("", a).sum == newLine("", b).sum
}

func paramsText(params abi.Params) string {
	if len(params) == 0 {
		return ""
	}
	b, _ := abijson.Marshal(params)
	return string(b)
}

// messageText summarizes a message: its role, text and calls.
func messageText(m *abi.Message) string {
	text := m.Role + ": " + contentText(m.Content)
	for _, c := range m.ToolCalls {
		text += fmt.Sprintf(" [%s %s]", c.Function.Name, c.Function.Arguments)
	}
	return text
}

// message describes a message of the model, and its chunks if they are different from it.
func (t *transcript) message(e *abi.Event) {
	streamed := t.streamed.String()
	t.streamed.Reset()
	m := *e.Message
	m.ID, m.Origin = "", ""
	if streamed != "" && streamed != contentText(m.Content) {
		t.line(streamed, "streamed: %s", streamed)
	}
	t.line(&m, "message: %s", strings.TrimPrefix(messageText(&m), m.Role+": "))
}

// event describes an event by the parts that do not depend on time. It adds nothing for events that
// are not compared.
func (t *transcript) event(e *abi.Event) {
	switch e.Type {
	case abi.EventStepStarted:
		t.line(nil, "step %d", e.Step)
	case abi.EventToolCall:
		t.line(e.Call.Arguments, "call %s %s", e.Call.Name, e.Call.Arguments)
	case abi.EventToolResult:
		t.line(e.Result, "result of %s %s by %s: %s", e.Call.Name, e.Call.Arguments, e.Source, contentText(e.Result.Content))
	case abi.EventCustom:
		t.line(string(e.Data), "%s says %s %s", e.Entry, e.Name, e.Data)
	case abi.EventFault:
		t.line(e.Cause, "%s faults in %s: %s (%s)", e.Entry, e.Hook, e.Cause, e.Action)
	case abi.EventLimit:
		t.line(nil, "limit %s: %s", e.Limit, e.Action)
	case abi.EventTransfer:
		t.line(nil, "%s transfers to %s", e.From, e.Agent)
	case abi.EventRunPaused:
		var reasons []string
		for _, p := range e.Interrupts {
			reasons = append(reasons, p.Reason)
		}
		t.line(reasons, "waits: %s", strings.Join(reasons, "; "))
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
		text += ": " + contentText(content)
	}
	if e.Error != nil {
		text += ": " + string(e.Error.Code) + ": " + e.Error.Message
	}
	t.line(content, "%s%s%s", text, cli.After(" by ", e.StoppedBy), cli.After(": ", e.Reason))
}

// maxCompared is the maximum number of pairs of lines that compareLines compares. Beyond it, all
// of these lines count as different.
const maxCompared = 1 << 22

// compareLines returns the difference of two transcripts: a line diff by their longest common
// subsequence.
func compareLines(a, b []transcriptLine) []diffLine {
	begin := 0
	for begin < min(len(a), len(b)) && a[begin].sum == b[begin].sum {
		begin++
	}
	end := 0
	for end < min(len(a), len(b))-begin && a[len(a)-1-end].sum == b[len(b)-1-end].sum {
		end++
	}
	d := &differ{}
	d.equal(a[:begin])
	d.compare(a[begin:len(a)-end], b[begin:len(b)-end])
	d.pair()
	d.equal(a[len(a)-end:])
	return d.out
}

// A differ collects the lines of a difference.
type differ struct {
	out            []diffLine
	removed, added []transcriptLine // since the last equal line
}

// compare adds the difference of a and b.
func (d *differ) compare(a, b []transcriptLine) {
	if len(a)*len(b) > maxCompared {
		d.removed, d.added = a, b
		return
	}
	// lengths[i][j] is the length of the longest common subsequence of a[i:] and b[j:].
	lengths := make([][]int, len(a)+1)
	for i := range lengths {
		lengths[i] = make([]int, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i].sum == b[j].sum {
				lengths[i][j] = lengths[i+1][j+1] + 1
			} else {
				lengths[i][j] = max(lengths[i+1][j], lengths[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i].sum == b[j].sum:
			d.pair()
			d.equal(a[i : i+1])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && lengths[i+1][j] >= lengths[i][j+1]:
			d.removed = append(d.removed, a[i])
			i++
		default:
			d.added = append(d.added, b[j])
			j++
		}
	}
}

// equal adds lines that are in both transcripts.
func (d *differ) equal(lines []transcriptLine) {
	for _, l := range lines {
		d.out = append(d.out, diffLine{" ", excerpt(l.text, 0, maxLine)})
	}
}

// pair adds the lines that were removed and added since the last equal line. It shows long lines
// from where they begin to differ.
func (d *differ) pair() {
	for i := range max(len(d.removed), len(d.added)) {
		switch {
		case i >= len(d.added):
			d.out = append(d.out, diffLine{"-", excerpt(d.removed[i].text, 0, maxLine)})
		case i >= len(d.removed):
			d.out = append(d.out, diffLine{"+", excerpt(d.added[i].text, 0, maxLine)})
		default:
			was, is := d.removed[i].text, d.added[i].text
			if was == is { // the summary does not show the difference
				was, is = was+" "+d.removed[i].all, is+" "+d.added[i].all
			}
			at := equalPrefix(was, is)
			d.out = append(d.out, diffLine{"-", excerpt(was, at, maxLine)}, diffLine{"+", excerpt(is, at, maxLine)})
		}
	}
	d.removed, d.added = nil, nil
}

// equalPrefix returns the number of bytes that both texts begin with.
func equalPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Limits on the text of a line, in bytes.
const (
	maxLine     = 400
	linePrefix  = 40 // shown of the beginning of a long line
	lineContext = 80 // shown before the difference
)

// excerpt returns at most about limit bytes of a long line: its beginning, and the part around byte
// at.
func excerpt(text string, at, limit int) string {
	if len(text) <= limit {
		return text
	}
	prefix := ""
	if from := at - lineContext; from > linePrefix {
		prefix = truncate.Text(text, linePrefix) + "…"
		text = strings.ToValidUTF8(text[from:], "") // from may be within a character
	}
	if len(text) > limit {
		text = truncate.Text(text, limit) + "…"
	}
	return prefix + text
}
