package responses

import (
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An answer is a whole answer.
type answer struct {
	body  []byte
	root  rawjson.Value
	top   object
	items []rawjson.Value
	read  []*output
	res   abi.Response
}

// ParseAnswer parses the body of a whole answer.
func (Protocol) ParseAnswer(body []byte) (wire.Answer, error) {
	root, err := rawjson.Parse(body)
	if err != nil {
		return nil, upstream("the upstream's answer is not understood: %v", err)
	}
	if !root.IsObject() {
		return nil, upstream("the upstream's answer is not an object")
	}
	a := &answer{body: body, root: root, top: members(root)}
	if err := a.top.checkUpstream(); err != nil {
		return nil, err
	}
	a.items = a.top["output"].Elements()
	if len(a.items) > maxBlocks {
		return nil, upstream("the upstream's answer has more than %d items", maxBlocks)
	}
	if err := a.readItems(); err != nil {
		return nil, err
	}
	a.res.FinishReason = finishReason(a.top, len(a.res.Message.ToolCalls) > 0)
	a.res.Usage = readUsage(a.top)
	return a, nil
}

func (a *answer) readItems() error {
	a.res.Message.Role = abi.RoleAssistant
	var texts []string
	ids := map[string]bool{}
	for i, v := range a.items {
		o, err := readOutput(v, "output["+strconv.Itoa(i)+"]")
		if err != nil {
			return err
		}
		a.read = append(a.read, o)
		if len(texts)+len(o.texts) > maxBlocks {
			return upstream("the upstream's answer has more than %d parts", maxBlocks)
		}
		for _, t := range o.texts {
			texts = append(texts, t.text)
		}
		if o.call == nil {
			continue
		}
		if ids[o.call.id] {
			return upstream("the upstream's answer has two tool calls with the ID %.100q", o.call.id)
		}
		ids[o.call.id] = true
		a.res.Message.ToolCalls = append(a.res.Message.ToolCalls, o.call.abi())
	}
	a.res.Message.Content = content(texts)
	return nil
}

// Response returns the answer in the terms of the ABI.
func (a *answer) Response() *abi.Response { return &a.res }

// Encode returns the body with the message of next and with the calls that were denied.
func (a *answer) Encode(next *abi.Response, denied map[string]string) ([]byte, error) {
	texts, err := a.divide(next.Message.Content)
	if err != nil {
		return nil, err
	}
	e := &answerEncoder{answer: a, texts: texts, denied: denied, calls: map[string]*abi.ToolCall{}}
	for i := range next.Message.ToolCalls {
		c := &next.Message.ToolCalls[i]
		if c.ID == "" || c.Function.Name == "" || e.calls[c.ID] != nil {
			return nil, broken("a module added a tool call without an ID of its own or without a name")
		}
		e.calls[c.ID] = c
	}
	change := map[string][]byte{}
	changedStatus(change, a.res.FinishReason, next.FinishReason)
	if err := e.items(next.Message.ToolCalls); err != nil {
		return nil, err
	}
	e.change(change)
	edits := rawjson.Edits{Doc: a.body}
	edits.Members(a.root, change)
	return edits.Apply(), nil
}

// An answerEncoder writes the output of a changed answer.
type answerEncoder struct {
	*answer
	texts   []textChange // of the parts with text, in their order, and then a part that modules added
	calls   map[string]*abi.ToolCall
	denied  map[string]string
	out     [][]byte
	changed bool
	last    string // the type of the last item of out
}

// items appends the items of the output.
func (e *answerEncoder) items(calls []abi.ToolCall) error {
	for i, o := range e.read {
		var text []byte
		switch {
		case o.call != nil:
			var err error
			if text, err = e.call(i, o.call); err != nil {
				return err
			}
		case o.typ == "message":
			text = e.message(i, o)
		default:
			text = e.answer.items[i].Text
		}
		e.put(text, o.typ)
	}
	if len(e.texts) > 0 && e.texts[0].text != "" {
		e.put(newAdded(e.texts[0].text), "message")
		e.changed = true
	}
	custom := map[string]bool{}
	noteCustom(custom, e.top["tools"])
	for i := range calls {
		c := &calls[i]
		if e.calls[c.ID] == nil {
			continue
		}
		e.changed = true
		if text, ok := e.denied[c.ID]; ok {
			e.put(newAdded(text), "message")
			continue
		}
		text, err := newCall(c, custom)
		if err != nil {
			return broken("a module added the call %.100q: %v", c.ID, err)
		}
		e.put(text, "function_call")
	}
	if e.changed && e.last == "reasoning" && len(e.read) > 0 && e.read[len(e.read)-1].typ != "reasoning" {
		e.put(newAdded(""), "message")
	}
	return nil
}

// put appends an item, unless its text is nil.
func (e *answerEncoder) put(text []byte, typ string) {
	if text != nil {
		e.out, e.last = append(e.out, text), typ
	}
}

// call returns the item for a call: the call, a message if a gate denied it, or nil if a module removed it.
func (e *answerEncoder) call(i int, c *call) ([]byte, error) {
	item := e.answer.items[i].Text
	next := e.calls[c.id]
	delete(e.calls, c.id)
	if text, ok := e.denied[c.id]; ok && next != nil {
		e.changed = true
		return newAdded(text), nil
	}
	was := c.abi()
	switch {
	case next == nil:
		e.changed = true
		return nil, nil
	case sameCall(&was, next):
		return item, nil
	}
	e.changed = true
	text, err := withCall(item, c, next)
	if err != nil {
		return nil, broken("a module changed the call %.100q: %v", c.id, err)
	}
	return text, nil
}

// message returns a message item with the changed texts, or nil if it has no part left.
func (e *answerEncoder) message(i int, o *output) []byte {
	item := e.answer.items[i].Text
	textChanges := map[int]textChange{}
	left := o.parts
	for k, t := range o.texts {
		f := e.texts[k]
		if f.changed || f.dropped {
			textChanges[t.part] = f
		}
		if f.dropped {
			left--
		}
	}
	e.texts = e.texts[len(o.texts):]
	if len(textChanges) == 0 {
		return item
	}
	e.changed = true
	if left == 0 {
		return nil
	}
	return withTexts(item, textChanges)
}

// change adds to change the fields of the top level that repeat changed items.
func (e *answerEncoder) change(change map[string][]byte) {
	if !e.changed {
		return
	}
	list := rawjson.Array(e.out)
	change["output"] = list
	if e.top["output_text"].IsString() { // repeats the text
		var all strings.Builder
		for _, v := range parsed(list).Elements() {
			for _, part := range v.Get("content").Elements() {
				if part.Get("type").String() == "output_text" {
					all.WriteString(part.Get("text").String())
				}
			}
		}
		change["output_text"] = rawjson.Quote(all.String())
	}
}

// divide returns the change of each text of the answer, and a last one for text that needs a part
// of its own. It fails if next has a part that is not text.
func (a *answer) divide(next abi.Content) ([]textChange, error) {
	var was []string
	for _, o := range a.read {
		for _, t := range o.texts {
			was = append(was, t.text)
		}
	}
	parts := next.Parts()
	for i := range parts {
		if parts[i].Type != abi.PartText {
			return nil, broken("a module added a part of type %.40q to an answer, which can only have text",
				parts[i].Type)
		}
	}
	out := make([]textChange, len(was), len(was)+1)
	if len(was) > 0 && len(parts) == len(was) {
		for i := range was {
			out[i] = textChange{text: parts[i].Text, changed: parts[i].Text != was[i]}
		}
		return append(out, textChange{}), nil
	}
	return divideText(out, was, next.String()), nil
}

// divideText divides a text among parts. Parts at the beginning and the end keep their text if the new text has it
// there. The first of the other parts gets the rest.
func divideText(out []textChange, was []string, rest string) []textChange {
	from, to := 0, len(was)
	for from < to && strings.HasPrefix(rest, was[from]) {
		rest = rest[len(was[from]):]
		from++
	}
	for from < to && strings.HasSuffix(rest, was[to-1]) {
		to--
		rest = rest[:len(rest)-len(was[to])]
	}
	switch {
	case rest == "":
	case from < to:
		out[from] = textChange{text: rest, changed: true}
		from++
	default:
		return append(out, textChange{text: rest})
	}
	for ; from < to; from++ {
		out[from] = textChange{dropped: was[from] != "", changed: false}
	}
	return append(out, textChange{})
}
