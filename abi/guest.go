//go:build wasip1 || guest

package abi

// Reading the types of this package in a module, with what it has for the host's
// inputs.

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
