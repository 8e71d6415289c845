package jsoncodec

import (
	"errors"
	"math/bits"
	"unsafe"

	"github.com/agent-runner/agent-runner/internal/word"
)

// A Parser reads JSON text that is known to be well-formed. Reading is most of the work
// of a module, where a function call costs as much as reading ten bytes. Therefore its
// methods are few and long. If the text is malformed after all, reading ends early.
type Parser struct {
	B    []byte
	I    int    // position in B
	Bad  bool   // the text was malformed
	Last string // the key that was read last, which may share memory with B
	Own  bool   // B and the memory up to its capacity may be overwritten
	Copy bool   // strings do not share memory with B

	unknown *[]string                     // if not nil, collects the paths of unknown keys
	keep    func(name string, raw []byte) // if not nil, called for the unknown fields of the outermost object
}

var errMalformed = errors.New("malformed JSON")

// End returns an error if the text was malformed.
func (t *Parser) End() error {
	if t.Bad {
		return errMalformed
	}
	return nil
}

// Fail marks the text as malformed and ends reading.
func (t *Parser) Fail() {
	t.Bad, t.I = true, len(t.B)
}

// Space skips whitespace and returns the next byte. At the end of the text, it sets Bad and
// returns 0.
func (t *Parser) Space() byte {
	for t.I < len(t.B) {
		if c := t.B[t.I]; c > ' ' {
			return c
		}
		t.I++
	}
	t.Bad = true
	return 0
}

// Key advances to the next field of an object, sets Last to the field's key, and reports
// whether there is a field. Before the first field, the position must be at the object or
// at null.
func (t *Parser) Key() bool {
	for t.I < len(t.B) {
		c := t.B[t.I]
		if c == '"' {
			return t.named()
		}
		t.I++
		switch c {
		case '{', ',', ' ', '\n', '\r', '\t':
			continue
		case '}':
			return false
		}
		t.I--
		break
	}
	if !t.Null() {
		t.Fail()
	}
	return false
}

// named reads a key, sets Last to it, and advances to its value. It reports whether it succeeded.
func (t *Parser) named() bool {
	copied := t.Copy
	t.Copy = false // most keys are only compared
	key := t.Text()
	t.Copy = copied
	if t.Space() != ':' {
		t.Fail()
		return false
	}
	t.I++
	t.Space()
	t.Last = key
	return !t.Bad
}

// Next advances to the next element of an array, which must not be an array itself, and
// reports whether there is one. Before the first element, the position must be at the
// array.
func (t *Parser) Next() bool {
	for t.I < len(t.B) {
		c := t.B[t.I]
		t.I++
		switch c {
		case '[', ',', ' ', '\n', '\r', '\t':
			continue
		case ']':
			return false
		}
		t.I--
		return true
	}
	t.Fail()
	return false
}

// Null skips a null and reports whether there was one.
func (t *Parser) Null() bool {
	if t.I >= len(t.B) || t.B[t.I] != 'n' {
		return false
	}
	if t.I += len("null"); t.I > len(t.B) {
		t.Fail()
	}
	return true
}

// Text reads a string. null reads as "".
func (t *Parser) Text() string {
	if t.I >= len(t.B) || t.B[t.I] != '"' {
		if !t.Null() {
			t.Fail()
		}
		return ""
	}
	start := t.I + 1
	end := nextSpecial(t.B, start)
	if end >= len(t.B) {
		t.Fail()
		return ""
	}
	if t.B[end] == '\\' {
		return t.escaped(start, end)
	}
	t.I = end + 1
	if t.Copy {
		return string(t.B[start:end])
	}
	return unsafe.String(unsafe.SliceData(t.B[start:]), end-start) // these bytes are not modified again
}

// escaped reads a string whose first escape is at end. Decoded text is shorter than its
// escapes, so the string is decoded in place if t owns the text.
func (t *Parser) escaped(start, end int) string {
	if t.Own {
		return t.UnescapeInPlace(start, end)
	}
	last := end
	for last < len(t.B) && t.B[last] == '\\' {
		last = nextSpecial(t.B, last+2)
	}
	inner := Parser{B: Clone(t.B[start:min(last+1, len(t.B))])} // not all of B: the result keeps the copy in memory
	text := inner.UnescapeInPlace(0, end-start)
	t.I = start + inner.I
	if inner.Bad {
		t.Fail()
	}
	return text
}

// UnescapeInPlace decodes a string in place and returns it. The text of the string begins at start and
// has no escape before end.
func (t *Parser) UnescapeInPlace(start, end int) string {
	b := t.B
	out, i := moveText(b, end, end)
	for i+1 < len(b) && b[i] == '\\' {
		var long []byte
		long, i = unescape(b[out:out:len(b)], b, i)
		out, i = moveText(b, out+len(long), i)
	}
	if i >= len(b) || b[i] != '"' {
		t.Fail()
		return ""
	}
	t.I = i + 1
	return unsafe.String(unsafe.SliceData(b[start:]), out-start) // these bytes are not modified again
}

