package messages

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// The types of events.
const (
	eventPing       = "ping"
	eventStart      = "message_start"
	eventBlockStart = "content_block_start"
	eventBlockDelta = "content_block_delta"
	eventBlockStop  = "content_block_stop"
	eventDelta      = "message_delta"
	eventStop       = "message_stop"
	eventError      = "error"
)

// The types of deltas.
const (
	deltaText      = "text_delta"
	deltaJSON      = "input_json_delta"
	deltaThinking  = "thinking_delta"
	deltaSignature = "signature_delta"
)

// A stream is the codec of a streamed answer.
type stream struct {
	model  string
	start  []byte // the event message_start, once it was read
	ending bool   // the stop reason was read
	ended  bool
	blocks []*streamBlock
	calls  int
	ids    map[string]bool // of calls
	size   int             // bytes kept
	reason string
	usage  usage

	thoughts wire.Thoughts
	failure  []byte // the error that the upstream reported

	output output
}

// A streamBlock is a block of the upstream.
type streamBlock struct {
	index int
	kind  string
	chunk abi.Chunk       // the kind and, of a call, its index, ID and name; no kind if the block is opaque
	text  strings.Builder // of text, or the arguments of a call
	whole bool            // the beginning had the arguments
	ended bool

	// begin is the block as it began, if it is opaque. thinking and signature are the additions of its deltas.
	begin               []byte
	thinking, signature strings.Builder

	number  int // for the client, or notBegun
	dropped bool
}

// notBegun is the number of a block that was not written.
const notBegun = -1

// A startItem marks the item of message_start. Items of blocks are marked with their *streamBlock.
type startItem struct{}

// NewStream returns the codec of one streamed answer.
func (Protocol) NewStream(model string) wire.Stream {
	return &stream{model: model, ids: map[string]bool{}}
}

// Complete reports whether Decode has read the end of the answer.
func (s *stream) Complete() bool { return s.ended }

// Failure returns the error that the upstream reported.
func (s *stream) Failure() []byte { return s.failure }

// Decode returns the items of one event.
func (s *stream) Decode(received []byte) ([]wire.Item, error) {
	items, err := s.decode(bytes.Clone(received))
	if err != nil {
		return nil, err.upstream()
	}
	return items, nil
}

func (s *stream) decode(received []byte) ([]wire.Item, *fieldError) {
	name, data, err := readEvent(received)
	if err != nil {
		return nil, err
	}
	it := wire.Item{Event: received}
	if data == nil { // clients ignore it
		it.Kind = wire.Ping
		return []wire.Item{it}, nil
	}
	e, err := parseEvent(name, data)
	if err != nil {
		return nil, err
	}
	items, err := s.event(e, &it)
	if err != nil {
		return nil, err.in(e.kind)
	}
	return items, nil
}

func (s *stream) event(e *event, it *wire.Item) ([]wire.Item, *fieldError) {
	var err *fieldError
	switch e.kind {
	case eventPing:
		it.Kind = wire.Ping
	case eventStart:
		err = s.readStart(e, it)
	case eventBlockStart:
		return s.readBlockStart(e, it)
	case eventBlockDelta:
		err = s.readBlockDelta(e, it)
	case eventBlockStop:
		err = s.readBlockStop(e, it)
	case eventDelta:
		err = s.readDelta(e, it)
	case eventStop:
		err = s.readStop(it)
	default: // an error, or an event of a type that is not defined here
		if e.kind == eventError {
			s.failure = e.doc.Text
		}
		if s.ending {
			it.Kind = wire.End
		}
	}
	if err != nil {
		return nil, err
	}
	return []wire.Item{*it}, nil
}

func (s *stream) readStart(e *event, it *wire.Item) *fieldError {
	if s.start != nil {
		return problem("", "it comes twice")
	}
	m := get(e.members, "message")
	if !m.IsObject() {
		return problem("message", "must be an object")
	}
	if err := checkNames(m.Members()); err != nil {
		return err.in("message")
	}
	if len(m.Get("content").Elements()) > 0 {
		return problem("message.content", "must be empty")
	}
	s.start, it.Codec = it.Event, startItem{}
	s.usage.read(m.Get("usage"))
	return nil
}

