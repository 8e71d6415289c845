// Package tokens estimates the number of tokens of text, for middlewares that keep a
// conversation within a model's context window. An estimate avoids a tokenizer, which is
// large and differs per model. If a model reports a request's token count, prefer that.
package tokens

import (
	"strconv"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
)

// Token estimates for things other than text.
const (
	perMessage = 4    // the role, and the separator from the next message
	perPart    = 2000 // an image, audio or file
)

// Text estimates the tokens of s, rounded up: one per four bytes of ASCII, and one per three
// bytes of anything else. Three bytes are one Chinese character.
func Text(s string) int { return (weight(s) + 11) / 12 }

// weight returns the estimate in twelfths of a token.
func weight(s string) int {
	n := 0
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			n += 3
		} else {
			n += 4
		}
	}
	return n
}

// Message estimates the tokens of a message, including its tool calls.
func Message(m abi.Message) int {
	n := perMessage + Content(m.Content) + Text(m.ReasoningContent)
	for _, c := range m.ToolCalls {
		n += perMessage + Text(c.Function.Name) + Text(c.Function.Arguments)
	}
	return n
}

// Content estimates the tokens of the text and of the other parts of a message's content.
func Content(c abi.Content) int {
	n := Text(c.String())
	if c.IsParts() {
		for _, p := range c.Parts() {
			if p.Type != abi.PartText {
				n += perPart
			}
		}
	}
	return n
}

// Messages estimates the tokens of several messages.
func Messages(list []abi.Message) int {
	n := 0
	for _, m := range list {
		n += Message(m)
	}
	return n
}

// Tools estimates the tokens of the declarations of the active tools.
func Tools(list []abi.StateTool) int {
	n := 0
	for i := range list {
		if t := &list[i]; t.Active {
			n += perMessage + Text(t.Name) + Text(t.Description) + (len(t.Parameters)+3)/4
		}
	}
	return n
}

// Clip shortens s to about limit tokens. It keeps the beginning and the end, with a note of
// the number of omitted characters between them. A string within the limit is unchanged.
func Clip(s string, limit int) string {
	if Text(s) <= limit {
		return s
	}
	head, tail := Head(s, limit*2/3), Tail(s, limit/3)
	left := utf8.RuneCountInString(s) - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail)
	return head + "\n… " + strconv.Itoa(left) + " characters left out …\n" + tail
}

// Head returns the beginning of s, of at most limit tokens.
func Head(s string, limit int) string {
	left := limit * 12
	for i := 0; i < len(s); {
		_, n := utf8.DecodeRuneInString(s[i:])
		if left -= weight(s[i : i+n]); left < 0 {
			return s[:i]
		}
		i += n
	}
	return s
}

// Tail returns the end of s, of at most limit tokens.
func Tail(s string, limit int) string {
	left := limit * 12
	for i := len(s); i > 0; {
		_, n := utf8.DecodeLastRuneInString(s[:i])
		if left -= weight(s[i-n : i]); left < 0 {
			return s[i:]
		}
		i -= n
	}
	return s
}
