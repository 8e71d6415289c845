package messages

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// Encode returns the body to send for the changed call.
func (r *request) Encode(next *wire.Call) ([]byte, error) {
	change := map[string][]byte{}
	if err := r.encodeMessages(change, next.Messages); err != nil {
		return nil, err
	}
	if err := r.encodeParams(change, next.Params); err != nil {
		return nil, err
	}
	if err := r.encodeTools(change, next.Tools); err != nil {
		return nil, err
	}
	if next.Model != r.call.Model {
		change["model"] = rawjson.Quote(next.Model)
	}
	if next.Stream != r.call.Stream {
		change["stream"] = []byte("false")
		if next.Stream {
			change["stream"] = []byte("true")
		}
	}
	e := &rawjson.Edits{Doc: r.body}
	e.Members(r.root, change)
	return e.Apply(), nil
}

// A rewrite makes the messages of a changed call.
type rewrite struct {
	r      *request
	used   map[string]bool // the IDs of messages of the request that next has
	system draft
	list   []*draft
	// signed are the IDs of calls in messages with opaque parts. Such calls cannot move to another message.
	signed map[string]bool
}

// encodeMessages sets system and messages in change if modules changed them.
func (r *request) encodeMessages(change map[string][]byte, next []abi.Message) error {
	w := &rewrite{r: r, used: map[string]bool{}, system: draft{of: r.system, role: abi.RoleSystem}}
	for i := range next {
		if err := w.message(&next[i]); err != nil {
			return err
		}
	}
	w.encodeSystem(change)
	if !w.changed() {
		return nil
	}
	if len(w.list) == 0 {
		return moduleError("all messages were removed")
	}
	if err := w.check(); err != nil {
		return err
	}
	change["messages"] = w.text()
	return nil
}

// message adds a message of the changed call.
func (w *rewrite) message(m *abi.Message) error {
	if m.ReasoningContent != "" {
		return moduleError("a message with reasoning was added; the Messages API accepts only reasoning that it has signed")
	}
	src, ok := w.r.sources[m.ID]
	if !ok || w.used[m.ID] || src.role != m.Role {
		return w.newMessage(m)
	}
	w.used[m.ID] = true
	switch {
	case src.from == w.r.system:
		return w.system.apply(&edit{parts: m.Content.Parts()})
	case src.result >= 0:
		return w.result(src, m)
	}
	d := w.draft(src.from)
	return d.apply(&edit{parts: m.Content.Parts(), calls: m.ToolCalls})
}

// draft returns the last draft if it is of container c. Otherwise it adds a draft of c and returns
// it.
func (w *rewrite) draft(c *container) *draft {
	if d := w.last(); d != nil && d.of == c {
		return d
	}
	d := &draft{of: c, role: c.role}
	w.list = append(w.list, d)
	return d
}

// last returns the last draft, or nil.
func (w *rewrite) last() *draft {
	if len(w.list) == 0 {
		return nil
	}
	return w.list[len(w.list)-1]
}

// result adds a result of a tool that the request has.
func (w *rewrite) result(src source, m *abi.Message) error {
	b := &src.from.blocks[src.result]
	if m.ToolCallID != b.callID {
		return moduleError("the call of result %.64q was changed", b.callID)
	}
	sub := draft{of: b.result, role: abi.RoleTool}
	if err := sub.applyParts(m.Content.Parts()); err != nil {
		return err
	}
	sub.sort()
	d := w.draft(src.from)
	d.results = append(d.results, b.callID)
	d.put(kept(src.result), sub.text())
	return nil
}

// newMessage adds a message that the request does not have.
func (w *rewrite) newMessage(m *abi.Message) error {
	switch m.Role {
	case abi.RoleSystem, abi.RoleDeveloper:
		return w.newSystem(m)
	case abi.RoleTool:
		return w.newResult(m)
	case abi.RoleUser, abi.RoleAssistant:
	default:
		return moduleError("a message with the role %.64q was added", m.Role)
	}
	d := &draft{role: m.Role}
	if err := d.addParts(0, m.Content.Parts()); err != nil {
		return err
	}
	for i := range m.ToolCalls {
		if w.isSigned(m.ToolCalls[i].ID) {
			return moduleError("call %.64q was moved away from its signed reasoning", m.ToolCalls[i].ID)
		}
		if err := d.addCall(0, &m.ToolCalls[i]); err != nil {
			return err
		}
	}
	w.list = append(w.list, d)
	return nil
}

