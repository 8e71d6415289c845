package main

import (
	"math/bits"
	"strings"
)

// A survey tells which characters a text has. The detectors take several nanoseconds for each byte, and most
// texts have nothing for them to find.
type survey struct {
	at        bool     // @
	digit     bool     // a digit
	disguised bool     // a character that the undisguised form of a text may replace
	runs      [][2]int // runs of base64 or hexadecimal digits that may encode text: their start and end
}

// read returns the survey of text[from:].
func read(text string, from int) survey {
	var s survey
	var at, digit, disguised uint64
	end := from // end of the last run
	for i, next := from, from; i < len(text); i += 8 {
		if i >= next { // try again after 32 bytes
			i += common(text[i:])
			next = i + 32
		}
		w := word(text[i:])
		low := w &^ highs
		letters := between(low|' '*ones, 'a', 'z') &^ w
		lower := letters & (low << 2) // bit 5 of a small letter is set
		digits := between(low, '0', '9') &^ w
		at |= equal(low, '@') &^ w
		digit |= digits
		disguised |= w | between(low, '%', '&') | equal(low, '\\')
		coded := letters&^lower | digits | (equal(low, '+')|equal(low, '/')|equal(low, '_'))&^w
		if coded == 0 {
			continue
		}
		gaps := ^(coded | lower | equal(low, '-')&^w) & highs
		for coded = after(coded, end-i); coded != 0; coded = after(coded, end-i) {
			var begin int
			begin, end = around(text, i, end, bits.TrailingZeros64(coded)/8, gaps)
			if end-begin >= minRun {
				s.runs = append(s.runs, [2]int{begin, end})
			}
		}
	}
	s.at, s.digit, s.disguised = at != 0, digit != 0, disguised&highs != 0
	return s
}

// after returns mask without the bits of its first n bytes. n may be less than 0 or more than 8.
func after(mask uint64, n int) uint64 {
	if n <= 0 {
		return mask
	}
	return mask >> (8 * n) << (8 * n)
}

// around returns the start and the end of the run that contains byte k of the eight bytes of text at i. The run
// does not begin before index from. gaps has the highest bit of each of the eight bytes that is not part of a run.
func around(text string, i, from, k int, gaps uint64) (begin, end int) {
	begin, end = i, i+8
	if before := gaps & (1<<(8*k) - 1); before != 0 {
		begin += bits.Len64(before) / 8
	} else {
		for begin > from && runs[text[begin-1]] {
			begin--
		}
	}
	if next := gaps >> (8 * k); next != 0 {
		end = i + k + bits.TrailingZeros64(next)/8
	} else {
		for end < len(text) && runs[text[end]] {
			end++
		}
	}
	return max(begin, from), end
}

const (
	ones   = 0x0101010101010101
	highs  = 0x80 * ones
	spaces = ' ' * ones
)

// common returns the length of the longest start of text that is a multiple of 32 bytes long and has only small
// letters, spaces and common punctuation.
func common(text string) int {
	all := len(text)
	for len(text) >= 32 {
		if unusual(load(text))|unusual(load(text[8:]))|unusual(load(text[16:]))|unusual(load(text[24:])) != 0 {
			break
		}
		text = text[32:]
	}
	return all - len(text)
}

// unusual returns the highest bit of each byte of w that is not in ASCII, from % to +, or from / to
// _. The latter contain the digits and the capital letters.
func unusual(w uint64) uint64 {
	low := w &^ highs
	return (w | between(low, '%', '+') | between(low, '/', '_')) & highs
}

// load returns the first eight bytes of text as a little-endian integer.
func load(text string) uint64 {
	return uint64(text[0]) | uint64(text[1])<<8 | uint64(text[2])<<16 | uint64(text[3])<<24 |
		uint64(text[4])<<32 | uint64(text[5])<<40 | uint64(text[6])<<48 | uint64(text[7])<<56
}

// word returns the first eight bytes of text as a little-endian integer, with spaces after the end of the text.
func word(text string) uint64 {
	if len(text) >= 8 {
		return load(text)
	}
	w := uint64(spaces)
	for i := len(text) - 1; i >= 0; i-- {
		w = w<<8 | uint64(text[i])
	}
	return w
}

// between returns the highest bit of each byte of low that is in [first, last]. All bytes are below
// 0x80.
func between(low uint64, first, last byte) uint64 {
	return (low + uint64(0x80-first)*ones) &^ (low + uint64(0x7f-last)*ones) & highs
}

// equal returns a word in which the highest bit of a byte is set if that byte of low equals c. All
// bytes of low, and c, must be below 0x80.
func equal(low uint64, c byte) uint64 {
	return ^(low ^ uint64(c)*ones + 0x7f*ones) & highs
}

// nextDigit returns the index of the first digit in text[i:], or the length of text.
func nextDigit(text string, i int) int {
	for ; i < len(text); i += 8 {
		w := word(text[i:])
		if m := between(w&^highs, '0', '9') &^ w; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	return len(text)
}

// nextByte returns the index of the first byte c in text[i:], or the length of text.
func nextByte(text string, i int, c byte) int {
	if k := strings.IndexByte(text[min(i, len(text)):], c); k >= 0 {
		return i + k
	}
	return len(text)
}
