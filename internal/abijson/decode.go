package abijson

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// Decode decodes the JSON text b into v. It is strict: b must be valid UTF-8, a single value, nested at most
// [jsoncodec.MaxDepth] levels deep, without a number literal longer than [jsoncodec.MaxNumber] bytes, without more
// than [jsoncodec.MaxElements] elements in an array of v, without duplicate keys, without keys that differ from a
// known key only in case, and with each value of its field's type. null counts as absent. If Decode fails, it leaves
// v unchanged. The error is a [*jsoncodec.DecodeError] if its position is known.
//
// Keys that v has no field for are not an error: unknown has the paths of the first 16.
func Decode(b []byte, v any) (unknown []string, err error) { return DecodeUntil(b, v, nil) }

// DecodeUntil is like Decode, but calls stop every 64 KiB of text. If stop returns an error, DecodeUntil returns that
// error. A nil stop is not called.
func DecodeUntil(b []byte, v any, stop func() error) (unknown []string, err error) {
	s := jsoncodec.NewScanner(b, stop)
	unknown, err = decode(s, v)
	if s.Stopped() != nil {
		unknown, err = nil, s.Stopped()
	}
	s.Release()
	return unknown, err
}

func decode(s *jsoncodec.Scanner, v any) (unknown []string, err error) {
	if p := reflect.ValueOf(v); p.Kind() != reflect.Pointer || p.IsNil() {
		return nil, errors.New("decode: the target must be a non-nil pointer")
	}
	known, err := decodeKnown(s, v)
	if !known {
		return decodeValue(s, v)
	}
	if err != nil {
		return nil, err
	}
	return s.Unknown, nil
}

// DecodeValue is Decode for types that module authors define. It does not use the generated code.
func DecodeValue(b []byte, v any) (unknown []string, err error) {
	return decodeValue(&jsoncodec.Scanner{B: b}, v)
}

func decodeValue(s *jsoncodec.Scanner, v any) (unknown []string, err error) {
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return nil, errors.New("decode: the target must be a non-nil pointer")
	}
	s.Enter = enterType
	if err := s.Document(p.Type().Elem()); err != nil || s.Stopped() != nil {
		return nil, err
	}
	fresh := reflect.New(p.Type().Elem())
	if err := ReadValue(jsoncodec.Clone(s.B), fresh.Interface()); err != nil {
		return nil, err
	}
	p.Elem().Set(fresh.Elem())
	return s.Unknown, nil
}

// A typeInfo describes a Go type to the scanner.
type typeInfo struct {
	kind   reflect.Kind // reflect.Invalid accepts any value
	fields map[string]reflect.Type
	elem   reflect.Type
	open   bool // unknown fields are stored
	shape  func(first byte) reflect.Type
}

// forms returns nil unless the values of type t have several forms. For such a type, it returns a
// function that selects the type of a value's form by the first byte of the value. The function
// returns nil to accept any value.
func forms(t reflect.Type) func(first byte) reflect.Type {
	switch t {
	case reflect.TypeFor[abi.Content]():
		return func(first byte) reflect.Type {
			if first == '[' {
				return reflect.TypeFor[[]abi.Part]()
			}
			return nil
		}
	case reflect.TypeFor[abi.ListPatch]():
		return func(first byte) reflect.Type {
			if first == '[' {
				return reflect.TypeFor[[]abi.Message]()
			}
			return reflect.TypeFor[struct {
				Splice []abi.Splice `json:"splice"`
			}]()
		}
	case reflect.TypeFor[abi.ToolsPatch]():
		return func(first byte) reflect.Type {
			if first == '[' {
				return reflect.TypeFor[[]abi.Tool]()
			}
			return reflect.TypeFor[struct {
				Add    []abi.Tool `json:"add"`
				Remove []string   `json:"remove"`
			}]()
		}
	default:
		return nil
	}
}

// keepsUnknown reports whether t has a field that stores unknown fields.
func keepsUnknown(t reflect.Type) bool {
	return t == reflect.TypeFor[abi.Message]() || t == reflect.TypeFor[abi.Part]() || t == reflect.TypeFor[abi.ToolCall]()
}

var typeInfos sync.Map // reflect.Type -> *typeInfo

var (
	rawMessage  = reflect.TypeFor[abi.JSON]()
	unmarshaler = reflect.TypeFor[interface{ UnmarshalJSON(b []byte) error }]()
)

func typeOf(t reflect.Type) *typeInfo {
	if info, ok := typeInfos.Load(t); ok {
		return info.(*typeInfo)
	}
	info := newTypeInfo(t)
	typeInfos.Store(t, info)
	return info
}

func newTypeInfo(t reflect.Type) *typeInfo {
	if shape := forms(t); shape != nil {
		return &typeInfo{shape: shape}
	}
	open := keepsUnknown(t)
	if t == rawMessage || !open && reflect.PointerTo(t).Implements(unmarshaler) {
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

// wants describes the JSON that the type accepts, for an error. It also reports whether the type
// accepts a value that begins with first.
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

// enterType checks the first byte of a value against type t and returns the form of the value, or nil for null and
// for values that are not checked further. The scanner calls it before each value of a known type.
func enterType(s *jsoncodec.Scanner, t reflect.Type, first byte) (jsoncodec.Form, error) {
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
		return nil, s.ErrorAt("want " + want + ", got " + jsoncodec.Kind(first))
	}
	return info, nil
}

// Element returns the type of the elements of a list or map.
func (t *typeInfo) Element() reflect.Type { return t.elem }

// Member returns the type of an object's field. For an unknown field, it returns nil, and records
// the field unless the type stores unknown fields. It returns an error if key differs from a known
// key only in case.
func (t *typeInfo) Member(s *jsoncodec.Scanner, key string) (reflect.Type, error) {
	if t.kind == reflect.Invalid {
		return nil, nil
	}
	if t.kind == reflect.Map {
		return t.elem, nil
	}
	if field, ok := t.fields[key]; ok {
		return field, nil
	}
	for name := range t.fields {
		if strings.EqualFold(name, key) {
			return nil, s.ErrorAt("key " + strconv.Quote(key) + " differs from " + strconv.Quote(name) + " in case only")
		}
	}
	if !t.open {
		s.AddUnknown()
	}
	return nil, nil
}
