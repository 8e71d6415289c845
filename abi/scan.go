package abi

import (
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A scanner reads one JSON text from front to back and rejects everything that is not
// strict JSON. It optionally checks the text against a Go type.
type scanner struct {
	b       []byte
	i       int
	path    []segment
	unknown []string
	spaced  bool                                                       // whether there was whitespace between tokens
	field   func(name string, value []byte) error                      // if set, called for each field of the outermost object
	enter   func(s *scanner, t reflect.Type, first byte) (form, error) // if set, called before each value that has a type

	stop      func() error // if set, called every stopInterval bytes
	nextCheck int          // offset of the next call
	stopped   error        // error that stop returned
}

// A form describes the type of a value to a scanner. It is an interface so that a module
// that only scans untyped values does not link the code for types.
type form interface {
	element() reflect.Type // type of an array's elements; nil accepts any
	member(s *scanner, key string) (reflect.Type, error)
}

// stopInterval is the number of bytes between two calls of stop.
const stopInterval = 64 << 10

// checkStop calls stop. If stop fails, it truncates the text, which ends the scan.
func (s *scanner) checkStop() {
	s.nextCheck = s.i + stopInterval
	if s.stop == nil || s.stopped != nil {
		return
	}
	if s.stopped = s.stop(); s.stopped != nil {
		s.b = s.b[:s.i]
	}
}

// A segment is one step of the path from the outermost value inwards.
type segment struct {
	key   []byte
	index int // index of the array element, if key is nil
}

func (s *scanner) where() string {
	var b strings.Builder
	for _, seg := range s.path {
		if seg.key == nil {
			b.WriteString("[" + strconv.Itoa(seg.index) + "]")
			continue
		}
		if len(seg.key) == 0 {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(cut(string(seg.key), 64))
	}
	return b.String()
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func (s *scanner) document(t reflect.Type) error {
	s.space()
	if s.i == len(s.b) {
		return s.errorAt("empty; want a JSON value")
	}
	if err := s.value(t); err != nil {
		return err
	}
	s.space()
	if s.i < len(s.b) {
		return s.errorAt("unexpected text after the JSON value")
	}
	return nil
}

func (s *scanner) space() {
	if s.i >= s.nextCheck {
		s.checkStop()
	}
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case ' ', '\t', '\n', '\r':
			s.i++
			s.spaced = true
		default:
			return
		}
	}
}

func (s *scanner) peek() byte {
	if s.i < len(s.b) {
		return s.b[s.i]
	}
	return 0
}

func (s *scanner) value(t reflect.Type) error {
	first := s.peek()
	switch first {
	case '{', '[', '"', 't', 'f', 'n', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
	case 0:
		return s.errorAt("ends in the middle of a value")
	default:
		return s.errorAt("want a JSON value, got " + quoteByte(first))
	}
	var f form
	if t != nil {
		var err error
		if f, err = s.enter(s, t, first); err != nil {
			return err
		}
	}
	switch first {
	case '{':
		return s.object(f)
	case '[':
		return s.array(f)
	case '"':
		_, err := s.text()
		return err
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

// quoteByte returns c quoted for error messages.
func quoteByte(c byte) string {
	if c < ' ' || c >= utf8.RuneSelf-1 {
		return `'\x` + string([]byte{hexDigits[c>>4], hexDigits[c&0xf]}) + "'"
	}
	return "'" + string(rune(c)) + "'"
}

func (s *scanner) literal(want string) error {
	if !strings.HasPrefix(string(s.b[s.i:min(len(s.b), s.i+len(want))]), want) {
		return s.errorAt("want a JSON value, such as " + want)
	}
	s.i += len(want)
	return nil
}

func (s *scanner) number() error {
	start := s.i
	if s.peek() == '-' {
		s.i++
	}
	if s.peek() == '0' {
		s.i++
	} else if !s.digits() {
		return s.errorAt("a number without digits")
	}
	if s.peek() == '.' {
		if s.i++; !s.digits() {
			return s.errorAt("a number without digits after its decimal point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.errorAt("a number without digits in its exponent")
		}
	}
	if s.i-start > MaxNumber {
		return s.errorAt("a number of " + strconv.Itoa(s.i-start) + " bytes; at most " + strconv.Itoa(MaxNumber) + " are allowed")
	}
	return nil
}

func (s *scanner) digits() bool {
	start := s.i
	for c := s.peek(); c >= '0' && c <= '9'; c = s.peek() {
		s.i++
	}
	return s.i > start
}

// text reads a string and returns its text between the quotes, without decoding escapes.
func (s *scanner) text() ([]byte, error) {
	s.i++
	start := s.i
	for s.i < len(s.b) {
		for end := min(len(s.b), s.i+stopInterval); s.i < end; {
			switch c := s.b[s.i]; {
			case c == '"':
				s.i++
				return s.b[start : s.i-1], nil
			case c == '\\':
				if err := s.escape(); err != nil {
					return nil, err
				}
			case c < 0x20:
				return nil, s.errorAt("a control character in a string; want an escape")
			case c < utf8.RuneSelf:
				s.i++
			default:
				r, n := utf8.DecodeRune(s.b[s.i:])
				if r == utf8.RuneError && n == 1 {
					return nil, s.errorAt("not valid UTF-8")
				}
				s.i += n
			}
		}
		s.checkStop()
	}
	return nil, s.errorAt("ends in the middle of a string")
}

func (s *scanner) escape() error {
	s.i++
	switch c := s.peek(); c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.i++
		return nil
	case 'u':
		s.i++
		r, ok := s.hex4()
		switch {
		case !ok:
			return s.errorAt(`want four hex digits after \u`)
		case r >= 0xdc00 && r < 0xe000:
			return s.errorAt("half of a surrogate pair")
		case r >= 0xd800 && r < 0xdc00:
			if s.peek() != '\\' || s.i+1 >= len(s.b) || s.b[s.i+1] != 'u' {
				return s.errorAt("half of a surrogate pair")
			}
			s.i += 2
			if r, ok := s.hex4(); !ok || r < 0xdc00 || r >= 0xe000 {
				return s.errorAt("half of a surrogate pair")
			}
		}
		return nil
	default:
		return s.errorAt("an unknown escape in a string")
	}
}

func (s *scanner) hex4() (rune, bool) {
	if len(s.b)-s.i < 4 {
		return 0, false
	}
	for _, c := range s.b[s.i : s.i+4] {
		if c-'0' > 9 && c|0x20-'a' > 5 {
			return 0, false
		}
	}
	s.i += 4
	return hexRune(s.b[s.i-4:]), true
}

func (s *scanner) push(seg segment) error {
	if len(s.path) >= MaxDepth {
		return s.errorAt("nested deeper than " + strconv.Itoa(MaxDepth) + " levels")
	}
	if s.path == nil {
		s.path = make([]segment, 0, 8)
	}
	s.path = append(s.path, seg)
	return nil
}

func (s *scanner) pop() {
	s.path = s.path[:len(s.path)-1]
}

func (s *scanner) array(f form) error {
	var elem reflect.Type
	if f != nil {
		elem = f.element()
	}
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return nil
	}
	if err := s.push(segment{}); err != nil {
		return err
	}
	for n := 0; ; n++ {
		s.path[len(s.path)-1].index = n
		if elem != nil && n >= MaxElements {
			return s.errorAt("an array of more than " + strconv.Itoa(MaxElements) + " elements")
		}
		s.space()
		if err := s.value(elem); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			s.pop()
			return nil
		default:
			return s.errorAt("want , or ] in an array")
		}
	}
}

// noKey is the key in the path until the object's first key is read.
var noKey = []byte{}

func (s *scanner) object(f form) error {
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return nil
	}
	if err := s.push(segment{key: noKey}); err != nil {
		return err
	}
	var seen keySet
	for {
		if err := s.objectField(f, &seen); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			s.pop()
			return nil
		default:
			return s.errorAt("want , or } in an object")
		}
	}
}

