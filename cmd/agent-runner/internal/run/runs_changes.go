package run

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/cmd/agent-runner/internal/cli"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/rerun"
)

// maxChanges is the maximum number of changed messages that are shown of one hook call.
const maxChanges = 20

// A hookAnswer has the fields of all hooks' answers that are shown as text.
type hookAnswer struct {
	Request     *abi.RequestPatch `json:"request"`
	Response    *abi.Response     `json:"response"`
	Arguments   *string           `json:"arguments"`
	Result      *abi.Result       `json:"result"`
	Instruction *string           `json:"instruction"`
	Tools       *abi.ToolsPatch   `json:"tools"`
	Respond     *abi.Message      `json:"respond"`
	Final       *abi.Message      `json:"final"`
	Stop        *abi.Stop         `json:"stop"`
	Interrupt   *abi.Interrupt    `json:"interrupt"`
	Again       *struct {
		Reason string `json:"reason"`
	} `json:"again"`
}

// shownFields lists the keys of hookAnswer.
var shownFields = []string{
	"request", "response", "arguments", "result", "instruction", "tools", "respond", "final", "stop", "interrupt", "again",
}

// changes writes the changes of a hook call: each changed value before and after, as text. It
// collects the hooks that changed nothing for collapsed.
func (v *runView) changes(d *runlog.RecordedCall) {
	c := &changeView{runView: v, call: d}
	var a hookAnswer
	if len(d.Answer) > 0 && json.Unmarshal(d.Answer, &a) == nil {
		c.edits()
		c.answer(&a)
		c.rest()
	}
	if !c.headed {
		v.unchanged = append(v.unchanged, d.Entry+" "+d.What)
	}
}

// collapsed writes the hooks of a step that changed nothing, on one line, and resets the state for
// the next step.
func (v *runView) collapsed() {
	counts := map[string]int{}
	var names []string
	for _, name := range v.unchanged {
		if counts[name]++; counts[name] == 1 {
			names = append(names, name)
		}
	}
	for i, name := range names {
		if n := counts[name]; n > 1 {
			names[i] += " (" + cli.Count(int64(n), "time") + ")"
		}
	}
	if len(names) > 0 {
		v.line(1, cli.Faint, "no changes: %s", v.cut(strings.Join(names, ", ")))
	}
	v.unchanged, v.response, v.model = nil, nil, nil
}

// A changeView writes the changes of one hook call.
type changeView struct {
	*runView
	call   *runlog.RecordedCall
	headed bool // the name of the hook was written
}

// head writes the name of the hook, once.
func (c *changeView) head() {
	if !c.headed {
		c.headed = true
		tool := ""
		if name := c.calls[c.call.Call]; name != "" {
			tool = " of " + name
		}
		c.line(1, cli.Amber, "• %s %s%s", c.call.Entry, c.call.What, tool)
	}
}

// say writes a line about the change: what, followed by text, which is from a module.
func (c *changeView) say(what, text string) {
	c.head()
	c.line(2, cli.Plain, "%s%s", what, c.cut(text))
}

// diff writes a text before and after, each prefixed with its role or kind. It writes nothing if they
// are equal.
func (c *changeView) diff(before, after string) {
	if before != after {
		c.head()
		c.runView.diff(2, before, after)
	}
}

// diff writes two texts, each on its own line. A text that is "" has no line. Long texts are shown
// from their first difference.
func (v *runView) diff(depth int, before, after string) {
	before, after = cli.OneLine(before), cli.OneLine(after)
	at := rerun.EqualPrefix(before, after)
	if before != "" {
		v.line(depth, cli.Red, "- %s", rerun.Excerpt(before, at, v.maxText))
	}
	if after != "" {
		v.line(depth, "32", "+ %s", rerun.Excerpt(after, at, v.maxText))
	}
}

// edits writes the changed messages. A removed message is followed by the one in its place.
func (c *changeView) edits() {
	shown := 0
	for _, e := range c.call.Edits {
		if e.Omitted > 0 {
			c.say("", cli.Count(int64(e.Omitted), "message")+" removed from the request")
		}
		for i := range max(len(e.Removed), len(e.Inserted)) {
			if shown++; shown > maxChanges {
				continue
			}
			before, after := "", ""
			if i < len(e.Removed) {
				before = rerun.MessageText(&e.Removed[i])
			}
			if i < len(e.Inserted) {
				after = rerun.MessageText(&e.Inserted[i])
			}
			if before == after { // other fields differ
				before, after = before+" "+otherFields(&e.Removed[i]), after+" "+otherFields(&e.Inserted[i])
			}
			c.diff(before, after)
		}
	}
	if shown > maxChanges {
		c.say("… ", cli.Count(int64(shown-maxChanges), "more changed message"))
	}
}

// otherFields returns the fields of a message, without those that the host sets, as JSON.
func otherFields(m *abi.Message) string {
	other := *m
	other.ID, other.Origin, other.Labels, other.PartLabels = "", "", nil, nil
	b, _ := abijson.Marshal(&other)
	return string(b)
}

