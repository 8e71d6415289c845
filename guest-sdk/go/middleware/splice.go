package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/contract"
)

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

// gap appends the splices that replace the input's messages with indices in [from, to) with those
// in put. Messages in put that equal a cached message of that range stay in place.
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

// stays returns the index in [from, to) of the message equal to m, which must be the
// first one or the one with the same ID. It returns -1 if there is none.
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
