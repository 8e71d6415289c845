package jsoncodec

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// rawKey reads a key. The colon after it remains to be read.
func (s *Scanner) rawKey() ([]byte, error) {
	s.space()
	if s.Peek() != '"' {
		return nil, s.ErrorAt("want a key in an object")
	}
	raw, err := s.text()
	if err != nil {
		return nil, err
	}
	if escaped(raw) {
		raw = s.unescape(raw)
	}
	s.path[len(s.path)-1].key = raw
	return raw, nil
}

func (s *Scanner) colon() error {
	s.space()
	if s.Peek() != ':' {
		return s.ErrorAt("want : after a key")
	}
	s.I++
	s.space()
	return nil
}

// parseInt parses a JSON integer. It returns false for fractions, exponents and values out of
// range.
func parseInt(b []byte) (int64, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 19 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	switch {
	case negative && n <= 1<<63:
		return -int64(n), true
	case !negative && n < 1<<63:
		return int64(n), true
	}
	return 0, false
}

func escaped(raw []byte) bool { return bytes.IndexByte(raw, '\\') >= 0 }

// unescape returns the decoded text of a validated string. The result is incomplete if
// stop ends the scan.
func (s *Scanner) unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	nextCheck := stopInterval
	for i := 0; i < len(raw) && s.stopped == nil; {
		if i >= nextCheck {
			nextCheck = i + stopInterval
			s.checkStop()
		}
		if raw[i] == '\\' {
			out, i = unescape(out, raw, i)
			continue
		}
		plain := raw[i:min(len(raw), nextCheck)]
		if n := bytes.IndexByte(plain, '\\'); n >= 0 {
			plain = plain[:n]
		}
		out, i = append(out, plain...), i+len(plain)
	}
	return out
}

// unescape appends the decoded escape sequence at i to out and returns the index after
// it. A truncated escape sequence, which only unvalidated text can contain, is dropped.
func unescape(out, raw []byte, i int) ([]byte, int) {
	switch c := raw[i+1]; c {
	case 'b':
		return append(out, '\b'), i + 2
	case 'f':
		return append(out, '\f'), i + 2
	case 'n':
		return append(out, '\n'), i + 2
	case 'r':
		return append(out, '\r'), i + 2
	case 't':
		return append(out, '\t'), i + 2
	case 'u':
		if len(raw) < i+6 {
			return out, len(raw)
		}
		r := hexRune(raw[i+2:])
		i += 6
		if utf16.IsSurrogate(r) && len(raw) >= i+6 {
			r = utf16.DecodeRune(r, hexRune(raw[i+2:]))
			i += 6
		}
		return utf8.AppendRune(out, r), i
	default:
		return append(out, c), i + 2
	}
}

// hexRune decodes four hex digits. b must contain them.
func hexRune(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c <= '9':
			c -= '0'
		default:
			c = c&^0x20 - 'A' + 10
		}
		r = r<<4 | rune(c)
	}
	return r
}
