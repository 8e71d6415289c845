package jsoncodec

import (
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/internal/word"
)

// A Writer collects JSON in the format of encoding/json, but without escaping <, > and &.
// It fails for invalid raw JSON, and for Go values that have no JSON encoding.
type Writer struct {
	B   []byte // the text so far
	Err error  // the first error

	// Known, if not nil, writes a value whose type has a generated codec, and reports whether
	// it has one. v is a struct or a pointer. Known replaces the value's method MarshalJSON.
	Known func(w *Writer, v any) bool
}

// Key writes a comma, unless the field is the first of its object, and the key of the field.
// quoted is the key with its quotation marks and the colon.
func (w *Writer) Key(quoted string) {
	b, out := w.B, len(w.B)
	if need := len(quoted) + room; cap(b)-out < need {
		b = growPieces(b, need)
	}
	b = b[:cap(b)]
	if word.Byte(b, out-1) != '{' {
		word.StoreByte(b, out, ',')
		out++
	}
	word.CopyConst(b, out, quoted)
	w.B = b[:out+len(quoted)]
}

// room is the spare capacity in bytes after a string. It allows writing eight bytes at a
// time.
const room = 16

// Null writes null.
func (w *Writer) Null() { w.B = append(w.B, "null"...) }

// Int writes an integer.
func (w *Writer) Int(n int64) {
	if n >= 0 && n <= 99 {
		if n > 9 {
			w.B = append(w.B, '0'+byte(n/10))
		}
		w.B = append(w.B, '0'+byte(n%10))
		return
	}
	w.B = strconv.AppendInt(w.B, n, 10)
}

// Bool writes true or false.
func (w *Writer) Bool(v bool) { w.B = strconv.AppendBool(w.B, v) }

const hexDigits = "0123456789abcdef"

// Text writes a string. It replaces invalid UTF-8 with U+FFFD.
func (w *Writer) Text(s string) {
	b, out := w.B, len(w.B)
	if cap(b)-out < len(s)+2*room {
		b = growPieces(b, len(s)+len(s)/16+2*room)
	}
	b = b[:cap(b)]
	word.StoreByte(b, out, '"')
	if n := len(s); n <= 16 { // the common case
		var first, last uint64
		if n >= 8 {
			first, last = word.LoadString(s, 0), word.LoadString(s, n-8)
		} else if n > 0 {
			first = word.Rest(s, 0)
			last = first
		}
		if n == 0 || (special(first)|special(last))&word.Highs == 0 {
			word.Store(b, out+1, first)
			if n > 8 {
				word.Store(b, out+1+n-8, last)
			}
			word.StoreByte(b, out+1+n, '"')
			w.B = b[:out+n+2]
			return
		}
	}
	out, i := putText(b, out+1, s, 0)
	if i == len(s) {
		word.StoreByte(b, out, '"')
		w.B = b[:out+1]
		return
	}
	w.B = b[:out]
	w.textFrom(s, i)
}

// textFrom writes s[i:], the rest of a string, including bytes that need long escapes. It also
// writes the closing quote.
func (w *Writer) textFrom(s string, i int) {
	for i < len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' && short[c] == 0 { // otherwise putText stopped for lack of capacity
			i = w.char(s, i)
			continue
		}
		left := len(s) - i
		if cap(w.B)-len(w.B) < left+room {
			w.B = growPieces(w.B, left+left/16+2*room)
		}
		var out int
		out, i = putText(w.B[:cap(w.B)], len(w.B), s, i)
		w.B = w.B[:out]
	}
	w.B = append(w.B, '"')
}

// quote returns text quoted for error messages.
func quote(text string) string { return string(AppendText(nil, text)) }

// AppendText appends text to b as a JSON string, without escaping <, > and &.
func AppendText(b []byte, text string) []byte {
	w := Writer{B: b}
	w.Text(text)
	return w.B
}

