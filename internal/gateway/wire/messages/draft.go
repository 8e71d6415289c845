package messages

import (
	"bytes"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A draft is the content of a container as a module changed it, or of a new message.
type draft struct {
	of     *container // nil if the message is new
	role   string
	pieces []piece
	// calls and results are the IDs of the calls and the results among the pieces.
	calls, results []string
}

// A piece is a block of a draft.
type piece struct {
	place int // its place among the pieces: see kept and after
	text  []byte
}

// kept returns the place of block i. after returns the place of new blocks that follow block i, or, for -1,
// of those at the beginning.
func kept(i int) int  { return 2 * i }
func after(i int) int { return 2*i + 1 }

// put adds a piece. Pieces at the same place keep their order.
func (d *draft) put(place int, text []byte) { d.pieces = append(d.pieces, piece{place, text}) }

// An edit has the parts and calls that a module returned in place of the blocks of a container.
type edit struct {
	parts  []abi.Part
	calls  []abi.ToolCall
	denied map[string]string // in answers
}

// apply adds the blocks of an edit. It replaces those blocks of the container that are neither calls nor
// results, and the calls.
func (d *draft) apply(e *edit) error {
	if err := d.applyParts(e.parts); err != nil {
		return err
	}
	return d.applyCalls(e)
}

// applyParts adds parts. Opaque parts must be the same as before, in the same order. Between them, parts
// replace parts one by one if their types are the same. Otherwise parts that are equal stay.
func (d *draft) applyParts(next []abi.Part) error {
	var old []int
	for i := range d.of.blocks {
		if b := &d.of.blocks[i]; b.call == nil && b.result == nil {
			old = append(old, i)
		}
	}
	last := -1 // the block that new blocks follow
	if len(old) > 0 {
		last = old[0] - 1
	}
	for {
		n := slices.IndexFunc(old, func(i int) bool { return wire.Opaque(&d.of.blocks[i].part) })
		m := slices.IndexFunc(next, func(p abi.Part) bool { return wire.Opaque(&p) })
		if n < 0 && m < 0 {
			return d.segment(old, next, last)
		}
		if n < 0 {
			return moduleError("a part of type %.64q was added or repeated", next[m].Type)
		}
		b := &d.of.blocks[old[n]]
		if m < 0 {
			return moduleError("a part of type %.64q was removed from its message; "+
				"parts of this type may be removed only with the whole message", b.part.Type)
		}
		if !wire.SamePart(&b.part, &next[m]) {
			return moduleError("a part of type %.64q was changed, removed or moved; it must stay as it is", b.part.Type)
		}
		if err := d.segment(old[:n], next[:m], last); err != nil {
			return err
		}
		last = old[n]
		d.put(kept(last), b.raw.Text)
		old, next = old[n+1:], next[m+1:]
	}
}

// segment adds the parts next, none of which are opaque, in place of the blocks with the indices old.
// New blocks follow the kept block before them, or the block last if there is none.
func (d *draft) segment(old []int, next []abi.Part, last int) error {
	if d.sameTypes(old, next) {
		for k, i := range old {
			if err := d.keep(i, &next[k]); err != nil {
				return err
			}
		}
		return nil
	}
	places := map[string][]int{} // the indices in old of equal parts, in ascending order
	for k, i := range old {
		key := partKey(&d.of.blocks[i].part)
		places[key] = append(places[key], k)
	}
	from := 0
	for k := range next {
		key := partKey(&next[k])
		found := places[key]
		for len(found) > 0 && found[0] < from {
			found = found[1:]
		}
		places[key] = found
		if len(found) > 0 {
			from = found[0] + 1
			last = old[found[0]]
			if err := d.keep(last, &next[k]); err != nil {
				return err
			}
			continue
		}
		if err := d.add(after(last), &next[k]); err != nil {
			return err
		}
	}
	return nil
}

// sameTypes reports whether parts correspond to blocks one by one.
func (d *draft) sameTypes(old []int, next []abi.Part) bool {
	if len(old) != len(next) {
		return false
	}
	for k, i := range old {
		if d.of.blocks[i].part.Type != next[k].Type {
			return false
		}
	}
	return true
}

// partKey returns a key that is the same for parts that differ in unknown fields at most.
func partKey(p *abi.Part) string {
	return p.Type + "\x00" + p.Text + "\x00" + string(p.ImageURL) + "\x00" + string(p.File)
}

// keep adds block i, changed to p. Fields that p does not have stay.
func (d *draft) keep(i int, p *abi.Part) error {
	b := &d.of.blocks[i]
	old := &b.part
	if wire.SamePart(old, p) {
		d.put(kept(i), b.raw.Text)
		return nil
	}
	switch {
	case p.Type != abi.PartText:
		return d.add(kept(i), p)
	case p.Text == "": // the API rejects empty blocks
		return nil
	case b.raw.IsString() && len(p.Unknown) == 0:
		d.put(kept(i), rawjson.Quote(p.Text))
		return nil
	case b.raw.IsString():
		return d.add(kept(i), p)
	}
	change := map[string][]byte{}
	text := map[string][]byte{"text": rawjson.Quote(p.Text)}
	if source := b.raw.Get("source"); b.raw.Get("type").String() == typeDocument {
		text = map[string][]byte{"source": edited(source, func(v rawjson.Value, e *rawjson.Edits) {
			e.Members(v, map[string][]byte{"data": rawjson.Quote(p.Text)})
		})}
	}
	if p.Text != old.Text {
		change = text
	}
	for _, f := range wire.ChangedFields(old.Unknown, p.Unknown) {
		change[f.Name] = f.Value
	}
	d.put(kept(i), rawjson.SetMembers(b.raw.Text, change))
	return nil
}

// add adds a block for a part of a module. It omits empty text, which the API rejects.
func (d *draft) add(place int, p *abi.Part) error {
	if p.Type == abi.PartText && p.Text == "" {
		return nil
	}
	text, err := newBlock(p)
	if err != nil {
		return moduleError("%v", err)
	}
	d.put(place, text)
	return nil
}

// applyCalls adds the tool calls of e to the draft. Calls of the container keep their place, a denied call
// is replaced with a text block that has the reason, and new calls follow the last block.
func (d *draft) applyCalls(e *edit) error {
	places := map[string][]int{}
	replaced := map[string]bool{}
	for i := range d.of.blocks {
		call := d.of.blocks[i].call
		if call == nil {
			continue
		}
		if reason, ok := e.denied[call.ID]; ok {
			d.put(kept(i), textBlock(reason))
			replaced[call.ID] = true
			continue
		}
		places[call.ID] = append(places[call.ID], i)
	}
	for k := range e.calls {
		call := &e.calls[k]
		reason, denied := e.denied[call.ID]
		switch found := places[call.ID]; {
		case len(found) > 0:
			places[call.ID] = found[1:]
			if err := d.keepCall(found[0], call); err != nil {
				return err
			}
		case replaced[call.ID]:
		case denied:
			d.put(after(len(d.of.blocks)-1), textBlock(reason))
		default:
			if err := d.addCall(after(len(d.of.blocks)-1), call); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepCall adds the call of block i, changed to next.
func (d *draft) keepCall(i int, next *abi.ToolCall) error {
	b := &d.of.blocks[i]
	change := map[string][]byte{}
	if next.Function.Name != b.call.Function.Name {
		if next.Function.Name == "" {
			return moduleError("the name of call %.64q was removed", next.ID)
		}
		change["name"] = rawjson.Quote(next.Function.Name)
	}
	if next.Function.Arguments != b.call.Function.Arguments {
		input, err := inputOf(next)
		if err != nil {
			return err
		}
		change["input"] = input
	}
	d.calls = append(d.calls, next.ID)
	d.put(kept(i), rawjson.SetMembers(b.raw.Text, change))
	return nil
}

// addCall adds a call of a module.
func (d *draft) addCall(place int, call *abi.ToolCall) error {
	if call.ID == "" || call.Function.Name == "" {
		return moduleError("a call was added without an ID or a name")
	}
	input, err := inputOf(call)
	if err != nil {
		return err
	}
	d.calls = append(d.calls, call.ID)
	d.put(place, callBlock(call, input))
	return nil
}

// inputOf returns the arguments of a call, which must be an object.
func inputOf(call *abi.ToolCall) ([]byte, error) {
	args := call.Function.Arguments
	if args == "" {
		return []byte("{}"), nil
	}
	v, err := rawjson.Parse([]byte(args))
	if err != nil || !v.IsObject() {
		return nil, moduleError("the arguments of call %.64q are not a JSON object", call.ID)
	}
	return v.Text, nil
}

func textBlock(text string) []byte {
	return slices.Concat([]byte(`{"type":"text","text":`), rawjson.Quote(text), []byte("}"))
}

func callBlock(call *abi.ToolCall, input []byte) []byte {
	return slices.Concat([]byte(`{"type":"tool_use","id":`), rawjson.Quote(call.ID),
		[]byte(`,"name":`), rawjson.Quote(call.Function.Name), []byte(`,"input":`), input, []byte("}"))
}

// sort orders the pieces by their place.
func (d *draft) sort() {
	slices.SortStableFunc(d.pieces, func(a, b piece) int { return a.place - b.place })
}

// unchanged reports whether the draft has the blocks of its container, all of them unchanged. The
// caller has sorted the draft.
func (d *draft) unchanged() bool { return d.of != nil && d.inPlace() && !d.differs() }

// inPlace reports whether the draft has one piece for each block of the container, in the order of the
// blocks. The caller has sorted the draft.
func (d *draft) inPlace() bool {
	if len(d.pieces) != len(d.of.blocks) {
		return false
	}
	for i := range d.pieces {
		if d.pieces[i].place != kept(i) {
			return false
		}
	}
	return true
}

// differs reports whether the text of a piece differs from that of its block.
func (d *draft) differs() bool {
	for i := range d.pieces {
		if !bytes.Equal(d.pieces[i].text, d.of.blocks[i].raw.Text) {
			return true
		}
	}
	return false
}

// contentText returns the text of the draft's content. Blocks that did not change keep their bytes.
func (d *draft) contentText() []byte {
	if d.of == nil || !d.inPlace() {
		return d.array()
	}
	content := d.of.content
	if content.IsString() {
		if d.pieces[0].text[0] == '"' {
			return d.pieces[0].text
		}
		return d.array()
	}
	return edited(content, func(_ rawjson.Value, e *rawjson.Edits) {
		for i := range d.pieces {
			raw := d.of.blocks[i].raw
			raw.At -= content.At
			if !bytes.Equal(raw.Text, d.pieces[i].text) {
				e.Replace(raw, d.pieces[i].text)
			}
		}
	})
}

// array returns the pieces as an array.
func (d *draft) array() []byte {
	list := make([][]byte, len(d.pieces))
	for i := range d.pieces {
		if list[i] = d.pieces[i].text; list[i][0] == '"' { // content that was a string
			list[i] = slices.Concat([]byte(`{"type":"text","text":`), list[i], []byte("}"))
		}
	}
	return rawjson.Array(list)
}

// text returns the message as a JSON object: the original one with the draft's content, or a new one if
// the message is new.
func (d *draft) text() []byte {
	if d.of == nil {
		return slices.Concat([]byte(`{"role":"`+d.role+`","content":`), d.array(), []byte("}"))
	}
	if d.unchanged() {
		return d.of.object.Text
	}
	return edited(d.of.object, func(v rawjson.Value, e *rawjson.Edits) {
		e.Members(v, map[string][]byte{"content": d.contentText()})
	})
}

// checkThinking returns an error if the changes moved signed reasoning to a place where the
// upstream would reject it. The caller has sorted the draft.
func (d *draft) checkThinking() error {
	if d.of == nil || d.of.role != abi.RoleAssistant || len(d.pieces) == 0 {
		return nil
	}
	blocks := d.of.blocks
	thinking := func(i int) bool { return isThinking(blocks[i].part.Type) }
	if thinking(0) && d.pieces[0].place != kept(0) {
		return moduleError("a part was added before signed reasoning")
	}
	before := -2 // the index of the block before, if it is signed reasoning
	for _, p := range d.pieces {
		i := p.place / 2
		if p.place != kept(i) || !thinking(i) {
			before = -2
			continue
		}
		if before >= 0 && before != i-1 {
			return moduleError("what separated two blocks of signed reasoning was removed; remove the whole message")
		}
		before = i
	}
	if before >= 0 && before != len(blocks)-1 {
		return moduleError("all that followed signed reasoning was removed; remove the whole message")
	}
	return nil
}

// edited returns the text of v with the edits that change makes. It calls change with v as a document
// of its own: its offsets begin at 0.
func edited(v rawjson.Value, change func(rawjson.Value, *rawjson.Edits)) []byte {
	e := &rawjson.Edits{Doc: v.Text}
	change(rawjson.Value{Text: v.Text}, e)
	return e.Apply()
}