func (s *stream) readBlockStart(e *event, it *wire.Item) ([]wire.Item, *fieldError) {
	index, err := e.index()
	switch {
	case err != nil:
		return nil, err
	case s.start == nil || s.ending || index != len(s.blocks):
		return nil, problem("index", "a block begins out of order")
	case index >= maxBlocks:
		return nil, problem("index", "there are too many blocks")
	}
	v := get(e.members, "content_block")
	members := v.Members()
	if err := checkNames(members); err != nil {
		return nil, err.in("content_block")
	}
	b := &streamBlock{index: index, kind: get(members, "type").String(), number: notBegun}
	it.Block, it.Codec = index, b
	first := ""
	switch b.kind {
	case "":
		return nil, problem("content_block.type", "must be a string that is not empty")
	case typeText:
		b.chunk.Kind = abi.ChunkText
		first = get(members, "text").String()
	case typeToolUse:
		if err := s.readCall(b, members); err != nil {
			return nil, err.in("content_block")
		}
		first = initialInput(get(members, "input"))
		b.whole = first != ""
	default:
		if _, err := partOf(b.kind, members); err != nil {
			return nil, err.in("content_block")
		}
		b.begin = bytes.Clone(v.Text)
		if err := s.keep(len(b.begin)); err != nil {
			return nil, err
		}
	}
	s.blocks = append(s.blocks, b)
	if b.chunk.Kind == "" {
		return []wire.Item{*it}, nil
	}
	it.Kind, it.Chunk = wire.Open, b.chunk
	if first == "" {
		return []wire.Item{*it}, nil
	}
	return s.divide(e, it, b, first)
}

// readCall reads the beginning of a call into b. It fails if there are too many calls, or if a
// field is missing or has another type.
func (s *stream) readCall(b *streamBlock, members []rawjson.Member) *fieldError {
	if s.calls == maxCalls {
		return problem("", "there are too many calls")
	}
	id, err := text(members, "id")
	if err != nil {
		return err
	}
	name, err := text(members, "name")
	if err != nil {
		return err
	}
	if s.ids[id] { // a gate could allow only one of them
		return problem("id", fmt.Sprintf("two calls have the ID %.64q", id))
	}
	s.ids[id] = true
	b.chunk = abi.Chunk{Kind: abi.ChunkToolCall, Index: s.calls, ID: id, Name: name}
	s.calls++
	return s.keep(len(id) + len(name))
}

// initialInput returns the arguments with which a call begins, or "" if deltas follow.
func initialInput(v rawjson.Value) string {
	if len(v.Members()) == 0 {
		return ""
	}
	return string(v.Text)
}

// divide returns the items of an event that begins a block and adds to it at once: the beginning
// without the addition, and a delta.
func (s *stream) divide(e *event, it *wire.Item, b *streamBlock, first string) ([]wire.Item, *fieldError) {
	empty := map[string][]byte{"text": []byte(`""`)}
	if b.chunk.Kind == abi.ChunkToolCall {
		empty = map[string][]byte{"input": []byte("{}")}
	}
	begin := edited(
		get(e.members, "content_block"),
		func(v rawjson.Value, edits *rawjson.Edits) { edits.Members(v, empty) },
	)
	it.Event = appendEvent(nil, e.kind, edited(e.doc, func(v rawjson.Value, edits *rawjson.Edits) {
		edits.Members(v, map[string][]byte{"content_block": begin})
	}))
	delta := wire.Item{Kind: wire.Delta, Block: b.index, Chunk: b.delta(first), Codec: b}
	delta.Event = appendDelta(nil, b, b.index, first)
	return []wire.Item{*it, delta}, s.add(b, first)
}

// delta returns the chunk that adds text to a block.
func (b *streamBlock) delta(text string) abi.Chunk {
	if b.chunk.Kind == abi.ChunkToolCall {
		return abi.Chunk{Kind: b.chunk.Kind, Index: b.chunk.Index, Arguments: text}
	}
	return abi.Chunk{Kind: b.chunk.Kind, Text: text}
}

// block returns the open block of an event.
func (s *stream) block(e *event) (*streamBlock, *fieldError) {
	index, err := e.index()
	if err != nil {
		return nil, err
	}
	if s.ending || index >= len(s.blocks) || s.blocks[index].ended {
		return nil, problem("index", "the block is not open")
	}
	return s.blocks[index], nil
}

func (s *stream) readBlockDelta(e *event, it *wire.Item) *fieldError {
	b, err := s.block(e)
	if err != nil {
		return err
	}
	it.Block, it.Codec = b.index, b
	delta := get(e.members, "delta").Members()
	if err := checkNames(delta); err != nil {
		return err.in("delta")
	}
	kind := get(delta, "type").String()
	field, ok := map[string]string{
		deltaText: "text", deltaJSON: "partial_json", deltaThinking: "thinking", deltaSignature: "signature",
	}[kind]
	if !ok { // citations, and kinds of deltas that are not defined here
		return nil
	}
	v := get(delta, field)
	if !v.IsString() {
		return problem("delta."+field, "must be a string")
	}
	if !b.accepts(kind) {
		return problem("delta.type", fmt.Sprintf("does not belong to a block %.64q", b.kind))
	}
	text := v.String()
	if b.chunk.Kind != "" {
		it.Kind, it.Chunk = wire.Delta, b.delta(text)
		return s.add(b, text)
	}
	switch kind {
	case deltaThinking:
		b.thinking.WriteString(text)
		it.Chunk = s.thoughts.Chunk(b, text)
	case deltaSignature:
		b.signature.WriteString(text)
	default:
		b.text.WriteString(text)
	}
	return s.keep(len(text))
}

