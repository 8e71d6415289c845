package chat

import (
	"bytes"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A block is a text, a reasoning or a tool call of a stream. The protocol has no events that begin or end a
// block: it ends where the next one begins, or with the answer.
type block struct {
	kind string // abi.ChunkText, abi.ChunkReasoning or abi.ChunkToolCall
	name string // of the field with the text or the reasoning
	call *streamedCall

	// The following fields describe the part of the block that the client has received.
	opened bool
	index  int             // of the tool call
	input  strings.Builder // of a custom tool
}

// A streamedCall is a tool call as the upstream sent it.
type streamedCall struct {
	number    int // of the answer's calls, from 0
	index     int // the upstream's
	id, name  string
	custom    bool
	arguments strings.Builder
}

// A piece is an item of the current event, with its delta.
type piece struct {
	item     wire.Item
	delta    []byte // nil if the item has no event
	logprobs bool   // the item is the text that the chunk's logprobs describe
}

// A group is an event of the upstream that was divided into several items.
type group struct {
	event []byte // as received
	items int    // those with an event
}

// A place is the index of an item in its group.
type place struct {
	group *group
	at    int
}

// Decode returns the items of one event of the upstream.
func (s *stream) Decode(text []byte) ([]wire.Item, error) {
	text = bytes.Clone(text)
	s.pieces = s.pieces[:0]
	ev, err := readEvent(text)
	if err != nil {
		return nil, err
	}
	data := bytes.TrimSpace(ev.data)
	switch {
	case len(data) == 0:
		return []wire.Item{{Kind: wire.Ping, Event: text}}, nil
	case s.done:
		return nil, upstreamError("the upstream sent an event after the end of its stream")
	case string(data) == doneMark:
		s.done = true
		s.closeBlock()
		s.add(wire.Item{Kind: wire.End, Event: text})
		return s.items(), nil
	}
	c, err := readChunk(ev)
	if err != nil {
		return nil, err
	}
	if err := s.readChunk(c); err != nil {
		return nil, err
	}
	s.render(c)
	return s.items(), nil
}

// add adds a piece without a delta of its own.
func (s *stream) add(it wire.Item) { s.pieces = append(s.pieces, piece{item: it}) }

// items returns the items of the event that was read.
func (s *stream) items() []wire.Item {
	out := make([]wire.Item, len(s.pieces))
	for i := range s.pieces {
		out[i] = s.pieces[i].item
	}
	clear(s.pieces)
	return out
}

// readChunk adds the pieces of a chunk.
func (s *stream) readChunk(c *chunk) error {
	if c.usage != nil {
		s.usage = c.usage
	}
	if s.envelope == nil && c.choice.Exists() {
		s.envelope = c.envelope
	}
	if s.finished {
		if c.content != "" || c.refusal != "" || c.reasoning != "" || len(c.calls) > 0 {
			return upstreamError("the upstream sent more of the answer after its finish_reason")
		}
		s.addEnd(c)
		return nil
	}
	s.readRest(c)
	if err := s.readText(abi.ChunkReasoning, c.reasoningName, c.reasoning, c.thought); err != nil {
		return err
	}
	texts := len(s.pieces)
	if err := s.readText(abi.ChunkText, "content", c.content, c.text); err != nil {
		return err
	}
	if err := s.readText(abi.ChunkText, wire.KindRefusal, c.refusal, c.refused); err != nil {
		return err
	}
	for i := texts; i < len(s.pieces); i++ {
		s.pieces[i].logprobs = s.pieces[i].delta != nil
	}
	for _, v := range c.calls {
		if err := s.readCall(v); err != nil {
			return err
		}
	}
	if c.usage != nil && c.finish.IsNull() && len(s.pieces) > 0 {
		// The usage stays if modules replace the text or a gate denies the call.
		s.pieces = append(s.pieces, piece{item: wire.Item{Kind: wire.Other}, delta: object()})
	}
	if !c.finish.IsNull() {
		s.finished, s.finish = true, c.finish.String()
		s.closeBlock()
		s.addEnd(c)
	}
	return nil
}

// addEnd adds the End item of a chunk.
func (s *stream) addEnd(c *chunk) {
	s.pieces = append(s.pieces, piece{
		item:  wire.Item{Kind: wire.End},
		delta: object(c.rest...),
	})
}

// readRest adds an item for the role and for fields that modules do not see.
func (s *stream) readRest(c *chunk) {
	fields := c.rest
	if c.role.IsString() && !s.hasRole {
		s.hasRole = true
		fields = append(abi.Fields{field("role", c.role.Text)}, fields...)
	}
	if len(fields) > 0 {
		s.pieces = append(s.pieces, piece{item: wire.Item{Kind: wire.Other}, delta: object(fields...)})
		c.rest = nil
	}
}

// readText adds the items for text or reasoning, which fields of the delta hold. A refusal is a text.
func (s *stream) readText(kind, name, text string, fields abi.Fields) error {
	if text == "" {
		return nil
	}
	if s.open == nil || s.open.kind != kind || kind == abi.ChunkText && s.open.name != name {
		if err := s.openBlock(&block{kind: kind, name: name}, nil, abi.Chunk{Kind: kind}); err != nil {
			return err
		}
	}
	if kind == abi.ChunkText {
		s.text.WriteString(text)
	} else {
		s.reasoning.WriteString(text)
	}
	s.addDelta(object(fields...), abi.Chunk{Kind: kind, Text: text})
	return nil
}

// readCall adds the items for the delta of a tool call.
func (s *stream) readCall(v rawjson.Value) error {
	d, err := readCallDelta(v)
	if err != nil {
		return err
	}
	text := d.text.String()
	delta := root(v).Text
	if !s.continues(&d) {
		if err := s.openCall(&d); err != nil {
			return err
		}
		if text == "" {
			return nil
		}
		delta = d.addition()
	}
	c := s.open.call
	if d.custom != c.custom && d.text.Exists() || d.name != "" && d.name != c.name {
		return upstreamError("the upstream changed the tool of the call %.100q within the call", c.id)
	}
	if c.custom && text != "" {
		text = wire.Escape(text)
		if c.arguments.Len() == 0 {
			text = wire.CustomStart + text
		}
	}
	c.arguments.WriteString(text)
	s.addDelta(callDeltas(delta), abi.Chunk{Kind: abi.ChunkToolCall, Index: c.number, Arguments: text})
	return nil
}

// continues reports whether a delta belongs to the open call.
func (s *stream) continues(d *callDelta) bool {
	if s.open == nil || s.open.call == nil {
		return false
	}
	c := s.open.call
	return (!d.hasIndex || d.index == c.index) && (d.id == "" || d.id == c.id)
}

// openCall begins a call. A call that continues after another call has begun is an error: its block has
// ended.
func (s *stream) openCall(d *callDelta) error {
	switch {
	case d.id == "" || d.name == "":
		return upstreamError("the upstream sent a tool call without an id or a name, or continued one that had ended")
	case s.ids[d.id]:
		return upstreamError("the upstream sent two tool calls with the id %.100q, or calls that are interleaved", d.id)
	}
	if s.ids == nil {
		s.ids = map[string]bool{}
	}
	s.ids[d.id] = true
	c := &streamedCall{number: len(s.calls), index: d.index, id: d.id, name: d.name, custom: d.custom}
	s.calls = append(s.calls, c)
	return s.openBlock(&block{kind: abi.ChunkToolCall, call: c}, callDeltas(d.opening()),
		abi.Chunk{Kind: abi.ChunkToolCall, Index: c.number, ID: c.id, Name: c.name})
}

func callDeltas(delta []byte) []byte {
	return object(field("tool_calls", rawjson.Array([][]byte{delta})))
}

// openBlock ends the open block and begins b.
func (s *stream) openBlock(b *block, delta []byte, chunk abi.Chunk) error {
	if len(s.blocks) == maxBlocks {
		return upstreamError("the upstream's answer has more than %d blocks", maxBlocks)
	}
	s.closeBlock()
	s.open = b
	s.blocks = append(s.blocks, b)
	s.pieces = append(s.pieces, piece{
		item:  wire.Item{Kind: wire.Open, Block: len(s.blocks) - 1, Chunk: chunk},
		delta: delta,
	})
	return nil
}

// addDelta adds a chunk to the open block.
func (s *stream) addDelta(delta []byte, chunk abi.Chunk) {
	s.pieces = append(s.pieces, piece{
		item:  wire.Item{Kind: wire.Delta, Block: len(s.blocks) - 1, Chunk: chunk},
		delta: delta,
	})
}

// closeBlock ends the open block. It has no effect if no block is open. The arguments of a custom tool end only here.
func (s *stream) closeBlock() {
	if s.open == nil {
		return
	}
	if c := s.open.call; c != nil && c.custom {
		text := wire.CustomEnd
		if c.arguments.Len() == 0 {
			text = wire.CustomStart + wire.CustomEnd
		}
		c.arguments.WriteString(text)
		s.addDelta(nil, abi.Chunk{Kind: abi.ChunkToolCall, Index: c.number, Arguments: text})
	}
	s.add(wire.Item{Kind: wire.Close, Block: len(s.blocks) - 1})
	s.open = nil
}

// render sets the events of the pieces of a chunk: the event as received for the only piece, or an
// event for each.
func (s *stream) render(c *chunk) {
	var with []*piece
	for i := range s.pieces {
		if s.pieces[i].delta != nil {
			with = append(with, &s.pieces[i])
		}
	}
	switch len(with) {
	case 0: // nothing that modules see, such as empty content
		s.add(wire.Item{Kind: wire.Other, Event: c.event.text})
		return
	case 1:
		with[0].item.Event = c.event.text
		return
	}
	g := &group{event: c.event.text, items: len(with)}
	for i, p := range with {
		if p.item.Codec = (place{g, i}); i == len(with)-1 {
			p.item.Event = c.last(p)
		} else {
			p.item.Event = c.part(p)
		}
	}
}

// part returns an event with one piece of the chunk.
func (c *chunk) part(p *piece) []byte {
	choice := abi.Fields{field("index", []byte("0")), field("delta", p.delta)}
	if p.logprobs && c.logprobs.Exists() {
		choice = append(choice, field("logprobs", c.logprobs.Text))
	}
	return chunkEvent(c.envelope, append(choice, field("finish_reason", []byte("null"))))
}

// last returns the event of the chunk with the last of its pieces only.
func (c *chunk) last(p *piece) []byte {
	change := map[string][]byte{"delta": p.delta}
	if !p.logprobs && c.logprobs.Exists() {
		change["logprobs"] = []byte("null")
	}
	return editChoice(c.event.text, change)
}

// chunkEvent returns an event with a chunk of the given choice.
func chunkEvent(envelope, choice abi.Fields) []byte {
	choices := field("choices", rawjson.Array([][]byte{object(choice...)}))
	return newEvent(object(append(envelope[:len(envelope):len(envelope)], choices)...))
}
