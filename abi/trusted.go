package abi

import (
	"errors"
	"math/bits"
	"unsafe"
)

// A Readable is a type of this package that a module receives: a hook's input or a reply
// of the host.
type Readable interface{ fill(t *trusted) }

// Read decodes text that the host has written into v, for SDKs. It skips unknown fields
// and omits the checks that only matter for hostile text. v must be zero, except that its
// slices may have spare capacity. Read takes ownership of b and of the memory up to its
// capacity: v keeps references to parts of b, and Read overwrites others. If the capacity
// of b exceeds its length by at least Pad bytes, Read does not copy it.
func Read(b []byte, v Readable) error {
	t := newTrusted(b, true)
	v.fill(t)
	return t.finish()
}

// A Writable is a type of this package that a module passes to the host: an answer or a
// patch.
type Writable interface {
	append(b []byte) ([]byte, error)
}

// Write appends the encoding of v to b, as Marshal does, but without inspecting the type
// of v. It is for SDKs.
func Write(b []byte, v Writable) ([]byte, error) {
	if b == nil {
		b = make([]byte, 0, 256)
	}
	return v.append(b)
}

// ReadMessages is Read for an array of messages, which the import messages returns. n is
// the expected number of messages.
func ReadMessages(b []byte, n int) (list []Message, err error) {
	t := newTrusted(b, true)
	if !t.null() {
		list = make([]Message, 0, n)
		for t.next() {
			(*Message)(extended(&list, 1)).fill(t)
		}
	}
	return list, t.finish()
}

// A trusted reads JSON text that is known to be well-formed. Reading is most of the work
// of a module, where a function call costs as much as reading ten bytes. Therefore its
// methods are few and long. If the text is malformed after all, reading ends early.
type trusted struct {
	b    []byte
	i    int
	bad  bool
	last string // the key that was read last
	own  bool   // b and the memory up to its capacity may be overwritten

	padded bool // Pad bytes follow b

	unknown *[]string // if not nil, collects the paths of unknown keys

	known  JSON     // the last nested raw object
	places [8]place // the objects that are being read by their shapes
	depth  int      // number of places in use

}

// Bytes repeated eight times, and the lowest and highest bits of eight bytes.
const (
	ones        = 0x0101010101010101
	zeros       = '0' * ones
	highs       = 0x8080808080808080
	spaces      = ' ' * ones
	quotes      = '"' * ones
	backslashes = '\\' * ones
)

// Pad is the number of bytes after a text that Read may access. Their values do not
// matter.
const Pad = 24

var errMalformed = errors.New("malformed JSON")

func (t *trusted) end() error {
	if t.bad {
		return errMalformed
	}
	return nil
}

func (t *trusted) fail() {
	t.bad, t.i = true, len(t.b)
}

// space skips whitespace and returns the next byte, or 0 at the end.
func (t *trusted) space() byte {
	for t.i < len(t.b) {
		if c := t.b[t.i]; c > ' ' {
			return c
		}
		t.i++
	}
	t.bad = true
	return 0
}

// key advances to the next field of an object, sets last to its key, and reports whether
// there is one. Before the first field, the position must be at the object or at null.
func (t *trusted) key() bool {
	for t.i < len(t.b) {
		c := t.b[t.i]
		if c == '"' {
			return t.named()
		}
		t.i++
		switch c {
		case '{', ',', ' ', '\n', '\r', '\t':
			continue
		case '}':
			return false
		}
		t.i--
		break
	}
	if !t.null() {
		t.fail()
	}
	return false
}

// named reads a key and advances to its value.
func (t *trusted) named() bool {
	key := t.text()
	if t.space() != ':' {
		t.fail()
		return false
	}
	t.i++
	t.space()
	t.last = key
	return !t.bad
}

// next advances to the next element of an array, which must not be an array itself, and
// reports whether there is one. Before the first element, the position must be at the
// array.
func (t *trusted) next() bool {
	for t.i < len(t.b) {
		c := t.b[t.i]
		t.i++
		switch c {
		case '[', ',', ' ', '\n', '\r', '\t':
			continue
		case ']':
			return false
		}
		t.i--
		return true
	}
	t.fail()
	return false
}

