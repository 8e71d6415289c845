package abi

import "reflect"

// Read is Decode for text that the host has written, as an SDK reads it: what
// only a hostile text could have is not looked for. v keeps parts of b, which
// the caller may not change any more.
func Read(b []byte, v any) error {
	known := valueOf(v)
	if known == nil {
		_, err := Decode(b, v)
		return err
	}
	reflect.ValueOf(v).Elem().SetZero()
	s := scanner{b: b, trusted: true}
	return s.whole(known)
}

// ReadMessages is Read for an array of messages, as messages replies.
func ReadMessages(b []byte) (list []Message, err error) {
	s := scanner{b: b, trusted: true}
	s.space()
	err = readSlice(&s, &list, func(s *scanner, m *Message) error { return m.readValue(s) })
	return list, err
}

// trustedText finds the end of a string that is well-formed.
func (s *scanner) trustedText(start int) ([]byte, error) {
	for i := start; i < len(s.b); i++ {
		switch s.b[i] {
		case '"':
			s.i = i + 1
			return s.b[start:i], nil
		case '\\':
			i++
		}
	}
	return nil, s.errorf("ends in the middle of a string")
}

// skip passes over a value that is well-formed.
func (s *scanner) skip() error {
	depth := 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			if _, err := s.text(); err != nil {
				return err
			}
			if depth == 0 {
				return nil
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return nil // what it stands in ends
			}
			if depth--; depth == 0 {
				s.i++
				return nil
			}
		case ',', ' ', '\n', '\t', '\r':
			if depth == 0 {
				return nil
			}
		}
		s.i++
	}
	if depth > 0 {
		return s.errorf("ends in the middle of a value")
	}
	return nil
}
