package weave

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// Finish appends the rest of the answer. res is the answer that left the chain. denied has the calls of
// res that a gate denied, by ID, each with the text that takes its place. The error is a
// *wire.Error: the text of res does not begin with the text that the client has received.
func (w *Weaver) Finish(dst []byte, res *abi.Response, denied map[string]string) ([]byte, error) {
	if w.o.Direct && w.began {
		return w.stream.End(dst, w.ends(), res.FinishReason), nil
	}
	f := &finish{Weaver: w, denied: denied, calls: map[string]*abi.ToolCall{}, changes: map[int]*blockChange{},
		args: map[int]*strings.Builder{}}
	for i := range res.Message.ToolCalls {
		c := &res.Message.ToolCalls[i]
		f.calls[c.ID] = c
	}
	rest, err := w.rest(res)
	if err != nil {
		return dst, err
	}
	f.place(rest)
	dst = f.blocks(f.begin(dst))
	for i := range res.Message.ToolCalls {
		if c := &res.Message.ToolCalls[i]; f.calls[c.ID] != nil {
			dst = f.addCall(dst, c)
		}
	}
	w.sent = true
	return w.stream.End(dst, w.ends(), f.reason(res)), nil
}

// ends returns the items that are left: those of the end of the answer.
func (w *Weaver) ends() []wire.Item {
	out := make([]wire.Item, len(w.queue))
	for i := range w.queue {
		out[i] = w.queue[i].Item
	}
	return out
}

// rest returns the text of res that the client has not received, by the kind of chunks.
func (w *Weaver) rest(res *abi.Response) (map[string]string, error) {
	out := map[string]string{
		abi.ChunkText:      TextOf(&res.Message),
		abi.ChunkReasoning: res.Message.ReasoningContent,
	}
	for kind, told := range w.told {
		rest, ok := strings.CutPrefix(out[kind], told.String())
		if !ok {
			return nil, wire.Errorf(wire.CodeModule, "a module changed the answer in after_model after it was delivered; "+
				"change streamed answers in on_chunk, or set hold: true for the route")
		}
		out[kind] = rest
	}
	return out, nil
}

