package wire

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// Separated returns the parts next of a changed answer in the order of old, the parts that the upstream
// sent. The chain joins the chunks of an answer that is not streamed into a message whose first part
// has all of the text.
func Separated(old, next []abi.Part) []abi.Part {
	if SameTypes(old, next) {
		return next
	}
	var text strings.Builder
	var opaque []abi.Part
	for i := range next {
		switch p := &next[i]; {
		case Opaque(p):
			opaque = append(opaque, *p)
		case p.Type == abi.PartText:
			text.WriteString(p.Text)
		default:
			return next
		}
	}
	var texts []string
	for i := range old {
		if old[i].Type == abi.PartText {
			texts = append(texts, old[i].Text)
		}
	}
	if len(old)-len(texts) != len(opaque) {
		return next
	}
	texts = Spread(texts, text.String())
	out := slices.Clone(old)
	for i := range out {
		if out[i].Type == abi.PartText {
			out[i].Text, texts = texts[0], texts[1:]
		} else {
			out[i], opaque = opaque[0], opaque[1:]
		}
	}
	for _, rest := range texts {
		out = append(out, abi.Part{Type: abi.PartText, Text: rest})
	}
	return out
}

// SameTypes reports whether parts have the same types in the same order.
func SameTypes(a, b []abi.Part) bool {
	return slices.EqualFunc(a, b, func(a, b abi.Part) bool { return a.Type == b.Type })
}

// Spread divides text among blocks. Blocks at the beginning and the end keep their text if the new text has it
// there. The first of the other blocks, or the last block, gets the rest. Without blocks, the text is one block.
func Spread(blocks []string, text string) []string {
	if len(blocks) == 0 {
		return []string{text}
	}
	out := make([]string, len(blocks))
	first, last := 0, len(blocks)
	for first < last && strings.HasPrefix(text, blocks[first]) {
		out[first], text = blocks[first], text[len(blocks[first]):]
		first++
	}
	for last > first+1 && strings.HasSuffix(text, blocks[last-1]) {
		last--
		out[last], text = blocks[last], text[:len(text)-len(blocks[last])]
	}
	out[min(first, len(out)-1)] += text
	return out
}
