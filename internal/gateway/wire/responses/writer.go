package responses

import (
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A writer writes events for the client. It records which items and parts the client has received.
type writer struct {
	model   string
	id      string // of the response
	start   []byte // the upstream's first event; nil before it was read
	started bool   // whether the start of the answer was written
	last    []byte // the last event of the upstream that was written unchanged

	renumber bool  // whether events were added or dropped, so that later events get new numbers
	sequence int64 // of the next event
	output   int64 // output_index of the next item

	pending     *streamItem // a message whose beginning was passed, and is written with its first part
	pendingHead []byte

	custom  map[string]bool // whether a tool is custom, by name
	entries []entry         // the items that were written, in order
	final   []*streamItem   // the items that the end of the answer repeats
}

// An entry is an item that was written.
type entry struct {
	item  *streamItem // nil for an item that the upstream did not send
	added []byte      // its text otherwise
	atEnd bool        // only the end of the answer has the added item
}

// change records that events are added or dropped.
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

// place sets the output_index of an item in the client's answer.
func (w *writer) place(it *streamItem) {
	if it == nil || it.placed {
		return
	}
	it.placed, it.entry = true, len(w.entries)
	if it.out = it.index; w.renumber {
		it.out = w.output
	}
	if !it.last {
		w.output = max(w.output, it.out+1)
	}
	w.entries = append(w.entries, entry{item: it})
}

// placePart sets the content_index of a text in the client's answer.
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

// numbers returns change and the members that must change in event e because the client receives
// fewer or more events, items and texts than the upstream sent: sequence_number, and the
// output_index and content_index of item it and block b, which may be nil.
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
		return dst // cannot happen: Decode has parsed this event
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

// passStart appends an event that belongs to no item. It appends nothing if the event is the start
// of the answer, which was written already.
func (s *stream) passStart(dst, event []byte) []byte {
	if s.started && s.start != nil && len(event) > 0 && &event[0] == &s.start[0] {
		return dst
	}
	return s.send(dst, event, nil, nil, nil)
}

// passMessage appends the end of a message, with the texts that changed. If every part of a message was
// dropped and its beginning was not written, the message is not written.
func (s *stream) passMessage(dst []byte, it *streamItem, e *event) []byte {
	textChanges := it.textChanges()
	item := e.fields["item"]
	if s.pending == it && len(textChanges) > 0 && isEmpty(item, textChanges) {
		s.pending = nil
		return dst
	}
	dst = s.flush(dst)
	s.place(it)
	var change map[string][]byte
	if len(textChanges) > 0 {
		change = map[string][]byte{"item": withTexts(item.Text, textChanges)}
	}
	return s.send(dst, e.raw, it, nil, change)
}

// isEmpty reports whether no part of a message is left.
func isEmpty(item rawjson.Value, textChanges map[int]textChange) bool {
	left := len(item.Get("content").Elements())
	for _, f := range textChanges {
		if f.dropped {
			left--
		}
	}
	return left <= 0
}

// textChanges returns the changes of a message's texts, by the number of the part.
func (it *streamItem) textChanges() map[int]textChange {
	out := map[int]textChange{}
	for part, b := range it.parts {
		if b.dropped || b.changed {
			out[int(part)] = textChange{text: b.now, changed: b.changed, dropped: b.dropped}
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
		return dst // CloseText stores the text for the events that repeat it
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

// Drop records that no item of the block that open begins will be passed.
func (s *stream) Drop(open *wire.Item) {
	s.change()
	b := s.blocks[open.Block]
	b.dropped = true
	if b.call == nil {
		b.item.gone++
	}
}
