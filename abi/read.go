package abi

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

//go:generate go run ../internal/jsongen BeforeAgentInput,BeforeAgentAnswer,BeforeModelRewriteStateInput,BeforeModelRewriteStateAnswer,BeforeModelInput,BeforeModelAnswer,WrapModelInput,WrapModelAnswer,OnChunkInput,OnChunkAnswer,AfterModelInput,AfterModelAnswer,AfterModelRewriteStateInput,AfterModelRewriteStateAnswer,BeforeToolInput,BeforeToolAnswer,WrapToolCallInput,WrapToolCallAnswer,GateToolInput,GateToolAnswer,AfterToolInput,AfterToolAnswer,ToolMessagesInput,ToolMessagesAnswer,AfterToolsInput,AfterToolsAnswer,AfterAgentInput,AfterAgentAnswer,ObserveInput,ObserveAnswer,CallToolInput,CallToolAnswer,TranslateInput,TranslateAnswer,ModelReply,ToolReply,ToolRequest,HTTPRequest,HTTPResponse,RequestPatch,CallPatch,Splice,LocalValue,LocalVersion,Custom,Event,Error,Approval,Description,ConfigureInput,Sent,Control BeforeAgentInput,BeforeModelRewriteStateInput,BeforeModelInput,WrapModelInput,OnChunkInput,AfterModelInput,AfterModelRewriteStateInput,BeforeToolInput,WrapToolCallInput,GateToolInput,AfterToolInput,ToolMessagesInput,AfterToolsInput,AfterAgentInput,ObserveInput,CallToolInput,TranslateInput,ConfigureInput,ModelReply,ToolReply,HTTPResponse,LocalValue,LocalVersion,Error,Received,Message,Response,Result BeforeAgentAnswer,BeforeModelRewriteStateAnswer,BeforeModelAnswer,WrapModelAnswer,OnChunkAnswer,AfterModelAnswer,AfterModelRewriteStateAnswer,BeforeToolAnswer,WrapToolCallAnswer,GateToolAnswer,AfterToolAnswer,ToolMessagesAnswer,AfterToolsAnswer,AfterAgentAnswer,ObserveAnswer,CallToolAnswer,TranslateAnswer,RequestPatch,CallPatch,Sent,Custom,ToolRequest,HTTPRequest,Control,Error,Description,Message,Response,Result,ConfigureAnswer json.go

// A value is a type of this package that reads and writes its JSON itself. The
// methods of most are generated, in json.go. They hold to the rules of Decode.
type value interface {
	readValue(s *scanner) error
	writeValue(w *writer)
}

// An object is a value that is a JSON object with certain fields.
type object interface {
	fieldNames() []string
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
	switch c := s.peek(); c {
	case first:
		return false, nil
	case 'n':
		return true, s.literal("null")
	case '{', '[', '"', 't', 'f', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return false, s.errorf("want %s, got %s", want, jsonKind(c))
	default:
		return false, s.value(nil) // which says what is wrong
	}
}

