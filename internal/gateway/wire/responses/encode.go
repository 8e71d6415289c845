package responses

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// Encode returns the body to send for the changed call next.
func (r *request) Encode(next *wire.Call) ([]byte, error) {
	change := map[string][]byte{}
	if next.Model != r.call.Model {
		change["model"] = rawjson.Quote(next.Model)
	}
	if next.Stream != r.call.Stream {
		change["stream"] = []byte("false")
		if next.Stream {
			change["stream"] = []byte("true")
		}
	}
	if err := r.editParams(change, next.Params); err != nil {
		return nil, err
	}
	tools, err := r.editTools(next.Tools)
	if err != nil {
		return nil, err
	}
	e := &encoder{request: r, changed: tools.apply(change), added: map[string]form{}}
	if err := e.encode(change, next.Messages); err != nil {
		return nil, err
	}
	edits := rawjson.Edits{Doc: r.body}
	edits.Members(r.root, change)
	return edits.Apply(), nil
}

// An encoder writes the input of a request.
type encoder struct {
	*request
	changed map[int][]byte  // the texts of items with changed tools, by the number of the item
	added   map[string]form // the forms of calls that modules added, by their ID
	out     []element
	edited  bool // whether an item differs from the request's
}

// An element is an item of the new input.
type element struct {
	text []byte
	from int // the number of the request's item that it is, or newItem
}

const newItem = -1

// encode adds to change the fields whose messages differ from next.
func (e *encoder) encode(change map[string][]byte, next []abi.Message) error {
	e.edited = len(e.changed) > 0
	seen := map[string]bool{}
	at, reordered := 0, len(next) != len(e.call.Messages)
	for i := range next {
		m := &next[i]
		s, known := e.spans[m.ID]
		if known && seen[m.ID] {
			return broken("a module returned two messages with the ID %.40q", m.ID)
		}
		seen[m.ID] = known
		reordered = reordered || !known || s.index != at
		at++
		if err := e.message(change, m, s, known); err != nil {
			return err
		}
	}
	if _, ok := e.spans[instructionsID]; ok && !seen[instructionsID] {
		change["instructions"] = nil
	}
	if !reordered && !e.edited {
		return nil
	}
	if e.top["input"].IsString() && len(e.out) == 1 && e.out[0].from == newItem {
		if text := plainInput(e.out[0].text); text != nil && seen[inputID] {
			change["input"] = text
			return nil
		}
	}
	if err := e.check(); err != nil {
		return err
	}
	if text := e.input(); text != nil {
		change["input"] = text
	}
	return nil
}

// plainInput returns the text of a user's message that can be an input of its own.
func plainInput(item []byte) []byte {
	v := parsed(item)
	if content := v.Get("content"); content.IsString() && v.Get("role").String() == abi.RoleUser {
		return content.Text
	}
	return nil
}

// input returns the text of the new input, or nil if it has not changed.
func (e *encoder) input() []byte {
	same := e.top["input"].IsArray() && len(e.out) == len(e.items)
	for i := range e.out {
		same = same && e.out[i].from == i
	}
	if !same {
		list := make([][]byte, len(e.out))
		for i := range e.out {
			list[i] = e.out[i].text
		}
		if len(list) == 0 && !e.top["input"].Exists() {
			return nil
		}
		return rawjson.Array(list)
	}
	old := parsed(e.top["input"].Text)
	edits := rawjson.Edits{Doc: old.Text}
	for i, v := range old.Elements() {
		if text := e.out[i].text; &text[0] != &e.items[i].Text[0] {
			edits.Replace(v, text)
		}
	}
	if !edits.Changed() {
		return nil
	}
	return edits.Apply()
}

// message appends the items of a message.
func (e *encoder) message(change map[string][]byte, m *abi.Message, s span, known bool) error {
	if !known {
		return e.add(m)
	}
	was := &e.call.Messages[s.index]
	same := sameMessage(was, m)
	switch {
	case m.ID == instructionsID && m.Role != abi.RoleSystem:
		return broken("a module changed the role of the instructions")
	case m.ID == instructionsID:
		return e.instructions(change, m, same)
	case m.ID == inputID && same:
		e.out = append(e.out, element{newUser(e.top["input"].Text), newItem})
		return nil
	case m.ID == inputID:
		e.edited = true
		return e.add(m)
	case same:
		for i := s.from; i < s.to; i++ {
			e.put(i, e.item(i))
		}
		return nil
	}
	e.edited = true
	return e.rewrite(was, m, s)
}

// instructions changes the instructions to the text of m.
func (e *encoder) instructions(change map[string][]byte, m *abi.Message, same bool) error {
	if same {
		return nil
	}
	for _, p := range m.Content.Parts() {
		if p.Type != abi.PartText {
			return broken("a module added a part of type %.40q to the instructions, which can only have text", p.Type)
		}
	}
	change["instructions"] = rawjson.Quote(m.Content.String())
	return nil
}