// accepts reports whether a delta of a known type belongs to the block. A client could show text that is
// in another block although modules have not seen it.
func (b *streamBlock) accepts(delta string) bool {
	switch delta {
	case deltaText:
		return b.kind == typeText
	case deltaJSON:
		return b.kind != typeText && !isThinking(b.kind) && !b.whole
	default:
		return b.chunk.Kind == ""
	}
}

// add adds text to a block that modules see.
func (s *stream) add(b *streamBlock, text string) *fieldError {
	b.text.WriteString(text)
	return s.keep(len(text))
}

// keep counts n bytes that the stream stores. It fails if they are too many.
func (s *stream) keep(n int) *fieldError {
	if s.size += n; s.size > maxAnswer {
		return problem("", "the answer is too large")
	}
	return nil
}

func (s *stream) readBlockStop(e *event, it *wire.Item) *fieldError {
	b, err := s.block(e)
	if err != nil {
		return err
	}
	b.ended = true
	it.Block, it.Codec = b.index, b
	if b.chunk.Kind != "" {
		it.Kind = wire.Close
	}
	return nil
}

func (s *stream) readDelta(e *event, it *wire.Item) *fieldError {
	if s.start == nil || s.ended {
		return problem("", "it comes out of order")
	}
	s.usage.read(get(e.members, "usage"))
	delta := get(e.members, "delta").Members()
	if err := checkNames(delta); err != nil {
		return err.in("delta")
	}
	reason := get(delta, "stop_reason")
	if reason.IsNull() && !s.ending { // only usage
		return nil
	}
	it.Kind = wire.End
	if len(reason.Text) > maxReason {
		return problem("delta.stop_reason", "is too long")
	}
	if !reason.IsNull() {
		s.reason = reason.String()
	}
	return s.end()
}

// end records that no block follows. It fails if a block is still open.
func (s *stream) end() *fieldError {
	if !s.ending && slices.ContainsFunc(s.blocks, func(b *streamBlock) bool { return !b.ended }) {
		return problem("", "the answer ends within a block")
	}
	s.ending = true
	return nil
}

func (s *stream) readStop(it *wire.Item) *fieldError {
	if s.start == nil || s.ended {
		return problem("", "it comes out of order")
	}
	it.Kind = wire.End
	err := s.end()
	s.ended = err == nil
	return err
}

// Response returns the upstream's answer so far.
func (s *stream) Response() *abi.Response {
	var parts []abi.Part
	var calls []abi.ToolCall
	for _, b := range s.blocks {
		switch b.chunk.Kind {
		case abi.ChunkText:
			parts = append(parts, abi.Part{Type: abi.PartText, Text: b.text.String()})
		case abi.ChunkToolCall:
			args := b.text.String()
			if args == "" {
				args = "{}"
			}
			calls = append(calls, abi.NewToolCall(b.chunk.ID, b.chunk.Name, args))
		default:
			parts = append(parts, b.part())
		}
	}
	res := &abi.Response{Message: assistant(parts, calls), FinishReason: finishOf(s.reason)}
	if s.start != nil {
		res.Usage = s.usage.abi()
	}
	return res
}

// part returns an opaque block with the additions of its deltas.
func (b *streamBlock) part() abi.Part {
	change := map[string][]byte{}
	if b.thinking.Len() > 0 {
		change["thinking"] = rawjson.Quote(b.thinking.String())
	}
	if b.signature.Len() > 0 {
		change["signature"] = rawjson.Quote(b.signature.String())
	}
	if b.text.Len() > 0 {
		change["input"] = object(b.text.String())
	}
	block := edited(rawjson.Value{Text: b.begin}, func(v rawjson.Value, e *rawjson.Edits) { e.Members(v, change) })
	p, _ := partOf(b.kind, rawjson.Value{Text: block}.Members()) // the start was checked
	return p
}

// appendDelta appends an event that adds text to a block, which has the given number for the client.
func appendDelta(dst []byte, b *streamBlock, number int, text string) []byte {
	kind, field := deltaText, "text"
	if b.chunk.Kind == abi.ChunkToolCall {
		kind, field = deltaJSON, "partial_json"
	}
	data := strconv.AppendInt([]byte(`{"type":"`+eventBlockDelta+`","index":`), int64(number), 10)
	data = append(append(data, `,"delta":{"type":"`+kind+`","`+field+`":`...), rawjson.Quote(text)...)
	return appendEvent(dst, eventBlockDelta, append(data, "}}"...))
}
