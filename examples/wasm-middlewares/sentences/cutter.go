package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A cutter cuts text that comes in pieces into sentences, which put together
// are the text: white space stays at the end of the sentence before it, unless
// that is as long as may be already.
type cutter struct {
	longest int // characters
	held    string
}

// add adds a piece, and returns the sentences that have come to their end.
func (c *cutter) add(piece string) []string {
	c.held += piece
	var out []string
	for {
		n := c.end()
		if n == 0 {
			return out
		}
		out = append(out, c.held[:n])
		c.held = c.held[n:]
	}
}

// rest returns what is left, as the last sentence; nothing if nothing is.
func (c *cutter) rest() []string {
	if c.held == "" {
		return nil
	}
	out := []string{c.held}
	c.held = ""
	return out
}

// end is where the first sentence ends, with the white space behind it; 0 if
// it is not known yet. A mark ends one if white space follows: neither 3.14 nor
// "?!" is cut in two.
func (c *cutter) end() int {
	const (
		inside = iota
		marked // behind a mark
		closed // behind the white space that follows it
	)
	state, count, word := inside, 0, 0
	for i, r := range c.held {
		switch {
		case state != inside && unicode.IsSpace(r):
			state = closed
		case state == closed:
			return i
		case r == '\n':
			state = closed
		case strings.ContainsRune(".!?…", r):
			state = marked
		case strings.ContainsRune("。！？", r): // no space follows those
			state = closed
		case state == marked && strings.ContainsRune(`"'”’»)]`, r):
		default:
			state = inside
		}
		if unicode.IsSpace(r) {
			word = i + utf8.RuneLen(r)
		}
		if count++; count > c.longest {
			if word > 0 && word <= i {
				return word
			}
			return i
		}
	}
	return 0
}
