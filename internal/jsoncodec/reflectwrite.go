package jsoncodec

import (
	"cmp"
	"encoding"
	"encoding/base64"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
)

// AppendValue appends the encoding of a value of any Go type to b. It returns an error if v contains a value that has
// no JSON encoding.
func AppendValue(b []byte, v any) ([]byte, error) {
	switch known := v.(type) {
	case map[string]int:
		return appendCounts(b, known), nil
	case map[string]string:
		w := Writer{B: b}
		WriteMap(&w, known, func(w *Writer, s *string) { w.Text(*s) })
		return w.B, w.Err
	}
	w := Writer{B: b}
	w.Value(v)
	return w.B, w.Err
}

// Value writes a value of any Go type.
func (w *Writer) Value(v any) { w.author(reflect.ValueOf(v), 0) }

// appendCounts appends the encoding of a map of counters, the type that modules store most
// often. It sorts up to eight entries by insertion.
func appendCounts(b []byte, counts map[string]int) []byte {
	w := Writer{B: b}
	var few [8]struct {
		name string
		n    int
	}
	if counts == nil || len(counts) > len(few) {
		WriteMap(&w, counts, func(w *Writer, n *int) { w.Int(int64(*n)) })
		return w.B
	}
	have := 0
	for name, n := range counts {
		i := have
		for ; i > 0 && few[i-1].name > name; i-- {
			few[i] = few[i-1]
		}
		few[i].name, few[i].n = name, n
		have++
	}
	w.B = append(w.B, '{')
	for i := range few[:have] {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.Text(few[i].name)
		w.B = append(w.B, ':')
		w.Int(int64(few[i].n))
	}
	return append(w.B, '}')
}

// maxValueDepth is the maximum nesting depth of a value. It ends the encoding of cyclic values.
const maxValueDepth = 1000

// Fail records err in Err, unless there already is an error.
func (w *Writer) Fail(err error) {
	if w.Err == nil {
		w.Err = err
	}
}

// author writes a value by reflection.
func (w *Writer) author(v reflect.Value, depth int) {
	if w.Err != nil {
		return
	}
	if !v.IsValid() {
		w.Null()
		return
	}
	if depth > maxValueDepth {
		w.Fail(errors.New("a value of type " + v.Type().String() + " is nested too deeply or cyclic"))
		return
	}
	if w.Known != nil && w.byCodec(v) {
		return
	}
	if t := v.Type(); t.NumMethod() > 0 || mayHaveMethods(t) && v.CanAddr() && reflect.PointerTo(t).NumMethod() > 0 {
		if w.byMethod(v) {
			return
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		w.Bool(v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		w.Int(v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		w.B = strconv.AppendUint(w.B, v.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		w.float(v.Float(), v.Type().Bits())
	case reflect.String:
		if isNumber(v.Type()) {
			w.Raw([]byte(cmp.Or(v.String(), "0")))
			return
		}
		w.Text(v.String())
	case reflect.Pointer, reflect.Interface:
		w.author(v.Elem(), depth+1)
	case reflect.Struct:
		w.authorStruct(v, depth)
	case reflect.Map:
		w.authorMap(v, depth)
	case reflect.Slice, reflect.Array:
		w.authorList(v, depth)
	default:
		w.Fail(errors.New("values of type " + v.Type().String() + " cannot be written"))
	}
}

// byCodec writes a value with w.Known if its type has a generated codec, and reports whether it has
// one. Only structs have one.
func (w *Writer) byCodec(v reflect.Value) bool {
	switch {
	case v.Kind() == reflect.Pointer:
		return !v.IsNil() && w.Known(w, v.Interface())
	case v.Kind() != reflect.Struct || v.Type().PkgPath() == "":
		return false
	case v.CanAddr():
		return w.Known(w, v.Addr().Interface())
	default:
		return w.Known(w, v.Interface())
	}
}

// byMethod writes a value that implements an interface of encoding/json, and reports whether it does.
func (w *Writer) byMethod(v reflect.Value) bool {
	if v.Kind() == reflect.Pointer && v.IsNil() || v.Kind() == reflect.Interface {
		return false
	}
	if !v.Type().Implements(marshals) && !v.Type().Implements(marshalsText) && v.CanAddr() {
		v = v.Addr()
	}
	switch {
	case v.Type().Implements(marshals):
		b, err := v.Interface().(jsonMarshaler).MarshalJSON()
		if err != nil {
			w.Fail(Wrap(v.Type().String(), err))
			return true
		}
		w.Raw(b)
	case v.Type().Implements(marshalsText):
		b, err := v.Interface().(encoding.TextMarshaler).MarshalText()
		if err != nil {
			w.Fail(Wrap(v.Type().String(), err))
			return true
		}
		w.Text(string(b))
	default:
		return false
	}
	return true
}

// float writes a number as encoding/json formats it. It fails for infinities and NaN.
func (w *Writer) float(f float64, bits int) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		w.Fail(errors.New(strconv.FormatFloat(f, 'g', -1, 64) + " has no JSON encoding"))
		return
	}
	form := byte('f')
	if size := math.Abs(f); size != 0 &&
		(bits == 64 && (size < 1e-6 || size >= 1e21) || bits == 32 && (float32(size) < 1e-6 || float32(size) >= 1e21)) {
		form = 'e'
	}
	w.B = strconv.AppendFloat(w.B, f, form, -1, bits)
	if n := len(w.B); form == 'e' && n >= 4 && w.B[n-4] == 'e' && w.B[n-3] == '-' && w.B[n-2] == '0' {
		w.B = append(w.B[:n-2], w.B[n-1]) // e-9, not e-09
	}
}

func (w *Writer) authorStruct(v reflect.Value, depth int) {
	w.B = append(w.B, '{')
	first := true
	fields := fieldsOfType(v.Type())
	for i := range fields {
		f := &fields[i]
		place := fieldAt(v, f.index, false)
		if !place.IsValid() || f.omitEmpty && isEmpty(place) || f.omitZero && isZero(place) {
			continue
		}
		if !first {
			w.B = append(w.B, ',')
		}
		first = false
		w.Text(f.name)
		w.B = append(w.B, ':')
		if f.quoted && (place.Kind() != reflect.Pointer || !place.IsNil()) {
			inner := Writer{}
			inner.author(place, depth+1)
			w.Text(string(inner.B))
			if inner.Err != nil {
				w.Fail(inner.Err)
			}
			continue
		}
		w.author(place, depth+1)
	}
	w.B = append(w.B, '}')
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return v.Len() == 0
	case reflect.Struct:
		return false
	default:
		return v.IsZero()
	}
}

// isZero reports whether v is zero, according to its IsZero method if it has one.
func isZero(v reflect.Value) bool {
	type zeroer interface{ IsZero() bool }
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return true
	}
	if z, ok := v.Interface().(zeroer); ok {
		return z.IsZero()
	}
	if v.CanAddr() {
		if z, ok := v.Addr().Interface().(zeroer); ok {
			return z.IsZero()
		}
	}
	return v.IsZero()
}

