package responses

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A stream is the codec of one streamed answer. It reads the upstream's events in [stream.Decode], and
// writes the client's in the methods of writer.
type stream struct {
	writer
	items  []*streamItem
	byPos  map[int64]*streamItem // by output_index
	last   *streamItem
	blocks []*block
	calls  map[string]*block // by the ID of the call
	size   int               // bytes of text and arguments
	usage  *abi.Usage
	finish string
	ended  bool
	done   bool // [DONE] was read

	thoughts wire.Thoughts
	failure  []byte // the error that the upstream reported
}

// NewStream returns the codec of one streamed answer.
func (Protocol) NewStream(model string) wire.Stream {
	return &stream{
		writer: writer{model: model, custom: map[string]bool{}},
		byPos:  map[int64]*streamItem{}, calls: map[string]*block{},
	}
}

// noBlock is the Block of an item that belongs to no block. An item of kind Other has its streamItem in Codec, or nil
// if it has none.
const noBlock = -1

func (e *event) other(it *streamItem) wire.Item {
	return wire.Item{Kind: wire.Other, Block: noBlock, Event: e.raw, Codec: it}
}

// Decode returns the items of one event of the upstream.
func (s *stream) Decode(raw []byte) ([]wire.Item, error) {
	e, err := readEvent(append([]byte(nil), raw...))
	if err != nil {
		return nil, err
	}
	switch {
	case e.typ == "" && !e.data.Exists():
		return []wire.Item{{Kind: wire.Ping, Block: noBlock, Event: e.raw}}, nil
	case e.typ == doneMark:
		s.done = true
		return []wire.Item{{Kind: wire.End, Block: noBlock, Event: e.raw}}, nil
	case s.ended || s.done:
		return nil, upstream("the upstream sent an event of type %.60q after the end of its answer", e.typ)
	}
	return s.decode(e)
}

func (s *stream) decode(e *event) ([]wire.Item, error) {
	switch e.typ {
	case "response.created", "response.queued", "response.in_progress":
		if err := s.begin(e); err != nil {
			return nil, err
		}
	case "response.output_item.added":
		return s.beginItem(e)
	case "response.output_item.done":
		return s.endItem(e)
	case "response.content_part.added":
		return s.beginPart(e)
	case "response.content_part.done":
		return s.endPart(e)
	case "response.output_text.delta", "response.refusal.delta":
		return s.textDelta(e)
	case "response.output_text.done", "response.refusal.done":
		return s.textDone(e)
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		return s.callDelta(e)
	case "response.function_call_arguments.done", "response.custom_tool_call_input.done":
		return s.callDone(e)
	case "response.completed", "response.incomplete", "response.failed":
		return s.end(e)
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		return s.thought(e), nil
	}
	if e.typ == "error" || e.typ == "" && e.fields["error"].Exists() {
		s.ended, s.failure = true, e.data.Text
		return []wire.Item{{Kind: wire.End, Block: noBlock, Event: e.raw}}, nil
	}
	return s.other(e), nil
}

// other returns the items of an event that adds nothing to a block.
func (s *stream) other(e *event) []wire.Item {
	var it *streamItem
	if e.fields["output_index"].Exists() {
		it = s.itemOf(e)
	}
	if it != nil && it.call != nil && !it.call.closed {
		return []wire.Item{it.call.delta("", e.raw)}
	}
	return []wire.Item{e.other(it)}
}

// thought returns the item of an event that adds text to reasoning.
func (s *stream) thought(e *event) []wire.Item {
	items := s.other(e)
	if items[0].Kind == wire.Other {
		section := [3]int64{e.fields["output_index"].Int(), e.fields["summary_index"].Int(), e.fields["content_index"].Int()}
		items[0].Chunk = s.thoughts.Chunk(section, e.fields["delta"].String())
	}
	return items
}

// itemOf returns the item that an event belongs to, or nil. An event without an index belongs to the last one.
func (s *stream) itemOf(e *event) *streamItem {
	if v := e.fields["output_index"]; v.Exists() {
		return s.byPos[v.Int()]
	}
	return s.last
}

