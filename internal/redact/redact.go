// Package redact removes secrets from text that a server returned, in every
// canonical spelling of their characters.
//
// A server that repeats a secret rarely repeats its bytes. A JSON encoder
// writes / as \/ and & as \u0026, a form writes + as %2b, a page writes & as
// &amp;. An encoder may escape some characters and leave others, and its output
// may be escaped again by the next one. The package therefore does not list
// spellings of a whole secret. It compares a secret with the text character by
// character, and accepts for each character any of its spellings:
//
//   - the character itself
//   - JSON and JavaScript escapes: \/, \", \\, \t, \u0026, \x26
//   - percent-encoding of its UTF-8 bytes, and + for a space
//   - HTML entities: named, decimal and hexadecimal
//
// Escapes may be nested up to three levels deep, and hexadecimal digits may be
// in either case. The base64 form of a secret is found at any alignment.
//
// A malicious server can reveal a secret in a form that is not in this list. Send secrets only to
// trusted servers.
package redact

import (
	"errors"
	"html"
	"strings"
	"unicode/utf8"
)

// maxDepth limits how deep escapes may be nested.
const maxDepth = 3

// maxWork is the number of comparisons allowed for each byte of the searched string.
// Ordinary text needs fewer than 8.
const maxWork = 24

// freeWork is the number of comparisons that each search may use in addition to maxWork for each
// byte.
const freeWork = 1 << 16

// ErrTooComplex is the error of [Text] for a string that needs too many comparisons. Ordinary text never needs that
// number of comparisons.
var ErrTooComplex = errors.New("the text has too many nested escapes to look for secrets in it")

// Text returns s with each occurrence of a secret replaced by the mark of the secret.
// Matches do not overlap: the leftmost one is replaced, and the longest one of those
// that begin at the same position. For given secrets the time is at most proportional
// to the length of s. Text fails with [ErrTooComplex] if the search would take longer.
func Text(s string, secrets []*Secret) (string, error) {
	var starts [256]bool
	for c := range starts {
		starts[c] = escapes(byte(c))
	}
	for _, secret := range secrets {
		for _, p := range secret.patterns {
			var b [utf8.UTFMax]byte
			utf8.EncodeRune(b[:], p[0])
			starts[b[0]] = true
		}
	}
	t := &text{s: s, budget: maxWork*len(s) + freeWork}
	var out strings.Builder
	done := 0
	for i := 0; i < len(s); {
		if !starts[s[i]] {
			i++
			continue
		}
		end, mark := 0, ""
		first := t.at(i, maxDepth)
		for _, secret := range secrets {
			for _, p := range secret.patterns {
				if !first.has(p[0]) {
					continue
				}
				if e := t.match(i, p); e > end {
					end, mark = e, secret.mark
				}
			}
		}
		if t.budget < 0 {
			return "", ErrTooComplex
		}
		if end == 0 {
			i++
			continue
		}
		out.WriteString(s[done:i])
		out.WriteString(mark)
		i, done = end, end
	}
	if done == 0 {
		return s, nil
	}
	out.WriteString(s[done:])
	return out.String(), nil
}

// A text is the state of a search in a string.
type text struct {
	s      string
	budget int // number of comparisons left
	cache  *[maxDepth][cacheSize]spellings

	ends, next []int // buffers of match
}

// match returns the end of the longest spelling of p that begins at start. It returns 0 if there is
// none or if the budget is used up.
func (t *text) match(start int, p []rune) int {
	ends, next := append(t.ends[:0], start), t.next[:0]
	for _, c := range p {
		next = next[:0]
		for _, at := range ends {
			if next = t.step(next, at, c); t.budget < 0 {
				break
			}
		}
		ends, next = next, ends
		if len(ends) == 0 || t.budget < 0 {
			break
		}
	}
	t.ends, t.next = ends, next
	longest := 0
	for _, at := range ends {
		longest = max(longest, at)
	}
	if t.budget < 0 {
		return 0
	}
	return longest
}

// step appends to ends the end positions of the spellings of c at a position. It omits positions
// that ends already contains.
func (t *text) step(ends []int, at int, c rune) []int {
	if at >= len(t.s) {
		return ends
	}
	t.budget -= 1 + len(ends)
	if !escapes(t.s[at]) {
		if u := t.raw(at); u.char == c && !contains(ends, int(u.end)) {
			ends = append(ends, int(u.end))
		}
		return ends
	}
	l := t.at(at, maxDepth)
	for _, u := range l.all() {
		if u.char == c && !contains(ends, int(u.end)) {
			ends = append(ends, int(u.end))
			t.budget -= len(ends)
		}
	}
	return ends
}

func contains(list []int, x int) bool {
	for _, y := range list {
		if x == y {
			return true
		}
	}
	return false
}