func (s *scanner) objectField(f form, seen *keySet) error {
	s.space()
	if s.peek() != '"' {
		return s.errorAt("want a key in an object")
	}
	key, err := s.text()
	if err != nil {
		return err
	}
	if escaped(key) {
		key = s.unescape(key)
	}
	depth := len(s.path)
	s.path[depth-1].key = key
	if !seen.add(key) {
		return s.duplicateKeyError(string(key))
	}
	s.space()
	if s.peek() != ':' {
		return s.errorAt("want : after a key")
	}
	s.i++
	s.space()
	var t reflect.Type
	if f != nil {
		if t, err = f.member(s, string(key)); err != nil {
			return err
		}
	}
	start := s.i
	if err := s.value(t); err != nil {
		return err
	}
	if s.field != nil && depth == 1 {
		return s.field(string(key), s.b[start:s.i])
	}
	return nil
}

// A keySet holds the keys of one object, as a list for up to eight keys and as a map for
// more. The keys are slices of the text.
type keySet struct {
	n    int
	few  [8][]byte
	many map[string]struct{}
}

func (k *keySet) add(key []byte) bool {
	if k.many != nil {
		if _, ok := k.many[string(key)]; ok {
			return false
		}
		k.many[string(key)] = struct{}{}
		return true
	}
	for _, have := range k.few[:k.n] {
		if string(have) == string(key) {
			return false
		}
	}
	if k.n < len(k.few) {
		k.few[k.n] = key
		k.n++
		return true
	}
	k.many = make(map[string]struct{}, 2*len(k.few))
	for _, have := range k.few {
		k.many[string(have)] = struct{}{}
	}
	k.many[string(key)] = struct{}{}
	return true
}