// char writes the control character at i, or the characters at i that are not ASCII. It stops after
// the first one that it escapes, and returns the index of the next character.
func (w *Writer) char(s string, i int) int {
	from, end, instead := i, i+1, ""
	if c := s[i]; c < utf8.RuneSelf {
		instead = `\u00` + hexDigits[c>>4:c>>4+1] + hexDigits[c&0xf:c&0xf+1]
	}
	for instead == "" && i < len(s) && s[i] >= utf8.RuneSelf {
		r, n := utf8.DecodeRuneInString(s[i:])
		end = i + n
		switch {
		case r == utf8.RuneError && n == 1:
			instead = `\ufffd`
		case r == '\u2028':
			instead = `\u2028`
		case r == '\u2029':
			instead = `\u2029`
		default:
			i = end
		}
	}
	w.B = Append(Append(w.B, s[from:i]), instead)
	return end
}

// putText copies s[i:] to b[out:], with short escapes. It stops at the first byte that is not ASCII
// or needs a long escape, and if b lacks the capacity for the rest. It returns the indices that it
// reached in b and in s.
func putText(b []byte, out int, s string, i int) (toOut, toI int) {
	n := len(s)
	for i < n && len(b)-out >= n-i+room {
		var found uint64
		for i+8 <= n {
			w := word.LoadString(s, i)
			word.Store(b, out, w)
			if found = special(w) & word.Highs; found != 0 {
				break
			}
			out, i = out+8, i+8
		}
		if found == 0 {
			if i == n {
				break
			}
			w := word.Rest(s, i)
			word.Store(b, out, w)
			found = special(w) & word.Highs
		}
		if found == 0 {
			return out + n - i, n
		}
		k := bits.TrailingZeros64(found) >> 3
		out, i = out+k, i+k
		c := short[s[i]]
		if c == 0 {
			break
		}
		word.StoreByte(b, out, '\\')
		word.StoreByte(b, out+1, c)
		out, i = out+2, i+1
	}
	return out, i
}

// special sets the highest bit of the first byte of w that is not ASCII or must be
// escaped. The bits of later bytes are undefined.
func special(w uint64) uint64 {
	return (w - word.Spaces) | ((w ^ word.Quotes) - word.Ones) | ((w ^ word.Backslashes) - word.Ones) | w
}

// short maps bytes to the letters of their short escapes.
var short = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// Raw writes JSON text without insignificant whitespace, and null if v is nil. It fails if v is not
// valid JSON.
func (w *Writer) Raw(v []byte) {
	if v == nil {
		w.Null()
		return
	}
	s := NewScanner(v, nil)
	asIs := s.Value(nil) == nil && s.I == len(v) && !s.spaced
	s.Release()
	if asIs {
		w.B = Append(w.B, v)
		return
	}
	b, err := compact(w.B, v)
	if err != nil {
		w.Fail(Wrap("invalid raw JSON", err))
		return
	}
	w.B = b
}

// WriteSlice writes a list as a JSON array, and nil as null.
func WriteSlice[T any](w *Writer, list []T, write func(*Writer, *T)) {
	if list == nil {
		w.Null()
		return
	}
	w.B = append(w.B, '[')
	for i := range list {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		write(w, &list[i])
	}
	w.B = append(w.B, ']')
}

// WriteMap writes a map as a JSON object with sorted keys, and nil as null.
func WriteMap[M ~map[K]V, K ~string, V any](w *Writer, m M, write func(*Writer, *V)) {
	if m == nil {
		w.Null()
		return
	}
	// The keys are converted to strings, because each instance of the sort function makes modules larger.
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, string(k))
	}
	slices.Sort(keys)
	w.B = append(w.B, '{')
	var v V
	for i, k := range keys {
		if i > 0 {
			w.B = append(w.B, ',')
		}
		w.Text(k)
		w.B = append(w.B, ':')
		v = m[K(k)]
		write(w, &v)
	}
	w.B = append(w.B, '}')
}

// Field writes a field with a raw value, after a comma unless the field is the first of its
// object.
func (w *Writer) Field(name string, raw []byte) {
	if w.B[len(w.B)-1] != '{' {
		w.B = append(w.B, ',')
	}
	w.Text(name)
	w.B = append(w.B, ':')
	w.Raw(raw)
}