// A spelling is one way to read a character at a position of the searched string.
type spelling struct {
	char rune
	end  int32
}

// maxSpellings limits the number of spellings at one position. Without nested escapes there are at
// most three: "&lt;" denotes &, < without the semicolon, and < with it.
const maxSpellings = 12

// A spellings holds the spellings at one position, at most maxSpellings.
type spellings struct {
	at   int32 // the position, plus 1
	n    int32
	list [maxSpellings]spelling
}

func (l *spellings) all() []spelling { return l.list[:l.n] }

func (l *spellings) has(char rune) bool {
	for _, u := range l.all() {
		if u.char == char {
			return true
		}
	}
	return false
}

// add adds a spelling of char that ends before position end, unless l already contains it or is
// full.
func (l *spellings) add(char rune, end int) {
	for _, u := range l.all() {
		if u.char == char && int(u.end) == end {
			return
		}
	}
	if l.n < maxSpellings {
		l.list[l.n] = spelling{char, int32(end)}
		l.n++
	}
}

// cacheSize is the number of positions whose spellings are cached.
const cacheSize = 64

// escapes reports whether a spelling other than the character itself can begin with c.
func escapes(c byte) bool { return c == '%' || c == '\\' || c == '&' || c == '+' }

// raw reads the character at a position without escapes. It reads an invalid byte as -1.
func (t *text) raw(pos int) spelling {
	if c := t.s[pos]; c < utf8.RuneSelf {
		return spelling{rune(c), int32(pos + 1)}
	}
	char, size := utf8.DecodeRuneInString(t.s[pos:])
	if char == utf8.RuneError && size == 1 {
		char = -1
	}
	return spelling{char, int32(pos + size)}
}

// at returns the spellings at a position, with escapes nested at most depth levels deep.
func (t *text) at(pos, depth int) spellings {
	if depth == 0 || !escapes(t.s[pos]) {
		return spellings{n: 1, list: [maxSpellings]spelling{t.raw(pos)}}
	}
	if t.cache == nil {
		t.cache = new([maxDepth][cacheSize]spellings)
	}
	cached := &t.cache[depth-1][pos%cacheSize]
	if int(cached.at) == pos+1 {
		return *cached
	}
	t.budget -= 4
	l := t.at(pos, depth-1)
	l.at = int32(pos + 1)
	for _, u := range l.all() {
		end := int(u.end)
		switch u.char {
		case '+':
			l.add(' ', end)
		case '%':
			t.percent(&l, end, depth-1)
		case '\\':
			t.backslash(&l, end, depth-1)
		case '&':
			t.entity(&l, end, depth-1)
		}
	}
	*cached = l
	return l
}

// char reads a character that ok accepts from the text at pos. It returns the character and the end
// of its spelling, or false if no character begins there. If there are several spellings, it
// chooses the longest.
func (t *text) char(pos, depth int, ok func(rune) bool) (rune, int, bool) {
	if pos >= len(t.s) || t.budget < 0 {
		return 0, 0, false
	}
	t.budget--
	if u := t.raw(pos); !escapes(t.s[pos]) {
		return u.char, int(u.end), ok(u.char)
	}
	l := t.at(pos, depth)
	var longest spelling
	for _, u := range l.all() {
		if u.end > longest.end && ok(u.char) {
			longest = u
		}
	}
	return longest.char, int(longest.end), longest.end > 0
}

// hex reads n hexadecimal digits that begin at pos and returns their value and end. ok is false if
// there are fewer.
func (t *text) hex(pos, depth, n int) (value rune, end int, ok bool) {
	for range n {
		var c rune
		if c, pos, ok = t.char(pos, depth, isHex); !ok {
			return 0, 0, false
		}
		value = value<<4 | digit(c)
	}
	return value, pos, true
}

func isHex(c rune) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func isDecimal(c rune) bool { return '0' <= c && c <= '9' }

