package jsoncodec

import (
	"encoding"
	"encoding/base64"
	"errors"
	"reflect"
	"strconv"
)

// ReadValue decodes a value of any Go type from text that is known to be well-formed.
// Values that b does not have remain unchanged. If it fails, v may be partly set.
func ReadValue(b []byte, v any) error {
	t := Parser{B: b, Copy: true}
	err := t.Value(v)
	if broken := t.End(); err == nil {
		err = broken
	}
	return err
}

// ReadObject is ReadValue for a struct. It calls keep with each field of the object that
// the struct does not have.
func ReadObject(b []byte, v any, keep func(name string, raw []byte)) error {
	t := Parser{B: b, Copy: true, keep: keep}
	err := t.Value(v)
	if broken := t.End(); err == nil {
		err = broken
	}
	return err
}

// Value reads a value of any Go type into v, which must be a pointer. It returns an error with the value's path if
// the text has a value of another type.
func (t *Parser) Value(v any) error {
	if t.Space(); t.common(v) {
		return nil
	}
	p := reflect.ValueOf(v)
	if p.Kind() != reflect.Pointer || p.IsNil() {
		return errors.New("decode: the target must be a non-nil pointer")
	}
	return t.author(p.Elem())
}

// ReadStrict is ReadValue for text written by people. It returns the paths of the first 16 keys that structs in v do
// not have. It fails if a field of a struct occurs twice, and for a key that differs from a field's key only in case.
// Strings in v may share memory with b.
func ReadStrict(b []byte, v any) (unknown []string, err error) {
	t := Parser{B: b, unknown: &unknown}
	t.Space()
	if err := t.author(reflect.ValueOf(v).Elem()); err != nil {
		if e, ok := err.(*valueError); ok { //nolint:errorlint // the error is never wrapped
			e.text += " (at byte " + strconv.Itoa(t.I) + ")"
		}
		return nil, err
	}
	return unknown, t.End()
}

// common reads a map of one of the types that modules store most often, without reflection. It
// reports whether v is such a map, and has been read.
func (t *Parser) common(v any) bool {
	switch v := v.(type) {
	case *map[string]int:
		if *v != nil || t.Space() != '{' {
			return false
		}
		for *v = (map[string]int{}); t.Key(); {
			key := t.mapKey()
			(*v)[key] = int(t.Int())
		}
	case *map[string]string:
		if *v != nil || t.Space() != '{' {
			return false
		}
		for *v = (map[string]string{}); t.Key(); {
			key := t.mapKey()
			(*v)[key] = t.Text()
		}
	default:
		return false
	}
	return true
}

// mapKey returns the last key, for use as the key of a map. The key does not share memory with B if
// Copy is set.
func (t *Parser) mapKey() string {
	if t.Copy {
		return string([]byte(t.Last))
	}
	return t.Last
}

// author reads a value by reflection.
func (t *Parser) author(v reflect.Value) error {
	typ := v.Type()
	if mayHaveMethods(typ) && v.CanAddr() && reflect.PointerTo(typ).NumMethod() > 0 {
		if done, err := t.byMethod(v, typ); done {
			return err
		}
	}
	switch c := t.Space(); typ.Kind() {
	case reflect.Interface:
		return t.authorAny(v)
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if c == 'n' && t.Null() {
			v.SetZero()
			return nil
		}
	default:
		if c == 'n' && t.Null() {
			return nil
		}
	}
	switch typ.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(typ.Elem()))
		}
		return t.author(v.Elem())
	case reflect.Struct:
		return t.authorStruct(v)
	case reflect.Map:
		return t.authorMap(v)
	case reflect.Slice, reflect.Array:
		return t.authorList(v)
	case reflect.String:
		if c := t.Space(); c != '"' {
			if !isNumber(typ) || c != '-' && (c < '0' || c > '9') {
				return t.wantError("a string")
			}
			v.SetString(string(t.Raw()))
			return nil
		}
		v.SetString(t.Text())
		return nil
	case reflect.Bool:
		if c := t.Space(); c != 't' && c != 'f' {
			return t.wantError("true or false")
		}
		v.SetBool(t.Bool())
		return nil
	default:
		if c := t.Space(); c != '-' && (c < '0' || c > '9') {
			return t.wantError("a number")
		}
		return setNumber(v, string(t.Raw()))
	}
}