func (w *Writer) authorMap(v reflect.Value, depth int) {
	if v.IsNil() {
		w.Null()
		return
	}
	names, values := make([]string, 0, v.Len()), make(map[string]reflect.Value, v.Len())
	for it := v.MapRange(); it.Next(); {
		key := it.Key()
		var name string
		text, isText := key.Interface().(encoding.TextMarshaler)
		switch {
		case key.Kind() == reflect.String:
			name = key.String()
		case isText:
			b, err := text.MarshalText()
			if err != nil {
				w.Fail(Wrap(key.Type().String(), err))
				return
			}
			name = string(b)
		case key.CanInt():
			name = strconv.FormatInt(key.Int(), 10)
		case key.CanUint():
			name = strconv.FormatUint(key.Uint(), 10)
		default:
			w.Fail(errors.New("maps with keys of type " + key.Type().String() + " cannot be written"))
			return
		}
		if _, twice := values[name]; twice {
			w.Fail(errors.New("two map keys are encoded as " + strconv.Quote(name)))
			return
		}
		names, values[name] = append(names, name), it.Value()
	}
	slices.Sort(names)
	w.B = append(w.B, '{')
	for i, name := range names {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.Text(name)
		w.B = append(w.B, ':')
		w.author(values[name], depth+1)
	}
	w.B = append(w.B, '}')
}

func (w *Writer) authorList(v reflect.Value, depth int) {
	if v.Kind() == reflect.Slice {
		if v.IsNil() {
			w.Null()
			return
		}
		if elem := v.Type().Elem(); elem.Kind() == reflect.Uint8 && !reflect.PointerTo(elem).Implements(marshals) &&
			!reflect.PointerTo(elem).Implements(marshalsText) {
			w.B = append(w.B, '"')
			w.B = base64.StdEncoding.AppendEncode(w.B, v.Bytes())
			w.B = append(w.B, '"')
			return
		}
	}
	w.B = append(w.B, '[')
	for i := range v.Len() {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.author(v.Index(i), depth+1)
	}
	w.B = append(w.B, ']')
}
