package wire

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// An ItemKind is the effect of an item in a stream.
type ItemKind uint8

// The kinds of items.
const (
	// Other items belong to no block that modules see: the start of the answer, reasoning that is
	// signed or encrypted, calls that the upstream runs, citations, pings. They keep their place.
	Other ItemKind = iota
	Open           // begins a block of text, reasoning or one tool call
	Delta          // adds a chunk to the open block
	Close          // ends the block; clients run a tool when they receive it
	End            // the answer's finish reason and usage, and all that follows
	Ping           // keeps the connection alive; may be sent at any time
)

// An Item is a part of a streamed answer. Most events of an upstream are one item. An event with several
// effects is several items. Their events together have these effects.
type Item struct {
	Kind  ItemKind
	Block int // for Open, Delta and Close: the number of the block in the upstream's stream
	// Chunk is the addition of a Delta. The chunk of Open has the kind, and a tool call's index, ID and name. The
	// chunk of Other has reasoning that modules do not see.
	Chunk abi.Chunk
	Event []byte // as received, with the blank line that ends it; empty if another item has it
	Codec any    // private data of the codec that decoded the item
}

// A Stream is the codec of one streamed answer. It reads the upstream's events, and writes the events for the client.
// Package weave decides which events it writes. Its methods are not called concurrently.
type Stream interface {
	// Decode returns the items of one event of the upstream, which includes the blank line that ends
	// it. They do not share the memory of event. The error is a *Error with CodeUpstream.
	Decode(event []byte) ([]Item, error)
	// Response returns the upstream's answer so far, which consists of the events that Decode has read. The answer is
	// complete if Complete reports true.
	Response() *abi.Response
	// Complete reports whether Decode has read the end of the answer, so that a stream that was cut
	// is recognized.
	Complete() bool
	// Failure returns the error that the upstream reported in the stream, as JSON, or nil. Some codecs return an
	// upstream's error from Decode instead.
	Failure() []byte

	// Pass appends an item's event to dst: the event as received, unless the numbers of blocks or events
	// have changed since items were dropped or added, or unless it repeats text that was changed.
	Pass(dst []byte, it *Item) []byte
	// Text appends events that add text to the block that open has begun, in place of its deltas.
	Text(dst []byte, open *Item, text string) []byte
	// CloseText appends the events that end the block that open has begun, whose whole text is now text.
	CloseText(dst []byte, open *Item, text string) []byte
	// Drop records that no item of the block that open begins will be passed.
	Drop(open *Item)
	// AddText and AddCall append a whole block that the upstream did not send, and before it the start of
	// the answer if nothing has been passed. kind is [abi.ChunkText] or [abi.ChunkReasoning].
	AddText(dst []byte, kind, text string) []byte
	AddCall(dst []byte, call *abi.ToolCall) []byte
	// End appends the events that end the answer: those of the End items, with the finish reason
	// finish (abi.Finish…) unless it is the upstream's, and with the blocks as they were passed,
	// changed and added. Without End items, because a module answered, it writes new events.
	End(dst []byte, ends []Item, finish string) []byte
	// Error appends the event of an error that ends the stream.
	Error(dst []byte, err *Error) []byte
}

// A Writer writes a streamed answer that no upstream of its protocol sent. Its methods are not called
// concurrently.
type Writer interface {
	// SetID sets the ID of the answer, without the protocol's prefix. By default it is new. Protocols whose clients
	// count usage by ID ignore it.
	SetID(id string)
	// Begin appends the start of the answer, unless it was written. Text, Call and End append a missing start, too.
	Begin(dst []byte) []byte
	// Text appends events that add text to the block that is open, or that begin one. kind is [abi.ChunkText],
	// [KindRefusal], or [abi.ChunkReasoning], which protocols without such a field omit.
	Text(dst []byte, kind, text string) []byte
	// Call appends a whole tool call.
	Call(dst []byte, call *abi.ToolCall) []byte
	// Extra sets fields beyond those of the protocol, which End writes.
	Extra(fields abi.Fields)
	// End appends the events that end the answer, with the usage unless it is nil.
	End(dst []byte, finish string, u *abi.Usage) []byte
	// Error appends the event of an error that ends the stream.
	Error(dst []byte, err *Error) []byte
}

// KindRefusal is the kind of a text with which a model refuses to answer.
const KindRefusal = "refusal"

// Refusal returns the refusal of an answer, which OpenAI's messages have in the field refusal, or "".
func Refusal(m *abi.Message) string {
	for _, f := range m.Unknown {
		if f.Name == KindRefusal {
			return (rawjson.Value{Text: f.Value}).String()
		}
	}
	return ""
}

// Full returns the answer with all that the next request must have: the Response of a, and the
// upstream's items that modules of the gateway do not see.
func Full(a interface{ Response() *abi.Response }) *abi.Response {
	if f, ok := a.(interface{ Full() *abi.Response }); ok {
		return f.Full()
	}
	return a.Response()
}
