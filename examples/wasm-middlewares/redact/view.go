package main

import (
	"math/bits"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/examples/wasm-middlewares/internal/disguise"
	"github.com/agent-runner/agent-runner/internal/word"
)

// A view is a form of text for the detectors: the text itself, or its undisguised form.
type view struct {
	text   string
	from   int    // start of unprocessed text
	survey survey // survey of text[from:]

	// pieces holds the pieces of an undisguised view in order, with the position of each piece in the
	// original. It is nil for a view of the text itself.
	pieces  []piece
	to      int    // length of the part of the original that the view covers
	escapes []span // ranges of the original
}

// A piece of an undisguised view is either unchanged text, or the plain form of one character.
type piece struct {
	at       int // index in the view
	from, to int // range of the original
	changed  bool
}

// asItIs returns the view of the text itself.
func asItIs(text string, from int) *view {
	return &view{text: text, from: from, survey: read(text, from), to: len(text)}
}

// begin returns the original start of the character at index i of the view.
func (v *view) begin(i int) int {
	switch {
	case v.pieces == nil:
		return i
	case i == len(v.text):
		return v.to
	}
	p := v.piece(i)
	if p.changed {
		return p.from
	}
	return p.from + i - p.at
}

// end returns the original end of the character that ends before index i of the view.
func (v *view) end(i int) int {
	if v.pieces == nil {
		return i
	}
	p := v.piece(i - 1)
	if p.changed {
		return p.to
	}
	return p.from + i - p.at
}

// piece returns the piece that contains index i of the view.
func (v *view) piece(i int) *piece {
	n := sort.Search(len(v.pieces), func(n int) bool { return v.pieces[n].at > i })
	return &v.pieces[n-1]
}

// whole returns the largest index that is at most cut and does not split an escape.
func (v *view) whole(cut int) int {
	for _, e := range v.escapes {
		if e.from < cut && cut < e.to {
			return e.from
		}
	}
	return cut
}

// last returns the last character of the view that ends at or before index cut of the original.
func (v *view) last(cut int) string {
	n := sort.Search(len(v.pieces), func(n int) bool {
		p := &v.pieces[n]
		return p.from > cut || p.changed && p.to > cut
	})
	end := 0
	if n > 0 {
		p := &v.pieces[n-1]
		end = len(v.text)
		if n < len(v.pieces) {
			end = v.pieces[n].at
		}
		if !p.changed {
			end = min(end, p.at+cut-p.from)
		}
	}
	_, size := utf8.DecodeLastRuneInString(v.text[:end])
	return v.text[end-size : end]
}

// undisguised returns the view of text[from:] in plain characters. It removes invisible characters
// and decodes escapes, including those of JSON if json is true. before is the preceding text.
// Unless last is true, undisguised stops before an escape that may be incomplete.
func undisguised(text string, from int, before string, json, last bool) *view {
	v := &view{from: len(before), to: from}
	out := append(make([]byte, 0, len(before)+len(text)-from), before...)
	v.pieces = append(v.pieces, piece{from: from, to: from, changed: true})
	for v.to < len(text) {
		if n := plainStart(text[v.to:]); n > 0 {
			v.pieces = append(v.pieces, piece{at: len(out), from: v.to, to: v.to + n})
			out = append(out, text[v.to:v.to+n]...)
			v.to += n
			continue
		}
		c, size := escape(text[v.to:], json)
		if size < 0 && !last {
			break
		}
		if size > 0 {
			v.escapes = append(v.escapes, span{from: v.to, to: v.to + size})
		} else {
			c, size = utf8.DecodeRuneInString(text[v.to:])
		}
		if c = disguise.FoldRune(c); c >= 0 {
			v.pieces = append(v.pieces, piece{at: len(out), from: v.to, to: v.to + size, changed: true})
			out = utf8.AppendRune(out, c)
		}
		v.to += size
	}
	v.text = string(out)
	v.survey = read(v.text, v.from)
	return v
}

// disguised reports whether the undisguised form of text[from:] may differ from it, given the survey of
// text[from:]. The other arguments are those of [undisguised].
func disguised(text string, from int, s *survey, json, last bool) bool {
	if !s.disguised {
		return false
	}
	for i := from; ; i++ {
		if i += plainStart(text[i:]); i == len(text) {
			return false
		}
		if text[i] >= utf8.RuneSelf {
			c, size := utf8.DecodeRuneInString(text[i:])
			if size == 1 || disguise.FoldRune(c) != c {
				return true
			}
			i += size - 1
			continue
		}
		if _, size := escape(text[i:], json); size > 0 || size < 0 && !last {
			return true
		}
	}
}