func digit(c rune) rune {
	if isDecimal(c) {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

// percent adds to l the character whose percent-encoding has its first % before pos. It
// reads the digits and, for a character of more than one byte, the escapes of the other bytes.
func (t *text) percent(l *spellings, pos, depth int) {
	first, end, ok := t.hex(pos, depth, 2)
	if !ok {
		return
	}
	b := []byte{byte(first)}
	for more := continuations(byte(first)); more > 0; more-- {
		next, e, ok := t.continuation(end, depth)
		if !ok {
			return
		}
		b, end = append(b, next), e
	}
	if c, size := utf8.DecodeRune(b); size == len(b) && (c != utf8.RuneError || size > 1) {
		l.add(c, end)
	}
}

// continuations returns the number of bytes of a character after its first.
func continuations(first byte) int {
	switch {
	case first >= 0xf0:
		return 3
	case first >= 0xe0:
		return 2
	case first >= 0xc0:
		return 1
	}
	return 0
}

// continuation reads the percent-encoded form of a UTF-8 continuation byte at pos. It returns the
// byte, the end of that form, and whether there is one.
func (t *text) continuation(pos, depth int) (byte, int, bool) {
	for _, at := range t.readings(pos, depth, '%') {
		if v, end, ok := t.hex(at, depth, 2); ok && v&0xc0 == 0x80 {
			return byte(v), end, true
		}
	}
	return 0, 0, false
}

// backslash adds to l the characters denoted by an escape whose \ is before pos.
func (t *text) backslash(l *spellings, pos, depth int) {
	if pos >= len(t.s) {
		return
	}
	list := t.at(pos, depth)
	for _, u := range list.all() {
		switch end := int(u.end); u.char {
		case '"', '\'', '\\', '/':
			l.add(u.char, end)
		case 't':
			l.add('\t', end)
		case 'x':
			if c, end, ok := t.hex(end, depth, 2); ok {
				l.add(c, end)
			}
		case 'u':
			if c, end, ok := t.utf16(end, depth); ok {
				l.add(c, end)
			}
		}
	}
}

// utf16 reads the four digits after \u at pos, and the second half of a surrogate pair if they are
// the first. It returns the character, its end, and whether the digits are valid.
func (t *text) utf16(pos, depth int) (rune, int, bool) {
	c, end, ok := t.hex(pos, depth, 4)
	if !ok || c < 0xd800 || c > 0xdbff {
		return c, end, ok
	}
	for _, first := range t.readings(end, depth, '\\') {
		for _, second := range t.readings(first, depth, 'u') {
			if low, end, ok := t.hex(second, depth, 4); ok && low >= 0xdc00 && low <= 0xdfff {
				return 0x10000 + (c-0xd800)<<10 + (low - 0xdc00), end, true
			}
		}
	}
	return 0, 0, false
}

// readings returns the end positions of the spellings of c at a position.
func (t *text) readings(pos, depth int, c rune) []int {
	if pos >= len(t.s) || t.budget < 0 {
		return nil
	}
	t.budget--
	var out []int
	l := t.at(pos, depth)
	for _, u := range l.all() {
		if u.char == c {
			out = append(out, int(u.end))
		}
	}
	return out
}

// entity adds to l the characters denoted by an HTML entity whose & is before pos.
func (t *text) entity(l *spellings, pos, depth int) {
	if _, end, ok := t.char(pos, depth, func(c rune) bool { return c == '#' }); ok {
		if _, e, ok := t.char(end, depth, func(c rune) bool { return c == 'x' || c == 'X' }); ok {
			t.number(l, e, depth, 16, isHex)
		} else {
			t.number(l, end, depth, 10, isDecimal)
		}
		return
	}
	t.named(l, pos, depth)
}

// number adds to l the character of a numeric entity with digits from pos. The semicolon is
// optional.
func (t *text) number(l *spellings, pos, depth int, base rune, ok func(rune) bool) {
	value, digits := rune(0), 0
	for ; ; digits++ {
		c, end, more := t.char(pos, depth, ok)
		if !more {
			break
		}
		value, pos = min(value*base+digit(c), utf8.MaxRune+1), end
	}
	if digits == 0 || value > utf8.MaxRune {
		return
	}
	l.add(value, t.semicolon(pos, depth))
}

// semicolon returns the position after a semicolon at pos, or pos if there is none.
func (t *text) semicolon(pos, depth int) int {
	if _, end, ok := t.char(pos, depth, func(c rune) bool { return c == ';' }); ok {
		return end
	}
	return pos
}

// maxEntity limits the length of an entity's name in bytes. The longest name in HTML has 31.
const maxEntity = 32

// bare holds the entities that named accepts without a semicolon.
var bare = map[string]rune{"amp": '&', "AMP": '&', "lt": '<', "LT": '<', "gt": '>', "GT": '>', "quot": '"', "QUOT": '"'}

// named adds to l the characters of a named entity, whose name begins at pos. It accepts the names in
// bare without a semicolon. With a semicolon, it accepts all names in HTML that denote one character.
func (t *text) named(l *spellings, pos, depth int) {
	var name []byte
	for len(name) < maxEntity {
		c, end, ok := t.char(pos, depth, func(c rune) bool { return isDecimal(c) || 'a' <= c|0x20 && c|0x20 <= 'z' })
		if !ok {
			break
		}
		name, pos = append(name, byte(c)), end
		if c, ok := bare[string(name)]; ok {
			l.add(c, pos)
		}
		end = t.semicolon(pos, depth)
		if end == pos {
			continue
		}
		decoded := html.UnescapeString("&" + string(name) + ";")
		if c, size := utf8.DecodeRuneInString(decoded); size == len(decoded) {
			l.add(c, end)
		}
	}
}
