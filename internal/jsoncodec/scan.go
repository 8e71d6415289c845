package jsoncodec

import (
	"math/bits"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/word"
)

// A Scanner reads one JSON text from front to back and rejects everything that is not strict JSON. It optionally
// checks the text against a Go type. The errors of its methods are of type [*DecodeError], except those of Enter, of
// stop and of the functions that callers pass.
type Scanner struct {
	B       []byte
	I       int      // position in B
	Unknown []string // paths of the unknown keys, at most maxUnknown

	// Enter is called before each value that has a type, if it is set. It returns the form
	// of the value, or nil to accept any value.
	Enter func(s *Scanner, t reflect.Type, first byte) (Form, error)

	path   []segment
	spaced bool                                  // whether there was whitespace between tokens
	field  func(name string, value []byte) error // if set, called for each field of the outermost object

	stop      func() error // if set, called every stopInterval bytes
	nextCheck int          // offset of the next call
	stopped   error        // error that stop returned
}

// A Form describes the type of a value to a Scanner. It is an interface so that a module
// that only scans untyped values does not link the code for types.
type Form interface {
	// Element returns the type of an array's elements. nil accepts any value.
	Element() reflect.Type
	// Member returns the type of an object's field. nil accepts any value.
	Member(s *Scanner, key string) (reflect.Type, error)
}

// stopInterval is the number of bytes between two calls of stop.
const stopInterval = 64 << 10

// Stopped returns the error that stop returned, or nil.
func (s *Scanner) Stopped() error { return s.stopped }

// checkStop calls stop. If stop fails, it truncates the text, which ends the scan.
func (s *Scanner) checkStop() {
	s.nextCheck = s.I + stopInterval
	if s.stop == nil || s.stopped != nil {
		return
	}
	if s.stopped = s.stop(); s.stopped != nil {
		s.B = s.B[:s.I]
	}
}

// A segment is one step of the path from the outermost value inwards.
type segment struct {
	key   []byte
	index int // index of the array element, if key is nil
}

// Where returns the path to the current value.
func (s *Scanner) Where() string {
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
		b.WriteString(Cut(string(seg.key), 64))
	}
	return b.String()
}

// Cut shortens s to at most n bytes without splitting a character, and then appends "…". It returns a string of at
// most n bytes unchanged.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Document reads text that consists of one value of type t; nil accepts any value.
func (s *Scanner) Document(t reflect.Type) error {
	return s.document(func() error { return s.Value(t) })
}

// document reads text that consists of one value, which read reads.
func (s *Scanner) document(read func() error) error {
	s.space()
	if s.I == len(s.B) {
		return s.ErrorAt("empty; want a JSON value")
	}
	if err := read(); err != nil {
		return err
	}
	s.space()
	if s.I < len(s.B) {
		return s.ErrorAt("unexpected text after the JSON value")
	}
	return nil
}

func (s *Scanner) space() {
	if s.I >= s.nextCheck {
		s.checkStop()
	}
	for s.I < len(s.B) {
		switch s.B[s.I] {
		case ' ', '\t', '\n', '\r':
			s.I++
			s.spaced = true
		default:
			return
		}
	}
}

// Peek returns the next byte, or 0 at the end.
func (s *Scanner) Peek() byte {
	if s.I < len(s.B) {
		return s.B[s.I]
	}
	return 0
}

