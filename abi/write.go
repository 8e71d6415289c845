package abi

import (
	"math/bits"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// A writer collects JSON, as encoding/json writes it without escaping <, >
// and &. Only raw JSON in a value can make it fail.
type writer struct {
	b   []byte
	err error
}

// key writes the key of a field, with its quotes and colon, and the comma
// before it.
func (w *writer) key(quoted string) {
	if len(w.b) > pieceBytes {
		w.b = growPieces(w.b, 1<<10)
	}
	if w.b[len(w.b)-1] != '{' {
		w.b = append(w.b, ',')
	}
	w.b = append(w.b, quoted...)
}

func (w *writer) null()       { w.b = append(w.b, "null"...) }
func (w *writer) int(n int64) { w.b = strconv.AppendInt(w.b, n, 10) }

func (w *writer) boolean(v bool) { w.b = strconv.AppendBool(w.b, v) }

const hexDigits = "0123456789abcdef"

// text writes a string. What is not UTF-8 is replaced.
func (w *writer) text(s string) {
	w.b = append(w.b, '"')
	for len(s) > pieceBytes {
		n := pieceBytes
		for n > pieceBytes-utf8.UTFMax && !utf8.RuneStart(s[n]) {
			n--
		}
		w.b = growPieces(w.b, mostEscaped*n)
		w.chars(s[:n])
		s = s[n:]
	}
	w.b = growPieces(w.b, len(s)+len(s)/16+2)
	w.chars(s)
	w.b = append(w.b, '"')
}

// mostEscaped is how many bytes one byte of a string may become.
const mostEscaped = 6

// quote is a text as messages show it.
func quote(text string) string { return string(AppendText(nil, text)) }

// AppendText appends a text to b as a JSON string, as Marshal writes it.
func AppendText(b []byte, text string) []byte {
	w := writer{b: b}
	w.text(text)
	return w.b
}

func (w *writer) chars(s string) {
	from := 0
	for i := 0; ; {
		i = plain(s, i)
		if i == len(s) {
			break
		}
		c := s[i]
		if c < utf8.RuneSelf {
			w.b = append(w.b, s[from:i]...)
			w.b = appendEscape(w.b, c)
			i++
			from = i
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			w.b = append(append(w.b, s[from:i]...), `\ufffd`...)
			from = i + n
		case r == '\u2028' || r == '\u2029':
			w.b = append(append(append(w.b, s[from:i]...), `\u202`...), hexDigits[r&0xf])
			from = i + n
		}
		i += n
	}
	w.b = append(w.b, s[from:]...)
}

// plain is the first place from i on with a byte that is not written as it
// stands, or is not ASCII.
func plain(s string, i int) int {
	b := unsafe.Slice(unsafe.StringData(s), len(s))
	for ; i+16 <= len(b); i += 16 {
		w, w2 := words(b, i)
		w, w2 = unplain(w)&highs, unplain(w2)&highs
		if w != 0 {
			return i + bits.TrailingZeros64(w)>>3
		}
		if w2 != 0 {
			return i + 8 + bits.TrailingZeros64(w2)>>3
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// unplain has the highest bit of a byte set where that is no ASCII, or not to be
// written as it stands; of those behind the first it says nothing.
func unplain(w uint64) uint64 {
	return (w - spaces) | ((w ^ quotes) - ones) | ((w ^ backs) - ones) | w
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	default:
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}

// raw writes JSON that is there already, without the spaces between its parts.
func (w *writer) raw(v JSON) {
	if v == nil {
		w.null()
		return
	}
	s := scanner{b: v}
	if s.value(nil) == nil && s.i == len(v) && !s.spaced {
		w.b = Append(w.b, v)
		return
	}
	b, err := compact(w.b, v)
	if err != nil {
		w.fail(Wrap("a value that is not JSON", err))
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
	keys := make([]string, 0, len(m)) // and not of K, since sorting is large, and written anew for each type
	for k := range m {
		keys = append(keys, string(k))
	}
	slices.Sort(keys)
	w.b = append(w.b, '{')
	for i, k := range keys {
		if i > 0 {
			w.b = append(w.b, ',')
		}
		w.text(k)
		w.b = append(w.b, ':')
		v := m[K(k)]
		write(w, &v)
	}
	w.b = append(w.b, '}')
}

// fields writes fields as they came.
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
