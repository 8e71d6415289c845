package abi

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Decode reads the JSON text b into v, strictly: valid UTF-8 and nothing
// behind the value, at most [MaxDepth] levels, no number literal longer than
// [MaxNumber], no key twice, no key that differs from a known one in case
// only, and every value of its field's type; null counts as absent. Nothing
// of v is set unless all of b holds. The error is a [*DecodeError] where the
// place is known.
//
// Keys that v does not have are not an error; their paths are returned.
func Decode(b []byte, v any) (unknown []string, err error) { return DecodeUntil(b, v, nil) }

// DecodeUntil is Decode for who has not much time: every 64 KiB it asks stop,
// and returns the error that it gives, if any.
func DecodeUntil(b []byte, v any, stop func() error) (unknown []string, err error) {
	s := newScanner(b, stop)
	unknown, err = s.decode(v)
	if s.stopped != nil {
		unknown, err = nil, s.stopped
	}
	s.giveBack()
	return unknown, err
}

func (s *scanner) decode(v any) (unknown []string, err error) {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil, errors.New("decode into something that is not a pointer")
	}
	if known := valueOf(v); known != nil {
		return s.decodeKnown(v)
	}
	return s.decodeValue(v)
}

// Valid reports what Decode would refuse in b whatever it is read into.
func Valid(b []byte) error { return ValidUntil(b, nil) }

// ValidUntil is Valid as DecodeUntil is Decode.
func ValidUntil(b []byte, stop func() error) error {
	s := newScanner(b, stop)
	err := s.document(nil)
	if s.stopped != nil {
		err = s.stopped
	}
	s.giveBack()
	return err
}

// eachField calls fn with each field of the object b, which is valid JSON.
func eachField(b []byte, fn func(name string, value []byte) error) error {
	s := scanner{b: b}
	s.field = fn
	return s.document(nil)
}

// A typeInfo is what the scanner knows of a Go type.
type typeInfo struct {
	kind   reflect.Kind // reflect.Invalid: anything goes
	fields map[string]reflect.Type
	elem   reflect.Type
	open   bool // unknown fields are kept
	shape  func(first byte) reflect.Type
}

// opener is a type that keeps the fields it does not know.
type opener interface{ open() }

// shaper is a type whose JSON has several forms, told by their first byte;
// nil stands for any.
type shaper interface{ shape(first byte) reflect.Type }

var typeInfos sync.Map // reflect.Type -> *typeInfo

var rawMessage = reflect.TypeFor[JSON]()

func typeOf(t reflect.Type) *typeInfo {
	if info, ok := typeInfos.Load(t); ok {
		return info.(*typeInfo)
	}
	info := newTypeInfo(t)
	typeInfos.Store(t, info)
	return info
}

func newTypeInfo(t reflect.Type) *typeInfo {
	zero := reflect.New(t)
	if s, ok := zero.Interface().(shaper); ok {
		return &typeInfo{shape: s.shape}
	}
	_, open := zero.Interface().(opener)
	if _, ok := zero.Interface().(jsonUnmarshaler); t == rawMessage || ok && !open {
		return &typeInfo{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.Interface:
		return &typeInfo{}
	case reflect.Slice, reflect.Array, reflect.Map:
		return &typeInfo{kind: t.Kind(), elem: t.Elem()}
	case reflect.Struct:
		info := &typeInfo{kind: reflect.Struct, fields: map[string]reflect.Type{}, open: open}
		addFields(info.fields, t)
		return info
	default:
		return &typeInfo{kind: t.Kind()}
	}
}

func addFields(fields map[string]reflect.Type, t reflect.Type) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && name == "":
			addFields(fields, f.Type)
		case name == "":
			fields[f.Name] = f.Type
		default:
			fields[name] = f.Type
		}
	}
}

// wants says which JSON the type takes, and whether it takes a value that
// begins with first.
func (t *typeInfo) wants(first byte) (string, bool) {
	switch t.kind {
	case reflect.Invalid:
		return "", true
	case reflect.String:
		return "a string", first == '"'
	case reflect.Bool:
		return "true or false", first == 't' || first == 'f'
	case reflect.Struct, reflect.Map:
		return "an object", first == '{'
	case reflect.Slice, reflect.Array:
		return "an array", first == '['
	default:
		return "a number", first == '-' || first >= '0' && first <= '9'
	}
}

func jsonKind(first byte) string {
	switch first {
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case '{':
		return "an object"
	case '[':
		return "an array"
	default:
		return "a number"
	}
}

// enterType is what the scanner does before each value of a type, which begins with
// first.
func enterType(s *scanner, t reflect.Type, first byte) (form, error) {
	info := typeOf(t)
	if info.shape != nil {
		form := info.shape(first)
		if form == nil {
			return nil, nil
		}
		info = typeOf(form)
	}
	if first == 'n' {
		return nil, nil
	}
	if want, ok := info.wants(first); !ok {
		return nil, s.refuse("want " + want + ", got " + jsonKind(first))
	}
	return info, nil
}

func (info *typeInfo) element() reflect.Type { return info.elem }

// member finds the type of an object's field, and notes a field that the
// type does not have.
func (info *typeInfo) member(s *scanner, key string) (reflect.Type, error) {
	if info.kind == reflect.Invalid {
		return nil, nil
	}
	if info.kind == reflect.Map {
		return info.elem, nil
	}
	if t, ok := info.fields[key]; ok {
		return t, nil
	}
	for name := range info.fields {
		if strings.EqualFold(name, key) {
			return nil, s.refuse("key " + strconv.Quote(key) + " differs from " + strconv.Quote(name) + " in case only")
		}
	}
	if !info.open && len(s.unknown) < maxUnknown {
		s.unknown = append(s.unknown, s.where())
	}
	return nil, nil
}

// maxUnknown is how many unknown keys are reported.
const maxUnknown = 16

func (s *scanner) refuse(text string) error {
	if at := s.where(); at != "" {
		text = at + ": " + text
	}
	return &DecodeError{Offset: s.i, text: text}
}

// twice refuses a key that was there already.
func (s *scanner) twice(key string) error {
	return s.refuse("key " + quote(cut(key, 64)) + " stands twice")
}

// A DecodeError says what of a JSON text is refused, and where.
type DecodeError struct {
	Offset int // how many bytes come before the place
	text   string
}

// Error returns what is refused, with the path to it and the offset.
func (e *DecodeError) Error() string { return e.text + " (at byte " + strconv.Itoa(e.Offset) + ")" }

// Reason is what Error returns, without the offset.
func (e *DecodeError) Reason() string { return e.text }
