// Package weave writes a streamed answer for a client: the upstream's events, with the changes of
// modules.
//
// The upstream's events wait in a queue while their chunks pass through the chain of middlewares.
// If text leaves the chain unchanged, its events are written as they were received; otherwise events with
// the changed text replace them. Events that modules do not see keep their place. Clients run a tool as soon as its
// call is complete, so a [Weaver] holds the first call, and all that follows it, until
// [Weaver.Finish] gets the final answer and the decisions of the gates.
package weave

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// MaxHeld is the default of Options.MaxHeld.
const MaxHeld = 32 << 20

// Options configure a weaver.
type Options struct {
	// Direct passes each event at once, except the end of the answer, which waits for [Weaver.Finish]. It is for
	// chains that cannot change the upstream's answer.
	Direct bool
	// Hold holds the whole answer until [Weaver.Finish], so that after_model can change all of it.
	Hold bool
	// MaxHeld limits the events that are held, in bytes, where an event counts as at least 256. The default is
	// [MaxHeld].
	MaxHeld int
}

// A Weaver writes one streamed answer. Its methods are not called concurrently.
type Weaver struct {
	stream  wire.Stream
	o       Options
	queue   []queued                    // items that the client has not received
	held    int                         // bytes of the queue
	block   *block                      // the block of text that the client has received in part, or nil
	told    map[string]*strings.Builder // the text that the client has received, by the kind of chunks
	waiting bool                        // everything waits for Finish
	sent    bool
	began   bool // the upstream answered
	ended   bool // the upstream ended its answer
}

// A queued is an item in the queue.
type queued struct {
	wire.Item
	cut bool // a part of its text was written
}

// itemSize is the memory of an item in the queue without its event, in bytes.
const itemSize = 256

// A block is a block of text or reasoning that the client has received in part.
type block struct {
	open    wire.Item
	text    strings.Builder // as the client has received it
	changed bool            // the text differs from the upstream's
}

// New returns a weaver that writes with stream.
func New(stream wire.Stream, o Options) *Weaver {
	if o.MaxHeld == 0 {
		o.MaxHeld = MaxHeld
	}
	return &Weaver{stream: stream, o: o, waiting: o.Hold, told: map[string]*strings.Builder{}}
}

// Sent reports whether the client has received a part of the answer.
func (w *Weaver) Sent() bool { return w.sent }

// Held returns the memory of the events that the weaver holds, in bytes.
func (w *Weaver) Held() int { return w.held }

// Receive takes the items of an event of the upstream. It appends to dst what the client receives
// at once, and returns the chunks for the chain. The error is a *wire.Error.
func (w *Weaver) Receive(dst []byte, items []wire.Item) ([]byte, []abi.Chunk, error) {
	var chunks []abi.Chunk
	w.began = true
	for i := range items {
		it := &items[i]
		if w.ended && (it.Kind == wire.Open || it.Kind == wire.Delta || it.Kind == wire.Close) {
			return dst, nil, wire.Errorf(wire.CodeUpstream, "the upstream's answer goes on after its end")
		}
		w.ended = w.ended || it.Kind == wire.End
		call := it.Kind == wire.Open && it.Chunk.Kind == abi.ChunkToolCall
		if call || it.Kind == wire.Delta && !isEmpty(&it.Chunk) {
			chunks = append(chunks, it.Chunk)
		}
		switch {
		case it.Kind == wire.Ping && !w.o.Hold, w.o.Direct && it.Kind != wire.End:
			dst = w.pass(dst, it)
			continue
		case it.Kind == wire.Delta && w.block != nil && w.block.changed && it.Block == w.block.open.Block:
			continue // other text has taken the place of the block's
		}
		w.queue = append(w.queue, queued{Item: *it})
		if w.held += itemSize + len(it.Event); w.held > w.o.MaxHeld {
			return dst, nil, wire.Errorf(wire.CodeUpstream,
				"the answer has more than %d bytes that wait for modules", w.o.MaxHeld)
		}
	}
	return w.pump(dst), chunks, nil
}

// Leave takes chunks that left the chain, and appends to dst the events for them.
func (w *Weaver) Leave(dst []byte, chunks []abi.Chunk) []byte {
	if w.o.Direct {
		return dst
	}
	for i := range chunks {
		switch c := &chunks[i]; c.Kind {
		case abi.ChunkText, abi.ChunkReasoning:
			dst = w.write(dst, c.Kind, c.Text)
		case abi.ChunkToolCall:
			w.waiting = true
		}
	}
	return dst
}

