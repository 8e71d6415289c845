// Package tokens estimates how many tokens of a model's window a text takes,
// for middlewares that keep a conversation within it. No tokenizer is as small
// as an estimate, and each model has its own: where a model says how many tokens
// a request had, believe it instead.
package tokens

import (
	"strconv"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
)

// What things that are no text are taken to need.
const (
	perMessage = 4    // for its role and what separates it from the next
	perPart    = 2000 // an image, a sound, a file
)

// Text estimates a text: a token for four bytes of ASCII, and one for three
// bytes of anything else, which is a character of Chinese.
func Text(s string) int { return (weight(s) + 11) / 12 }

// weight is in twelfths of a token.
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

// Message estimates a message with its calls.
func Message(m abi.Message) int {
	n := perMessage + Content(m.Content) + Text(m.ReasoningContent)
	for _, c := range m.ToolCalls {
		n += perMessage + Text(c.Function.Name) + Text(c.Function.Arguments)
	}
	return n
}

// Content estimates the text and the other parts of a content.
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

// Messages estimates several messages.
func Messages(list []abi.Message) int {
	n := 0
	for _, m := range list {
		n += Message(m)
	}
	return n
}

// Tools estimates what a model is told of the tools that are active.
func Tools(list []abi.StateTool) int {
	n := 0
	for i := range list {
		if t := &list[i]; t.Active {
			n += perMessage + Text(t.Name) + Text(t.Description) + (len(t.Parameters)+3)/4
		}
	}
	return n
}

// Clip shortens a text to about limit tokens: the begin and the end stay, and
// between them stands how much was left out. A text that fits stays as it is.
func Clip(s string, limit int) string {
	if Text(s) <= limit {
		return s
	}
	head, tail := Head(s, limit*2/3), Tail(s, limit/3)
	left := utf8.RuneCountInString(s) - utf8.RuneCountInString(head) - utf8.RuneCountInString(tail)
	return head + "\n… " + strconv.Itoa(left) + " characters left out …\n" + tail
}

// Head is the begin of a text, of at most limit tokens.
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

// Tail is the end of a text, of at most limit tokens.
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
