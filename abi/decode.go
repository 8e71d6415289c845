package abi

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"
)

// Decode decodes the JSON text b into v. It is strict: b must be valid UTF-8, a single
// value, nested at most [MaxDepth] levels deep, without a number literal longer than
// [MaxNumber] bytes, without duplicate keys, without keys that differ from a known key
// only in case, and with each value of its field's type. null counts as absent. If Decode
// fails, it leaves v unchanged. The error is a [*DecodeError] if its position is known.
//
// Keys that v does not have are not an error; Decode returns their paths.
func Decode(b []byte, v any) (unknown []string, err error) { return DecodeUntil(b, v, nil) }

// DecodeUntil is like Decode, but calls stop every 64 KiB of text. If stop returns an
// error, decoding ends with that error.
func DecodeUntil(b []byte, v any, stop func() error) (unknown []string, err error) {
	s := newScanner(b, stop)
	unknown, err = s.decode(v)
	if s.stopped != nil {
		unknown, err = nil, s.stopped
	}
	s.release()
	return unknown, err
}

func (s *scanner) decode(v any) (unknown []string, err error) {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer {
		return nil, errors.New("decode: the target must be a pointer")
	}
	if known := valueOf(v); known != nil {
		return s.decodeKnown(v)
	}
	return s.decodeValue(v)
}

// Valid returns the error that Decode would return for b whatever its target type.
func Valid(b []byte) error { return ValidUntil(b, nil) }

// ValidUntil is like Valid, but calls stop as DecodeUntil does.
func ValidUntil(b []byte, stop func() error) error {
	s := newScanner(b, stop)
	err := s.document(nil)
	if s.stopped != nil {
		err = s.stopped
	}
	s.release()
	return err
}

// eachField calls fn with each field of the object b, which must be valid JSON.
func eachField(b []byte, fn func(name string, value []byte) error) error {
	s := scanner{b: b}
	s.field = fn
	return s.document(nil)
}

// A typeInfo describes a Go type to the scanner.
type typeInfo struct {
	kind   reflect.Kind // reflect.Invalid accepts any value
	fields map[string]reflect.Type
	elem   reflect.Type
	open   bool // unknown fields are stored
	shape  func(first byte) reflect.Type
}

// opener is a type that stores the fields it does not know.
type opener interface{ open() }

// shaper is a type that has several JSON forms. shape returns the type of the form that
// starts with the byte first, or nil to accept any value.
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

// wants returns which JSON the type accepts, and whether it accepts a value that begins
// with first.
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

// enterType checks the first byte of a value against type t and returns the form of the
// value. The scanner calls it before each value of a known type.
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
		return nil, s.errorAt("want " + want + ", got " + jsonKind(first))
	}
	return info, nil
}

func (info *typeInfo) element() reflect.Type { return info.elem }

// member returns the type of an object's field, or nil for an unknown field, which it
// records.
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
			return nil, s.errorAt("key " + strconv.Quote(key) + " differs from " + strconv.Quote(name) + " in case only")
		}
	}
	if !info.open && len(s.unknown) < maxUnknown {
		s.unknown = append(s.unknown, s.where())
	}
	return nil, nil
}

// maxUnknown is the maximum number of unknown keys that are reported.
const maxUnknown = 16

func (s *scanner) errorAt(text string) error {
	if at := s.where(); at != "" {
		text = at + ": " + text
	}
	return &DecodeError{Offset: s.i, text: text}
}

// duplicateKeyError returns the error for a duplicate key.
func (s *scanner) duplicateKeyError(key string) error {
	return s.errorAt("key " + quote(cut(key, 64)) + " is duplicated")
}

// A DecodeError describes invalid JSON text and its position.
type DecodeError struct {
	Offset int // byte offset of the error
	text   string
}

// Error returns the reason, with the path and the offset.
func (e *DecodeError) Error() string { return e.text + " (at byte " + strconv.Itoa(e.Offset) + ")" }

// Reason returns the message without the offset.
func (e *DecodeError) Reason() string { return e.text }
