package responses

import (
	"strings"

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
	e := &encoder{request: r, changed: tools.apply(change), custom: map[string]bool{}}
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
	changed map[int][]byte  // items of which tools changed, by their number
	custom  map[string]bool // whether a call is one of a custom tool, by its ID
	out     []element
	edited  bool // whether an item differs from the request's
}

// An element is an item of the new input.
type element struct {
	text []byte
	from int // the number of the request's item that it is, or newItem
}

const newItem = -1

// encode adds to change what has to change at the top level so that the messages are next.
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

// put appends an item of the request, with its text or another.
func (e *encoder) put(i int, text []byte) {
	v := e.items[i]
	if v.Get("type").String() == "custom_tool_call" {
		e.custom[v.Get("call_id").String()] = true
	}
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
		if i >= len(parts) || !samePart(&old[i], &parts[i]) {
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

// rewriteCalls appends the calls of a message, of which some changed.
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

// rewriteField appends an item with another content in the field name.
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

// changedContent returns the text of a content whose ABI form was changed from was to now. Parts that are
// equal keep their text.
func changedContent(v rawjson.Value, was, now abi.Content, textType string) ([]byte, error) {
	old, next := was.Parts(), now.Parts()
	if v.IsString() && len(next) == 1 && next[0].Type == abi.PartText && len(next[0].Unknown) == 0 {
		return rawjson.Quote(next[0].Text), nil
	}
	if err := sameOpaque(old, next); err != nil {
		return nil, err
	}
	elements := v.Elements()
	if v.IsString() || len(elements) != len(old) {
		return newContent(now, textType)
	}
	if sameTypes(old, next) {
		edits := rawjson.Edits{Doc: v.Text}
		for i, x := range parsed(v.Text).Elements() {
			if samePart(&old[i], &next[i]) {
				continue
			}
			text, err := changedPart(elements[i].Text, &old[i], &next[i], textType)
			if err != nil {
				return nil, err
			}
			edits.Replace(x, text)
		}
		return edits.Apply(), nil
	}
	return rebuilt(elements, old, next, textType)
}

// rebuilt returns a content with other parts than before. A part that is equal to one before keeps its text.
func rebuilt(elements []rawjson.Value, old, next []abi.Part, textType string) ([]byte, error) {
	known := map[string][][]byte{}
	for i := range old {
		known[partKey(&old[i])] = append(known[partKey(&old[i])], elements[i].Text)
	}
	list := make([][]byte, len(next))
	for i := range next {
		key := partKey(&next[i])
		if texts := known[key]; len(texts) > 0 {
			list[i], known[key] = texts[0], texts[1:]
			continue
		}
		var err error
		if list[i], err = newPart(&next[i], textType); err != nil {
			return nil, err
		}
	}
	return rawjson.Array(list), nil
}

// partKey is equal for parts that are the same.
func partKey(p *abi.Part) string {
	if p.Type == abi.PartText && len(p.Unknown) == 0 {
		return "t" + p.Text
	}
	text, err := p.MarshalJSON()
	if err != nil {
		return p.Type
	}
	return "p" + string(canonical(text))
}

// sameOpaque returns an error unless next has the opaque parts of old in their order.
func sameOpaque(old, next []abi.Part) error {
	var kept []*abi.Part
	for i := range next {
		if wire.Opaque(&next[i]) {
			kept = append(kept, &next[i])
		}
	}
	for i := range old {
		if !wire.Opaque(&old[i]) {
			continue
		}
		if len(kept) == 0 || !samePart(&old[i], kept[0]) {
			return opaqueError(old[i].Type)
		}
		kept = kept[1:]
	}
	if len(kept) > 0 {
		return opaqueError(kept[0].Type)
	}
	return nil
}

func sameTypes(a, b []abi.Part) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Type != b[i].Type {
			return false
		}
	}
	return true
}

// textType returns the type of text in a message of a role.
func textType(role string) string {
	if role == abi.RoleAssistant {
		return "output_text"
	}
	return "input_text"
}

// newContent returns the text of a content that modules wrote.
func newContent(c abi.Content, textType string) ([]byte, error) {
	if !c.IsParts() {
		return rawjson.Quote(c.String()), nil
	}
	parts := c.Parts()
	list := make([][]byte, len(parts))
	for i := range parts {
		var err error
		if list[i], err = newPart(&parts[i], textType); err != nil {
			return nil, err
		}
	}
	return rawjson.Array(list), nil
}

// add appends the items of a message that a module wrote.
func (e *encoder) add(m *abi.Message) error {
	switch m.Role {
	case abi.RoleSystem, abi.RoleDeveloper, abi.RoleUser:
		if len(m.ToolCalls) > 0 {
			return broken("a module added a tool call to a message of role %q", m.Role)
		}
		return e.addContent(m.Role, m.Content)
	case abi.RoleTool:
		return e.addOutput(m)
	case abi.RoleAssistant:
	default:
		return broken("a module added a message with the unknown role %.40q", m.Role)
	}
	if m.ReasoningContent != "" {
		return reasoningError()
	}
	if len(m.Content.Parts()) > 0 && (m.Content.IsParts() || m.Content.String() != "") || len(m.ToolCalls) == 0 {
		if err := e.addContent(m.Role, m.Content); err != nil {
			return err
		}
	}
	for i := range m.ToolCalls {
		if err := e.addCall(&m.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

func newUser(content []byte) []byte {
	return newObject(str("type", "message"), str("role", abi.RoleUser), field{"content", content})
}

func (e *encoder) addContent(role string, c abi.Content) error {
	content, err := newContent(c, textType(role))
	if err != nil {
		return err
	}
	e.append(newObject(str("type", "message"), str("role", role), field{"content", content}))
	return nil
}

func (e *encoder) addCall(c *abi.ToolCall) error {
	if c.ID == "" || c.Function.Name == "" {
		return broken("a module added a tool call without an ID or a name")
	}
	namespace, name := e.split(c.Function.Name)
	fields := []field{str("type", "function_call"), str("call_id", c.ID), str("name", name),
		str("arguments", c.Function.Arguments)}
	if e.tools.custom[c.Function.Name] {
		input, err := customInput(c.Function.Arguments)
		if err != nil {
			return broken("a module added the call %.100q: %v", c.ID, err)
		}
		fields = []field{str("type", "custom_tool_call"), str("call_id", c.ID), str("name", name), str("input", input)}
		e.custom[c.ID] = true
	}
	if namespace != "" {
		fields = append(fields, str("namespace", namespace))
	}
	e.append(newObject(fields...))
	return nil
}

// split returns the namespace and the name of a tool of the request.
func (e *encoder) split(name string) (namespace, rest string) {
	if e.tools.was[name] != nil {
		if namespace, rest, ok := strings.Cut(name, "."); ok {
			return namespace, rest
		}
	}
	return "", name
}

func (e *encoder) addOutput(m *abi.Message) error {
	if m.ToolCallID == "" {
		return broken("a module added the result of a tool without the ID of its call")
	}
	output, err := newContent(m.Content, "input_text")
	if err != nil {
		return err
	}
	typ := "function_call_output"
	if e.custom[m.ToolCallID] {
		typ = "custom_tool_call_output"
	}
	e.append(newObject(str("type", typ), str("call_id", m.ToolCallID), field{"output", output}))
	return nil
}
