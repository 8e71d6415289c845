//go:build !wasip1 && !guest

package jsoncodec

import (
	"strconv"
	"strings"
	"unsafe"
)

// An Object is a value that is encoded as a JSON object with certain fields.
type Object interface {
	// FieldNames returns the keys of the fields, in the usual order.
	FieldNames() []string
	// ReadField reads the value of field i.
	ReadField(s *Scanner, i int) error
}

// A Keeper is an Object that stores the fields that are not among its FieldNames.
type Keeper interface {
	// Keep stores the field called name. raw is a part of the text that is read.
	Keep(name string, raw []byte)
}

// Whole reads text that consists of one value into v.
func (s *Scanner) Whole(v interface{ ReadValue(s *Scanner) error }) error {
	return s.document(func() error { return v.ReadValue(s) })
}

// begins checks the first byte of a value. It skips null and reports it as absent. Other
// values must begin with first.
func (s *Scanner) begins(first byte, want string) (absent bool, err error) {
	switch c := s.Peek(); c {
	case first:
		return false, nil
	case 'n':
		return true, s.Literal("null")
	case '{', '[', '"', 't', 'f', '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return false, s.ErrorAt("want " + want + ", got " + Kind(c))
	default:
		return false, s.Value(nil) // returns the syntax error
	}
}

// Fields reads an object or null into x, field by field. null leaves x unchanged. Fields that x does
// not have go to x if it is a [Keeper]; otherwise their paths are recorded as unknown.
func (s *Scanner) Fields(x Object) error {
	f := fieldSet{names: x.FieldNames()}
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
func (s *Scanner) fieldOf(x Object, f *fieldSet, key []byte) error {
	if i := f.index(key); i >= 0 {
		if f.seen&(1<<i) != 0 {
			return s.duplicateKeyError(string(key))
		}
		f.seen |= 1 << i
		if err := s.colon(); err != nil {
			return err
		}
		return x.ReadField(s, i)
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
			return s.ErrorAt("key " + strconv.Quote(name) + " differs from " + strconv.Quote(known) + " in case only")
		}
	}
	start := s.I
	k, open := x.(Keeper)
	if !open {
		s.AddUnknown()
	}
	if err := s.Value(nil); err != nil {
		return err
	}
	if open {
		k.Keep(name, s.B[start:s.I])
	}
	return nil
}

// Raw reads any value and stores a copy of its text.
func (s *Scanner) Raw(v *[]byte) error {
	start := s.I
	if err := s.Value(nil); err != nil {
		return err
	}
	*v = Clone(s.B[start:s.I])
	return nil
}

// Bool reads true, false or null into v. null leaves v unchanged.
func (s *Scanner) Bool(v *bool) error {
	switch s.Peek() {
	case 't':
		*v = true
		return s.Literal("true")
	case 'f':
		*v = false
		return s.Literal("false")
	default:
		_, err := s.begins('t', "true or false")
		return err
	}
}

// ReadString reads a string or null into v. null leaves v unchanged.
func ReadString[T ~string](s *Scanner, v *T) error {
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

// ReadInt reads an integer or null into v. It fails if v cannot hold the integer. null leaves v
// unchanged.
func ReadInt[T ~int | ~int64 | ~int32](s *Scanner, v *T) error {
	c := s.Peek()
	if c != '-' && (c < '0' || c > '9') {
		_, err := s.begins('0', "a number")
		return err
	}
	start := s.I
	if err := s.number(); err != nil {
		return err
	}
	n, ok := parseInt(s.B[start:s.I])
	if *v = T(n); !ok || int64(*v) != n {
		return s.ErrorAt("number " + string(s.B[start:s.I]) + " does not fit; want a whole number in range")
	}
	return nil
}

// ReadPointer reads a value into a new T and sets v to it. null leaves v unchanged.
func ReadPointer[T any](s *Scanner, v **T, read func(*Scanner, *T) error) error {
	if s.Peek() == 'n' {
		return s.Literal("null")
	}
	*v = new(T)
	return read(s, *v)
}

// ReadSlice reads an array or null into v. It calls read for each element. null leaves v unchanged.
func ReadSlice[T any](s *Scanner, v *[]T, read func(*Scanner, *T) error) error {
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

// elements reads an array or null, which it reports as absent. It calls read for each element.
func (s *Scanner) elements(read func() error) (absent bool, err error) {
	if absent, err = s.begins('[', "an array"); absent || err != nil {
		return absent, err
	}
	s.I++
	s.space()
	if s.Peek() == ']' {
		s.I++
		return false, nil
	}
	if err := s.push(segment{}); err != nil {
		return false, err
	}
	for n := 0; ; n++ {
		s.path[len(s.path)-1].index = n
		if n >= MaxElements {
			return false, s.ErrorAt("an array of more than " + strconv.Itoa(MaxElements) + " elements")
		}
		s.space()
		if err := read(); err != nil {
			return false, err
		}
		s.space()
		switch s.Peek() {
		case ',':
			s.I++
		case ']':
			s.I++
			s.pop()
			return false, nil
		default:
			return false, s.ErrorAt("want , or ] in an array")
		}
	}
}

// ReadMap reads an object or null into v. It calls read for each value. null leaves v unchanged.
func ReadMap[M ~map[K]V, K ~string, V any](s *Scanner, v *M, read func(*Scanner, *V) error) error {
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

// members reads an object or null, which it reports as absent. It calls read with each key, and read
// must read the colon and the value.
func (s *Scanner) members(read func(key []byte) error) (absent bool, err error) {
	if absent, err = s.begins('{', "an object"); absent || err != nil {
		return absent, err
	}
	s.I++
	s.space()
	if s.Peek() == '}' {
		s.I++
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
		switch s.Peek() {
		case ',':
			s.I++
		case '}':
			s.I++
			s.pop()
			return false, nil
		default:
			return false, s.ErrorAt("want , or } in an object")
		}
	}
}
