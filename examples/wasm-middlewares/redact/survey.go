package main

import (
	"math/bits"
	"strings"

	"github.com/agent-runner/agent-runner/internal/word"
)

// A survey records which characters a text contains, so that slow detectors can skip texts without
// the characters that they need.
type survey struct {
	at        bool     // @
	disguised bool     // a character that the undisguised form of a text may replace
	numbers   []int    // the starts of runs of digits
	runs      [][2]int // runs of base64 or hexadecimal digits that may encode text: their start and end
}

// read returns the survey of text[from:]. It looks at eight bytes at a time, and finds the highest bit of each byte
// that has a property.
func read(text string, from int) survey {
	var s survey
	var at, disguised, before uint64      // before is 0x80 if the last byte was a digit
	gaps, end := uint64(word.Highs), from // the bytes of the last word below those of runs; the end of the last run
	for i, next := from, from; i < len(text); i += 8 {
		if i >= next {
			if n := common(text, i); n > 0 {
				i, gaps, before = i+n-8, 0, 0 // a run may begin in the last word
			}
			next = i + 64
		}
		w := wordAt(text, i)
		low := w &^ word.Highs
		at |= equal(low, '@') &^ w
		disguised |= w | between(low, '%', '&') | equal(low, '\\')
		if digits := between(low, '0', '9') &^ w & word.Highs; digits != 0 {
			for starts := digits &^ (digits<<8 | before); starts != 0; starts &= starts - 1 {
				s.numbers = append(s.numbers, i+bits.TrailingZeros64(starts)/8)
			}
			before = digits >> 56
		} else {
			before = 0
		}
		// A run of twelve bytes has this word, or the second half of the last one and the first half of this one.
		last := gaps >> 32
		gaps = ^(low + (0x80-'+')*word.Ones) & word.Highs
		if (gaps == 0 || last|gaps<<32 == 0) && i >= end && hasRun(text, w, i) {
			end = s.addRun(text, i, end)
		}
	}
	s.at, s.disguised = at&word.Highs != 0, disguised&word.Highs != 0
	return s
}

// common returns the number of bytes of text, from index i on, that have only small letters, spaces and common
// punctuation. It is a multiple of 32.
func common(text string, i int) int {
	begin := i
	for ; i+32 <= len(text); i += 32 {
		if (unusual(word.LoadString(text, i))|unusual(word.LoadString(text, i+8))|
			unusual(word.LoadString(text, i+16))|unusual(word.LoadString(text, i+24)))&word.Highs != 0 {
			break
		}
	}
	return i - begin
}

// unusual returns the highest bit of each byte of w that is not in ASCII, is one of % to +, or is
// one of / to _. The last range contains the digits and the capital letters.
func unusual(w uint64) uint64 {
	low := w &^ word.Highs
	return w | between(low, '%', '+') | between(low, '/', '_')
}

// hasRun reports whether the eight bytes of text at i or at i-4 are part of a run. w is the word at i.
func hasRun(text string, w uint64, i int) bool {
	const half = word.Highs >> 32
	here := ofRuns(w)
	return here == word.Highs || here&half == half && i >= 8 && ofRuns(wordAt(text, i-8))>>32 == half
}

// ofRuns returns the highest bit of each byte of w that may be part of a run.
func ofRuns(w uint64) uint64 {
	low := w &^ word.Highs
	return (between(low|' '*word.Ones, 'a', 'z') | between(low, '0', '9') | equal(low, '-') | equal(low, '+') |
		equal(low, '/') | equal(low, '_')) &^ w & word.Highs
}

// addRun adds the run that contains the byte at index i of text, if it may encode text. The run does not begin
// before index from. addRun returns the end of the run.
func (s *survey) addRun(text string, i, from int) int {
	begin, end := i, i
	for begin > from && inRun(text[begin-1]) {
		begin--
	}
	for n := 8; n == 8; end += n {
		n = bits.TrailingZeros64(^ofRuns(wordAt(text, end))&word.Highs) / 8
	}
	if end-begin >= minRun && hasCode(text[begin:end]) {
		s.runs = append(s.runs, [2]int{begin, end})
	}
	return end
}

// inRun reports whether a character may be part of an encoded run.
func inRun(c byte) bool { return alnum(c) || c == '-' || c == '+' || c == '/' || c == '_' }

// hasCode reports whether a run has other characters than small letters and hyphens. A run of only
// these is more likely to consist of words.
func hasCode(run string) bool {
	for i := range len(run) {
		if c := run[i]; c != '-' && (c < 'a' || c > 'z') {
			return true
		}
	}
	return false
}

// wordAt returns the eight bytes of text at i as a little-endian integer, with spaces after the end of the text.
func wordAt(text string, i int) uint64 {
	if i+8 <= len(text) {
		return word.LoadString(text, i)
	}
	return word.Rest(text, i)
}

// between sets the highest bit of each byte of low that is in [first, last]. Other bits have no meaning. All bytes of
// low are below 0x80.
func between(low uint64, first, last byte) uint64 {
	return (low + uint64(0x80-first)*word.Ones) &^ (low + uint64(0x7f-last)*word.Ones)
}

// equal sets the highest bit of each byte of low that is c, which is below 0x80. It is otherwise like between.
func equal(low uint64, c byte) uint64 {
	return ^(low ^ uint64(c)*word.Ones + 0x7f*word.Ones)
}

// nextByte returns the index of the first byte c in text[i:], or the length of text.
func nextByte(text string, i int, c byte) int {
	if k := strings.IndexByte(text[min(i, len(text)):], c); k >= 0 {
		return i + k
	}
	return len(text)
}