// null skips a null and reports whether there was one.
func (t *trusted) null() bool {
	if t.i >= len(t.b) || t.b[t.i] != 'n' {
		return false
	}
	if t.i += len("null"); t.i > len(t.b) {
		t.fail()
	}
	return true
}

// text reads a string. null counts as absent.
func (t *trusted) text() string {
	if t.i >= len(t.b) || t.b[t.i] != '"' {
		if !t.null() {
			t.fail()
		}
		return ""
	}
	start := t.i + 1
	end := nextSpecial(t.b, start)
	if end >= len(t.b) {
		t.fail()
		return ""
	}
	if t.b[end] == '\\' {
		return t.escaped(start, end)
	}
	t.i = end + 1
	return unsafe.String(unsafe.SliceData(t.b[start:]), end-start) // these bytes do not change any more
}

// escaped reads a string whose first escape is at end. Decoded text is shorter than its
// escapes, so the string is decoded in place if t owns the text.
func (t *trusted) escaped(start, end int) string {
	if t.own {
		return t.unescapeInPlace(start, end)
	}
	last := end
	for last < len(t.b) && t.b[last] == '\\' {
		last = nextSpecial(t.b, last+2)
	}
	whole := t.b
	t.b = Clone(whole[:min(last+1, len(whole))])
	text := t.unescapeInPlace(start, end)
	t.b = whole
	if t.bad {
		t.fail()
	}
	return text
}

// unescapeInPlace decodes a string in place. The string begins at start and has no escape before
// end.
func (t *trusted) unescapeInPlace(start, end int) string {
	b := t.b
	out, i := moveText(b, end, end)
	for i+1 < len(b) && b[i] == '\\' {
		var long []byte
		long, i = unescape(b[out:out:len(b)], b, i)
		out, i = moveText(b, out+len(long), i)
	}
	if i >= len(b) || b[i] != '"' {
		t.fail()
		return ""
	}
	t.i = i + 1
	return unsafe.String(unsafe.SliceData(b[start:]), out-start) // these bytes do not change any more
}

// moveText moves the text of a string from i to out, which is at most i, and decodes
// short escapes. It stops at the closing quote, at a \u escape and at the end, and
// returns the indices that it reached.
func moveText(b []byte, out, i int) (toOut, toI int) {
	n := len(b)
	by := out - i // the text at i+k moves to i+by+k
	for i+16 <= n {
		w, w2 := words(b, i)
		if (mayEnd(w)|mayEnd(w2))&highs == 0 {
			setWords(b, i+by, w, w2)
			i += 16
			continue
		}
		found := mayEnd(w) & highs
		if found == 0 {
			setWord(b, i+by, w)
			i += 8
			w, found = w2, mayEnd(w2)&highs
		}
		k := bits.TrailingZeros64(found) >> 3
		if by <= -8 { // the bytes after those k may be overwritten
			setWord(b, i+by, w)
			i += k
		} else {
			if k&4 != 0 {
				setHalf(b, i+by, uint32(w))
				i, w = i+4, w>>32
			}
			if k&2 != 0 {
				setByte(b, i+by, byte(w))
				setByte(b, i+by+1, byte(w>>8))
				i, w = i+2, w>>16
			}
			if k&1 != 0 {
				setByte(b, i+by, byte(w))
				i++
			}
		}
		c := byteOf(b, i)
		switch c {
		case '\\':
			if i+1 == n {
				return i + by, i
			}
			if c = escapes[byteOf(b, i+1)]; c == 0 {
				return i + by, i
			}
			i++
			by--
		case '"':
			return i + by, i
		}
		setByte(b, i+by, c)
		i++
	}
	return moveBytes(b, i+by, i)
}

// moveBytes is moveText byte by byte.
func moveBytes(b []byte, out, i int) (toOut, toI int) {
	n := len(b)
	for i < n {
		c := byteOf(b, i)
		switch {
		case c == '"':
			return out, i
		case c != '\\':
			i++
		case i+1 == n || escapes[byteOf(b, i+1)] == 0:
			return out, i
		default:
			c = escapes[byteOf(b, i+1)]
			i += 2
		}
		setByte(b, out, c)
		out++
	}
	return out, i
}

