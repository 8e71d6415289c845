package messages

import (
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An output is the state of the stream that the client has received.
type output struct {
	begun  bool // message_start was written
	blocks int  // blocks that were begun
	calls  int  // calls among them
}

// Pass appends an item's event.
func (s *stream) Pass(dst []byte, it *wire.Item) []byte {
	b, ok := it.Codec.(*streamBlock)
	switch {
	case it.Codec == startItem{}:
		return s.begin(dst)
	case !ok:
		return append(dst, it.Event...)
	case b.dropped:
		return dst
	}
	s.number(b)
	if b.number == b.index {
		return append(dst, it.Event...)
	}
	name, data, _ := readEvent(it.Event)
	e, err := parseEvent(name, data)
	if err != nil { // Decode has checked the event
		return dst
	}
	return appendEvent(dst, e.kind, e.withIndex(b.number))
}

// begin appends the start of the answer unless it was written.
func (s *stream) begin(dst []byte) []byte {
	if s.output.begun {
		return dst
	}
	s.output.begun = true
	if s.start != nil {
		return append(dst, s.start...)
	}
	m := message(s.model, []byte("[]"), []byte("null"), &s.usage)
	return appendEvent(dst, eventStart, slices.Concat([]byte(`{"type":"message_start","message":`), m, []byte("}")))
}

// number assigns a block its number in the client's stream, when the block begins.
func (s *stream) number(b *streamBlock) {
	if b.number != notBegun {
		return
	}
	b.number = s.output.blocks
	s.output.blocks++
	if b.chunk.Kind == abi.ChunkToolCall {
		s.output.calls++
	}
}

// Text appends an event that adds text to the block that open has begun.
func (s *stream) Text(dst []byte, open *wire.Item, text string) []byte {
	b := s.blocks[open.Block]
	if b.number == notBegun {
		dst = s.Pass(dst, open)
	}
	if text == "" || b.dropped {
		return dst
	}
	return appendDelta(dst, b, b.number, text)
}

// CloseText appends the event that ends the block that open has begun, preceded by the event that
// begins it if that has not been written. It appends nothing if the block was dropped.
func (s *stream) CloseText(dst []byte, open *wire.Item, _ string) []byte {
	dst = s.Text(dst, open, "")
	b := s.blocks[open.Block]
	if b.dropped {
		return dst
	}
	return appendStop(dst, b.number)
}

// Drop records that no item of the block that open begins will be passed.
func (s *stream) Drop(open *wire.Item) { s.blocks[open.Block].dropped = true }

// AddText appends a block of text. Reasoning is not written: the client would return it, and the upstream
// rejects reasoning that it has not signed. Nor is empty text, which the upstream rejects, too.
func (s *stream) AddText(dst []byte, kind, text string) []byte {
	if kind != abi.ChunkText || text == "" {
		return dst
	}
	return s.addBlock(dst, newTextBlock(), emptyText, text)
}

// emptyText is a block of text as it begins.
var emptyText = []byte(`{"type":"text","text":""}`)

// newTextBlock returns a block of text that the upstream did not send.
func newTextBlock() *streamBlock { return &streamBlock{chunk: abi.Chunk{Kind: abi.ChunkText}} }

// AddCall appends a call.
func (s *stream) AddCall(dst []byte, call *abi.ToolCall) []byte {
	c := *call
	c.ID = callID(call)
	b := &streamBlock{chunk: abi.Chunk{Kind: abi.ChunkToolCall}}
	return s.addBlock(dst, b, callBlock(&c, []byte("{}")), string(object(call.Function.Arguments)))
}

// addBlock appends the events of a block that the upstream did not send.
func (s *stream) addBlock(dst []byte, b *streamBlock, begin []byte, text string) []byte {
	dst = s.beginBlock(dst, b, begin)
	dst = appendDelta(dst, b, b.number, text)
	return appendStop(dst, b.number)
}

// beginBlock appends the event that begins a block that the upstream did not send.
func (s *stream) beginBlock(dst []byte, b *streamBlock, begin []byte) []byte {
	dst = s.begin(dst)
	b.number = notBegun
	s.number(b)
	data := strconv.AppendInt([]byte(`{"type":"`+eventBlockStart+`","index":`), int64(b.number), 10)
	data = append(append(data, `,"content_block":`...), begin...)
	return appendEvent(dst, eventBlockStart, append(data, '}'))
}

// appendStop appends the event that ends a block.
func appendStop(dst []byte, number int) []byte {
	data := strconv.AppendInt([]byte(`{"type":"`+eventBlockStop+`","index":`), int64(number), 10)
	return appendEvent(dst, eventBlockStop, append(data, '}'))
}

// End appends the events that end the answer.
func (s *stream) End(dst []byte, ends []wire.Item, finish string) []byte {
	dst = s.begin(dst)
	reason := stopReason(s.reason, finish, s.calls, s.output.calls)
	if len(ends) == 0 {
		return s.endNew(dst, finish, nil)
	}
	for i := range ends {
		if reason == s.reason {
			dst = append(dst, ends[i].Event...)
			continue
		}
		dst = appendReason(dst, ends[i].Event, reason)
	}
	return dst
}

// endNew appends the end of an answer without an upstream, with additional fields.
func (s *stream) endNew(dst []byte, finish string, extra abi.Fields) []byte {
	reason := stopReason("end_turn", finish, 0, s.output.calls)
	data := append([]byte(`{"type":"message_delta","delta":{"stop_reason":`), rawjson.Quote(reason)...)
	data = append(append(data, `,"stop_sequence":null},"usage":`...), s.usage.text()...)
	for _, f := range extra {
		data = append(append(append(append(data, ','), rawjson.Quote(f.Name)...), ':'), f.Value...)
	}
	dst = appendEvent(dst, eventDelta, append(data, '}'))
	return appendEvent(dst, eventStop, []byte(`{"type":"message_stop"}`))
}

// appendReason appends received, an event of the end of an answer. If the event has a stop reason,
// reason replaces it.
func appendReason(dst, received []byte, reason string) []byte {
	name, data, _ := readEvent(received)
	if data == nil {
		return append(dst, received...)
	}
	e, err := parseEvent(name, data)
	if err != nil { // Decode has checked the event
		return dst
	}
	delta := get(e.members, "delta")
	if e.kind != eventDelta || delta.Get("stop_reason").IsNull() {
		return append(dst, received...)
	}
	change := map[string][]byte{"stop_reason": rawjson.Quote(reason)}
	if !delta.Get("stop_sequence").IsNull() {
		change["stop_sequence"] = []byte("null")
	}
	delta.Text = rawjson.SetMembers(delta.Text, change)
	return appendEvent(dst, e.kind, edited(e.doc, func(v rawjson.Value, edits *rawjson.Edits) {
		edits.Members(v, map[string][]byte{"delta": delta.Text})
	}))
}

// Error appends the event of an error that ends the stream.
func (s *stream) Error(dst []byte, err *wire.Error) []byte {
	_, body := Protocol{}.Error(err)
	return appendEvent(dst, eventError, body)
}
