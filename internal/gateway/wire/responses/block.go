package responses

import (
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A streamItem is an item of the upstream's answer.
type streamItem struct {
	index int64 // output_index
	typ   string
	id    string
	parts map[int64]*block // the texts of a message, by content_index
	call  *block
	ended bool // output_item.done was read

	raw      []byte // the whole item if it has ended, unless it is a message
	repeated bool   // whether the event that ends the answer has the item
	last     bool   // whether only the event that ends the answer has the item

	placed bool  // whether a part of it was written
	out    int64 // output_index for the client
	entry  int   // in writer.entries
	gone   int64 // the number of dropped texts, by which the content_index of later parts decreases
}

// A block is a text of a message, or a call.
type block struct {
	number int // in stream.blocks
	item   *streamItem
	part   int64  // content_index of a text
	typ    string // type of a text
	call   *call  // nil for a text
	index  int    // of a call, among the calls
	early  string // the arguments that the beginning of the item already had
	text   strings.Builder
	begun  bool // whether a chunk of the call's arguments was returned
	closed bool
	quiet  bool   // whether no event begins the block: it is only in events that repeat texts or calls
	ending []byte // the event of its end

	dropped, changed bool
	now              string // the text if it has changed
	placed           bool
	out              int64 // content_index for the client
}

// silent is the Event of an item whose event another item has. It is not nil, since an item without
// Event is, for the weaver, the rest of an event that was written in part.
var silent = []byte{}

func (b *block) open(event []byte) wire.Item {
	chunk := abi.Chunk{Kind: abi.ChunkText}
	if b.call != nil {
		chunk = abi.Chunk{Kind: abi.ChunkToolCall, Index: b.index, ID: b.call.id, Name: b.call.name}
	}
	return wire.Item{Kind: wire.Open, Block: b.number, Chunk: chunk, Event: event}
}

// chunk returns a chunk that adds text to the block.
func (b *block) chunk(text string) abi.Chunk {
	if b.call != nil {
		return abi.Chunk{Kind: abi.ChunkToolCall, Index: b.index, Arguments: text}
	}
	return abi.Chunk{Kind: abi.ChunkText, Text: text}
}

func (b *block) delta(text string, event []byte) wire.Item {
	return wire.Item{Kind: wire.Delta, Block: b.number, Chunk: b.chunk(text), Event: event}
}

// close returns the end of a block.
func (b *block) close(event []byte) wire.Item {
	b.closed, b.ending = true, event
	return wire.Item{Kind: wire.Close, Block: b.number, Event: event}
}

// suffix returns the text of a block that its first chunk adds. For a custom tool it begins the
// arguments.
func (b *block) suffix() string {
	if b.call != nil && b.call.form == custom {
		b.begun = true
		return wire.CustomStart + wire.Escape(b.text.String())
	}
	return b.text.String()
}