// TextOf returns the text of a message, without the text in its opaque parts.
func TextOf(m *abi.Message) string {
	var b strings.Builder
	for _, p := range m.Content.Parts() {
		if p.Type == abi.PartText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// A finish decides which items that are left in the queue are passed, changed or dropped.
type finish struct {
	*Weaver
	denied  map[string]string
	calls   map[string]*abi.ToolCall // the calls of the answer that were not written yet, by ID
	kept    int                      // calls that were written and not denied
	texts   []*text                  // the blocks of text that are left, in order
	more    map[string]string        // text that has no block
	args    map[int]*strings.Builder // the arguments of the calls in the queue, by block
	changes map[int]*blockChange     // the blocks that are not passed as the upstream sent them
}

// A blockChange is the change of a block: it is dropped, or has other text.
type blockChange struct {
	dropped bool
	open    wire.Item
	text    string // all of the block's text
}

// A text is a block of text. The client has not received all of it.
type text struct {
	kind string
	was  string // the upstream's text that the client has not received
	now  string // the client's text
	any  bool   // the block can get any text, since modules changed the part that the client has
}

// place decides which of the remaining blocks get the remaining text.
func (f *finish) place(rest map[string]string) {
	f.more = map[string]string{}
	byBlock := map[int]*text{}
	if b := f.block; b != nil {
		t := &text{kind: b.open.Chunk.Kind, any: b.changed}
		f.texts, byBlock[b.open.Block] = append(f.texts, t), t
	}
	was := map[*text]*strings.Builder{}
	for i := range f.queue {
		switch it := &f.queue[i].Item; {
		case (it.Kind == wire.Open || it.Kind == wire.Delta) && it.Chunk.Kind == abi.ChunkToolCall:
			if f.args[it.Block] == nil {
				f.args[it.Block] = &strings.Builder{}
			}
			f.args[it.Block].WriteString(it.Chunk.Arguments)
		case it.Kind == wire.Open:
			t := &text{kind: it.Chunk.Kind}
			f.texts, byBlock[it.Block] = append(f.texts, t), t
		case it.Kind == wire.Delta && byBlock[it.Block] != nil:
			t := byBlock[it.Block]
			if was[t] == nil {
				was[t] = &strings.Builder{}
			}
			was[t].WriteString(it.Chunk.Text)
		}
	}
	for t, b := range was {
		t.was = b.String()
	}
	for _, kind := range []string{abi.ChunkReasoning, abi.ChunkText} {
		f.more[kind] = assign(f.texts, kind, rest[kind])
	}
}

// assign divides the text of a kind among its blocks: blocks at the beginning and the end whose text is
// the upstream's keep it, and the first of the others, or the last block, gets the rest.
// Without a block of the kind, assign returns the text.
func assign(all []*text, kind, rest string) string {
	var list []*text
	for _, t := range all {
		if t.kind == kind {
			list = append(list, t)
		}
	}
	if len(list) == 0 {
		return rest
	}
	last := list[len(list)-1]
	for len(list) > 0 && !list[0].any && strings.HasPrefix(rest, list[0].was) {
		list[0].now, rest = list[0].was, rest[len(list[0].was):]
		list = list[1:]
	}
	for len(list) > 1 && strings.HasSuffix(rest, list[len(list)-1].was) {
		last = list[len(list)-1]
		last.now, rest = last.was, rest[:len(rest)-len(last.was)]
		list = list[:len(list)-1]
	}
	if len(list) > 0 {
		last = list[0]
	}
	last.now += rest
	return ""
}

// begin decides on the open block, which the client has received in part. If
// its text is not the upstream's, begin records the change and appends the
// text that remains.
func (f *finish) begin(dst []byte) []byte {
	b := f.block
	if b == nil {
		return dst
	}
	t := f.texts[0]
	f.texts = f.texts[1:]
	if b.changed || t.now != t.was {
		f.changes[b.open.Block] = &blockChange{open: b.open, text: b.text.String() + t.now}
		if t.now != "" {
			dst = f.stream.Text(dst, &b.open, t.now)
		}
	}
	return dst
}

// blocks appends the items of the queue up to the end of the answer.
func (f *finish) blocks(dst []byte) []byte {
	for ; len(f.queue) > 0 && f.queue[0].Kind != wire.End; f.pop() {
		q := &f.queue[0]
		it := &q.Item
		change := f.changes[it.Block]
		switch {
		case it.Kind == wire.Open && it.Chunk.Kind == abi.ChunkToolCall:
			dst = f.openCall(f.addText(dst), it)
		case it.Kind == wire.Open:
			dst = f.openText(dst, it)
		case it.Kind == wire.Close && change != nil && !change.dropped:
			dst = f.stream.CloseText(dst, &change.open, change.text)
		case it.Kind == wire.Delta && change == nil && q.cut:
			dst = f.stream.Text(dst, &f.block.open, it.Chunk.Text)
		case change != nil && (it.Kind == wire.Delta || it.Kind == wire.Close):
		default:
			dst = f.pass(dst, it)
		}
	}
	return f.addText(dst)
}

// openText appends the beginning of a block of text, and all of its text if it is not the upstream's.
func (f *finish) openText(dst []byte, it *wire.Item) []byte {
	t := f.texts[0]
	f.texts = f.texts[1:]
	switch t.now {
	case t.was:
		return f.pass(dst, it)
	case "":
		f.changes[it.Block] = &blockChange{dropped: true}
		f.stream.Drop(it)
		return dst
	}
	f.changes[it.Block] = &blockChange{open: *it, text: t.now}
	return f.stream.Text(f.pass(dst, it), it, t.now)
}

// openCall appends the beginning of a call that is as the upstream sent it. In place of a call that was changed or
// denied, openCall appends the changed call or the reason; in place of one that was removed, nothing.
func (f *finish) openCall(dst []byte, it *wire.Item) []byte {
	id := it.Chunk.ID
	c := f.calls[id]
	if _, denied := f.denied[id]; c != nil && !denied && f.same(it, c) {
		delete(f.calls, id)
		f.kept++
		return f.pass(dst, it)
	}
	f.changes[it.Block] = &blockChange{dropped: true}
	f.stream.Drop(it)
	if c == nil {
		return dst
	}
	return f.addCall(dst, c)
}

// same reports whether the call that begins at the head of the queue has the name and arguments of c. In
// Messages, a call without arguments has no text for them.
func (f *finish) same(open *wire.Item, c *abi.ToolCall) bool {
	args := f.args[open.Block].String()
	return open.Chunk.Name == c.Function.Name &&
		(args == c.Function.Arguments || args == "" && c.Function.Arguments == "{}")
}

// addCall appends a call that is not as the upstream sent it, or the text that takes the place of a
// call that was denied.
func (f *finish) addCall(dst []byte, c *abi.ToolCall) []byte {
	delete(f.calls, c.ID)
	if text, ok := f.denied[c.ID]; ok {
		return f.stream.AddText(dst, abi.ChunkText, text)
	}
	f.kept++
	return f.stream.AddCall(dst, c)
}

// addText appends text of modules for which the upstream has no block.
func (f *finish) addText(dst []byte) []byte {
	for _, kind := range []string{abi.ChunkReasoning, abi.ChunkText} {
		if text := f.more[kind]; text != "" {
			delete(f.more, kind)
			dst = f.stream.AddText(dst, kind, text)
		}
	}
	return dst
}

// reason returns the finish reason for the client, which must not wait for calls that were denied.
func (f *finish) reason(res *abi.Response) string {
	switch {
	case res.FinishReason == abi.FinishToolCalls && f.kept == 0 && len(res.Message.ToolCalls) > 0:
		return abi.FinishStop
	case f.kept > 0 && res.FinishReason == abi.FinishStop:
		return abi.FinishToolCalls
	}
	return res.FinishReason
}