// plainStart returns the number of bytes of text before the first that undisguised may replace.
func plainStart(text string) int {
	for i := 0; i < len(text); i += 8 {
		w := wordAt(text, i)
		low := w &^ word.Highs
		if m := (w | between(low, '%', '&') | equal(low, '\\')) & word.Highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	return len(text)
}

// maxSlashes is the maximum number of backslashes at the start of an escape: JSON in JSON
// doubles them.
const maxSlashes = 8

// escape decodes the escape at the start of text and returns its character and its length. The
// length is 0 if there is no escape, and -1 if more text could complete one.
func escape(text string, json bool) (rune, int) {
	switch text[0] {
	case '%':
		return percent(text)
	case '&':
		return entity(text)
	case '\\':
		slashes := 1
		for slashes < len(text) && slashes < maxSlashes && text[slashes] == '\\' {
			slashes++
		}
		c, size := numbered(text, slashes)
		if size == 0 && json && len(text) > 1 {
			return afterSlash(text[1]), 2
		}
		return c, size
	}
	return 0, 0
}

// numbered decodes \u0040, \u{40} or \x40 at the start of text, which begins with the given number
// of backslashes. Its results are those of [escape].
func numbered(text string, slashes int) (rune, int) {
	if len(text) == slashes {
		return 0, -1
	}
	rest := text[slashes+1:]
	switch {
	case text[slashes] == 'u' && strings.HasPrefix(rest, "{"):
		return closed(text, slashes+2, 16, 6, '}')
	case text[slashes] == 'u':
		return digits(text, slashes+1, 4)
	case text[slashes] == 'x':
		return digits(text, slashes+1, 2)
	}
	return 0, 0
}

// afterSlash returns the character of a two-character JSON escape. Control characters
// become spaces.
func afterSlash(c byte) rune {
	if i := strings.IndexByte("nrtbf", c); i >= 0 {
		return ' '
	}
	return rune(c)
}

// digits decodes a number that begins at index i and has exactly count hexadecimal digits. It
// returns the character with that number and the index after the digits, or 0 or -1 as [escape]
// does.
func digits(text string, i, count int) (rune, int) {
	for at := i; at < i+count; at++ {
		if at == len(text) {
			return 0, -1
		}
		if !hexadecimal(text[at]) {
			return 0, 0
		}
	}
	n, _ := strconv.ParseUint(text[i:i+count], 16, 32)
	return rune(n), i + count
}

// closed decodes a number that begins at index i, has at most limit digits, and is followed by a
// terminator. It returns the character with that number and the index after the terminator, or 0 or
// -1 as [escape] does.
func closed(text string, i, base, limit int, by byte) (rune, int) {
	for at := i; at <= i+limit; at++ {
		switch {
		case at == len(text):
			return 0, -1
		case text[at] == by && at > i:
			n, _ := strconv.ParseUint(text[i:at], base, 32)
			if n > utf8.MaxRune {
				return 0, 0
			}
			return rune(n), at + 1
		case !digit(text[at]) && (base != 16 || !hexadecimal(text[at])):
			return 0, 0
		}
	}
	return 0, 0
}

func hexadecimal(c byte) bool { return digit(c) || c|0x20 >= 'a' && c|0x20 <= 'f' }

// percent decodes the percent-encoded bytes of one character, such as %40 or %C3%A9. Its results
// are those of [escape].
func percent(text string) (rune, int) {
	var b [utf8.UTFMax]byte
	for n := range b {
		if len(text) == 3*n {
			return 0, -1
		}
		if text[3*n] != '%' {
			return 0, 0
		}
		c, size := digits(text, 3*n+1, 2)
		if size <= 0 {
			return 0, size
		}
		b[n] = byte(c)
		if utf8.FullRune(b[:n+1]) {
			r, read := utf8.DecodeRune(b[:n+1])
			if r == utf8.RuneError || read < n+1 {
				return 0, 0
			}
			return r, 3 * (n + 1)
		}
	}
	return 0, 0
}

// entities has the HTML names of characters that occur in data.
var entities = []struct {
	name string
	char rune
}{
	{"commat", '@'}, {"period", '.'}, {"colon", ':'}, {"hyphen", '-'}, {"dash", '-'}, {"lowbar", '_'}, {"plus", '+'},
	{"nbsp", ' '}, {"sp", ' '},
}

// entity decodes an HTML character reference, such as &#64;, &#x40; or &commat;. Its results are
// those of [escape].
func entity(text string) (rune, int) {
	switch {
	case strings.HasPrefix(text, "&#x") || strings.HasPrefix(text, "&#X"):
		return closed(text, 3, 16, 6, ';')
	case strings.HasPrefix(text, "&#"):
		return closed(text, 2, 10, 7, ';')
	}
	for _, e := range entities {
		switch rest, ok := strings.CutPrefix(text[1:], e.name); {
		case ok && strings.HasPrefix(rest, ";"):
			return e.char, len(text) - len(rest) + 1
		case ok && rest == "", strings.HasPrefix(e.name, text[1:]):
			return 0, -1
		}
	}
	return 0, 0
}