// fields reads an object field by field.
func (s *scanner) fields(x object) error {
	f := fieldSet{names: x.fieldNames()}
	_, err := s.members(func(key []byte) error { return s.fieldOf(x, &f, key) })
	return err
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
		raw = s.unescape(raw)
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

// A fieldSet is which fields of an object have been there.
type fieldSet struct {
	names   []string
	next    int // where the next field is looked for first: they mostly come in order
	seen    uint64
	unknown keySet
}

// index is the number of a field; -1 if there is none of that name.
func (f *fieldSet) index(key []byte) int {
	for range f.names {
		i := f.next
		if f.next++; f.next == len(f.names) {
			f.next = 0
		}
		if f.names[i] == string(key) {
			return i
		}
	}
	return -1
}

// fieldOf reads the field of a key, which may be none of the object's.
func (s *scanner) fieldOf(x object, f *fieldSet, key []byte) error {
	if i := f.index(key); i >= 0 {
		if f.seen&(1<<i) != 0 {
			return s.errorf("key %q stands twice", cut(string(key), 64))
		}
		f.seen |= 1 << i
		if err := s.colon(); err != nil {
			return err
		}
		return x.readField(s, i)
	}
	name := string(key)
	if !f.unknown.add(key) {
		return s.errorf("key %q stands twice", cut(name, 64))
	}
	if err := s.colon(); err != nil {
		return err
	}
	for _, known := range f.names {
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
	*v = Clone(s.b[start:s.i])
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
	switch {
	case escaped(raw):
		raw = s.unescape(raw)
		*v = T(unsafe.String(unsafe.SliceData(raw), len(raw))) // nobody else has it
	case len(raw) > pieceBytes:
		raw = Clone(raw)
		*v = T(unsafe.String(unsafe.SliceData(raw), len(raw)))
	default:
		*v = T(raw)
	}
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
	var list []T
	absent, err := s.elements(func() error {
		var zero T
		list = append(list, zero)
		return read(s, &list[len(list)-1])
	})
	switch {
	case absent || err != nil:
		return err
	case list == nil:
		list = []T{}
	}
	*v = list
	return nil
}

// elements reads an array, each of its elements by read.
func (s *scanner) elements(read func() error) (absent bool, err error) {
	if absent, err = s.begins('[', "an array"); absent || err != nil {
		return absent, err
	}
	s.i++
	s.space()
	if s.peek() == ']' {
		s.i++
		return false, nil
	}
	if err := s.push(segment{}); err != nil {
		return false, err
	}
	for n := 0; ; n++ {
		s.path[len(s.path)-1].index = n
		if n >= MaxElements {
			return false, s.errorf("an array of more than %d elements", MaxElements)
		}
		s.space()
		if err := read(); err != nil {
			return false, err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case ']':
			s.i++
			s.pop()
			return false, nil
		default:
			return false, s.errorf("want , or ] in an array")
		}
	}
}

func readMap[M ~map[K]V, K ~string, V any](s *scanner, v *M, read func(*scanner, *V) error) error {
	m := M{}
	absent, err := s.members(func(key []byte) error {
		if _, twice := m[K(key)]; twice {
			return s.errorf("key %q stands twice", cut(string(key), 64))
		}
		if err := s.colon(); err != nil {
			return err
		}
		var one V
		err := read(s, &one)
		m[K(key)] = one
		return err
	})
	if absent || err != nil {
		return err
	}
	*v = m
	return nil
}

// members reads an object, each of its members by read, which is given the key.
func (s *scanner) members(read func(key []byte) error) (absent bool, err error) {
	if absent, err = s.begins('{', "an object"); absent || err != nil {
		return absent, err
	}
	s.i++
	s.space()
	if s.peek() == '}' {
		s.i++
		return false, nil
	}
	if err := s.push(segment{}); err != nil {
		return false, err
	}
	for {
		key, err := s.rawKey()
		if err != nil {
			return false, err
		}
		if err := read(key); err != nil {
			return false, err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.i++
		case '}':
			s.i++
			s.pop()
			return false, nil
		default:
			return false, s.errorf("want , or } in an object")
		}
	}
}

func escaped(raw []byte) bool { return bytes.IndexByte(raw, '\\') >= 0 }

// unescape is the text of a string that was checked, or the beginning of it if
// nobody wants it any more.
func (s *scanner) unescape(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	asked := stride
	for i := 0; i < len(raw) && s.stopped == nil; {
		if i >= asked {
			asked = i + stride
			s.ask()
		}
		if raw[i] == '\\' {
			out, i = unescape(out, raw, i)
		} else {
			out = append(out, raw[i])
			i++
		}
	}
	return out
}

// unescape appends what the escape at i says, and returns where it ends. Only
// what was not checked has escapes that are cut off.
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
