package responses

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

// beginAnswer appends the start of the answer if nothing was written.
func (s *stream) beginAnswer(dst []byte) []byte {
	if s.started {
		return dst
	}
	if s.start != nil {
		return s.send(dst, s.start, nil, nil, nil)
	}
	return s.own(dst, "response.created", field{"response", newObject(append(
		responseStart(s.responseID(), s.model, "in_progress"),
		raw("incomplete_details", "null"), raw("output", "[]"), raw("usage", "null"))...)})
}

// responseID returns the ID of the response, which is the upstream's if it has sent one.
func (w *writer) responseID() string {
	if w.id == "" {
		w.id = newID(idPrefix)
	}
	return w.id
}

// AddText appends a whole message. Reasoning is omitted, see the package's documentation.
func (s *stream) AddText(dst []byte, kind, text string) []byte {
	if kind != abi.ChunkText {
		return dst
	}
	if s.atEnd() {
		s.addAtEnd(newAdded(text))
		return dst
	}
	dst, t := s.openText(dst, addedID(text), typeText)
	if text != "" {
		dst = s.appendText(dst, t, text)
	}
	return s.closeText(dst, t, text)
}

// atEnd reports whether the client has not received the last item yet, because the item is written
// only in the event that ends the answer. An event of another item would then precede it.
func (w *writer) atEnd() bool {
	if len(w.entries) == 0 {
		return false
	}
	e := &w.entries[len(w.entries)-1]
	return e.atEnd || e.item != nil && e.item.last
}

// addAtEnd adds an item to the event that ends the answer.
func (w *writer) addAtEnd(item []byte) {
	w.change()
	w.entries = append(w.entries, entry{added: item, atEnd: true})
}

// A newText is a message that the upstream did not send.
type newText struct {
	id, typ string // typ is the type of its part
	at      field  // output_index
	entry   int    // in writer.entries
}

// with returns the fields of an event about the message's text.
func (t *newText) with(more ...field) []field {
	return append([]field{str("item_id", t.id), t.at, num("content_index", 0)}, more...)
}

// logprobs returns the fields of an event about the message's text with f and, unless the text is a refusal, empty
// log probabilities.
func (t *newText) logprobs(f field) []field {
	if t.typ != typeText {
		return t.with(f)
	}
	return t.with(f, raw("logprobs", "[]"))
}

// openText appends the beginning of a message with an ID and a part of a type.
func (s *stream) openText(dst []byte, id, typ string) ([]byte, *newText) {
	dst = s.beginAnswer(dst)
	t := &newText{id: id, typ: typ, entry: len(s.entries)}
	t.at = s.addItem(nil)
	dst = s.own(dst, "response.output_item.added", t.at, field{"item", newObject(str("type", "message"),
		str("id", t.id), str("status", "in_progress"), str("role", "assistant"), raw("content", "[]"))})
	return s.own(dst, "response.content_part.added", t.with(field{"part", newPartOf(typ, "")})...), t
}

// appendText appends text of a message.
func (s *stream) appendText(dst []byte, t *newText, text string) []byte {
	return s.own(dst, "response."+t.typ+".delta", t.logprobs(str("delta", text))...)
}

// closeText appends the end of a message with the given text.
func (s *stream) closeText(dst []byte, t *newText, text string) []byte {
	part := newPartOf(t.typ, text)
	item := messageItem(t.id, part)
	s.entries[t.entry].added = item
	dst = s.own(dst, "response."+t.typ+".done", t.logprobs(str(textField(t.typ), text))...)
	dst = s.own(dst, "response.content_part.done", t.with(field{"part", part})...)
	return s.own(dst, "response.output_item.done", t.at, field{"item", item})
}

// addItem adds an item that the upstream did not send to the answer, and returns its output_index.
func (w *writer) addItem(item []byte) field {
	w.change()
	w.entries = append(w.entries, entry{added: item})
	w.output++
	return num("output_index", w.output-1)
}

// AddCall appends a whole call. A call with the ID of one that was dropped has that call's other fields.
func (s *stream) AddCall(dst []byte, c *abi.ToolCall) []byte {
	dst = s.beginAnswer(dst)
	item, err := s.callItem(c)
	if err != nil {
		return s.AddText(dst, abi.ChunkText, fmt.Sprintf("A call of the tool %.100q was left out, because a module "+
			"changed it: %v.", c.Function.Name, err))
	}
	if s.atEnd() {
		s.addAtEnd(item)
		return dst
	}
	at := s.addItem(item)
	o, err := readOutput(parsed(item), "a call")
	if err != nil || o.call == nil {
		return dst
	}
	name, event := "arguments", "response.function_call_arguments"
	begun := map[string][]byte{}
	if parsed(item).Get("status").Exists() {
		begun["status"] = []byte(`"in_progress"`)
	}
	switch o.call.form {
	case native:
		dst = s.own(dst, "response.output_item.added", at, field{"item", edit(item, begun)})
		return s.own(dst, "response.output_item.done", at, field{"item", item})
	case custom:
		name, event = "input", "response.custom_tool_call_input"
	}
	begun[name] = []byte(`""`)
	id := str("item_id", o.id)
	dst = s.own(dst, "response.output_item.added", at, field{"item", edit(item, begun)})
	dst = s.own(dst, event+".delta", id, at, str("delta", o.call.text))
	dst = s.own(dst, event+".done", id, at, str(name, o.call.text))
	return s.own(dst, "response.output_item.done", at, field{"item", item})
}

// callItem returns the item of a call.
func (s *stream) callItem(c *abi.ToolCall) ([]byte, error) {
	if b := s.calls[c.ID]; b != nil && b.closed {
		return withCall(b.item.raw, b.call, c)
	}
	return newCall(c, s.custom)
}
