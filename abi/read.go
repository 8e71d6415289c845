package abi

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

//go:generate go run ../internal/jsongen BeforeAgentInput,BeforeAgentAnswer,BeforeModelRewriteStateInput,BeforeModelRewriteStateAnswer,BeforeModelInput,BeforeModelAnswer,WrapModelInput,WrapModelAnswer,OnChunkInput,OnChunkAnswer,AfterModelInput,AfterModelAnswer,AfterModelRewriteStateInput,AfterModelRewriteStateAnswer,BeforeToolInput,BeforeToolAnswer,WrapToolCallInput,WrapToolCallAnswer,GateToolInput,GateToolAnswer,AfterToolInput,AfterToolAnswer,ToolMessagesInput,ToolMessagesAnswer,AfterToolsInput,AfterToolsAnswer,AfterAgentInput,AfterAgentAnswer,ObserveInput,ObserveAnswer,CallToolInput,CallToolAnswer,TranslateInput,TranslateAnswer,ModelReply,ToolReply,ToolRequest,RequestPatch,CallPatch,Splice,LocalValue,LocalVersion,Custom,Event,Error,Approval,Description,ConfigureInput json.go

// A value is a type of this package that reads and writes its JSON itself. The
// methods of most are generated, in json.go. They hold to the rules of Decode.
type value interface {
	readValue(s *scanner) error
	// readDocument reads a whole text, and sets nothing unless all of it holds.
	readDocument(s *scanner) error
	writeValue(w *writer)
}

// An object is a value that is a JSON object with certain fields.
type object interface {
	fieldNames() []string
	fieldIndex(key []byte) int // -1 for none
	readField(s *scanner, i int) error
}

// A keeper is an object that keeps the fields it does not know.
type keeper interface {
	keep(name string, raw []byte)
}

// rawJSON is the name by which generated code knows it.
type rawJSON = json.RawMessage

// whole reads a text that consists of one value.
func (s *scanner) whole(v value) error {
	s.space()
	if s.i == len(s.b) {
		return s.errorf("empty; want a JSON value")
	}
	if err := v.readValue(s); err != nil {
		return err
	}
	s.space()
	if s.i < len(s.b) {
		return s.errorf("something follows the JSON value")
	}
	return nil
}

// begins looks at the first byte of a value: null counts as absent, anything
// but one that begins with first is refused.
func (s *scanner) begins(first byte, want string) (absent bool, err error) {
	switch c := s.peek(); {
	case c == first:
		return false, nil
	case c == 'n':
		return true, s.literal("null")
	default:
		if err := s.value(nil); err != nil { // what is no JSON at all says so
			return false, err
		}
		return false, s.errorf("want %s, got %s", want, jsonKind(c))
	}
}

// fields reads an object field by field.
func (s *scanner) fields(x object) error {
	absent, err := s.begins('{', "an object")
	if absent || err != nil {
		return err
	}
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return nil
	}
	if err := s.push(segment{}); err != nil {
		return err
	}
	var seen uint64
	var unknown keySet
	for {
		if err := s.fieldOf(x, &seen, &unknown); err != nil {
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
			return s.errorf("want , or } in an object")
		}
	}
}

// rawKey reads a key, and what stands between it and its value.
func (s *scanner) rawKey() ([]byte, error) {
	s.space()
	if s.peek() != '"' {
		return nil, s.errorf("want a key in an object")
	}
	raw, err := s.text()
	if err != nil {
		return nil, err
	}
	if escaped(raw) {
		raw = unescape(raw)
	}
	s.path[len(s.path)-1].key = raw
	return raw, nil
}

func (s *scanner) colon() error {
	s.space()
	if s.peek() != ':' {
		return s.errorf("want : behind a key")
	}
	s.i++
	s.space()
	return nil
}

func (s *scanner) fieldOf(x object, seen *uint64, unknown *keySet) error {
	key, err := s.rawKey()
	if err != nil {
		return err
	}
	if i := x.fieldIndex(key); i >= 0 {
		if *seen&(1<<i) != 0 {
			return s.errorf("key %q stands twice", cut(string(key), 64))
		}
		*seen |= 1 << i
		if err := s.colon(); err != nil {
			return err
		}
		return x.readField(s, i)
	}
	name := string(key)
	if !unknown.add(name) {
		return s.errorf("key %q stands twice", cut(name, 64))
	}
	if err := s.colon(); err != nil {
		return err
	}
	for _, known := range x.fieldNames() {
		if strings.EqualFold(known, name) {
			return s.errorf("key %q differs from %q in case only", name, known)
		}
	}
	start := s.i
	k, open := x.(keeper)
	if !open && len(s.unknown) < maxUnknown {
		s.unknown = append(s.unknown, s.where())
	}
	if err := s.value(nil); err != nil {
		return err
	}
	if open {
		k.keep(name, s.b[start:s.i])
	}
	return nil
}