// Value reads a value of type t. A nil type accepts any value.
func (s *Scanner) Value(t reflect.Type) error {
	first := s.Peek()
	switch first {
	case '{', '[', '"', 't', 'f', 'n', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
	case 0:
		return s.ErrorAt("ends in the middle of a value")
	default:
		return s.ErrorAt("want a JSON value, got " + quoteByte(first))
	}
	var f Form
	if t != nil {
		var err error
		if f, err = s.Enter(s, t, first); err != nil {
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
		return s.Literal("true")
	case 'f':
		return s.Literal("false")
	case 'n':
		return s.Literal("null")
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

// Literal reads the literal want: "null", "true" or "false".
func (s *Scanner) Literal(want string) error {
	if !strings.HasPrefix(string(s.B[s.I:min(len(s.B), s.I+len(want))]), want) {
		return s.ErrorAt("want a JSON value, such as " + want)
	}
	s.I += len(want)
	return nil
}

func (s *Scanner) number() error {
	start := s.I
	if s.Peek() == '-' {
		s.I++
	}
	if s.Peek() == '0' {
		s.I++
	} else if !s.digits() {
		return s.ErrorAt("a number without digits")
	}
	if s.Peek() == '.' {
		if s.I++; !s.digits() {
			return s.ErrorAt("a number without digits after its decimal point")
		}
	}
	if c := s.Peek(); c == 'e' || c == 'E' {
		s.I++
		if c := s.Peek(); c == '+' || c == '-' {
			s.I++
		}
		if !s.digits() {
			return s.ErrorAt("a number without digits in its exponent")
		}
	}
	if s.I-start > MaxNumber {
		return s.ErrorAt(
			"a number of " + strconv.Itoa(s.I-start) + " bytes; at most " + strconv.Itoa(MaxNumber) + " are allowed",
		)
	}
	return nil
}

func (s *Scanner) digits() bool {
	start := s.I
	for c := s.Peek(); c >= '0' && c <= '9'; c = s.Peek() {
		s.I++
	}
	return s.I > start
}

// text reads a string and returns its text between the quotes, without decoding escapes.
func (s *Scanner) text() ([]byte, error) {
	s.I++
	start := s.I
	for s.I < len(s.B) {
		for end := min(len(s.B), s.I+stopInterval); s.I < end; {
			if s.I = skipPlain(s.B, s.I, end); s.I >= end {
				break
			}
			switch c := s.B[s.I]; {
			case c == '"':
				s.I++
				return s.B[start : s.I-1], nil
			case c == '\\':
				if err := s.escape(); err != nil {
					return nil, err
				}
			case c < 0x20:
				return nil, s.ErrorAt("a control character in a string; want an escape")
			case c < utf8.RuneSelf:
				s.I++
			default:
				r, n := utf8.DecodeRune(s.B[s.I:])
				if r == utf8.RuneError && n == 1 {
					return nil, s.ErrorAt("not valid UTF-8")
				}
				s.I += n
			}
		}
		s.checkStop()
	}
	return nil, s.ErrorAt("ends in the middle of a string")
}

// skipPlain returns the index after the plain text that begins at i: ASCII characters except quotes,
// backslashes and control characters. It reads eight bytes at a time. It can stop up to 7 bytes before
// the end of b, and does not continue beyond end by more than 7 bytes.
func skipPlain(b []byte, i, end int) int {
	for ; i < end && i+8 <= len(b); i += 8 {
		if found := special(word.Load(b, i)) & word.Highs; found != 0 {
			return i + bits.TrailingZeros64(found)>>3
		}
	}
	return i
}

func (s *Scanner) escape() error {
	s.I++
	switch c := s.Peek(); c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		s.I++
		return nil
	case 'u':
		s.I++
		r, ok := s.hex4()
		switch {
		case !ok:
			return s.ErrorAt(`want four hex digits after \u`)
		case r >= 0xdc00 && r < 0xe000:
			return s.ErrorAt("half of a surrogate pair")
		case r >= 0xd800 && r < 0xdc00:
			if s.Peek() != '\\' || s.I+1 >= len(s.B) || s.B[s.I+1] != 'u' {
				return s.ErrorAt("half of a surrogate pair")
			}
			s.I += 2
			if r, ok := s.hex4(); !ok || r < 0xdc00 || r >= 0xe000 {
				return s.ErrorAt("half of a surrogate pair")
			}
		}
		return nil
	default:
		return s.ErrorAt("an unknown escape in a string")
	}
}

func (s *Scanner) hex4() (rune, bool) {
	if len(s.B)-s.I < 4 {
		return 0, false
	}
	for _, c := range s.B[s.I : s.I+4] {
		if c-'0' > 9 && c|0x20-'a' > 5 {
			return 0, false
		}
	}
	s.I += 4
	return hexRune(s.B[s.I-4:]), true
}

func (s *Scanner) push(seg segment) error {
	if len(s.path) >= MaxDepth {
		return s.ErrorAt("nested deeper than " + strconv.Itoa(MaxDepth) + " levels")
	}
	if s.path == nil {
		s.path = make([]segment, 0, 8)
	}
	s.path = append(s.path, seg)
	return nil
}

func (s *Scanner) pop() {
	s.path = s.path[:len(s.path)-1]
}

func (s *Scanner) array(f Form) error {
	var elem reflect.Type
	if f != nil {
		elem = f.Element()
	}
	s.I++
	s.space()
	if s.Peek() == ']' {
		s.I++
		return nil
	}
	if err := s.push(segment{}); err != nil {
		return err
	}
	for n := 0; ; n++ {
		s.path[len(s.path)-1].index = n
		if elem != nil && n >= MaxElements {
			return s.ErrorAt("an array of more than " + strconv.Itoa(MaxElements) + " elements")
		}
		s.space()
		if err := s.Value(elem); err != nil {
			return err
		}
		s.space()
		switch s.Peek() {
		case ',':
			s.I++
		case ']':
			s.I++
			s.pop()
			return nil
		default:
			return s.ErrorAt("want , or ] in an array")
		}
	}
}

// noKey is the key in the path until the object's first key is read.
var noKey = []byte{}

func (s *Scanner) object(f Form) error {
	s.I++
	s.space()
	if s.Peek() == '}' {
		s.I++
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
		switch s.Peek() {
		case ',':
			s.I++
		case '}':
			s.I++
			s.pop()
			return nil
		default:
			return s.ErrorAt("want , or } in an object")
		}
	}
}

func (s *Scanner) objectField(f Form, seen *keySet) error {
	s.space()
	if s.Peek() != '"' {
		return s.ErrorAt("want a key in an object")
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
	if s.Peek() != ':' {
		return s.ErrorAt("want : after a key")
	}
	s.I++
	s.space()
	var t reflect.Type
	if f != nil {
		if t, err = f.Member(s, string(key)); err != nil {
			return err
		}
	}
	start := s.I
	if err := s.Value(t); err != nil {
		return err
	}
	if s.field != nil && depth == 1 {
		return s.field(string(key), s.B[start:s.I])
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

// add adds a key, and reports whether the set did not have it.
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