// answer writes the changes in a hook's answer, except changes of messages.
func (c *changeView) answer(a *hookAnswer) {
	if r := a.Request; r != nil {
		c.request(r)
	}
	if a.Response != nil {
		before := ""
		if c.response != nil {
			before = rerun.MessageText(c.response)
		}
		c.diff(before, rerun.MessageText(&a.Response.Message))
		c.response = &a.Response.Message
	}
	if a.Arguments != nil {
		c.diff("arguments: "+c.args[c.call.Call], "arguments: "+*a.Arguments)
		c.args[c.call.Call] = *a.Arguments
	}
	if a.Result != nil {
		before := ""
		if text, ok := c.results[c.call.Call]; ok {
			before = "result: " + text
		}
		c.diff(before, "result: "+rerun.ContentText(a.Result.Content))
		c.results[c.call.Call] = rerun.ContentText(a.Result.Content)
	}
	if a.Instruction != nil {
		c.diff("", "instruction: "+*a.Instruction)
	}
	if a.Tools != nil {
		c.tools(a.Tools)
	}
	for _, m := range []*abi.Message{a.Respond, a.Final} {
		if m != nil {
			c.diff("", rerun.MessageText(m))
		}
	}
	if a.Stop != nil {
		c.say("stops the run: ", a.Stop.Reason)
	}
	if a.Interrupt != nil {
		c.say("asks: ", a.Interrupt.Reason)
	}
	if a.Again != nil {
		c.say("repeats the call: ", a.Again.Reason)
	}
}

// request writes the changes of a request. It writes changed messages only if the recorded call has
// no edits, as in a call that a middleware makes for itself.
func (c *changeView) request(r *abi.RequestPatch) {
	if n := len(r.Messages.Splice) + len(r.Messages.Replace); len(c.call.Edits) == 0 && n > 0 {
		for _, m := range r.Messages.Replace {
			c.diff("", rerun.MessageText(&m))
		}
		for _, s := range r.Messages.Splice {
			if s.Remove > 0 {
				c.say("", cli.Count(int64(s.Remove), "message")+" removed from the request")
			}
			for i := range s.Insert {
				c.diff("", rerun.MessageText(&s.Insert[i]))
			}
		}
	}
	if !r.Tools.IsZero() {
		c.tools(&r.Tools)
	}
	if r.Model != "" {
		c.say("model: ", r.Model)
	}
	if len(r.Params) > 0 {
		c.say("parameters: ", rerun.ParamsText(r.Params))
	}
}

// tools writes the added and removed tools.
func (c *changeView) tools(p *abi.ToolsPatch) {
	for _, name := range p.Remove {
		c.diff("tool: "+name, "")
	}
	for _, list := range [][]abi.Tool{p.Add, p.Replace} {
		for i := range list {
			c.diff("", "tool: "+list[i].Name)
		}
	}
}

// rest writes the fields of the answer that are not in shownFields as JSON. It writes the messages of an
// answer of tool_messages as text, and skips those of other answers.
func (c *changeView) rest() {
	var fields map[string]json.RawMessage
	if json.Unmarshal(c.call.Answer, &fields) != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		var list []abi.Message
		switch {
		case slices.Contains(shownFields, name), string(value) == "null":
		case name != "messages":
			c.say(name+": ", string(value))
		case c.call.What == string(contract.HookToolMessages) && json.Unmarshal(value, &list) == nil:
			for i := range list {
				c.diff("", rerun.MessageText(&list[i]))
			}
		}
	}
}

// delivered writes the difference between the model's answer and the chunks that the caller received.
// The hooks on_chunk and wrap_model can cause such a difference. Their answers are not recorded, so
// delivered names all entries with one of these hooks.
func (v *runView) delivered(step int, events []abi.Event) {
	if v.model == nil || v.response == nil {
		return
	}
	model, answer := rerun.ContentText(v.model.Content), rerun.ContentText(v.response.Content)
	var streamed strings.Builder
	var final *abi.Message
	for _, e := range v.steps[step] {
		switch {
		case e.Type == abi.EventChunk && e.Chunk.CallID == "" && e.Chunk.Kind == abi.ChunkText:
			streamed.WriteString(e.Chunk.Text)
		case e.Type == abi.EventMessage:
			final = e.Message
		}
	}
	chunks, wraps := entriesWith(contract.HookOnChunk, events), entriesWith(contract.HookWrapModel, events)
	if text := streamed.String(); chunks != "" && text != "" && text != model {
		v.line(1, cli.Amber, "• %s on_chunk%s", chunks, cli.After(", or wrap_model of ", wraps))
		v.diff(2, "streamed: "+model, "streamed: "+text)
		if v.response == v.model {
			answer = text
		}
	}
	if final != nil && wraps != "" && rerun.ContentText(final.Content) != answer {
		v.line(1, cli.Amber, "• %s wrap_model", wraps)
		v.diff(2, "assistant: "+answer, "assistant: "+rerun.ContentText(final.Content))
	}
}

// entriesWith returns the names of the entries whose hook was called, from the run's last event. It
// returns "" before the run has ended.
func entriesWith(h abi.Hook, events []abi.Event) string {
	var names []string
	for i := range events {
		for _, s := range events[i].Entries {
			if s.Hooks[h] > 0 {
				names = append(names, s.Entry)
			}
		}
	}
	return strings.Join(names, ", ")
}