// begin records the start of the answer, which has no output yet.
func (s *stream) begin(e *event) error {
	response := members(e.fields["response"])
	if out := response["output"]; !out.IsNull() && (!out.IsArray() || len(out.Elements()) > 0) {
		return upstream("the upstream's answer begins with output")
	}
	noteCustom(s.custom, response["tools"])
	if s.start == nil && e.typ == "response.created" {
		s.start, s.id = e.raw, response["id"].String()
	}
	return nil
}

// maxIndex is the maximum index of an item in an answer, and of a part in an item.
const maxIndex = 1 << 30

// newItem adds the item that o, which may be only the beginning of the item, describes.
func (s *stream) newItem(e *event, o *output) (*streamItem, error) {
	if len(s.items) >= maxBlocks {
		return nil, upstream("the upstream's answer has more than %d items", maxBlocks)
	}
	index := int64(len(s.items))
	if v := e.fields["output_index"]; v.Exists() {
		index = v.Int()
	}
	if index < 0 || index > maxIndex {
		return nil, upstream("the upstream's answer has an item with the number %d", index)
	}
	if was := s.byPos[index]; was != nil && !was.ended {
		return nil, upstream("the upstream's answer begins item %d twice", index)
	}
	it := &streamItem{index: index, typ: o.typ, id: o.id, parts: map[int64]*block{}}
	s.items, s.byPos[index], s.last = append(s.items, it), it, it
	if o.call == nil {
		return it, nil
	}
	if s.calls[o.call.id] != nil {
		return nil, upstream("the upstream's answer has two tool calls with the ID %.100q", o.call.id)
	}
	it.call = &block{item: it, call: o.call, index: len(s.calls)}
	s.calls[o.call.id] = it.call
	return it, s.addBlock(it.call)
}

func (s *stream) addBlock(b *block) error {
	if len(s.blocks) >= maxBlocks {
		return upstream("the upstream's answer has more than %d blocks", maxBlocks)
	}
	b.number = len(s.blocks)
	s.blocks = append(s.blocks, b)
	return nil
}

// grow counts text of the answer. It fails if the answer has more than maxText bytes.
func (s *stream) grow(text string) error {
	if s.size += len(text); s.size > maxText {
		return upstream("the upstream's answer has more than %d bytes", maxText)
	}
	return nil
}

func (s *stream) beginItem(e *event) ([]wire.Item, error) {
	o, err := readOutput(e.fields["item"], "an item")
	if err != nil {
		return nil, err
	}
	for _, t := range o.texts {
		if t.text != "" {
			return nil, upstream("the upstream's answer has a message that begins with text")
		}
	}
	it, err := s.newItem(e, o)
	if err != nil {
		return nil, err
	}
	if b := it.call; b != nil {
		b.early = o.call.text
		return []wire.Item{b.open(e.raw)}, nil
	}
	return []wire.Item{e.other(it)}, nil
}

// textBlock returns the text that an event belongs to, and the items that begin it if it is new.
func (s *stream) textBlock(e *event, typ string) (*block, []wire.Item, error) {
	it := s.itemOf(e)
	if it == nil || it.typ != "message" || it.ended {
		return nil, nil, upstream("the upstream's answer has text outside of a message")
	}
	part := e.fields["content_index"].Int()
	if part < 0 || part > maxIndex {
		return nil, nil, upstream("the upstream's answer has a part with the number %d", part)
	}
	if b := it.parts[part]; b != nil {
		if b.closed {
			return nil, nil, upstream("the upstream's answer has text after the end of its part")
		}
		return b, nil, nil
	}
	b := &block{item: it, part: part, typ: typ}
	it.parts[part] = b
	if err := s.addBlock(b); err != nil {
		return nil, nil, err
	}
	return b, []wire.Item{b.open(silent)}, nil
}

func (s *stream) beginPart(e *event) ([]wire.Item, error) {
	part := e.fields["part"]
	typ := part.Get("type").String()
	name := textField(typ)
	if it := s.itemOf(e); name == "" || it == nil || it.typ != "message" {
		return s.other(e), nil
	}
	if part.Get(name).String() != "" {
		return nil, upstream("the upstream's answer has a part that begins with text")
	}
	b, items, err := s.textBlock(e, typ)
	if err != nil {
		return nil, err
	}
	if len(items) == 0 {
		return nil, upstream("the upstream's answer begins a part twice")
	}
	return []wire.Item{b.open(e.raw)}, nil
}

