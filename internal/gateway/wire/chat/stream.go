package chat

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A stream is the codec of a streamed answer.
//
// An event may hold the role, text, calls and the end of the answer at once. It is split into items,
// each with an event of its own. To pass an event as received if all its items are passed one after
// the other, Pass holds their events back until the last one or until something else is written.
type stream struct {
	model string

	// The following fields describe the part of the answer that Decode has read.
	hasRole, finished, done bool
	envelope                abi.Fields
	pieces                  []piece // of the current event
	blocks                  []*block
	open                    *block // nil if no block is open
	text, reasoning         strings.Builder
	calls                   []*streamedCall
	ids                     map[string]bool // of the calls
	finish                  string
	usage                   *abi.Usage

	// The following fields describe the output so far.
	started, wroteText, addedCall bool
	endsParagraph                 bool // the text written so far ends with a block of a module
	callsWritten                  int
	next                          int // the least index for the next tool call
	shift                         int // the number of calls added, less those dropped
	held                          held
}

// held is the part of a group that was passed.
type held struct {
	group   *group
	text    []byte // the events of its items
	items   int
	changed bool // text differs from the group's event
}

// NewStream returns the codec of one streamed answer.
func (Protocol) NewStream(model string) wire.Stream { return &stream{model: model} }

// Response returns the upstream's answer so far.
func (s *stream) Response() *abi.Response {
	m := abi.Message{Role: abi.RoleAssistant, ReasoningContent: s.reasoning.String()}
	if s.text.Len() > 0 {
		m.Content = abi.Text(s.text.String())
	}
	for _, c := range s.calls {
		call := abi.NewToolCall(c.id, c.name, c.arguments.String())
		if c.custom {
			call.Type = typeCustom
		}
		m.ToolCalls = append(m.ToolCalls, call)
	}
	return &abi.Response{Message: m, FinishReason: s.finish, Usage: s.usage}
}

// Complete reports whether Decode has read the end of the answer. Some endpoints omit the last event.
func (s *stream) Complete() bool { return s.finished || s.done }

// Failure returns nil, since Decode returns an upstream's error.
func (s *stream) Failure() []byte { return nil }

// Pass appends an item's event to dst.
func (s *stream) Pass(dst []byte, it *wire.Item) []byte {
	if it.Kind == wire.Ping {
		return append(dst, it.Event...) // may be sent at any time
	}
	text, changed := it.Event, false
	if it.Kind == wire.Open || it.Kind == wire.Delta {
		b := s.blocks[it.Block]
		s.begin(b)
		if b.call != nil && b.index != b.call.index && len(text) > 0 {
			text, changed = renumber(text, b.index), true
		}
		if it.Kind == wire.Delta {
			b.passed(it.Chunk)
			dst = s.separate(dst, b.kind)
		}
	}
	return s.write(dst, text, it.Codec, changed)
}

// begin records that the client receives a block, and numbers a tool call.
func (s *stream) begin(b *block) {
	if b.opened {
		return
	}
	b.opened = true
	if b.call == nil {
		return
	}
	b.index = max(b.call.index+s.shift, s.next)
	s.next = b.index + 1
	s.callsWritten++
}

// passed records a chunk of a block that the client receives.
func (b *block) passed(c abi.Chunk) {
	if b.call != nil && b.call.custom {
		b.input.WriteString(inputPiece(c.Arguments))
	}
}

// write appends an event of the upstream. It holds back those of a group until all were passed.
func (s *stream) write(dst, text []byte, codec any, changed bool) []byte {
	if len(text) == 0 {
		return dst
	}
	s.started = true
	p, ok := codec.(place)
	if ok && p.at == 0 {
		dst = s.flush(dst)
		s.held = held{group: p.group}
	}
	if !ok || s.held.group != p.group || s.held.items != p.at {
		return append(s.flush(dst), text...)
	}
	h := &s.held
	h.text = append(h.text, text...)
	h.items++
	h.changed = h.changed || changed
	if h.items < p.group.items {
		return dst
	}
	if !h.changed {
		h.text = p.group.event
	}
	return s.flush(dst)
}

// flush appends the events that are held back.
func (s *stream) flush(dst []byte) []byte {
	dst = append(dst, s.held.text...)
	s.held = held{}
	return dst
}

// Text appends events that add text to the block that open has begun. The input of a custom tool is
// written by CloseText, since a part of its JSON may not be one of the input.
func (s *stream) Text(dst []byte, open *wire.Item, text string) []byte {
	b := s.blocks[open.Block]
	dst = s.opening(dst, b, open)
	if text == "" {
		return dst
	}
	switch {
	case b.call == nil:
		return s.writeText(s.separate(dst, b.kind), b.name, text)
	case b.call.custom:
		return dst
	}
	return s.writeDelta(dst, field("tool_calls", rawjson.Array([][]byte{
		callAddition(b.index, false, rawjson.Quote(text)),
	})))
}

