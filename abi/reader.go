package abi

import (
	"errors"
	"strconv"
)

// A Reader reads a JSON text step by step: without reflection, which a module that
// does without is 0.5 MB smaller. The text is to be valid JSON, as all that the host
// gives a module is, and what [Valid] has checked.
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
// What is not of the kind that was asked for is an error, with the path to it; from
// then on Key and Next are false and all values zero.
type Reader struct {
	t    trusted
	path []segment
	err  error
}

// NewReader returns a reader of b, which it does not change. Texts may be parts of b.
func NewReader(b []byte) *Reader { return &Reader{t: trusted{b: b}} }

// Err returns the first error, or nil. It is asked when all has been read.
func (r *Reader) Err() error {
	if r.err == nil && r.t.bad {
		r.err = errBroken
	}
	return r.err
}

// Key goes to the next field of the object that comes, whose value is then to be read
// or skipped; false if there is none any more. null has no fields.
func (r *Reader) Key() bool {
	if !r.enters('{', "an object") {
		return false
	}
	if !r.t.key() {
		r.leave()
		return false
	}
	r.path[len(r.path)-1].key = []byte(r.t.last)
	return true
}

// Name is the key of the field that Key went to.
func (r *Reader) Name() string { return r.t.last }

// Next goes to the next element of the array that comes, which is then to be read or
// skipped; false if there is none any more. null has no elements.
func (r *Reader) Next() bool {
	if !r.enters('[', "an array") {
		return false
	}
	if c := r.t.b[r.t.i]; c == '[' || c == ',' {
		r.t.i++
	}
	if !r.t.more() {
		r.leave()
		return false
	}
	r.path[len(r.path)-1].index++
	return true
}

// enters begins an object or an array if that comes, or goes on with it.
func (r *Reader) enters(begin byte, want string) bool {
	if r.err != nil {
		return false
	}
	switch c := r.t.space(); {
	case c == begin:
		r.path = append(r.path, segment{index: -1})
	case c == 'n' && r.t.null():
		return false
	case c != ',' && c != begin+2 || len(r.path) == 0:
		r.want(want)
		return false
	}
	return true
}

func (r *Reader) leave() { r.path = r.path[:len(r.path)-1] }

// Text reads a string; null is an empty one.
func (r *Reader) Text() string {
	if !r.comes("a string", '"') {
		return ""
	}
	return r.t.text()
}

// Bool reads true or false; null is false.
func (r *Reader) Bool() bool { return r.comes("true or false", 't', 'f') && r.t.boolean() }

// Int reads a whole number; null is 0.
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

// Float reads a number; null is 0.
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
	if !r.comes("a number", '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9') {
		return ""
	}
	return string(r.t.raw())
}

// Kind tells what comes, without reading it: '{' of an object, '[' of an array, '"' of a
// string, '0' of a number, 't' of true or false, 'n' of null. It is 0 where there is nothing,
// and after an error.
func (r *Reader) Kind() byte {
	if r.err != nil {
		return 0
	}
	switch c := r.t.space(); c {
	case '-', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		return '0'
	case 'f':
		return 't'
	default:
		return c
	}
}

// Raw reads any value as it stands. It is a part of the text.
func (r *Reader) Raw() JSON {
	if r.err != nil {
		return nil
	}
	r.t.space()
	return r.t.raw()
}

// Skip passes over a value.
func (r *Reader) Skip() { r.Raw() }

// comes reports whether a value that begins so comes; null is passed over.
func (r *Reader) comes(want string, begins ...byte) bool {
	if r.err != nil {
		return false
	}
	c := r.t.space()
	for _, b := range begins {
		if b == c {
			return true
		}
	}
	if c != 'n' || !r.t.null() {
		r.want(want)
	}
	return false
}

func (r *Reader) want(what string) { r.Refuse("want " + what + ", got " + jsonKind(r.t.space())) }

// Refuse makes text the error, behind the path to the value that is read, if there is
// no error yet.
func (r *Reader) Refuse(text string) {
	if r.err != nil {
		return
	}
	s := scanner{path: r.path}
	if at := s.where(); at != "" {
		text = at + ": " + text
	}
	r.err = errors.New(text + " (at byte " + strconv.Itoa(r.t.i) + ")")
}