// textType returns the type of the part that an event is about.
func (e *event) textType() string {
	if strings.HasPrefix(e.typ, "response.refusal.") {
		return "refusal"
	}
	return "output_text"
}

func (s *stream) textDelta(e *event) ([]wire.Item, error) {
	b, items, err := s.textBlock(e, e.textType())
	if err != nil {
		return nil, err
	}
	if e.fields.notString("delta") != "" {
		return nil, upstream("the upstream's answer has a delta that is not a string")
	}
	text := e.fields["delta"].String()
	b.text.WriteString(text)
	return append(items, b.delta(text, e.raw)), s.grow(text)
}

func (s *stream) textDone(e *event) ([]wire.Item, error) {
	b, items, err := s.textBlock(e, e.textType())
	if err != nil {
		return nil, err
	}
	more, err := s.rest(b, e.fields[textField(e.textType())].String())
	if err != nil {
		return nil, err
	}
	return append(append(items, more...), b.close(e.raw)), nil
}

// rest returns the items that complete block b, whose whole text is text. It returns an error if the
// stream has sent other text for the block.
func (s *stream) rest(b *block, text string) ([]wire.Item, error) {
	switch {
	case b.text.Len() == 0 && text != "":
		b.text.WriteString(text)
		return []wire.Item{b.delta(b.suffix(), silent)}, s.grow(text)
	case b.text.String() != text:
		return nil, upstream("the upstream's answer repeats a part with other text")
	}
	return nil, nil
}

func (s *stream) endPart(e *event) ([]wire.Item, error) {
	it := s.itemOf(e)
	part := e.fields["part"]
	typ := part.Get("type").String()
	name := textField(typ)
	number := e.fields["content_index"].Int()
	if it == nil || it.typ != "message" || name == "" && it.parts[number] == nil {
		return s.other(e), nil
	}
	if name == "" {
		return nil, upstream("the upstream's answer ends a part without its text")
	}
	if number < 0 || number > maxIndex || it.ended {
		return nil, upstream("the upstream's answer ends a part that is not in a message")
	}
	items, err := s.endText(it, number, typ, part.Get(name).String())
	if err != nil {
		return nil, err
	}
	return append(items, e.other(it)), nil
}

// endText returns the items that complete a text: the part with the given number of the message it.
// text is the whole text, which an event repeats.
func (s *stream) endText(it *streamItem, part int64, typ, text string) ([]wire.Item, error) {
	b := it.parts[part]
	var items []wire.Item
	if b == nil {
		b = &block{item: it, part: part, typ: typ, quiet: true}
		it.parts[part] = b
		if err := s.addBlock(b); err != nil {
			return nil, err
		}
		items = append(items, b.open(silent))
	}
	more, err := s.rest(b, text)
	if err != nil {
		return nil, err
	}
	items = append(items, more...)
	if !b.closed {
		items = append(items, b.close(silent))
	}
	return items, nil
}

// callBlock returns the call that an event belongs to.
func (s *stream) callBlock(e *event) (*block, error) {
	it := s.itemOf(e)
	if it == nil || it.call == nil || it.call.closed || it.call.call.form == native {
		return nil, upstream("the upstream's answer has arguments outside of a tool call")
	}
	return it.call, nil
}

func (s *stream) callDelta(e *event) ([]wire.Item, error) {
	b, err := s.callBlock(e)
	if err != nil {
		return nil, err
	}
	if e.fields.notString("delta") != "" {
		return nil, upstream("the upstream's answer has a delta that is not a string")
	}
	text := e.fields["delta"].String()
	b.text.WriteString(text)
	chunk := text
	if b.call.form == custom {
		if chunk = wire.Escape(text); !b.begun {
			chunk, b.begun = wire.CustomStart+chunk, true
		}
	}
	return []wire.Item{b.delta(chunk, e.raw)}, s.grow(text)
}

func (s *stream) callDone(e *event) ([]wire.Item, error) {
	b, err := s.callBlock(e)
	if err != nil {
		return nil, err
	}
	name := "arguments"
	if b.call.form == custom {
		name = "input"
	}
	items, err := s.rest(b, e.fields[name].String())
	if err != nil {
		return nil, err
	}
	return append(items, b.delta("", e.raw)), nil
}

