// Package rawjson reads and edits JSON text without changing the bytes that an edit does not concern:
// white space, the order of members, the spelling of numbers and strings, and unknown fields stay as
// they are.
package rawjson

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
)

// The limits of a document.
const (
	MaxDepth  = 256     // how deeply arrays and objects are nested
	MaxTokens = 1 << 20 // names, values and ends of arrays and objects, to limit the memory of lists of them
)

// A Value is a part of a JSON document. The zero Value is an absent value; its methods return zero
// values.
type Value struct {
	Text []byte // the value, without white space around it; it shares the document's memory
	At   int    // the offset of Text in the document
}

// A Member is a member of an object.
type Member struct {
	Name  string
	Value Value
	from  int // the offset of the name
}

// decoders reuses the memory of decoders.
var decoders = sync.Pool{New: func() any { return jsontext.NewDecoder(bytes.NewBuffer(nil)) }}

// Parse parses doc. It returns an error unless doc is one JSON value in valid UTF-8 within [MaxDepth]
// and [MaxTokens], and its objects have no duplicate names. Readers disagree on which of two duplicate
// names counts, so that they could hide a value from a check.
func Parse(doc []byte) (Value, error) {
	d := decoders.Get().(*jsontext.Decoder)
	d.Reset(bytes.NewBuffer(doc))
	defer func() {
		d.Reset(bytes.NewBuffer(nil)) // so that an idle decoder does not keep the document in memory
		decoders.Put(d)
	}()
	for n := 1; ; n++ {
		_, err := d.ReadToken()
		switch {
		case err != nil:
			return Value{}, invalid(err)
		case n > MaxTokens:
			return Value{}, fmt.Errorf("the JSON value has more than %d tokens", MaxTokens)
		case d.StackDepth() > MaxDepth:
			return Value{}, fmt.Errorf("arrays and objects are nested more than %d deep", MaxDepth)
		case d.StackDepth() == 0:
			end := int(d.InputOffset())
			if len(bytes.TrimLeft(doc[end:], " \t\r\n")) > 0 {
				return Value{}, fmt.Errorf("there is text after the JSON value, at offset %d", end)
			}
			start := len(doc) - len(bytes.TrimLeft(doc, " \t\r\n"))
			return Value{Text: doc[start:end], At: start}, nil
		}
	}
}

// invalid returns an error of package jsontext without the package's name.
func invalid(err error) error {
	if e, ok := errors.AsType[*jsontext.SyntacticError](err); ok && e.Err != nil {
		if e.JSONPointer != "" {
			return fmt.Errorf("invalid JSON at %.100q, offset %d: %w", string(e.JSONPointer), e.ByteOffset, e.Err)
		}
		return fmt.Errorf("invalid JSON at offset %d: %w", e.ByteOffset, e.Err)
	}
	return fmt.Errorf("invalid JSON: %w", err)
}

// Exists reports whether the value is present. JSON's null is present.
func (v Value) Exists() bool { return len(v.Text) > 0 }

// IsNull reports whether the value is absent or JSON's null.
func (v Value) IsNull() bool { return len(v.Text) == 0 || v.Text[0] == 'n' }

// IsString reports whether the value is a string.
func (v Value) IsString() bool { return len(v.Text) > 0 && v.Text[0] == '"' }

// IsObject reports whether the value is an object.
func (v Value) IsObject() bool { return len(v.Text) > 0 && v.Text[0] == '{' }

// IsArray reports whether the value is an array.
func (v Value) IsArray() bool { return len(v.Text) > 0 && v.Text[0] == '[' }

// IsTrue reports whether the value is JSON's true.
func (v Value) IsTrue() bool { return len(v.Text) > 0 && v.Text[0] == 't' }

// String returns the text of a string, and "" for other values.
func (v Value) String() string {
	if !v.IsString() {
		return ""
	}
	inner := v.Text[1 : len(v.Text)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	if text, ok := unquoted(inner); ok {
		return text
	}
	text, err := jsontext.AppendUnquote(nil, v.Text)
	if err != nil {
		return ""
	}
	return string(text)
}

// unquoted returns the text of a string without its quotes. It returns false if the string has an escape with a
// number.
func unquoted(inner []byte) (string, bool) {
	var out strings.Builder
	out.Grow(len(inner))
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			out.Write(inner)
			return out.String(), true
		}
		k := strings.IndexByte(escapes, inner[i+1])
		if k < 0 {
			return "", false
		}
		out.Write(inner[:i])
		out.WriteByte(escaped[k])
		inner = inner[i+2:]
	}
}

// A backslash and escapes[k] are an escape of the character escaped[k].
const (
	escapes = `nt"\/rbf`
	escaped = "\n\t\"\\/\r\b\f"
)

// Int returns the value of an integer that fits, and 0 for other values.
func (v Value) Int() int64 {
	n, err := strconv.ParseInt(string(v.Text[:min(len(v.Text), 21)]), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Elements returns the elements of an array, and nil for other values.
func (v Value) Elements() []Value {
	if !v.IsArray() {
		return nil
	}
	s := scanner{text: v.Text, at: 1}
	var out []Value
	for s.more() {
		out = append(out, v.next(&s))
	}
	return out
}

// Members returns the members of an object in order, and nil for other values.
func (v Value) Members() []Member {
	if !v.IsObject() {
		return nil
	}
	s := scanner{text: v.Text, at: 1}
	out := make([]Member, 0, 8)
	for s.more() {
		name := v.next(&s)
		s.more()
		out = append(out, Member{Name: name.String(), Value: v.next(&s), from: name.At})
	}
	return out
}

// Get returns the member of an object with the given name, or the zero Value.
func (v Value) Get(name string) Value {
	for _, m := range v.Members() {
		if m.Name == name {
			return m.Value
		}
	}
	return Value{}
}

// next returns the value at the scanner.
func (v Value) next(s *scanner) Value {
	start, end := s.next()
	return Value{Text: v.Text[start:end:end], At: v.At + start}
}

// Quote returns text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(text string) []byte {
	b, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		b, _ = jsontext.AppendQuote(nil, string(bytes.ToValidUTF8([]byte(text), []byte("\uFFFD"))))
	}
	return b
}
