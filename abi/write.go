package abi

import (
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
)

// A writer collects JSON in the format of encoding/json, but without escaping <, > and &.
// It can fail only because of invalid raw JSON.
type writer struct {
	b   []byte
	err error
}

// key writes a comma, unless it is the first, and the key of a field. quoted contains the
// key's quotes and colon.
func (w *writer) key(quoted string) {
	b, out := w.b, len(w.b)
	if need := len(quoted) + room; cap(b)-out < need {
		b = growPieces(b, need)
	}
	b = b[:cap(b)]
	if byteOf(b, out-1) != '{' {
		setByte(b, out, ',')
		out++
	}
	putKey(b, out, quoted)
	w.b = b[:out+len(quoted)]
}

// room is the spare capacity in bytes after a text. It allows writing eight bytes at a
// time.
const room = 16

func (w *writer) null() { w.b = append(w.b, "null"...) }

func (w *writer) int(n int64) {
	if n >= 0 && n <= 99 {
		if n > 9 {
			w.b = append(w.b, '0'+byte(n/10))
		}
		w.b = append(w.b, '0'+byte(n%10))
		return
	}
	w.b = strconv.AppendInt(w.b, n, 10)
}

func (w *writer) boolean(v bool) { w.b = strconv.AppendBool(w.b, v) }

const hexDigits = "0123456789abcdef"

// text writes a string. It replaces invalid UTF-8.
func (w *writer) text(s string) {
	b, out := w.b, len(w.b)
	if cap(b)-out < len(s)+2*room {
		b = growPieces(b, len(s)+len(s)/16+2*room)
	}
	b = b[:cap(b)]
	setByte(b, out, '"')
	if n := len(s); n <= 16 { // the common case
		var first, last uint64
		if n >= 8 {
			first, last = wordOf(s, 0), wordOf(s, n-8)
		} else if n > 0 {
			first = rest(s, 0)
			last = first
		}
		if n == 0 || (unplain(first)|unplain(last))&highs == 0 {
			setWord(b, out+1, first)
			if n > 8 {
				setWord(b, out+1+n-8, last)
			}
			setByte(b, out+1+n, '"')
			w.b = b[:out+n+2]
			return
		}
	}
	out, i := putText(b, out+1, s, 0)
	if i == len(s) {
		setByte(b, out, '"')
		w.b = b[:out+1]
		return
	}
	w.b = b[:out]
	w.textFrom(s, i)
}

// textFrom writes the rest of a string, from i on, including bytes that need long
// escapes.
func (w *writer) textFrom(s string, i int) {
	for i < len(s) {
		if c := s[i]; c >= utf8.RuneSelf || c < ' ' && short[c] == 0 { // otherwise putText stopped for lack of capacity
			i = w.char(s, i)
			continue
		}
		left := len(s) - i
		if cap(w.b)-len(w.b) < left+room {
			w.b = growPieces(w.b, left+left/16+2*room)
		}
		var out int
		out, i = putText(w.b[:cap(w.b)], len(w.b), s, i)
		w.b = w.b[:out]
	}
	w.b = append(w.b, '"')
}

// quote returns text quoted for error messages.
func quote(text string) string { return string(AppendText(nil, text)) }

// AppendText appends text to b as a JSON string, as Marshal encodes it.
func AppendText(b []byte, text string) []byte {
	w := writer{b: b}
	w.text(text)
	return w.b
}

// char writes the characters at i that are not ASCII or have no short escape, and returns
// the index after them.
func (w *writer) char(s string, i int) int {
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
	w.b = Append(Append(w.b, s[from:i]), instead)
	return end
}

// putText copies s from i on to b at out. It stops at the first byte that is not ASCII or
// has no short escape, and where b has no capacity for the rest. It returns the indices
// that it reached.
func putText(b []byte, out int, s string, i int) (toOut, toI int) {
	n := len(s)
	for i < n && len(b)-out >= n-i+room {
		var found uint64
		for i+8 <= n {
			w := wordOf(s, i)
			setWord(b, out, w)
			if found = unplain(w) & highs; found != 0 {
				break
			}
			out, i = out+8, i+8
		}
		if found == 0 {
			if i == n {
				break
			}
			w := rest(s, i)
			setWord(b, out, w)
			found = unplain(w) & highs
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
		setByte(b, out, '\\')
		setByte(b, out+1, c)
		out, i = out+2, i+1
	}
	return out, i
}

// unplain sets the highest bit of the first byte of w that is not ASCII or must be
// escaped. The bits of later bytes are undefined.
func unplain(w uint64) uint64 {
	return (w - spaces) | ((w ^ quotes) - ones) | ((w ^ backslashes) - ones) | w
}

// short maps bytes to the letters of their short escapes.
var short = [256]byte{'"': '"', '\\': '\\', '\b': 'b', '\f': 'f', '\n': 'n', '\r': 'r', '\t': 't'}

// raw writes JSON text without insignificant whitespace.
func (w *writer) raw(v JSON) {
	if v == nil {
		w.null()
		return
	}
	s := newScanner(v, nil)
	asIs := s.value(nil) == nil && s.i == len(v) && !s.spaced
	s.release()
	if asIs {
		w.b = Append(w.b, v)
		return
	}
	b, err := compact(w.b, v)
	if err != nil {
		w.fail(Wrap("invalid raw JSON", err))
		return
	}
	w.b = b
}

func writeSlice[T any](w *writer, list []T, write func(*writer, *T)) {
	if list == nil {
		w.null()
		return
	}
	w.b = append(w.b, '[')
	for i := range list {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		write(w, &list[i])
	}
	w.b = append(w.b, ']')
}

func writeMap[M ~map[K]V, K ~string, V any](w *writer, m M, write func(*writer, *V)) {
	if m == nil {
		w.null()
		return
	}
	keys := make([]string, 0, len(m)) // []string rather than []K: each instance of the sort function would make modules larger
	for k := range m {
		keys = append(keys, string(k))
	}
	slices.Sort(keys)
	w.b = append(w.b, '{')
	var v V
	for i, k := range keys {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.text(k)
		w.b = append(w.b, ':')
		v = m[K(k)]
		write(w, &v)
	}
	w.b = append(w.b, '}')
}

// fields writes unknown fields unchanged.
func (w *writer) fields(list Fields) {
	for i := range list {
		if w.b[len(w.b)-1] != '{' {
			w.b = append(w.b, ',')
		}
		w.text(list[i].Name)
		w.b = append(w.b, ':')
		w.raw(list[i].Value)
	}
}