// mayHaveMethods reports whether type t can have methods. It avoids a slower lookup.
func mayHaveMethods(t reflect.Type) bool {
	return t.PkgPath() != "" || t.Kind() == reflect.Struct
}

// byMethod reads a value whose type implements an interface of encoding/json. If the type implements
// none that applies, done is false and nothing is read.
func (t *Parser) byMethod(v reflect.Value, typ reflect.Type) (done bool, err error) {
	p := reflect.PointerTo(typ)
	if p.Implements(unmarshals) {
		return true, v.Addr().Interface().(jsonUnmarshaler).UnmarshalJSON(t.Raw())
	}
	if t.Space() == '"' && p.Implements(unmarshalsText) {
		return true, v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(t.Text()))
	}
	return false, nil
}

func setNumber(v reflect.Value, text string) error {
	switch v.Kind() {
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || v.OverflowInt(n) {
			return newValueError("number " + text + " does not fit; want a whole number in range")
		}
		v.SetInt(n)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || v.OverflowUint(n) {
			return newValueError("number " + text + " does not fit; want a whole number in range")
		}
		v.SetUint(n)
	case reflect.Float32, reflect.Float64:
		n, err := strconv.ParseFloat(text, v.Type().Bits())
		if err != nil {
			return newValueError("number " + text + " does not fit")
		}
		v.SetFloat(n)
	default:
		return newValueError("values of type " + v.Type().String() + " cannot be read")
	}
	return nil
}

// authorStruct reads an object into the struct v. If t.keep is set, it is called with the fields that
// the struct lacks. Otherwise they are skipped, and their keys recorded if unknown keys are collected.
func (t *Parser) authorStruct(v reflect.Value) error {
	if c := t.Space(); c != '{' {
		return t.wantError("an object")
	}
	keep := t.keep
	t.keep = nil // only for the outermost object
	fields := fieldsOfType(v.Type())
	next := 0
	var seen []bool
	if t.unknown != nil {
		seen = make([]bool, len(fields))
	}
	for {
		if !t.Key() {
			return nil
		}
		found := -1
		for range fields { // keys usually arrive in order
			if fields[next].name == t.Last {
				found = next
			}
			if next++; next == len(fields) {
				next = 0
			}
			if found >= 0 {
				break
			}
		}
		if found < 0 {
			if keep != nil {
				keep(t.Last, t.Raw())
				continue
			}
			if err := t.noteUnknown(fields); err != nil {
				return err
			}
			t.Skip()
			continue
		}
		f := &fields[found]
		if seen != nil {
			if seen[found] {
				return duplicateKeyError(f.name)
			}
			seen[found] = true
		}
		place := fieldAt(v, f.index, true)
		if !place.IsValid() {
			t.Skip()
			continue
		}
		before := t.unknownCount()
		if err := t.authorField(place, f); err != nil {
			return within(err, f.name)
		}
		t.prefixUnknown(before, f.name)
	}
}

// noteUnknown records Last, a key that is none of fields. It fails instead if the key differs from
// a field's key only in case. It does nothing unless unknown keys are collected.
func (t *Parser) noteUnknown(fields []authorField) error {
	if t.unknown == nil {
		return nil
	}
	for i := range fields {
		if equalFoldASCII(fields[i].name, t.Last) {
			return newValueError("key " + quote(t.Last) + " differs from " + quote(fields[i].name) + " in case only")
		}
	}
	if len(*t.unknown) < maxUnknown {
		*t.unknown = append(*t.unknown, Cut(t.Last, 64))
	}
	return nil
}

// equalFoldASCII reports whether two keys are equal under ASCII case folding.
func equalFoldASCII(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if a[i] != b[i] && (a[i]|0x20 != b[i]|0x20 || a[i]|0x20 < 'a' || a[i]|0x20 > 'z') {
			return false
		}
	}
	return true
}

// unknownCount returns the number of unknown keys recorded.
func (t *Parser) unknownCount() int {
	if t.unknown == nil {
		return 0
	}
	return len(*t.unknown)
}

// prefixUnknown prepends step to the paths of the recorded unknown keys, starting at index before.
func (t *Parser) prefixUnknown(before int, step string) {
	for n := t.unknownCount(); before < n; before++ {
		(*t.unknown)[before] = joined(step, (*t.unknown)[before])
	}
}