// moveText moves the text of a string from index i to index out, which does not exceed i, and
// decodes short escapes. It stops at the closing quote, at a \u escape and at the end, and returns
// the indices that it reached.
func moveText(b []byte, out, i int) (toOut, toI int) {
	n := len(b)
	by := out - i // the text at i+k moves to i+by+k
	for i+16 <= n {
		w, w2 := word.LoadTwo(b, i)
		if (word.MayEnd(w)|word.MayEnd(w2))&word.Highs == 0 {
			word.StoreTwo(b, i+by, w, w2)
			i += 16
			continue
		}
		found := word.MayEnd(w) & word.Highs
		if found == 0 {
			word.Store(b, i+by, w)
			i += 8
			w, found = w2, word.MayEnd(w2)&word.Highs
		}
		k := bits.TrailingZeros64(found) >> 3
		if by <= -8 { // the bytes after those k may be overwritten
			word.Store(b, i+by, w)
			i += k
		} else {
			if k&4 != 0 {
				word.StoreHalf(b, i+by, uint32(w))
				i, w = i+4, w>>32
			}
			if k&2 != 0 {
				word.StoreByte(b, i+by, byte(w))
				word.StoreByte(b, i+by+1, byte(w>>8))
				i, w = i+2, w>>16
			}
			if k&1 != 0 {
				word.StoreByte(b, i+by, byte(w))
				i++
			}
		}
		c := word.Byte(b, i)
		switch c {
		case '\\':
			if i+1 == n {
				return i + by, i
			}
			if c = escapes[word.Byte(b, i+1)]; c == 0 {
				return i + by, i
			}
			i++
			by--
		case '"':
			return i + by, i
		}
		word.StoreByte(b, i+by, c)
		i++
	}
	return moveBytes(b, i+by, i)
}

// moveBytes is like moveText, but moves one byte at a time.
func moveBytes(b []byte, out, i int) (toOut, toI int) {
	n := len(b)
	for i < n {
		c := word.Byte(b, i)
		switch {
		case c == '"':
			return out, i
		case c != '\\':
			i++
		case i+1 == n || escapes[word.Byte(b, i+1)] == 0:
			return out, i
		default:
			c = escapes[word.Byte(b, i+1)]
			i += 2
		}
		word.StoreByte(b, out, c)
		out++
	}
	return out, i
}

// escapes maps the letters of short escapes to their characters.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// nextSpecial returns the index of the first quote or backslash at or after i, or len(b) if there
// is none.
func nextSpecial(b []byte, i int) int {
	n := len(b)
	for {
		for ; i+32 <= n; i += 32 {
			if (word.MayEnd(word.Load(b, i))|word.MayEnd(word.Load(b, i+8))|
				word.MayEnd(word.Load(b, i+16))|word.MayEnd(word.Load(b, i+24)))&word.Highs != 0 {
				break
			}
		}
		for {
			if i+8 <= n {
				found := word.MayEnd(word.Load(b, i)) & word.Highs
				if i += bits.TrailingZeros64(found) >> 3; found == 0 {
					continue
				}
			}
			if i >= n {
				return n
			}
			if c := word.Byte(b, i); c == '"' || c == '\\' {
				return i
			}
			i++
			break
		}
	}
}

// Bool reads true or false. null reads as false.
func (t *Parser) Bool() bool {
	c := t.Space()
	switch c {
	case 't':
		t.I += len("true")
	case 'f':
		t.I += len("false")
	default:
		if !t.Null() {
			t.Fail()
		}
	}
	if t.I > len(t.B) {
		t.Fail()
	}
	return c == 't'
}

// Int reads an integer. null reads as 0. A number that is not an int64 marks the text as malformed.
func (t *Parser) Int() int64 {
	start := t.I
	if t.I < len(t.B) && t.B[t.I] == '-' {
		t.I++
	}
	var n uint64
	digits := t.I
	for t.I < len(t.B) && t.B[t.I]-'0' <= 9 {
		n = n*10 + uint64(t.B[t.I]-'0')
		t.I++
	}
	switch {
	case t.I == digits:
		if t.I != start || !t.Null() {
			t.Fail()
		}
		return 0
	case t.I-digits > 18, t.I < len(t.B) && (t.B[t.I] == '.' || t.B[t.I]|0x20 == 'e'):
		return t.longInt(start)
	case digits > start:
		return -int64(n)
	}
	return int64(n)
}

// longInt reads a number that may be out of range.
func (t *Parser) longInt(start int) int64 {
	t.I = start
	n, ok := parseInt(t.Raw())
	if !ok {
		t.Fail()
	}
	return n
}

// Raw reads any value and returns its text.
func (t *Parser) Raw() []byte {
	start := t.I
	t.Skip()
	return t.B[start:t.I:t.I]
}

// Skip skips a value of any type.
func (t *Parser) Skip() {
	b, i, depth := t.B, t.I, 0
	for i < len(b) {
		switch c := b[i]; {
		case c == '"':
			for i = nextSpecial(b, i+1); i < len(b) && b[i] == '\\'; {
				i = nextSpecial(b, i+2)
			}
			if i >= len(b) {
				t.Fail()
				return
			}
			if depth == 0 {
				t.I = i + 1
				return
			}
		case c|0x20 == '{':
			depth++
		case c|0x20 == '}':
			if depth == 0 {
				t.I = i // end of the enclosing value
				return
			}
			if depth--; depth == 0 {
				t.I = i + 1
				return
			}
		case depth == 0 && (c == ',' || c <= ' '):
			t.I = i
			return
		}
		i++
	}
	t.I = i
	t.Bad = t.Bad || depth > 0
}
