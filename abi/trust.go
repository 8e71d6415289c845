package abi

import (
	"errors"
	"math/bits"
	"unsafe"
)

// A Readable is a type of this package that a module is given: an input, or a
// reply of the host.
type Readable interface{ fill(t *trusted) }

// Read is Decode for text that the host has written, as an SDK reads it: what
// only a hostile text could have is not looked for, and a field that v does not
// have is passed over. v is to be new, but for room for its lists, and b is its own from
// then on, with the room behind it: it keeps parts of it, and changes others. Pad bytes
// of room save a copy.
func Read(b []byte, v Readable) error {
	t := begin(b, true)
	v.fill(t)
	return t.finish()
}

// A Writable is a type of this package that a module hands to the host: an
// answer, a patch.
type Writable interface {
	append(b []byte) ([]byte, error)
}

// Write appends v to b as Marshal writes it, as an SDK does: without looking for
// what type v has.
func Write(b []byte, v Writable) ([]byte, error) {
	if b == nil {
		b = make([]byte, 0, 256)
	}
	return v.append(b)
}

// ReadMessages is Read for an array of messages, as messages replies.
// n is how many there should be.
func ReadMessages(b []byte, n int) (list []Message, err error) {
	t := begin(b, true)
	if !t.null() {
		list = make([]Message, 0, n)
		for t.next() {
			(*Message)(extended(&list, 1)).fill(t)
		}
	}
	return list, t.finish()
}

// A trusted reads a text that is well-formed. It is what a module does most, and
// there a call of a function costs as much as reading ten bytes: so its methods
// are few and long. A text that is not well-formed after all ends early.
type trusted struct {
	b    []byte
	i    int
	bad  bool
	last string // the key that was read last
	own  bool   // nobody else sees b, and what is behind it

	padded bool // there is room behind b

	unknown *[]string // where keys that a value does not have are noted; nil: they are passed over

	known  JSON     // the last object that was passed over
	places [8]place // the objects that are read by their shapes
	depth  int      // how many there are

}

// Eight bytes of a kind, and the lowest and highest bits of eight bytes.
const (
	ones   = 0x0101010101010101
	zeros  = '0' * ones
	highs  = 0x8080808080808080
	spaces = ' ' * ones
	quotes = '"' * ones
	backs  = '\\' * ones
)

// Pad is how many bytes behind a text Read reads, though it does not look at them.
const Pad = 24

var errBroken = errors.New("no JSON of the right form")

func (t *trusted) end() error {
	if t.bad {
		return errBroken
	}
	return nil
}

func (t *trusted) fail() {
	t.bad, t.i = true, len(t.b)
}

// space goes to the next byte that is none, and returns it; 0 at the end.
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

// key goes to the next value of an object, whose key is in last; false if there is
// none any more. It begins where the object does, or null.
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

// named reads a key, and goes to its value.
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

// next goes to the next element of an array, which is no array itself; false if
// there is none any more. It begins where the array does.
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

// null passes over a null, if that is what comes.
func (t *trusted) null() bool {
	if t.i >= len(t.b) || t.b[t.i] != 'n' {
		return false
	}
	if t.i += len("null"); t.i > len(t.b) {
		t.fail()
	}
	return true
}

// text reads a string; null counts as absent.
func (t *trusted) text() string {
	if t.i >= len(t.b) || t.b[t.i] != '"' {
		if !t.null() {
			t.fail()
		}
		return ""
	}
	start := t.i + 1
	end := special(t.b, start)
	if end >= len(t.b) {
		t.fail()
		return ""
	}
	if t.b[end] == '\\' {
		return t.escaped(start, end)
	}
	t.i = end + 1
	return unsafe.String(unsafe.SliceData(t.b[start:]), end-start) // nobody changes it
}

// escaped reads a string with escapes, the first of which is at end. What escapes
// say is shorter than they are: so a text that is nobody else's is written over.
func (t *trusted) escaped(start, end int) string {
	if t.own {
		return t.moved(start, end)
	}
	last := end
	for last < len(t.b) && t.b[last] == '\\' {
		last = special(t.b, last+2)
	}
	whole := t.b
	t.b = Clone(whole[:min(last+1, len(whole))])
	text := t.moved(start, end)
	t.b = whole
	if t.bad {
		t.fail()
	}
	return text
}

// moved reads a string from start on, over which it is written without its escapes,
// none of which is before end.
func (t *trusted) moved(start, end int) string {
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
	return unsafe.String(unsafe.SliceData(b[start:]), out-start) // nobody changes it
}

// moveText moves the text of a string from i to out, which is not behind i, up to its
// quote, or an escape that is not a short one, or the end.
func moveText(b []byte, out, i int) (toOut, toI int) {
	n := len(b)
	by := out - i // i+by is where it is moved to
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
		if by <= -8 { // what is behind those k bytes is not needed any more
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

// moveBytes is moveText by single bytes.
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

// escapes are what the short escapes say.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// special is the first place from i on with a quote or a backslash, or the end.
func special(b []byte, i int) int {
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

// int reads a whole number.
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

// longInt reads a number that may not fit.
func (t *trusted) longInt(start int) int64 {
	t.i = start
	n, ok := parseInt(t.raw())
	if !ok {
		t.fail()
	}
	return n
}

// raw returns any value as it stands.
func (t *trusted) raw() JSON {
	start := t.i
	t.skip()
	return t.b[start:t.i:t.i]
}

// rawObject returns any value as it stands. What begins as the last object within an
// object did is that one again: such as what a tool takes, which comes with each of its calls.
func (t *trusted) rawObject() JSON {
	if end := t.i + len(t.known); end <= len(t.b) && stands(t.b, t.i, t.known) {
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

// stands reports whether a text of at least eight bytes stands at i.
func stands(b []byte, i int, text []byte) bool {
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

// skip passes over a value.
func (t *trusted) skip() {
	b, i, depth := t.b, t.i, 0
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			for i = special(b, i+1); i < len(b) && b[i] == '\\'; {
				i = special(b, i+2)
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
				t.i = i // what it stands in ends
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