// escapes maps the letters of short escapes to their characters.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// nextSpecial returns the index of the first quote or backslash from i on, or len(b).
func nextSpecial(b []byte, i int) int {
	n := len(b)
	for {
		for ; i+32 <= n; i += 32 {
			if (mayEnd(word(b, i))|mayEnd(word(b, i+8))|mayEnd(word(b, i+16))|mayEnd(word(b, i+24)))&highs != 0 {
				break
			}
		}
		for {
			if i+8 <= n {
				found := mayEnd(word(b, i)) & highs
				if i += bits.TrailingZeros64(found) >> 3; found == 0 {
					continue
				}
			}
			if i >= n {
				return n
			}
			if c := byteOf(b, i); c == '"' || c == '\\' {
				return i
			}
			i++
			break
		}
	}
}

func (t *trusted) boolean() bool {
	c := t.space()
	switch c {
	case 't':
		t.i += len("true")
	case 'f':
		t.i += len("false")
	default:
		if !t.null() {
			t.fail()
		}
	}
	if t.i > len(t.b) {
		t.fail()
	}
	return c == 't'
}

// int reads an integer.
func (t *trusted) int() int64 {
	start := t.i
	if t.i < len(t.b) && t.b[t.i] == '-' {
		t.i++
	}
	var n uint64
	digits := t.i
	for t.i < len(t.b) && t.b[t.i]-'0' <= 9 {
		n = n*10 + uint64(t.b[t.i]-'0')
		t.i++
	}
	switch {
	case t.i == digits:
		if t.i != start || !t.null() {
			t.fail()
		}
		return 0
	case t.i-digits > 18, t.i < len(t.b) && (t.b[t.i] == '.' || t.b[t.i]|0x20 == 'e'):
		return t.longInt(start)
	case digits > start:
		return -int64(n)
	}
	return int64(n)
}

// longInt reads a number that may be out of range.
func (t *trusted) longInt(start int) int64 {
	t.i = start
	n, ok := parseInt(t.raw())
	if !ok {
		t.fail()
	}
	return n
}

// raw reads any value and returns its text.
func (t *trusted) raw() JSON {
	start := t.i
	t.skip()
	return t.b[start:t.i:t.i]
}

// rawObject is raw with a cache for the last nested object. The parameters of a tool, for
// instance, recur with each of its calls.
func (t *trusted) rawObject() JSON {
	if end := t.i + len(t.known); end <= len(t.b) && hasTextAt(t.b, t.i, t.known) {
		raw := t.b[t.i:end:end]
		t.i = end
		return raw
	}
	raw := t.raw()
	if !t.bad && t.depth > 1 && len(raw) > 0 && raw[0] == '{' {
		t.known = raw
	}
	return raw
}

// hasTextAt reports whether b contains text at i. It is false for texts of less than eight
// bytes.
func hasTextAt(b []byte, i int, text []byte) bool {
	n := len(text) - 8
	if n < 0 || word(b, i+n) != word(text, n) {
		return false
	}
	for k := 0; k < n; k += 8 {
		if word(b, i+k) != word(text, k) {
			return false
		}
	}
	return true
}

// skip skips a value.
func (t *trusted) skip() {
	b, i, depth := t.b, t.i, 0
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			for i = nextSpecial(b, i+1); i < len(b) && b[i] == '\\'; {
				i = nextSpecial(b, i+2)
			}
			if i >= len(b) {
				t.fail()
				return
			}
			if depth == 0 {
				t.i = i + 1
				return
			}
		case c|0x20 == '{':
			depth++
		case c|0x20 == '}':
			if depth == 0 {
				t.i = i // end of the enclosing value
				return
			}
			if depth--; depth == 0 {
				t.i = i + 1
				return
			}
		case depth == 0 && (c == ',' || c <= ' '):
			t.i = i
			return
		}
		i++
	}
	t.i = i
	t.bad = t.bad || depth > 0
}

func fillSlice[T any](t *trusted, v *[]T, fill func(*trusted, *T)) {
	if t.null() {
		return
	}
	*v = []T{}
	for t.next() {
		fill(t, (*T)(extended(v, 3*len(*v)+1)))
	}
}

func fillMap[M ~map[K]V, K ~string, V any](t *trusted, v *M, fill func(*trusted, *V)) {
	if t.null() {
		return
	}
	m := M{}
	var one, none V
	for t.key() {
		key := K(t.last)
		one = none
		fill(t, &one)
		m[key] = one
	}
	*v = m
}
