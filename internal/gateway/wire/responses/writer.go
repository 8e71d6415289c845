package responses

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A writer has the state of what was written for the client.
type writer struct {
	model   string
	id      string // of the response
	start   []byte // the upstream's first event; nil before it was read
	started bool   // whether the start of the answer was written
	last    []byte // the last event of the upstream that was written unchanged

	renumber bool  // whether events were added or dropped, so that all that follow have other numbers
	sequence int64 // of the next event
	output   int64 // output_index of the next item

	pending     *streamItem // a message of which only the beginning was passed: it is written with its first part
	pendingHead []byte

	custom  map[string]bool // whether a tool is custom, by name
	entries []entry         // the items that were written, in order
	final   []*streamItem   // the items that the end of the answer repeats
}

// An entry is an item that was written.
type entry struct {
	item  *streamItem // nil for an item that the upstream did not send
	added []byte      // its text otherwise
}

// change notes that events are added or dropped.
func (w *writer) change() {
	if w.renumber {
		return
	}
	w.renumber = true
	if e, err := readEvent(w.last); err == nil && e.fields["sequence_number"].Exists() {
		w.sequence = e.fields["sequence_number"].Int() + 1
	}
	w.last = nil
}

// next returns the sequence number of the next event.
func (w *writer) next() field {
	w.sequence++
	return num("sequence_number", w.sequence-1)
}

// place gives an item its place in the client's answer.
func (w *writer) place(it *streamItem) {
	if it == nil || it.placed {
		return
	}
	it.placed, it.out = true, it.index
	if w.renumber {
		it.out = w.output
	}
	w.output, it.entry = max(w.output, it.out+1), len(w.entries)
	w.entries = append(w.entries, entry{item: it})
}

// placePart gives a text its place in its message.
func (w *writer) placePart(b *block) {
	w.place(b.item)
	if b.placed {
		return
	}
	b.placed, b.out = true, b.part-b.item.gone
}

// send appends an event of the upstream with the numbers that the client expects, and with changed members.
func (w *writer) send(dst, raw []byte, it *streamItem, b *block, change map[string][]byte) []byte {
	if len(raw) == 0 {
		return dst
	}
	w.started = true
	if !w.renumber {
		w.last = raw
		return append(dst, raw...)
	}
	e, err := readEvent(raw)
	if err != nil || !e.data.Exists() {
		return append(dst, raw...)
	}
	return w.sendEvent(dst, e, e.typ, w.numbers(e, it, b, change))
}

// numbers returns change with the changes of an event's numbers.
func (w *writer) numbers(e *event, it *streamItem, b *block, change map[string][]byte) map[string][]byte {
	out := map[string][]byte{}
	for name, text := range change {
		out[name] = text
	}
	set := func(name string, n int64) {
		if v := e.fields[name]; v.Exists() && (v.Int() != n || v.IsNull()) {
			out[name] = num("", n).text
		}
	}
	if e.fields["sequence_number"].Exists() {
		set("sequence_number", w.sequence)
		w.sequence++
	}
	if it != nil && it.placed {
		set("output_index", it.out)
	}
	switch {
	case b != nil && b.placed:
		set("content_index", b.out)
	case it != nil && it.gone > 0 && b == nil:
		set("content_index", e.fields["content_index"].Int()-it.gone)
	}
	return out
}

func (w *writer) sendEvent(dst []byte, e *event, typ string, change map[string][]byte) []byte {
	if len(change) == 0 {
		return append(dst, e.raw...)
	}
	return e.appendWith(dst, edit(e.data.Text, change), typ)
}

// flush appends the beginning of a message that waits for its first part.
func (w *writer) flush(dst []byte) []byte {
	it := w.pending
	if it == nil {
		return dst
	}
	w.pending = nil
	w.place(it)
	return w.send(dst, w.pendingHead, it, nil, nil)
}

// Pass appends an item's event.
func (s *stream) Pass(dst []byte, it *wire.Item) []byte {
	switch it.Kind {
	case wire.Ping:
		return append(s.flush(dst), it.Event...)
	case wire.Other:
		return s.passOther(dst, it)
	case wire.End:
		return s.End(dst, []wire.Item{*it}, s.finish)
	}
	b := s.blocks[it.Block]
	if b.dropped {
		return dst
	}
	dst = s.flush(dst)
	if b.call != nil {
		s.place(b.item)
		return s.send(dst, it.Event, b.item, nil, nil)
	}
	s.placePart(b)
	return s.send(dst, it.Event, b.item, b, nil)
}