// raw reads any value, and keeps it as it stands.
func (s *scanner) raw(v *json.RawMessage) error {
	start := s.i
	if err := s.value(nil); err != nil {
		return err
	}
	*v = slices.Clone(s.b[start:s.i])
	return nil
}

func (s *scanner) boolean(v *bool) error {
	switch s.peek() {
	case 't':
		*v = true
		return s.literal("true")
	case 'f':
		return s.literal("false")
	default:
		_, err := s.begins('t', "true or false")
		return err
	}
}

func readString[T ~string](s *scanner, v *T) error {
	absent, err := s.begins('"', "a string")
	if absent || err != nil {
		return err
	}
	raw, err := s.text()
	if err != nil {
		return err
	}
	if escaped(raw) {
		raw = unescape(raw)
	}
	*v = T(raw)
	return nil
}

func readInt[T ~int | ~int64 | ~int32](s *scanner, v *T) error {
	c := s.peek()
	if c != '-' && (c < '0' || c > '9') {
		_, err := s.begins('0', "a number")
		return err
	}
	start := s.i
	if err := s.number(); err != nil {
		return err
	}
	n, ok := parseInt(s.b[start:s.i])
	if *v = T(n); !ok || int64(*v) != n {
		return s.errorf("number %s does not fit; want a whole number in range", s.b[start:s.i])
	}
	return nil
}

// parseInt reads a JSON number that is a whole one.
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

func readPointer[T any](s *scanner, v **T, read func(*scanner, *T) error) error {
	if s.peek() == 'n' {
		return s.literal("null")
	}
	*v = new(T)
	return read(s, *v)
}

func readSlice[T any](s *scanner, v *[]T, read func(*scanner, *T) error) error {
	absent, err := s.begins('[', "an array")
	if absent || err != nil {
		return err
	}
	s.i++
	s.space()
	list := []T{}
	if s.peek() == ']' {
		s.i++
		*v = list
		return nil
	}
	if err := s.push(segment{}); err != nil {
		return err
	}
	for n := 0; ; n++ {
		s.path[len(s.path)-1].index = n
		if n >= MaxElements {
			return s.errorf("an array of more than %d elements", MaxElements)
		}
		s.space()
		var zero T
		list = append(list, zero)
		if err := read(s, &list[n]); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			s.pop()
			*v = list
			return nil
		default:
			return s.errorf("want , or ] in an array")
		}
	}
}

func readMap[M ~map[K]V, K ~string, V any](s *scanner, v *M, read func(*scanner, *V) error) error {
	absent, err := s.begins('{', "an object")
	if absent || err != nil {
		return err
	}
	s.i++
	s.space()
	m := M{}
	if s.peek() == '}' {
		s.i++
		*v = m
		return nil
	}
	if err := s.push(segment{}); err != nil {
		return err
	}
	for {
		key, err := s.rawKey()
		if err != nil {
			return err
		}
		if _, twice := m[K(key)]; twice {
			return s.errorf("key %q stands twice", cut(string(key), 64))
		}
		if err := s.colon(); err != nil {
			return err
		}
		var one V
		if err := read(s, &one); err != nil {
			return err
		}
		m[K(key)] = one
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			s.pop()
			*v = m
			return nil
		default:
			return s.errorf("want , or } in an object")
		}
	}
}

func escaped(raw []byte) bool {
	for _, c := range raw {
		if c == '\\' {
			return true
		}
	}
	return false
}

// unescape is the text of a string that was checked.
func unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	for i := 0; i < len(raw); i++ {
		if raw[i] != '\\' {
			out = append(out, raw[i])
			continue
		}
		i++
		switch c := raw[i]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hexRune(raw[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				r = utf16.DecodeRune(r, hexRune(raw[i+3:]))
				i += 6
			}
			out = utf8.AppendRune(out, r)
		default:
			out = append(out, c)
		}
	}
	return out
}

// hexRune reads four hex digits, which are there.
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
