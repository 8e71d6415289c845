//go:build !wasip1 && !guest

package abi

import (
	"reflect"
	"strconv"
	"strings"
	"unsafe"
)

// Decoding of this package's types for a host: generated code for each type, with the
// strictness of Decode. It would make a module a third larger for little use, so modules
// use guest.go instead.

// A strict is a value that can also decode its JSON. Most of the methods are generated,
// in jsonread.go.
type strict interface {
	value
	readValue(s *scanner) error
}

func (s *scanner) decodeKnown(v any) (unknown []string, err error) {
	fresh := reflect.New(reflect.TypeOf(v).Elem())
	if err := s.whole(fresh.Interface().(strict)); err != nil || s.stopped != nil {
		return nil, err
	}
	reflect.ValueOf(v).Elem().Set(fresh.Elem())
	return s.unknown, nil
}

// An object is a value that is encoded as a JSON object with certain fields.
type object interface {
	fieldNames() []string
	readField(s *scanner, i int) error
}

// A keeper is an object that stores the fields it does not know.
type keeper interface {
	keep(name string, raw []byte)
}

// whole reads a text that consists of one value.
func (s *scanner) whole(v strict) error {
	s.space()
	if s.i == len(s.b) {
		return s.errorAt("empty; want a JSON value")
	}
	if err := v.readValue(s); err != nil {
		return err
	}
	s.space()
	if s.i < len(s.b) {
		return s.errorAt("unexpected text after the JSON value")
	}
	return nil
}

// begins checks the first byte of a value. It skips null and reports it as absent. Other
// values must begin with first.
func (s *scanner) begins(first byte, want string) (absent bool, err error) {
	switch c := s.peek(); c {
	case first:
		return false, nil
	case 'n':
		return true, s.literal("null")
	case '{', '[', '"', 't', 'f', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return false, s.errorAt("want " + want + ", got " + jsonKind(c))
	default:
		return false, s.value(nil) // returns the syntax error
	}
}

// fields reads an object field by field.
func (s *scanner) fields(x object) error {
	f := fieldSet{names: x.fieldNames()}
	_, err := s.members(func(key []byte) error { return s.fieldOf(x, &f, key) })
	return err
}

// A fieldSet records which fields of an object have been read.
type fieldSet struct {
	names   []string
	next    int // where to start searching: fields usually arrive in order
	seen    uint64
	unknown keySet
}

// index returns the index of the field called key, or -1 if there is none.
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

// fieldOf reads the value of key, which may be unknown to the object.
func (s *scanner) fieldOf(x object, f *fieldSet, key []byte) error {
	if i := f.index(key); i >= 0 {
		if f.seen&(1<<i) != 0 {
			return s.duplicateKeyError(string(key))
		}
		f.seen |= 1 << i
		if err := s.colon(); err != nil {
			return err
		}
		return x.readField(s, i)
	}
	name := string(key)
	if !f.unknown.add(key) {
		return s.duplicateKeyError(name)
	}
	if err := s.colon(); err != nil {
		return err
	}
	for _, known := range f.names {
		if strings.EqualFold(known, name) {
			return s.errorAt("key " + strconv.Quote(name) + " differs from " + strconv.Quote(known) + " in case only")
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

// raw reads any value and stores a copy of its text.
func (s *scanner) raw(v *JSON) error {
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
		*v = T(unsafe.String(unsafe.SliceData(raw), len(raw))) // raw is a copy that is not shared
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
		return s.errorAt("number " + string(s.b[start:s.i]) + " does not fit; want a whole number in range")
	}
	return nil
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

// elements reads an array. It calls read for each element.
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
			return false, s.errorAt("an array of more than " + strconv.Itoa(MaxElements) + " elements")
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
			return false, s.errorAt("want , or ] in an array")
		}
	}
}

func readMap[M ~map[K]V, K ~string, V any](s *scanner, v *M, read func(*scanner, *V) error) error {
	m := M{}
	absent, err := s.members(func(key []byte) error {
		if _, twice := m[K(key)]; twice {
			return s.duplicateKeyError(string(key))
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

// members reads an object. It calls read with each key.
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
	if err := s.push(segment{key: noKey}); err != nil {
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
			return false, s.errorAt("want , or } in an object")
		}
	}
}

func (c *Content) readValue(s *scanner) error {
	*c = Content{}
	switch first := s.peek(); first {
	case 'n':
		return s.literal("null")
	case '"':
		c.kind = contentText
		return readString(s, &c.text)
	case '[':
		c.kind = contentParts
		return readSlice(s, &c.parts, func(s *scanner, p *Part) error { return p.readValue(s) })
	default:
		if err := s.value(nil); err != nil {
			return err
		}
		return s.errorAt("content must be a string, null or an array of parts")
	}
}

func (p *ListPatch) readValue(s *scanner) error {
	*p = ListPatch{}
	switch s.peek() {
	case '[':
		p.Whole = true
		return readSlice(s, &p.Replace, func(s *scanner, m *Message) error { return m.readValue(s) })
	case '{', 'n':
		var o spliceObject
		err := s.fields(&o)
		p.Splice = o.Splice
		return err
	default:
		if err := s.value(nil); err != nil {
			return err
		}
		return s.errorAt(`messages must be {"splice": [...]} or an array of messages`)
	}
}

func (o *spliceObject) fieldNames() []string { return []string{"splice"} }

func (o *spliceObject) readField(s *scanner, _ int) error {
	return readSlice(s, &o.Splice, func(s *scanner, x *Splice) error { return x.readValue(s) })
}

func (p *ToolsPatch) readValue(s *scanner) error {
	*p = ToolsPatch{}
	switch s.peek() {
	case '[':
		p.Whole = true
		return readSlice(s, &p.Replace, func(s *scanner, t *Tool) error { return t.readValue(s) })
	case '{', 'n':
		var o toolsObject
		err := s.fields(&o)
		p.Add, p.Remove = o.Add, o.Remove
		return err
	default:
		if err := s.value(nil); err != nil {
			return err
		}
		return s.errorAt(`tools must be {"add": [...], "remove": [...]} or an array of tools`)
	}
}

func (o *toolsObject) fieldNames() []string { return []string{"add", "remove"} }

func (o *toolsObject) readField(s *scanner, i int) error {
	if i == 0 {
		return readSlice(s, &o.Add, func(s *scanner, t *Tool) error { return t.readValue(s) })
	}
	return readSlice(s, &o.Remove, readString[string])
}

// unmarshal decodes a value of this package for encoding/json, which has already
// validated the text.
func unmarshal(b []byte, v strict) error {
	s := scanner{b: b}
	return s.whole(v)
}