// passOther appends an event that belongs to no block, or that repeats the text of some.
func (s *stream) passOther(dst []byte, other *wire.Item) []byte {
	it, _ := other.Codec.(*streamItem)
	if it == nil {
		return s.passStart(s.flush(dst), other.Event)
	}
	if it.typ != "message" {
		if it.call != nil && it.call.dropped {
			return dst
		}
		dst = s.flush(dst)
		s.place(it)
		return s.send(dst, other.Event, it, nil, nil)
	}
	e, err := readEvent(other.Event)
	if err != nil {
		return dst // Decode has read it
	}
	switch e.typ {
	case "response.output_item.added":
		dst = s.flush(dst)
		s.pending, s.pendingHead = it, other.Event
		return dst
	case "response.output_item.done":
		return s.passMessage(dst, it, e)
	}
	return s.passPart(dst, it, e)
}

// passStart appends an event of no item, unless it begins an answer that has begun.
func (s *stream) passStart(dst, event []byte) []byte {
	if s.started && s.start != nil && len(event) > 0 && &event[0] == &s.start[0] {
		return dst
	}
	return s.send(dst, event, nil, nil, nil)
}

// passMessage appends the end of a message, with the texts that changed. A message of which every part was
// dropped is not written, if its beginning was not.
func (s *stream) passMessage(dst []byte, it *streamItem, e *event) []byte {
	fates := it.fates()
	item := e.fields["item"]
	if s.pending == it && len(fates) > 0 && isEmpty(item, fates) {
		s.pending = nil
		return dst
	}
	dst = s.flush(dst)
	s.place(it)
	var change map[string][]byte
	if len(fates) > 0 {
		change = map[string][]byte{"item": withTexts(item.Text, fates)}
	}
	return s.send(dst, e.raw, it, nil, change)
}

// isEmpty reports whether no part of a message is left.
func isEmpty(item rawjson.Value, fates map[int]fate) bool {
	left := len(item.Get("content").Elements())
	for _, f := range fates {
		if f.dropped {
			left--
		}
	}
	return left <= 0
}

// fates returns what became of the texts of a message that are not as the upstream sent them.
func (it *streamItem) fates() map[int]fate {
	out := map[int]fate{}
	for part, b := range it.parts {
		if b.dropped || b.changed {
			out[int(part)] = fate{text: b.now, changed: b.changed, dropped: b.dropped}
		}
	}
	return out
}

// passPart appends an event about a part of a message.
func (s *stream) passPart(dst []byte, it *streamItem, e *event) []byte {
	b := it.parts[e.fields["content_index"].Int()]
	if b != nil && b.dropped {
		return dst
	}
	dst = s.flush(dst)
	s.place(it)
	var change map[string][]byte
	if b != nil && b.changed && e.typ == "response.content_part.done" {
		part := e.fields["part"].Text
		change = map[string][]byte{"part": edit(part, changedText(parsed(part), b.now))}
	}
	return s.send(dst, e.raw, it, b, change)
}

// own appends an event that the gateway writes.
func (w *writer) own(dst []byte, typ string, fields ...field) []byte {
	w.change()
	w.started = true
	return appendEvent(dst, typ, append([]field{w.next()}, fields...)...)
}

// Text appends text to the block that open has begun.
func (s *stream) Text(dst []byte, open *wire.Item, text string) []byte {
	b := s.blocks[open.Block]
	if b.quiet || b.call != nil {
		return dst // CloseText notes the text for the events that repeat it
	}
	s.change()
	dst = s.flush(dst)
	s.placePart(b)
	typ, logprobs := "response.output_text.delta", raw("logprobs", "[]")
	fields := []field{str("item_id", b.item.id), num("output_index", b.item.out), num("content_index", b.out),
		str("delta", text), logprobs}
	if b.typ == "refusal" {
		typ, fields = "response.refusal.delta", fields[:4]
	}
	return s.own(dst, typ, fields...)
}

// CloseText appends the event that ends the block that open has begun, whose text is now text.
func (s *stream) CloseText(dst []byte, open *wire.Item, text string) []byte {
	b := s.blocks[open.Block]
	if b.call != nil {
		return dst
	}
	s.change()
	dst = s.flush(dst)
	s.placePart(b)
	var change map[string][]byte
	if text != b.text.String() {
		b.changed, b.now = true, text
		change = map[string][]byte{textField(b.typ): rawjson.Quote(text)}
	}
	if e, err := readEvent(b.ending); err == nil && change != nil && e.fields["logprobs"].IsArray() {
		change["logprobs"] = []byte("[]")
	}
	return s.send(dst, b.ending, b.item, b, change)
}

// Drop notes that no item of the block that open begins will be passed.
func (s *stream) Drop(open *wire.Item) {
	s.change()
	b := s.blocks[open.Block]
	b.dropped = true
	if b.call == nil {
		b.item.gone++
	}
}

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
		w.id = newID("resp_")
	}
	return w.id
}