// opening appends the event that begins a block, unless it was passed.
func (s *stream) opening(dst []byte, b *block, open *wire.Item) []byte {
	if b.opened {
		return dst
	}
	return s.Pass(dst, open)
}

// CloseText appends the events that end the block that open has begun, whose whole text is now text.
func (s *stream) CloseText(dst []byte, open *wire.Item, text string) []byte {
	b := s.blocks[open.Block]
	dst = s.opening(dst, b, open)
	if b.call == nil || !b.call.custom {
		return dst
	}
	input, err := wire.CustomInput(text)
	if err != nil {
		input = text
	}
	rest := strings.TrimPrefix(input, b.input.String())
	if rest == "" {
		return dst
	}
	return s.writeDelta(dst, field("tool_calls", rawjson.Array([][]byte{
		callAddition(b.index, true, rawjson.Quote(rest)),
	})))
}

// Drop records that no item of the block that open begins will be passed.
func (s *stream) Drop(open *wire.Item) {
	if s.blocks[open.Block].call != nil {
		s.shift--
	}
}

// AddText appends a whole block of text: a paragraph, because the protocol has one text.
func (s *stream) AddText(dst []byte, kind, text string) []byte {
	if kind == abi.ChunkReasoning {
		return s.writeText(dst, reasoningContent, text)
	}
	if s.wroteText {
		text = "\n\n" + text
	}
	s.wroteText, s.endsParagraph = true, true
	return s.writeText(dst, "content", text)
}

// separate prepares for text of the upstream: it ends the paragraph that a module added before with
// a blank line. kind is the kind of the text that follows; only [abi.ChunkText] needs it.
func (s *stream) separate(dst []byte, kind string) []byte {
	if kind != abi.ChunkText {
		return dst
	}
	s.wroteText = true
	if !s.endsParagraph {
		return dst
	}
	s.endsParagraph = false
	return s.writeText(dst, "content", "\n\n")
}

func (s *stream) writeText(dst []byte, name, text string) []byte {
	return s.writeDelta(dst, field(name, rawjson.Quote(text)))
}

// AddCall appends a whole tool call.
func (s *stream) AddCall(dst []byte, call *abi.ToolCall) []byte {
	text := rawjson.SetMembers(newCall(call), map[string][]byte{"index": number(s.next)})
	s.next++
	s.shift++
	s.callsWritten++
	s.addedCall = true
	return s.writeDelta(dst, field("tool_calls", rawjson.Array([][]byte{text})))
}

// writeDelta appends an event that the upstream did not send.
func (s *stream) writeDelta(dst []byte, f abi.Field) []byte {
	delta := abi.Fields{f}
	if !s.started {
		delta = append(abi.Fields{field("role", rawjson.Quote(abi.RoleAssistant))}, f)
	}
	s.started = true
	return s.writeChunk(dst, delta, []byte("null"))
}

func (s *stream) writeChunk(dst []byte, delta abi.Fields, finish []byte) []byte {
	if s.envelope == nil {
		s.envelope = newEnvelope("chat.completion.chunk", s.model)
	}
	return append(s.flush(dst), chunkEvent(s.envelope, abi.Fields{
		field("index", []byte("0")), field("delta", object(delta...)), field("finish_reason", finish),
	})...)
}

// End appends the events that end the answer.
func (s *stream) End(dst []byte, ends []wire.Item, finish string) []byte {
	if finish == "" {
		finish = s.finish
	}
	if finish != s.finish || s.addedCall || s.callsWritten != len(s.calls) || len(ends) == 0 {
		finish = finishReason(finish, s.callsWritten, s.addedCall)
	}
	if len(ends) == 0 {
		return append(s.writeFinish(dst, finish), newEvent([]byte(doneMark))...)
	}
	for i := range ends {
		text, changed := ends[i].Event, false
		if finish != s.finish {
			text = setFinish(text, finish)
			changed = true
		}
		dst = s.write(dst, text, ends[i].Codec, changed)
	}
	return s.flush(dst)
}

// setFinish returns an event whose finish reason, if it has one, is finish.
func setFinish(text []byte, finish string) []byte {
	return editEvent(text, func(choice rawjson.Value, e *rawjson.Edits) {
		if reason := choice.Get("finish_reason"); !reason.IsNull() {
			e.Replace(reason, rawjson.Quote(finish))
		}
	})
}

// Error appends the event of an error that ends the stream.
func (s *stream) Error(dst []byte, err *wire.Error) []byte {
	return append(s.flush(dst), newEvent(errorObject(err))...)
}