func duplicateKeyError(key string) error {
	return newValueError("key " + quote(Cut(key, 64)) + " is duplicated")
}

func (t *Parser) authorField(v reflect.Value, f *authorField) error {
	if !f.quoted || t.Space() != '"' {
		return t.author(v)
	}
	inner := Parser{B: []byte(t.Text())}
	if err := inner.author(v); err != nil {
		return err
	}
	return inner.End()
}

func (t *Parser) authorMap(v reflect.Value) error {
	if c := t.Space(); c != '{' {
		return t.wantError("an object")
	}
	typ := v.Type()
	if v.IsNil() {
		v.Set(reflect.MakeMap(typ))
	}
	for {
		if !t.Key() {
			return nil
		}
		name := t.mapKey()
		key := reflect.New(typ.Key()).Elem()
		var err error
		switch {
		case reflect.PointerTo(typ.Key()).Implements(unmarshalsText):
			err = key.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(name))
		case typ.Key().Kind() == reflect.String:
			key.SetString(name)
		default:
			err = setNumber(key, name)
		}
		one := reflect.New(typ.Elem()).Elem()
		before := t.unknownCount()
		if err == nil {
			err = t.author(one)
		}
		if err != nil {
			return within(err, name)
		}
		t.prefixUnknown(before, name)
		v.SetMapIndex(key, one)
	}
}

func (t *Parser) authorList(v reflect.Value) error {
	typ := v.Type()
	switch c := t.Space(); {
	case c == '"' && typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Uint8:
		b, err := base64.StdEncoding.DecodeString(t.Text())
		if err != nil {
			return newValueError("is not base64")
		}
		v.SetBytes(b)
		return nil
	case c != '[':
		return t.wantError("an array")
	}
	slice := typ.Kind() == reflect.Slice
	list := v
	if slice {
		list = reflect.MakeSlice(typ, 0, 4)
	}
	t.I++
	n := 0
	for ; t.more(); n++ {
		var one reflect.Value
		switch {
		case slice:
			list = reflect.Append(list, reflect.Zero(typ.Elem()))
			one = list.Index(n)
		case n < v.Len():
			one = v.Index(n)
		default:
			t.Skip()
			continue
		}
		before := t.unknownCount()
		if err := t.author(one); err != nil {
			return within(err, "["+strconv.Itoa(n)+"]")
		}
		if t.unknownCount() > before {
			t.prefixUnknown(before, "["+strconv.Itoa(n)+"]")
		}
	}
	if slice {
		v.Set(list)
		return nil
	}
	for ; n < v.Len(); n++ {
		v.Index(n).SetZero()
	}
	return nil
}

// more advances to the next element of an array and reports whether there is one. The
// opening bracket must already be read.
func (t *Parser) more() bool {
	if t.Space() == ',' {
		t.I++
	}
	if t.Space() == ']' {
		t.I++
		return false
	}
	return !t.Bad
}

// authorAny reads a value into an interface.
func (t *Parser) authorAny(v reflect.Value) error {
	if !v.IsNil() && v.Elem().Kind() == reflect.Pointer && !v.Elem().IsNil() && t.Space() != 'n' {
		return t.author(v.Elem())
	}
	if v.NumMethod() > 0 {
		if t.Space() == 'n' && t.Null() {
			v.SetZero()
			return nil
		}
		return newValueError("values of type " + v.Type().String() + " cannot be read")
	}
	value, err := t.any()
	if err != nil {
		return err
	}
	if value == nil {
		v.SetZero()
		return nil
	}
	v.Set(reflect.ValueOf(value))
	return nil
}

// any reads a value as the corresponding Go type: map[string]any, []any, string, float64,
// bool or nil.
func (t *Parser) any() (any, error) {
	switch t.Space() {
	case '{':
		m := map[string]any{}
		for {
			if !t.Key() {
				return m, nil
			}
			key := t.mapKey()
			one, err := t.any()
			if err != nil {
				return nil, within(err, key)
			}
			m[key] = one
		}
	case '[':
		t.I++
		list := []any{}
		for t.more() {
			one, err := t.any()
			if err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	case '"':
		return t.Text(), nil
	case 't', 'f':
		return t.Bool(), nil
	case 'n':
		t.Null()
		return nil, nil
	default:
		text := string(t.Raw())
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, newValueError("number " + text + " does not fit")
		}
		return n, nil
	}
}