// AddText appends a whole message. Reasoning is omitted, see the package's documentation.
func (s *stream) AddText(dst []byte, kind, text string) []byte {
	if kind != abi.ChunkText {
		return dst
	}
	dst = s.beginAnswer(dst)
	id := newID("msg_")
	item := newMessage(id, text)
	at := s.addItem(item)
	where := []field{str("item_id", id), at, num("content_index", 0)}
	with := func(more ...field) []field { return append(where[:3:3], more...) }
	dst = s.own(dst, "response.output_item.added", at, field{"item", newObject(str("type", "message"), str("id", id),
		str("status", "in_progress"), str("role", "assistant"), raw("content", "[]"))})
	dst = s.own(dst, "response.content_part.added", with(field{"part", outputText("")})...)
	if text != "" {
		dst = s.own(dst, "response.output_text.delta", with(str("delta", text), raw("logprobs", "[]"))...)
	}
	dst = s.own(dst, "response.output_text.done", with(str("text", text), raw("logprobs", "[]"))...)
	dst = s.own(dst, "response.content_part.done", with(field{"part", outputText(text)})...)
	return s.own(dst, "response.output_item.done", at, field{"item", item})
}

// addItem gives an item that the upstream did not send its place, and returns its output_index.
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

// End appends the events that end the answer.
func (s *stream) End(dst []byte, ends []wire.Item, finish string) []byte {
	dst = s.flush(dst)
	if s.isDangling() {
		dst = s.AddText(dst, abi.ChunkText, "")
	}
	if len(ends) == 0 {
		return s.endNew(dst, finish)
	}
	for i := range ends {
		if it := &ends[i]; it.Kind == wire.End {
			dst = s.passEnd(dst, it.Event, finish)
		} else {
			dst = s.Pass(dst, it)
		}
	}
	return dst
}

// isDangling reports whether the last item that was written is reasoning whose following item was dropped.
func (s *stream) isDangling() bool {
	if !s.renumber || len(s.entries) == 0 || len(s.items) == 0 || s.items[len(s.items)-1].typ == "reasoning" {
		return false
	}
	last := s.entries[len(s.entries)-1].item
	return last != nil && last.typ == "reasoning"
}

// endNew appends the end of an answer for which there is no upstream.
func (s *stream) endNew(dst []byte, finish string) []byte {
	dst = s.beginAnswer(dst)
	output := make([][]byte, 0, len(s.entries))
	for _, e := range s.entries {
		if e.item == nil {
			output = append(output, e.added)
		}
	}
	status, _ := outcome(finish)
	return s.own(dst, "response."+status,
		field{"response", newResponse(s.responseID(), s.model, output, finish, s.usage)})
}

// passEnd appends the event that ends the answer, with the items as they were written.
func (s *stream) passEnd(dst, raw []byte, finish string) []byte {
	e, err := readEvent(raw)
	if err != nil || !e.data.Exists() {
		return append(dst, raw...)
	}
	response := e.fields["response"]
	typ, change := e.typ, map[string][]byte{}
	changedStatus(change, s.finish, finish)
	if len(change) > 0 {
		status, _ := outcome(finish)
		typ = "response." + status
	}
	if s.renumber && len(response.Get("output").Elements()) > 0 {
		change["output"] = s.finalOutput(response.Get("output").Elements())
	}
	top := map[string][]byte{}
	if len(change) > 0 {
		top["response"] = edit(response.Text, change)
	}
	if typ != e.typ {
		top["type"] = rawjson.Quote(typ)
	}
	if s.renumber {
		top = s.numbers(e, nil, nil, top)
	}
	return s.sendEvent(dst, e, typ, top)
}

// finalOutput returns the output of the whole answer, of which elements is the upstream's.
func (s *stream) finalOutput(elements []rawjson.Value) []byte {
	var out [][]byte
	at := 0
	added := func(to int) { // appends the items that were added before an entry
		for ; at < to; at++ {
			if s.entries[at].item == nil {
				out = append(out, s.entries[at].added)
			}
		}
	}
	for i, v := range elements {
		it := s.final[i]
		fates := it.fates()
		switch {
		case it.placed:
			added(it.entry)
		case it.call != nil, len(fates) > 0 && isEmpty(v, fates):
			continue
		}
		out = append(out, withTexts(v.Text, fates))
	}
	added(len(s.entries))
	return rawjson.Array(out)
}

// Error appends the event of an error that ends the stream. Codex retries an answer that failed, unless the
// code is invalid_prompt.
func (s *stream) Error(dst []byte, err *wire.Error) []byte {
	code := "invalid_prompt"
	switch err.Code {
	case wire.CodeBusy:
		code = "rate_limit_exceeded"
	case wire.CodeUpstream:
		code = "server_error"
	}
	fields := responseStart(s.responseID(), s.model, "failed")
	for i := range fields {
		if fields[i].name == "error" {
			fields[i].text = newObject(str("code", code), str("message", err.Message))
		}
	}
	return s.own(dst, "response.failed", field{"response", newObject(append(fields,
		raw("incomplete_details", "null"), raw("output", "[]"), raw("usage", "null"))...)})
}
