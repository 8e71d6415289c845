package middleware

import (
	"iter"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A History is a read-only list of messages. A message is copied to the module when the
// module first reads it, and is then cached across hooks.
//
// Indices refer to the current list, including the edits of this hook. An index out of
// range panics, as for a slice. If the host fails to provide a message, the method does
// not return and the hook fails with the host's error. Messages are copies; to change the
// list, use the methods of [Messages].
type History struct {
	shown  *shown
	pieces []piece
	length int

	// cursor is the index of the piece that find returned last, and start is the index of that
	// piece's first message. They make access to neighboring messages fast.
	cursor, start int
}

// A piece is a part of the current list: either n messages of the input list, starting at index
// from, or the inserted messages in put.
type piece struct {
	from, n int
	put     []abi.Message // inserted messages; nil for messages of the input list
}

func (p *piece) len() int {
	if p.put != nil {
		return len(p.put)
	}
	return p.n
}

// Len returns the number of messages. It does not call the host.
func (h *History) Len() int { return h.length }

// At returns a copy of message i.
func (h *History) At(i int) abi.Message {
	h.check(i, h.length-1)
	p, off := h.find(i)
	if h.pieces[p].put != nil {
		return clone.Message(&h.pieces[p].put[off])
	}
	return clone.Message(h.shown.at(h.pieces[p].from + off))
}

// Last returns the last message. It returns false if the list is empty.
func (h *History) Last() (abi.Message, bool) {
	if h.length == 0 {
		return abi.Message{}, false
	}
	return h.At(h.length - 1), true
}

// All returns an iterator over the messages and their indices, from first to last. It fetches them
// in growing blocks, so that leaving the loop early is cheap. If the loop's body edits the list,
// the iteration continues at the next index of the edited list.
func (h *History) All() iter.Seq2[int, abi.Message] {
	return func(yield func(int, abi.Message) bool) {
		for i := 0; i < h.length; i++ {
			if !yield(i, h.At(i)) {
				return
			}
		}
	}
}

// Backward is like [History.All], but iterates from last to first. Edits at or after the current
// index do not affect the iteration.
func (h *History) Backward() iter.Seq2[int, abi.Message] {
	return func(yield func(int, abi.Message) bool) {
		for i := h.length - 1; i >= 0; i-- {
			if i < h.length && !yield(i, h.At(i)) {
				return
			}
		}
	}
}

// Slice returns copies of the messages [from, to). It returns nil if from is not less than to.
func (h *History) Slice(from, to int) []abi.Message {
	h.check(from, h.length)
	h.check(to, h.length)
	if from >= to {
		return nil
	}
	out := make([]abi.Message, to-from)
	left := out
	for p, off := h.find(from); len(left) > 0; p, off = p+1, 0 {
		piece := &h.pieces[p]
		n := min(piece.len()-off, len(left))
		if piece.put != nil {
			for i := range n {
				clone.CopyMessage(&left[i], &piece.put[off+i])
			}
		} else {
			h.shown.copy(left[:n], piece.from+off)
		}
		left = left[n:]
	}
	return out
}

// check panics unless i is from 0 to last.
func (h *History) check(i, last int) {
	if i < 0 || i > last {
		panic("index " + strconv.Itoa(i) + " is out of range: the list has " + strconv.Itoa(h.length) + " messages")
	}
}

// find returns the index of the piece that contains message i, and the message's offset in the
// piece.
func (h *History) find(i int) (p, off int) {
	for i < h.start {
		h.cursor--
		h.start -= h.pieces[h.cursor].len()
	}
	for i >= h.start+h.pieces[h.cursor].len() {
		h.start += h.pieces[h.cursor].len()
		h.cursor++
	}
	return h.cursor, i - h.start
}

// Messages is a list of messages that can be edited. Later reads in the same hook see the
// edits. Only the edits are sent to the host.
type Messages struct{ History }

// Append appends messages.
func (m *Messages) Append(messages ...abi.Message) { m.Replace(m.length, m.length, messages...) }

// Insert inserts messages before message i, or at the end if i is the length.
func (m *Messages) Insert(i int, messages ...abi.Message) { m.Replace(i, i, messages...) }

// Delete removes the messages [from, to).
func (m *Messages) Delete(from, to int) { m.Replace(from, to) }

// Set replaces message i.
func (m *Messages) Set(i int, message abi.Message) { m.Replace(i, i+1, message) }

// SetAll replaces the whole list. Messages that were read from the list and are unchanged
// are not sent again.
func (m *Messages) SetAll(messages []abi.Message) { m.Replace(0, m.length, messages...) }

// Replace replaces the messages [from, to). The other methods are special cases of it.
func (m *Messages) Replace(from, to int, messages ...abi.Message) {
	m.check(from, m.length)
	m.check(to, m.length)
	if from > to {
		panic("messages " + strconv.Itoa(from) + " to " + strconv.Itoa(to) + ": the second index is below the first")
	}
	if from == to && len(messages) == 0 {
		return
	}
	a := m.split(from)
	b := m.split(to)
	begin := from // first index of piece a after the edit
	switch {
	case len(messages) == 0:
		m.pieces = slices.Delete(m.pieces, a, b)
	case a > 0 && m.pieces[a-1].put != nil:
		m.pieces[a-1].put = append(m.pieces[a-1].put, clone.Messages(messages)...)
		m.pieces = slices.Delete(m.pieces, a, b)
		begin += len(messages)
	default:
		m.pieces = slices.Replace(m.pieces, a, b, piece{put: clone.Messages(messages)})
	}
	m.length += len(messages) - (to - from)
	switch n := len(m.pieces); {
	case a < n:
		m.cursor, m.start = a, begin
	case n > 0:
		m.cursor, m.start = n-1, m.length-m.pieces[n-1].len()
	default:
		m.cursor, m.start = 0, 0
	}
}

// split splits a piece so that one starts at message i, and returns its index.
func (m *Messages) split(i int) int {
	if i == m.length {
		return len(m.pieces)
	}
	p, off := m.find(i)
	if off == 0 {
		return p
	}
	whole := m.pieces[p]
	left, right := whole, whole
	if whole.put != nil {
		left.put, right.put = whole.put[:off:off], whole.put[off:]
	} else {
		left.n, right.from, right.n = off, whole.from+off, whole.n-off
	}
	m.pieces[p] = left
	m.pieces = slices.Insert(m.pieces, p+1, right)
	return p + 1
}

// clone returns a copy of the list, including its edits, that can be edited independently.
func (m *Messages) clone() *Messages {
	out := *m
	out.pieces = slices.Clone(m.pieces)
	for i := range out.pieces {
		out.pieces[i].put = slices.Clip(out.pieces[i].put)
	}
	return &out
}

// Revision returns the revision of the list in the hook's input. Revisions belong to a
// run and can be stored in a [Local].
func (h *History) Revision() int64 { return h.shown.Revision }

// ChangedSince returns the index of the first message that changed since an earlier revision: the length if nothing
// changed, and 0 if the host has dropped the revision. A hook that stores the last revision it has seen needs to read
// only the messages with that index or a larger one, even after the module's memory was reset. Call it before editing
// the list, because edits move the indices.
func (h *History) ChangedSince(revision int64) int {
	if revision == h.shown.Revision {
		return h.shown.Total
	}
	first, err := h.shown.host.Changed(h.shown.List.List, revision)
	if err != nil {
		return 0
	}
	return min(max(first, 0), h.shown.Total)
}

// patch returns the edits as a patch of the list in the input: ascending splices with gaps between
// them, or the whole list if no message of it remains. It fails if an edit is invalid.
func (m *Messages) patch() (abi.ListPatch, error) {
	var out abi.ListPatch
	at := 0 // index of the next message of the input to handle
	var put []abi.Message
	for _, p := range m.pieces {
		if p.put != nil {
			put = append(put, p.put...)
			continue
		}
		out.Splice = m.shown.gap(out.Splice, at, p.from, put)
		at, put = p.from+p.n, nil
	}
	out.Splice = m.shown.gap(out.Splice, at, m.shown.Total, put)
	if len(out.Splice) == 1 && m.shown.Total > 0 && out.Splice[0].Remove == m.shown.Total {
		out = abi.ListPatch{Whole: true, Replace: out.Splice[0].Insert}
	}
	return out, contract.CheckListPatch(&out, m.shown.Total)
}

// gap appends to splices those that replace the input's messages with indices in [from, to) with
// the messages in put, and returns the extended slice. If a message in put equals a cached message
// of that range, the splices leave the latter in place.
func (s *shown) gap(splices []abi.Splice, from, to int, put []abi.Message) []abi.Splice {
	add := func(at, end int, insert []abi.Message) {
		if at < end || len(insert) > 0 {
			splices = append(splices, abi.Splice{At: at, Remove: end - at, Insert: insert})
		}
	}
	index := s.index(from, to, len(put))
	begin := 0 // index in put of the next message to handle
	for i := range put {
		if at := s.stays(from, to, index, &put[i]); at >= 0 {
			add(from, at, put[begin:i:i])
			from, begin = at+1, i+1
		}
	}
	add(from, to, put[begin:])
	return splices
}

// index maps the IDs of the cached messages [from, to) of the input to their indices. It returns
// nil if n, the number of messages to look up, is 0, or if the range has fewer than two messages.
func (s *shown) index(from, to, n int) map[string]int {
	if n == 0 || to-from < 2 {
		return nil
	}
	ids := make(map[string]int, to-from)
	for i := from; i < to; i++ {
		if m := s.cached(i); m != nil && m.ID != "" {
			ids[m.ID] = i
		}
	}
	return ids
}

// stays returns the index in [from, to) of the input's message that equals m. It compares m only
// with the message at from and with the one with the same ID, whose index is in ids. It returns -1
// if neither equals m.
func (s *shown) stays(from, to int, ids map[string]int, m *abi.Message) int {
	if from == to {
		return -1
	}
	if known := s.cached(from); known != nil && clone.SameMessage(known, m) {
		return from
	}
	if i, ok := ids[m.ID]; ok && i > from && clone.SameMessage(s.cached(i), m) {
		return i
	}
	return -1
}