// pump passes the items at the head of the queue that wait for no chunk.
func (w *Weaver) pump(dst []byte) []byte {
	for len(w.queue) > 0 && !w.waiting {
		it := &w.queue[0]
		kind := it.Kind
		if kind == wire.Delta && w.block != nil && isEmpty(&it.Chunk) {
			kind = wire.Other
		}
		switch kind {
		case wire.Open, wire.Delta, wire.End:
			// A block begins with its first text, since modules may remove all of it.
			w.waiting = kind == wire.Open && it.Chunk.Kind == abi.ChunkToolCall
			if kind != wire.Open || !w.isEmptyBlock() {
				return dst
			}
			w.block = &block{open: it.Item}
		case wire.Close:
			if w.block == nil || w.block.changed {
				return dst
			}
			w.block = nil
		default:
			if w.block != nil && w.block.changed {
				return dst // text of the block may still be in the chain
			}
		}
		dst = w.pass(dst, &it.Item)
		w.pop()
	}
	return dst
}

// isEmpty reports whether the chunk of a delta adds nothing. Modules do not get it.
func isEmpty(c *abi.Chunk) bool { return c.Text == "" && c.Arguments == "" }

// isEmptyBlock reports whether the queue begins with a block of text that the upstream sent without
// text.
func (w *Weaver) isEmptyBlock() bool {
	return len(w.queue) > 1 && w.queue[0].Chunk.Kind != abi.ChunkToolCall && w.queue[1].Kind == wire.Close
}

func (w *Weaver) pass(dst []byte, it *wire.Item) []byte {
	w.sent = true
	return w.stream.Pass(dst, it)
}

func (w *Weaver) pop() {
	w.held -= itemSize + len(w.queue[0].Event)
	w.queue[0] = queued{}
	w.queue = w.queue[1:]
}

// write appends text that left the chain, as far as its place is known. The rest waits for Finish.
func (w *Weaver) write(dst []byte, kind, text string) []byte {
	for text != "" {
		if dst = w.pump(dst); w.waiting {
			return dst
		}
		var head *queued
		if len(w.queue) > 0 {
			head = &w.queue[0]
		}
		switch {
		case w.block == nil && head != nil && head.Kind == wire.Open && head.Chunk.Kind == kind:
			w.block = &block{open: head.Item}
			dst = w.pass(dst, &head.Item)
			w.pop()
		case w.block == nil || w.block.open.Chunk.Kind != kind:
			w.waiting = true
		case !w.block.changed && head != nil && head.Kind == wire.Delta && strings.HasPrefix(text, head.Chunk.Text):
			text = text[len(head.Chunk.Text):]
			dst = w.delta(dst, head)
			w.pop()
		case !w.block.changed && head != nil && head.Kind == wire.Delta && strings.HasPrefix(head.Chunk.Text, text):
			dst = w.text(dst, text)
			head.Chunk.Text, head.cut = head.Chunk.Text[len(text):], true
			return dst
		default:
			w.overwrite()
			return w.text(dst, text)
		}
	}
	return w.pump(dst)
}

// delta appends a delta of the open block whose text left the chain unchanged.
func (w *Weaver) delta(dst []byte, it *queued) []byte {
	if it.cut {
		return w.text(dst, it.Chunk.Text)
	}
	w.tell(it.Chunk.Text)
	return w.pass(dst, &it.Item)
}

// text appends text to the open block.
func (w *Weaver) text(dst []byte, text string) []byte {
	w.tell(text)
	w.sent = true
	return w.stream.Text(dst, &w.block.open, text)
}

func (w *Weaver) tell(text string) {
	w.block.text.WriteString(text)
	kind := w.block.open.Chunk.Kind
	if w.told[kind] == nil {
		w.told[kind] = &strings.Builder{}
	}
	w.told[kind].WriteString(text)
}

// overwrite records that the text of the open block differs from the upstream's, and drops the block's deltas.
func (w *Weaver) overwrite() {
	w.block.changed = true
	for len(w.queue) > 0 && w.queue[0].Kind == wire.Delta && w.queue[0].Block == w.block.open.Block {
		w.pop()
	}
}