func (s *stream) endItem(e *event) ([]wire.Item, error) {
	o, err := readOutput(e.fields["item"], "an item")
	if err != nil {
		return nil, err
	}
	it := s.itemOf(e)
	var items []wire.Item
	if it == nil || it.ended && !e.fields["output_index"].Exists() {
		if it, err = s.newItem(e, o); err != nil {
			return nil, err
		}
		items = s.openQuiet(it)
	}
	if it.ended {
		return nil, upstream("the upstream's answer ends item %d twice", it.index)
	}
	more, err := s.complete(it, o, e.raw)
	if err != nil {
		return nil, err
	}
	items = append(items, more...)
	if it.call == nil {
		items = append(items, e.other(it))
	}
	return items, nil
}

// openQuiet returns the item that begins a call without an event of its beginning. Other items need
// none.
func (s *stream) openQuiet(it *streamItem) []wire.Item {
	if it.call == nil {
		return nil
	}
	it.call.quiet = true
	return []wire.Item{it.call.open(silent)}
}

// complete returns the items that complete the streamed item it. o is the whole item, which event
// contains.
func (s *stream) complete(it *streamItem, o *output, event []byte) ([]wire.Item, error) {
	if it.typ != o.typ || (it.call == nil) != (o.call == nil) {
		return nil, upstream("the upstream's answer ends an item of type %.40q as one of type %.40q", it.typ, o.typ)
	}
	if it.call != nil {
		return s.completeCall(it, o, event)
	}
	var items []wire.Item
	if it.typ == "message" {
		if len(it.parts) > len(o.texts) {
			return nil, upstream("the upstream's answer ends a message without all of its parts")
		}
		for _, t := range o.texts {
			more, err := s.endText(it, int64(t.part), t.typ, t.text)
			if err != nil {
				return nil, err
			}
			items = append(items, more...)
		}
		if len(it.parts) > len(o.texts) {
			return nil, upstream("the upstream's answer ends a message with other parts")
		}
	}
	if it.typ != "message" && it.raw == nil {
		it.raw = o.raw
		s.size += len(o.raw)
	}
	it.ended = true
	return items, s.grow("")
}

func (s *stream) completeCall(it *streamItem, o *output, event []byte) ([]wire.Item, error) {
	b := it.call
	if b.call.id != o.call.id || b.call.name != o.call.name || b.call.form != o.call.form {
		return nil, upstream("the upstream's answer ends a tool call as another one")
	}
	if b.call.form == native && b.early != "" && b.early != "{}" && b.early != o.call.text {
		return nil, upstream("the upstream's answer ends a tool call with another action than it began with")
	}
	if b.call.form != native && !strings.HasPrefix(o.call.text, b.early) {
		return nil, upstream("the upstream's answer ends a tool call with other arguments")
	}
	if it.ended {
		if b.text.String() != o.call.text {
			return nil, upstream("the upstream's answer repeats a tool call with other arguments")
		}
		return nil, nil
	}
	items, err := s.rest(b, o.call.text)
	if err != nil {
		return nil, err
	}
	if b.call.form == custom {
		tail := wire.CustomEnd
		if !b.begun {
			tail = wire.CustomStart + tail
		}
		items = append(items, b.delta(tail, silent))
	}
	b.call.text, it.raw, it.ended = o.call.text, o.raw, true
	return append(items, b.close(event)), nil
}

// Response returns the upstream's answer so far.
func (s *stream) Response() *abi.Response {
	res := &abi.Response{Message: abi.Message{Role: abi.RoleAssistant}, FinishReason: s.finish, Usage: s.usage}
	var texts []string
	for _, b := range s.blocks {
		if b.call == nil {
			texts = append(texts, b.text.String())
			continue
		}
		c := *b.call
		c.text = b.text.String()
		res.Message.ToolCalls = append(res.Message.ToolCalls, c.abi())
	}
	res.Message.Content = content(texts)
	return res
}

// Failure returns the error that the upstream reported.
func (s *stream) Failure() []byte { return s.failure }

// Complete reports whether Decode has read the end of the answer.
func (s *stream) Complete() bool { return s.ended }
