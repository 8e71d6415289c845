package abi

import (
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A scanner reads one JSON text from front to back, against a Go type where
// it is given one, and refuses whatever is not strict JSON.
type scanner struct {
	b       []byte
	i       int
	path    []segment
	unknown []string
	spaced  bool                                                       // there were spaces between values
	field   func(name string, value []byte) error                      // each field of the outermost object
	enter   func(s *scanner, t reflect.Type, first byte) (form, error) // nil: no value is of a type

	stop    func() error // asked each stride; nil: nobody is
	asked   int          // where it is asked next
	stopped error        // what it said
}

// A form is what a scanner knows of the type of a value. It is an interface so that
// a module that scans values of no type has nothing of it.
type form interface {
	element() reflect.Type // of an array's elements; nil: anything goes
	member(s *scanner, key string) (reflect.Type, error)
}

// stride is how many bytes are read between two questions whether to stop.
const stride = 64 << 10

// ask asks whether to stop. If so, the text ends here.
func (s *scanner) ask() {
	s.asked = s.i + stride
	if s.stop == nil || s.stopped != nil {
		return
	}
	if s.stopped = s.stop(); s.stopped != nil {
		s.b = s.b[:s.i]
	}
}

// A segment is one step from the outermost value inwards.
type segment struct {
	key   []byte
	index int // of an array's element, if key is nil
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
		return s.refuse("empty; want a JSON value")
	}
	if err := s.value(t); err != nil {
		return err
	}
	s.space()
	if s.i < len(s.b) {
		return s.refuse("something follows the JSON value")
	}
	return nil
}

func (s *scanner) space() {
	if s.i >= s.asked {
		s.ask()
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
		return s.refuse("ends in the middle of a value")
	default:
		return s.refuse("want a JSON value, got " + shownByte(first))
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

// shownByte is a byte as messages show it.
func shownByte(c byte) string {
	if c < ' ' || c >= utf8.RuneSelf-1 {
		return `'\x` + string([]byte{hexDigits[c>>4], hexDigits[c&0xf]}) + "'"
	}
	return "'" + string(rune(c)) + "'"
}

func (s *scanner) literal(want string) error {
	if !strings.HasPrefix(string(s.b[s.i:min(len(s.b), s.i+len(want))]), want) {
		return s.refuse("want a JSON value, such as " + want)
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
		return s.refuse("a number without digits")
	}
	if s.peek() == '.' {
		if s.i++; !s.digits() {
			return s.refuse("a number without digits behind its point")
		}
	}
	if c := s.peek(); c == 'e' || c == 'E' {
		s.i++
		if c := s.peek(); c == '+' || c == '-' {
			s.i++
		}
		if !s.digits() {
			return s.refuse("a number without digits in its exponent")
		}
	}
	if s.i-start > MaxNumber {
		return s.refuse("a number of " + strconv.Itoa(s.i-start) + " bytes; at most " + strconv.Itoa(MaxNumber) + " are allowed")
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

// text reads a string and returns it as it stands, without quotes.
func (s *scanner) text() ([]byte, error) {
	s.i++
	start := s.i
	for s.i < len(s.b) {
		for end := min(len(s.b), s.i+stride); s.i < end; {
			switch c := s.b[s.i]; {
			case c == '"':
				s.i++
				return s.b[start : s.i-1], nil
			case c == '\\':
				if err := s.escape(); err != nil {
					return nil, err
				}
			case c < 0x20:
				return nil, s.refuse("a control character in a string; want an escape")
			case c < utf8.RuneSelf:
				s.i++
			default:
				r, n := utf8.DecodeRune(s.b[s.i:])
				if r == utf8.RuneError && n == 1 {
					return nil, s.refuse("not valid UTF-8")
				}
				s.i += n
			}
		}
		s.ask()
	}
	return nil, s.refuse("ends in the middle of a string")
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
			return s.refuse(`want four hex digits behind \u`)
		case r >= 0xdc00 && r < 0xe000:
			return s.refuse("half of a surrogate pair")
		case r >= 0xd800 && r < 0xdc00:
			if s.peek() != '\\' || s.i+1 >= len(s.b) || s.b[s.i+1] != 'u' {
				return s.refuse("half of a surrogate pair")
			}
			s.i += 2
			if r, ok := s.hex4(); !ok || r < 0xdc00 || r >= 0xe000 {
				return s.refuse("half of a surrogate pair")
			}
		}
		return nil
	default:
		return s.refuse("an unknown escape in a string")
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
		return s.refuse("nested deeper than " + strconv.Itoa(MaxDepth) + " levels")
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
			return s.refuse("an array of more than " + strconv.Itoa(MaxElements) + " elements")
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
			return s.refuse("want , or ] in an array")
		}
	}
}

// noKey stands in the path until the object's first key is read.
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
			return s.refuse("want , or } in an object")
		}
	}
}

func (s *scanner) objectField(f form, seen *keySet) error {
	s.space()
	if s.peek() != '"' {
		return s.refuse("want a key in an object")
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
		return s.twice(string(key))
	}
	s.space()
	if s.peek() != ':' {
		return s.refuse("want : behind a key")
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

// A keySet holds the keys of one object: a list while they are few. The keys
// are parts of the text.
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
