package message

import (
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A List is an immutable list of messages: a run's state, or the request of
// one model call. Changing it makes another List with a revision of its own,
// which shares the messages that stayed. Any goroutine may read it.
type List struct {
	items []*item
	rev   int64
	revs  *Revisions
	room  *room // behind the items; nil: there is none

	// Of a list that was made of another one with a prefix: the revisions of both.
	base, prefix int64
}

// A room is what lies behind the items of lists that share an array. Who appends
// first takes it, and the lists before are none the wiser: so a conversation that
// grows by its end is not copied in each step.
type room struct {
	mu   sync.Mutex
	used int // of the array
}

// extend returns items with more behind them, in the same array where that is
// possible.
func (l *List) extend(more []*item) ([]*item, *room) {
	if l.room != nil {
		l.room.mu.Lock()
		defer l.room.mu.Unlock()
		if l.room.used == len(l.items) && cap(l.items)-len(l.items) >= len(more) {
			l.room.used += len(more)
			return append(l.items, more...), l.room
		}
	}
	items := append(append(roomy(len(l.items)+len(more)), l.items...), more...)
	return items, &room{used: len(items)}
}

// roomy returns no items, in an array with room behind n.
func roomy(n int) []*item { return make([]*item, 0, n+n/4+8) }

// An item is one message, and its JSON once somebody needed it: encoded
// once, however many modules and steps read it.
type item struct {
	message abi.Message
	json    atomic.Pointer[[]byte]
	size    atomic.Int64 // of the message; 0: not known yet
}

func (it *item) encoded() []byte {
	if b := it.json.Load(); b != nil {
		return *b
	}
	b, err := abijson.Marshal(&it.message)
	if err != nil {
		// A message holds only what was decoded or made by the host.
		b = []byte(`{"role":"user","content":null}`)
	}
	it.json.Store(&b)
	return b
}

// NewList returns a list of its own kind: revs tells how its revisions differ.
func NewList(revs *Revisions, messages []abi.Message) *List {
	l := &List{revs: revs, rev: revs.root(), items: roomy(len(messages)), room: &room{used: len(messages)}}
	var block []item
	for i := range messages {
		if len(block) == 0 {
			block = make([]item, min(itemBlock, len(messages)-i))
		}
		block[0].message = messages[i]
		l.items, block = append(l.items, &block[0]), block[1:]
	}
	return l
}

// itemBlock is how many messages of a new list are allocated at once: a long
// conversation is then little work for the garbage collector, and one of which most
// was dropped does not keep all of it.
const itemBlock = 32

// Len is the number of messages.
func (l *List) Len() int { return len(l.items) }

// At returns message i.
func (l *List) At(i int) abi.Message { return l.items[i].message }

// Last returns the last message, if there is one.
func (l *List) Last() (abi.Message, bool) {
	if len(l.items) == 0 {
		return abi.Message{}, false
	}
	return l.items[len(l.items)-1].message, true
}

// All returns the messages.
func (l *List) All() []abi.Message {
	out := make([]abi.Message, len(l.items))
	for i, it := range l.items {
		out[i] = it.message
	}
	return out
}

// Revision names this list: another list of the run with the same revision
// holds the same messages.
func (l *List) Revision() int64 { return l.rev }

// Changed returns the first index at which l differs from the list that had
// revision rev: l's length if it does not differ, 0 if rev is not known.
func (l *List) Changed(rev int64) int { return min(l.revs.changed(rev, l.rev), len(l.items)) }

// JSON writes messages from up to, not including, to as an array. The bounds
// are clamped. ok is false if it would take more than limit bytes.
func (l *List) JSON(from, to, limit int) (b []byte, ok bool) {
	return l.AppendJSON(nil, from, to, limit)
}

// jsonSize returns how many bytes the messages from index first on take as JSON.
func (l *List) JSONSize(first int) int64 {
	var n int64
	for _, it := range l.items[max(0, min(first, len(l.items))):] {
		n += int64(len(it.encoded()) + 1)
	}
	return n
}

// appendJSON is JSON behind b, which is used again if there is room in it.
func (l *List) AppendJSON(b []byte, from, to, limit int) (all []byte, ok bool) {
	from = max(0, min(from, len(l.items)))
	to = max(from, min(to, len(l.items)))
	size := 2
	for _, it := range l.items[from:to] {
		if size += len(it.encoded()) + 1; size > limit {
			return b, false
		}
	}
	if cap(b)-len(b) < size {
		b = append(make([]byte, 0, len(b)+size), b...)
	}
	b = append(b, '[')
	for i, it := range l.items[from:to] {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsoncodec.Append(b, it.encoded())
	}
	return append(b, ']'), true
}

// Size returns about how many bytes the messages take, with their JSON where that is
// kept.
func (l *List) Size() int64 {
	var n int64
	for _, it := range l.items {
		n += it.bytes()
	}
	return n
}

// bytes returns about how many bytes an item takes.
func (it *item) bytes() int64 {
	n := it.size.Load()
	if n == 0 {
		n = size.Message(&it.message)
		it.size.Store(n)
	}
	if b := it.json.Load(); b != nil {
		n += int64(len(*b))
	}
	return n
}

// Append returns the list with messages at its end.
func (l *List) Append(messages ...abi.Message) *List {
	return l.Insert(len(l.items), messages...)
}

// Insert returns the list with messages in front of index at.
func (l *List) Insert(at int, messages ...abi.Message) *List {
	if len(messages) == 0 {
		return l
	}
	return l.splice([]abi.Splice{{At: at, Insert: messages}})
}

// Prefixed returns a list of another kind: the messages of prefix, which may be
// nil, then those of l. Revisions of such lists tell each other apart as those of
// l do. What they share with last, which may be nil and was made with the same
// prefix, is not copied.
func (l *List) Prefixed(last, prefix *List) *List {
	out := &List{revs: l.revs, base: l.rev}
	var before []*item
	if prefix != nil {
		before, out.prefix = prefix.items, prefix.rev
	}
	out.rev = l.revs.derive(l.rev, len(before), out.prefix)
	if last != nil && last.base != 0 && last.prefix == out.prefix {
		if n := len(last.items) - len(before); len(l.items) >= n && l.Changed(last.base) == n {
			out.items, out.room = last.extend(l.items[n:])
			return out
		}
	}
	out.items = append(append(roomy(len(before)+len(l.items)), before...), l.items...)
	out.room = &room{used: len(out.items)}
	return out
}

func (l *List) splice(splices []abi.Splice) *List {
	if at := splices[0].At; at == len(l.items) {
		var more []*item
		for _, s := range splices {
			for _, m := range s.Insert {
				more = append(more, &item{message: m})
			}
		}
		out := &List{revs: l.revs, rev: l.revs.next(l.rev, at)}
		out.items, out.room = l.extend(more)
		return out
	}
	grown := len(l.items)
	for _, s := range splices {
		grown += len(s.Insert) - s.Remove
	}
	items := roomy(grown)
	done := 0
	for _, s := range splices {
		items = append(items, l.items[done:s.At]...)
		for _, m := range s.Insert {
			items = append(items, &item{message: m})
		}
		done = s.At + s.Remove
	}
	items = append(items, l.items[done:]...)
	return &List{items: items, revs: l.revs, rev: l.revs.next(l.rev, splices[0].At), room: &room{used: len(items)}}
}

// MarshalJSON writes the messages as an array.
func (l *List) MarshalJSON() ([]byte, error) {
	b, _ := l.JSON(0, len(l.items), int(^uint(0)>>1))
	return b, nil
}

// UnmarshalJSON reads an array of messages into a list with revisions of its own.
func (l *List) UnmarshalJSON(b []byte) error {
	var messages []abi.Message
	if err := json.Unmarshal(b, &messages); err != nil {
		return err
	}
	*l = *NewList(NewRevisions(), messages)
	return nil
}
