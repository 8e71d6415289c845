package jsoncodec

import (
	"encoding"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Values of types that module authors define, such as configurations, arguments and stored values,
// are read and written by reflection, with the tags and interfaces of encoding/json. Without
// encoding/json a module is a third smaller, and these values are cheaper to process.

// The interfaces of encoding/json.
type (
	jsonMarshaler   interface{ MarshalJSON() ([]byte, error) }
	jsonUnmarshaler interface{ UnmarshalJSON(b []byte) error }
)

var (
	marshals       = reflect.TypeFor[jsonMarshaler]()
	unmarshals     = reflect.TypeFor[jsonUnmarshaler]()
	marshalsText   = reflect.TypeFor[encoding.TextMarshaler]()
	unmarshalsText = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// An authorField is a field of a struct, or of a struct embedded in it.
type authorField struct {
	name      string
	index     []int
	t         reflect.Type
	omitEmpty bool
	omitZero  bool
	quoted    bool // encoded as a string: the option "string" of a number or boolean
	tagged    bool
}

var authorFields sync.Map // reflect.Type -> []authorField

// fieldsOfType returns the JSON fields of a struct, in order.
func fieldsOfType(t reflect.Type) []authorField {
	if have, ok := authorFields.Load(t); ok {
		return have.([]authorField)
	}
	all := collectFields(nil, t, nil, nil)
	var out []authorField
	for i := range all {
		if dominant(all, i) {
			out = append(out, all[i])
		}
	}
	authorFields.Store(t, out)
	return out
}

func collectFields(out []authorField, t reflect.Type, index []int, inside []reflect.Type) []authorField {
	if slices.Contains(inside, t) {
		return out
	}
	inside = append(slices.Clip(inside), t)
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		at := append(slices.Clip(index), i)
		elem := f.Type
		if f.Anonymous && elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		embedded := f.Anonymous && elem.Kind() == reflect.Struct
		switch {
		case tag == "-" || !f.IsExported() && !embedded:
			continue
		case embedded && name == "":
			if f.IsExported() || f.Type == elem {
				out = collectFields(out, elem, at, inside)
			}
			continue
		case !f.IsExported():
			continue
		}
		one := authorField{name: name, index: at, t: f.Type, tagged: name != ""}
		if name == "" {
			one.name = f.Name
		}
		for o := range strings.SplitSeq(options, ",") {
			one.omitEmpty = one.omitEmpty || o == "omitempty"
			one.omitZero = one.omitZero || o == "omitzero"
			one.quoted = one.quoted || o == "string" && quotable(f.Type)
		}
		out = append(out, one)
	}
	return out
}

func quotable(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() >= reflect.Bool && t.Kind() <= reflect.Float64 && t.Kind() != reflect.Uintptr ||
		t.Kind() == reflect.String
}

// dominant reports whether field i hides the other fields with its name: it is the least
// deeply nested field or, among equally nested fields, the only tagged one.
func dominant(all []authorField, i int) bool {
	for j := range all {
		if j == i || all[j].name != all[i].name {
			continue
		}
		a, b := len(all[i].index), len(all[j].index)
		if b < a || a == b && (all[j].tagged || !all[i].tagged) {
			return false
		}
	}
	return true
}

// fieldAt returns the field of v at index. If an embedded pointer on the way is nil, it allocates
// the pointer if create is set. If create is not set, or if the pointer cannot be set, fieldAt
// returns the zero Value.
func fieldAt(v reflect.Value, index []int, create bool) reflect.Value {
	for n, i := range index {
		if n > 0 && v.Kind() == reflect.Pointer {
			if v.IsNil() {
				if !create || !v.CanSet() {
					return reflect.Value{}
				}
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// A valueError is the error for a JSON value that a Go type cannot hold, with its path.
type valueError struct {
	path string
	text string
}

func (e *valueError) Error() string {
	if e.path == "" {
		return e.text
	}
	return e.path + ": " + e.text
}

func newValueError(text string) error { return &valueError{text: text} }

// wantError returns an error that reports the wanted type and the kind of the value in the text.
func (t *Parser) wantError(what string) error {
	if t.unknown != nil {
		return newValueError("want " + what + ", got " + Kind(t.Space()))
	}
	return newValueError(Cut(string(t.Raw()), 64) + " does not fit; want " + what)
}

// isNumber reports whether t is json.Number.
func isNumber(t reflect.Type) bool {
	return t.Kind() == reflect.String && t.Name() == "Number" && t.PkgPath() == "encoding/json"
}

// within prepends step to the path of an error.
func within(err error, step string) error {
	e, ok := err.(*valueError) //nolint:errorlint // the error is never wrapped
	if !ok {
		return err
	}
	e.path = joined(step, e.path)
	return e
}

// joined prepends step to a path, with a dot before a field but not before an index.
func joined(step, path string) string {
	if path != "" && path[0] != '[' {
		step += "."
	}
	return step + path
}