// item returns the text of an item with the changes of its tools.
func (e *encoder) item(i int) []byte {
	if text := e.changed[i]; text != nil {
		return text
	}
	return e.items[i].Text
}

// put appends item i of the request with the given text.
func (e *encoder) put(i int, text []byte) {
	e.out = append(e.out, element{text, i})
}

func (e *encoder) append(text []byte) { e.out = append(e.out, element{text, newItem}) }

// sameMessage reports whether a module returned a message as it was, as far as the upstream receives it.
func sameMessage(a, b *abi.Message) bool {
	if a.Role != b.Role || a.ToolCallID != b.ToolCallID || a.ReasoningContent != b.ReasoningContent ||
		len(a.ToolCalls) != len(b.ToolCalls) || !sameContent(a.Content, b.Content) {
		return false
	}
	for i := range a.ToolCalls {
		if !sameCall(&a.ToolCalls[i], &b.ToolCalls[i]) {
			return false
		}
	}
	return true
}

func sameCall(a, b *abi.ToolCall) bool { return a.ID == b.ID && a.Function == b.Function }

// rewrite appends the items of a message that changed.
func (e *encoder) rewrite(was, m *abi.Message, s span) error {
	if m.Role != was.Role || m.Role == abi.RoleTool && m.ToolCallID != was.ToolCallID {
		for _, p := range was.Content.Parts() {
			if wire.Opaque(&p) {
				return opaqueError(p.Type)
			}
		}
		return e.add(m)
	}
	if m.ReasoningContent != was.ReasoningContent {
		return reasoningError()
	}
	if m.Role == abi.RoleTool {
		return e.rewriteField(s.from, "output", was.Content, m.Content, "input_text")
	}
	if len(m.ToolCalls) > 0 && m.Role != abi.RoleAssistant {
		return broken("a module added a tool call to a message of role %q", m.Role)
	}
	parts, old := m.Content.Parts(), was.Content.Parts()
	for i := range s.opaque {
		if i >= len(parts) || !wire.SamePart(&old[i], &parts[i]) {
			return opaqueError(old[i].Type)
		}
		e.put(s.from+i, e.item(s.from+i))
	}
	rest := m.Content
	if s.opaque > 0 {
		rest = abi.Parts(parts[s.opaque:]...)
		old = old[s.opaque:]
	}
	switch {
	case !s.message && len(rest.Parts()) > 0:
		if err := e.addContent(m.Role, rest); err != nil {
			return err
		}
	case s.message && (len(rest.Parts()) > 0 || len(old) == 0 || m.Role != abi.RoleAssistant):
		wasRest := was.Content
		if s.opaque > 0 {
			wasRest = abi.Parts(old...)
		}
		if err := e.rewriteField(s.from+s.opaque, "content", wasRest, rest, textType(m.Role)); err != nil {
			return err
		}
	case s.message:
		for i := range old {
			if wire.Opaque(&old[i]) {
				return opaqueError(old[i].Type)
			}
		}
	}
	return e.rewriteCalls(was, m, s)
}

func reasoningError() error {
	return broken("a module set the reasoning of a message, which only the upstream can write")
}

// rewriteCalls appends the calls of m, the changed form of the message was. Calls that did not change
// keep their text.
func (e *encoder) rewriteCalls(was, m *abi.Message, s span) error {
	first := s.to - len(was.ToolCalls)
	old := map[string]int{}
	for i := range was.ToolCalls {
		old[was.ToolCalls[i].ID] = i
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		k, ok := old[c.ID]
		if !ok {
			if err := e.addCall(c); err != nil {
				return err
			}
			continue
		}
		delete(old, c.ID)
		if sameCall(&was.ToolCalls[k], c) {
			e.put(first+k, e.item(first+k))
			continue
		}
		v := e.items[first+k]
		read, _ := readCall(v.Get("type").String(), members(v))
		text, err := withCall(v.Text, &read, c)
		if err != nil {
			return broken("a module changed the call %.100q: %v", c.ID, err)
		}
		e.put(first+k, text)
	}
	return nil
}

// rewriteField appends item i with its field name, whose content changed from was to now.
func (e *encoder) rewriteField(i int, name string, was, now abi.Content, textType string) error {
	if sameContent(was, now) {
		e.put(i, e.item(i))
		return nil
	}
	v := e.items[i].Get(name)
	text, err := changedContent(v, was, now, textType)
	if err != nil {
		return err
	}
	e.put(i, edit(e.items[i].Text, map[string][]byte{name: text}))
	return nil
}
