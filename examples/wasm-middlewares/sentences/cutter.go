package main

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A cutter splits text that arrives in pieces into sentences. White space stays at the end
// of the sentence before it, unless that sentence already has the maximum length. The
// concatenated sentences equal the text.
type cutter struct {
	longest int // characters
	held    string
}

// add appends a piece, and returns the complete sentences.
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

// rest returns the remaining text as the last sentence, or nothing.
func (c *cutter) rest() []string {
	if c.held == "" {
		return nil
	}
	out := []string{c.held}
	c.held = ""
	return out
}

// end returns the end of the first sentence, including the white space after it, or 0 if it is
// incomplete. A line break or a mark such as "。" ends a sentence. A mark such as "." does so only
// before white space, so 3.14 and "?!" are not split. A sentence that is too long ends after the
// last white space that fits or, if there is none, at the maximum length.
func (c *cutter) end() int {
	const (
		inside = iota
		marked // a mark was the last character
		closed // white space follows the mark
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
		case strings.ContainsRune("。！？", r): // these need no space after them
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
