//go:build wasip1 || guest

package abi

// This file contains the implementations that keep modules small: they decode types of
// this package with the reader that modules need for the host's inputs anyway, without
// encoding/json.

// JSON is raw JSON text, like json.RawMessage, which a host uses instead.
type JSON []byte

// MarshalJSON returns the text, or null if j is nil.
func (j JSON) MarshalJSON() ([]byte, error) {
	if j == nil {
		return []byte("null"), nil
	}
	return j, nil
}

// UnmarshalJSON stores a copy of the text.
func (j *JSON) UnmarshalJSON(b []byte) error {
	*j = append((*j)[:0], b...)
	return nil
}

// compact appends v to b without insignificant whitespace.
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

// A filled is a type that a trusted can decode.
type filled interface{ fill(t *trusted) }

func (s *scanner) decodeKnown(v any) (unknown []string, err error) { return s.decodeValue(v) }

// unmarshal decodes a value of this package for encoding/json, which has already
// validated the text.
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
