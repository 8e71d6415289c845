package middleware

import "github.com/agent-runner/agent-runner/abi"

// patch returns the edits as a patch of the list as it was shown: splices that
// ascend and do not touch, or the whole list where nothing of it is left.
func (m *Messages) patch() (abi.ListPatch, error) {
	var out abi.ListPatch
	at := 0 // the first message as shown that is not accounted for
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
	return out, out.Check(m.shown.Total)
}

// gap appends the splices that put messages in the place of those shown from
// up to, not including, to. Among them may be some that stood there already:
// they stay where they are.
func (s *shown) gap(splices []abi.Splice, from, to int, put []abi.Message) []abi.Splice {
	add := func(at, end int, insert []abi.Message) {
		if at < end || len(insert) > 0 {
			splices = append(splices, abi.Splice{At: at, Remove: end - at, Insert: insert})
		}
	}
	index := s.index(from, to, len(put))
	begin := 0 // of put: the first message that is not accounted for
	for i := range put {
		if at := s.stays(from, to, index, &put[i]); at >= 0 {
			add(from, at, put[begin:i:i])
			from, begin = at+1, i+1
		}
	}
	add(from, to, put[begin:])
	return splices
}

// index finds the messages shown from up to, not including, to by their ids.
func (s *shown) index(from, to, n int) map[string]int {
	if n == 0 || to-from < 2 {
		return nil
	}
	ids := make(map[string]int, to-from)
	for i := from; i < to; i++ {
		if m := s.knows(i); m != nil && m.ID != "" {
			ids[m.ID] = i
		}
	}
	return ids
}

// stays finds a message among those shown from up to, not including, to: the
// first of them, or the one of the same id. Otherwise it returns -1.
func (s *shown) stays(from, to int, ids map[string]int, m *abi.Message) int {
	if from == to {
		return -1
	}
	if known := s.knows(from); known != nil && sameMessage(known, m) {
		return from
	}
	if i, ok := ids[m.ID]; ok && i > from && sameMessage(s.knows(i), m) {
		return i
	}
	return -1
}
