package jsoncodec

import (
	"errors"
	"strconv"
)

// A Reader reads JSON text incrementally, without reflection. A module that needs no
// reflection is 0.5 MB smaller. The text must be valid JSON, as everything that the host
// passes to a module is; check other text with [Valid].
//
//	for r.Key() {
//		switch r.Name() {
//		case "deny":
//			for r.Next() {
//				deny = append(deny, r.Text())
//			}
//		default:
//			r.Refuse("is not known")
//		}
//	}
//	return r.Err()
//
// A value of another type than the requested one is an error that contains the path to the value.
// After an error, Key and Next return false, and the methods that read values return zero values.
type Reader struct {
	t    Parser
	path []segment
	err  error
}

// NewReader returns a Reader that reads b without changing it. Strings that the Reader
// returns may share memory with b.
func NewReader(b []byte) *Reader { return &Reader{t: Parser{B: b}} }

// Err returns the first error, or nil if there was none. Call it after reading everything.
func (r *Reader) Err() error {
	if r.err == nil && r.t.Bad {
		r.err = errMalformed
	}
	return r.err
}

// Key advances to the next field of the current object and reports whether there is one.
// The caller must then read or skip the field's value. null counts as an object without
// fields.
func (r *Reader) Key() bool {
	if !r.enter('{', "an object") {
		return false
	}
	if !r.t.Key() {
		r.leave()
		return false
	}
	r.path[len(r.path)-1].key = []byte(r.t.Last)
	return true
}

// Name returns the key of the current field.
func (r *Reader) Name() string { return r.t.Last }

// Next advances to the next element of the current array and reports whether there is
// one. The caller must then read or skip the element. null counts as an empty array.
func (r *Reader) Next() bool {
	if !r.enter('[', "an array") {
		return false
	}
	if c := r.t.B[r.t.I]; c == '[' || c == ',' {
		r.t.I++
	}
	if !r.t.more() {
		r.leave()
		return false
	}
	r.path[len(r.path)-1].index++
	return true
}

// enter starts an object or array that begins with begin, or continues the current one. It returns
// false after an error and for null. want names the expected value in the error.
func (r *Reader) enter(begin byte, want string) bool {
	if r.err != nil {
		return false
	}
	switch c := r.t.Space(); {
	case c == begin:
		r.path = append(r.path, segment{index: -1})
	case c == 'n' && r.t.Null():
		return false
	case c != ',' && c != begin+2 || len(r.path) == 0:
		r.want(want)
		return false
	}
	return true
}

func (r *Reader) leave() { r.path = r.path[:len(r.path)-1] }

// Text reads a string. null counts as "".
func (r *Reader) Text() string {
	if !r.expect("a string", '"') {
		return ""
	}
	return r.t.Text()
}

// Bool reads a boolean. null counts as false.
func (r *Reader) Bool() bool { return r.expect("true or false", 't', 'f') && r.t.Bool() }

// Int reads an integer. null counts as 0.
func (r *Reader) Int() int64 {
	text := r.number()
	if text == "" {
		return 0
	}
	n, ok := parseInt([]byte(text))
	if !ok {
		r.Refuse("number " + text + " does not fit; want a whole number in range")
	}
	return n
}

// Float reads a number. null counts as 0.
func (r *Reader) Float() float64 {
	text := r.number()
	if text == "" {
		return 0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		r.Refuse("number " + text + " does not fit")
	}
	return f
}

func (r *Reader) number() string {
	if !r.expect("a number", '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9') {
		return ""
	}
	return string(r.t.Raw())
}

// Kind returns the kind of the next value without reading it: '{' for an object, '[' for
// an array, '"' for a string, '0' for a number, 't' for a boolean, 'n' for null. It
// returns 0 at the end of the text and after an error.
func (r *Reader) Kind() byte {
	if r.err != nil {
		return 0
	}
	switch c := r.t.Space(); c {
	case '-', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	case 'f':
		return 't'
	default:
		return c
	}
}

// Raw reads any value and returns its JSON text, which is a part of the Reader's text.
func (r *Reader) Raw() []byte {
	if r.err != nil {
		return nil
	}
	r.t.Space()
	return r.t.Raw()
}

// Skip skips a value of any type.
func (r *Reader) Skip() { r.Raw() }

// expect reports whether the next value begins with one of begins. It skips a null, and
// records an error for any other value.
func (r *Reader) expect(want string, begins ...byte) bool {
	if r.err != nil {
		return false
	}
	c := r.t.Space()
	for _, b := range begins {
		if b == c {
			return true
		}
	}
	if c != 'n' || !r.t.Null() {
		r.want(want)
	}
	return false
}

func (r *Reader) want(what string) { r.Refuse("want " + what + ", got " + Kind(r.t.Space())) }

// Refuse records an error with the given text and the path to the current value, unless
// there already is an error.
func (r *Reader) Refuse(text string) {
	if r.err != nil {
		return
	}
	s := Scanner{path: r.path}
	if at := s.Where(); at != "" {
		text = at + ": " + text
	}
	r.err = errors.New(text + " (at byte " + strconv.Itoa(r.t.I) + ")")
}
