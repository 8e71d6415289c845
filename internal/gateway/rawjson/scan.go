package rawjson

import "bytes"

// A scanner walks through the text of an array or object that Parse has checked.
type scanner struct {
	text []byte
	at   int
}

// more moves to the next name, member or element, and reports whether there is one.
func (s *scanner) more() bool {
	for {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':':
			s.at++
		case ']', '}':
			return false
		default:
			return true
		}
	}
}

// next returns the offsets of the value at the scanner, and moves to its end.
func (s *scanner) next() (start, end int) {
	start = s.at
	switch s.text[s.at] {
	case '"':
		s.string()
	case '[', '{':
		s.container()
	default:
		s.scalar()
	}
	return start, s.at
}

// string moves to the end of a string.
func (s *scanner) string() {
	for s.at++; ; {
		s.at += bytes.IndexByte(s.text[s.at:], '"') + 1
		slashes := 0
		for s.text[s.at-2-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return
		}
	}
}

// container moves to the end of an array or object.
func (s *scanner) container() {
	for depth := 0; ; {
		switch s.text[s.at] {
		case '"':
			s.string()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if s.at++; depth == 0 {
			return
		}
	}
}

// scalar moves to the end of a number, true, false or null.
func (s *scanner) scalar() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\r', '\n', ',', ':', ']', '}':
			return
		}
		s.at++
	}
}
