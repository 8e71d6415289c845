//go:build wasip1 || guest

package abi

// What a module has in its own way, so that it is small: reading the types of this
// package, with what it has for the host's inputs, and no encoding/json.

// JSON is a JSON text as it came: what encoding/json has as RawMessage, and a host too.
type JSON []byte

// MarshalJSON returns the text, null for nil.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j == nil {
		return []byte("null"), nil
	}
	return j, nil
}

// UnmarshalJSON keeps a copy of the text.
func (j *JSON) UnmarshalJSON(b []byte) error {
	*j = append((*j)[:0], b...)
	return nil
}

// compact appends a JSON text without the spaces between its parts.
func compact(b []byte, v JSON) ([]byte, error) {
	s := scanner{b: v}
	if err := s.document(nil); err != nil {
		return b, err
	}
	for i, inside := 0, false; i < len(v); i++ {
		c := v[i]
		switch {
		case c == '"':
			inside = !inside
		case inside && c == '\\':
			b = append(b, c)
			i++
			c = v[i]
		case !inside && c <= ' ':
			continue
		}
		b = append(b, c)
	}
	return b, nil
}

// A filled is a type that a trusted reads.
type filled interface{ fill(t *trusted) }

func (s *scanner) decodeKnown(v any) (unknown []string, err error) { return s.decodeValue(v) }

// unmarshal is what encoding/json calls for a value of this package, with text
// that it has checked.
func unmarshal(b []byte, v filled) error {
	t := trusted{b: Clone(b), own: true}
	v.fill(&t)
	return t.end()
}

func (p *ListPatch) fill(t *trusted) {
	*p = ListPatch{}
	if p.Whole = t.space() == '['; p.Whole {
		fillSlice(t, &p.Replace, func(t *trusted, m *Message) { m.fill(t) })
		return
	}
	for t.key() {
		if t.last == "splice" {
			fillSlice(t, &p.Splice, func(t *trusted, s *Splice) { s.fill(t) })
		} else {
			t.skip()
		}
	}
}

func (s *Splice) fill(t *trusted) {
	for t.key() {
		switch t.last {
		case "at":
			s.At = int(t.int())
		case "remove":
			s.Remove = int(t.int())
		case "insert":
			fillSlice(t, &s.Insert, func(t *trusted, m *Message) { m.fill(t) })
		default:
			t.skip()
		}
	}
}

func (p *ToolsPatch) fill(t *trusted) {
	*p = ToolsPatch{}
	tool := func(t *trusted, v *Tool) { v.fill(t) }
	if p.Whole = t.space() == '['; p.Whole {
		fillSlice(t, &p.Replace, tool)
		return
	}
	for t.key() {
		switch t.last {
		case "add":
			fillSlice(t, &p.Add, tool)
		case "remove":
			fillSlice(t, &p.Remove, func(t *trusted, name *string) { *name = t.text() })
		default:
			t.skip()
		}
	}
}