// addParts adds the parts of a new message to the draft at a place.
func (d *draft) addParts(place int, parts []abi.Part) error {
	for i := range parts {
		if err := d.add(place, &parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// newSystem adds instructions of a module. They become part of the field system, because most
// models reject instructions among the messages, unless the request itself has such messages.
func (w *rewrite) newSystem(m *abi.Message) error {
	if slices.ContainsFunc(m.Content.Parts(), func(p abi.Part) bool { return p.Type != abi.PartText }) {
		return moduleError("instructions with a part that is not text were added")
	}
	if w.r.among && len(w.list) > 0 {
		d := &draft{role: abi.RoleSystem}
		w.list = append(w.list, d)
		return d.addParts(0, m.Content.Parts())
	}
	place := after(-1)
	if w.r.system != nil && w.used[systemID] {
		place = after(len(w.r.system.blocks) - 1)
	}
	return w.system.addParts(place, m.Content.Parts())
}

// newResult adds a result of a tool to the results before it, or to a new message.
func (w *rewrite) newResult(m *abi.Message) error {
	sub := draft{}
	if err := sub.addParts(0, m.Content.Parts()); err != nil {
		return err
	}
	text := slices.Concat([]byte(`{"type":"tool_result","tool_use_id":`), rawjson.Quote(m.ToolCallID),
		[]byte(`,"content":`), sub.array(), []byte("}"))
	d := w.last()
	if d == nil || len(d.results) == 0 {
		d = &draft{role: abi.RoleUser}
		w.list = append(w.list, d)
	}
	d.results = append(d.results, m.ToolCallID)
	d.put(d.afterResults(), text)
	return nil
}

// afterResults returns the place after the results of a draft.
func (d *draft) afterResults() int {
	if d.of == nil {
		return 0
	}
	for _, p := range slices.Backward(d.pieces) {
		if i := p.place / 2; p.place != kept(i) || d.of.blocks[i].result != nil {
			return after(i)
		}
	}
	return after(-1)
}

// isSigned reports whether a call of the request is in a message with opaque parts.
func (w *rewrite) isSigned(id string) bool {
	if w.signed == nil {
		w.signed = map[string]bool{}
		for _, c := range w.r.messages {
			parts, calls := c.parts()
			if slices.ContainsFunc(parts, func(p abi.Part) bool { return wire.Opaque(&p) }) {
				for i := range calls {
					w.signed[calls[i].ID] = true
				}
			}
		}
	}
	return w.signed[id]
}

// encodeSystem sets the field system in change if it changed.
func (w *rewrite) encodeSystem(change map[string][]byte) {
	d := &w.system
	d.sort()
	switch {
	case d.of != nil && d.unchanged() || d.of == nil && len(d.pieces) == 0:
	case len(d.pieces) == 0:
		change["system"] = nil
	default:
		change["system"] = d.contentText()
	}
}

// changed sorts the drafts, and reports whether they differ from the messages of the request.
func (w *rewrite) changed() bool {
	changed := len(w.list) != len(w.r.messages)
	for i, d := range w.list {
		d.sort()
		changed = changed || d.of != w.r.messages[i] || !d.unchanged()
	}
	return changed
}

// check returns an error if the upstream would reject the messages because of changes by modules.
func (w *rewrite) check() error {
	turns := make([]calls, 0, len(w.list))
	for _, d := range w.list {
		if len(d.pieces) == 0 && (d.of == nil || len(d.of.blocks) > 0) {
			return moduleError("a message without content was added or remains; remove the whole message")
		}
		if err := d.checkThinking(); err != nil {
			return err
		}
		turns = append(turns, calls{d.role, d.calls, d.results})
	}
	problem := unpaired(turns)
	if problem == "" || unpaired(w.r.turns()) != "" { // the client's own request has unpaired calls or results, too
		return nil
	}
	return moduleError("%s", problem)
}

// text returns the messages as an array.
func (w *rewrite) text() []byte {
	texts := make([][]byte, len(w.list))
	same := len(w.list) == len(w.r.messages)
	for i, d := range w.list {
		texts[i] = d.text()
		same = same && d.of == w.r.messages[i]
	}
	if !same {
		return rawjson.Array(texts)
	}
	return edited(w.r.list, func(_ rawjson.Value, e *rawjson.Edits) {
		for i, d := range w.list {
			object := d.of.object
			object.At -= w.r.list.At
			e.Replace(object, texts[i])
		}
	})
}
