package message

import (
	"encoding/json"
	"math"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A List is an immutable list of messages: a run's state, or the request of one model call. Editing
// a List makes another List with its own revision, which shares the unchanged messages. A List is
// safe for concurrent use.
type List struct {
	items []*item
	rev   int64
	revs  *Revisions
	spare *spare // spare capacity after the items; nil if there is none

	// The revisions of the list and the prefix that [List.Prefixed] joined; 0 for other lists.
	base, prefix int64
}

// A spare is the unused capacity of an array that several lists share. The first list to append
// uses the capacity without affecting the others. A growing conversation is therefore not copied in
// each step.
type spare struct {
	mu   sync.Mutex
	used int // length of the array that is in use
}

// extend returns the items of l followed by more, and the spare capacity after them. It uses the
// array of l if possible.
func (l *List) extend(more []*item) ([]*item, *spare) {
	if l.spare != nil {
		l.spare.mu.Lock()
		defer l.spare.mu.Unlock()
		if l.spare.used == len(l.items) && cap(l.items)-len(l.items) >= len(more) {
			l.spare.used += len(more)
			return append(l.items, more...), l.spare
		}
	}
	items := append(append(newItems(len(l.items)+len(more)), l.items...), more...)
	return items, &spare{used: len(items)}
}

// newItems returns an empty slice with capacity for n items and about a quarter more.
func newItems(n int) []*item { return make([]*item, 0, n+n/4+8) }

// An item is one message and its JSON. The JSON is encoded on first use, and all modules and steps
// share it.
type item struct {
	message  abi.Message
	json     atomic.Pointer[[]byte] // without labels
	labelled atomic.Pointer[[]byte] // with labels, for modules that read them
	size     atomic.Int64           // size of the message in bytes; 0 until it is computed
}

// encoded returns the JSON of the message without labels, which it encodes on first use.
func (it *item) encoded() []byte {
	if b := it.json.Load(); b != nil {
		return *b
	}
	m := &it.message
	if m.Labels != nil || m.PartLabels != nil {
		plain := Unlabelled(*m)
		m = &plain
	}
	b := encode(m)
	it.json.Store(&b)
	return b
}

// encodedLabelled is like encoded, but with the labels.
func (it *item) encodedLabelled() []byte {
	if b := it.labelled.Load(); b != nil {
		return *b
	}
	m := Labelled(it.message)
	b := encode(&m)
	it.labelled.Store(&b)
	return b
}

// stored returns the JSON of the message with the labels that the host has stored.
func (it *item) stored() []byte {
	if it.message.Labels == nil && it.message.PartLabels == nil {
		return it.encoded()
	}
	return encode(&it.message)
}

func encode(m *abi.Message) []byte {
	b, err := abijson.Marshal(m)
	if err != nil {
		// Encoding should not fail: messages of modules were decoded from JSON, and CheckJSON
		// rejects invalid messages of Go code.
		b = []byte(`{"role":"user","content":null}`)
	}
	return b
}

// NewList returns a list of messages. The revisions of lists that share revs can be compared.
func NewList(revs *Revisions, messages []abi.Message) *List {
	l := &List{revs: revs, rev: revs.root(), items: newItems(len(messages)), spare: &spare{used: len(messages)}}
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

// itemBlock is the number of messages of a new list that are allocated together. Larger blocks save
// work for the garbage collector. Smaller blocks keep less memory alive when most of the messages
// are dropped.
const itemBlock = 32

// Len returns the number of messages.
func (l *List) Len() int { return len(l.items) }

// At returns message i. It panics if i is out of range.
func (l *List) At(i int) abi.Message { return l.items[i].message }

// Last returns the last message. It reports false if the list is empty.
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

// Revision returns the revision of the list. Lists of a run with the same revision have the same
// messages.
func (l *List) Revision() int64 { return l.rev }

// Changed returns the first index at which l differs from the list with revision rev. It returns
// the length of l if the lists do not differ, and 0 if rev is unknown.
func (l *List) Changed(rev int64) int { return min(l.revs.changed(rev, l.rev), len(l.items)) }

// JSON returns the messages [from, to) as a JSON array for a store, with the labels that the host
// stores. It clamps the bounds.
func (l *List) JSON(from, to int) []byte {
	b, _ := l.appendJSON(nil, from, to, math.MaxInt, (*item).stored)
	return b
}

// JSONSize returns the size in bytes of the JSON of the messages from index first on, with their
// labels if labels is set.
func (l *List) JSONSize(first int, labels bool) int64 {
	var n int64
	encoded := encoderOf(labels)
	for _, it := range l.items[max(0, min(first, len(l.items))):] {
		n += int64(len(encoded(it)) + 1)
	}
	return n
}

// AppendJSON appends the messages [from, to) to b as a JSON array for a module, with their labels
// if labels is set. It clamps the bounds. ok is false if the array would exceed limit bytes.
func (l *List) AppendJSON(b []byte, from, to, limit int, labels bool) (all []byte, ok bool) {
	return l.appendJSON(b, from, to, limit, encoderOf(labels))
}

// encoderOf returns the function that encodes a message, with its labels if labels is set.
func encoderOf(labels bool) func(*item) []byte {
	if labels {
		return (*item).encodedLabelled
	}
	return (*item).encoded
}

func (l *List) appendJSON(b []byte, from, to, limit int, encoded func(*item) []byte) (all []byte, ok bool) {
	from = max(0, min(from, len(l.items)))
	to = max(from, min(to, len(l.items)))
	size := 2
	for _, it := range l.items[from:to] {
		if size += len(encoded(it)) + 1; size > limit {
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
		b = jsoncodec.Append(b, encoded(it))
	}
	return append(b, ']'), true
}

// Size returns the approximate size of the messages in bytes, including cached JSON.
func (l *List) Size() int64 {
	var n int64
	for _, it := range l.items {
		n += it.bytes()
	}
	return n
}

// bytes returns the approximate size of an item in bytes.
func (it *item) bytes() int64 {
	n := it.size.Load()
	if n == 0 {
		n = size.Message(&it.message)
		it.size.Store(n)
	}
	if b := it.json.Load(); b != nil {
		n += int64(len(*b))
	}
	if b := it.labelled.Load(); b != nil {
		n += int64(len(*b))
	}
	return n
}

// Append returns a list with the messages of l and the given messages at the end.
func (l *List) Append(messages ...abi.Message) *List {
	return l.Insert(len(l.items), messages...)
}

// Insert returns a list with the messages of l and the given messages from index at on.
func (l *List) Insert(at int, messages ...abi.Message) *List {
	if len(messages) == 0 {
		return l
	}
	return l.splice([]abi.Splice{{At: at, Insert: messages}})
}

// Prefixed returns a list with the messages of prefix, which may be nil, followed by those of l.
// The revisions of such lists can be compared with each other. last is an earlier result of
// Prefixed, or nil. If last has the same prefix and l only adds messages at the end, the result
// shares memory with last.
func (l *List) Prefixed(last, prefix *List) *List {
	out := &List{revs: l.revs, base: l.rev}
	var before []*item
	if prefix != nil {
		before, out.prefix = prefix.items, prefix.rev
	}
	out.rev = l.revs.derive(l.rev, len(before), out.prefix)
	if last != nil && last.base != 0 && last.prefix == out.prefix {
		if n := len(last.items) - len(before); len(l.items) >= n && l.Changed(last.base) == n {
			out.items, out.spare = last.extend(l.items[n:])
			return out
		}
	}
	out.items = append(append(newItems(len(before)+len(l.items)), before...), l.items...)
	out.spare = &spare{used: len(out.items)}
	return out
}

// splice returns l with the splices applied. There must be at least one splice, and the splices
// must fit the list.
func (l *List) splice(splices []abi.Splice) *List {
	if at := splices[0].At; at == len(l.items) {
		var more []*item
		for _, s := range splices {
			for _, m := range s.Insert {
				more = append(more, &item{message: m})
			}
		}
		out := &List{revs: l.revs, rev: l.revs.next(l.rev, at)}
		out.items, out.spare = l.extend(more)
		return out
	}
	grown := len(l.items)
	for _, s := range splices {
		grown += len(s.Insert) - s.Remove
	}
	items := newItems(grown)
	done := 0
	for _, s := range splices {
		items = append(items, l.items[done:s.At]...)
		for _, m := range s.Insert {
			items = append(items, &item{message: m})
		}
		done = s.At + s.Remove
	}
	items = append(items, l.items[done:]...)
	return &List{items: items, revs: l.revs, rev: l.revs.next(l.rev, splices[0].At), spare: &spare{used: len(items)}}
}

// MarshalJSON returns the messages as an array.
func (l *List) MarshalJSON() ([]byte, error) {
	return l.JSON(0, len(l.items)), nil
}

// UnmarshalJSON reads an array of messages into a list with its own revisions.
func (l *List) UnmarshalJSON(b []byte) error {
	var messages []abi.Message
	if err := json.Unmarshal(b, &messages); err != nil {
		return err
	}
	*l = *NewList(NewRevisions(), messages)
	return nil
}
