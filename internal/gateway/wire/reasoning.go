package wire

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
)

// The types of parts with reasoning that only the API which wrote them can read.
const (
	partThinking = "thinking"          // of the Messages API; of Mistral's chat completions, if it has a list
	partRedacted = "redacted_thinking" // of the Messages API
	partItem     = "reasoning"         // an item of the Responses API
)

// IsReasoning reports whether a part is a model's reasoning, signed or not, that only the API which wrote it can read.
// Requests to other APIs are sent without such parts.
func IsReasoning(p *abi.Part) bool {
	switch p.Type {
	case partThinking, partRedacted:
		return true
	case partItem:
		return member(p, "encrypted_content").Exists() || member(p, "summary").Exists()
	}
	return false
}

// IsModels reports whether the model alone writes the opaque parts of a type: reasoning and refusals.
func IsModels(typ string) bool {
	switch typ {
	case partThinking, partRedacted, partItem, KindRefusal:
		return true
	}
	return false
}

// IsSigned reports whether a part of the Messages API with reasoning has a signature, or is encrypted. Anthropic
// rejects other reasoning.
func IsSigned(p *abi.Part) bool {
	return p.Type == partRedacted || p.Type == partThinking && member(p, "signature").String() != ""
}

// IsForeign reports whether a part has reasoning that no API of chat completions wrote.
func IsForeign(p *abi.Part) bool {
	return IsReasoning(p) && (p.Type != partThinking || member(p, partThinking).IsString() || IsSigned(p))
}

// HasForeign reports whether a message has a part for which [IsForeign] reports true.
func HasForeign(m *abi.Message) bool {
	return m.Content.IsParts() && slices.ContainsFunc(m.Content.Parts(), func(p abi.Part) bool { return IsForeign(&p) })
}

// member returns a field of a part that the ABI does not define.
func member(p *abi.Part, name string) rawjson.Value {
	for _, f := range p.Unknown {
		if f.Name == name {
			return rawjson.Value{Text: f.Value}
		}
	}
	return rawjson.Value{}
}

// ReasoningText returns the text of a part with reasoning that people can read, or "".
func ReasoningText(p *abi.Part) string {
	switch p.Type {
	case partThinking:
		return member(p, "thinking").String()
	case partItem:
		var texts []string
		for _, name := range []string{"summary", "content"} {
			for _, v := range member(p, name).Elements() {
				if text := v.Get("text").String(); text != "" {
					texts = append(texts, text)
				}
			}
		}
		return strings.Join(texts, "\n\n")
	}
	return ""
}

// Ordered returns the parts of an assistant's message in the order in which the model wrote them. In an answer whose
// chunks a module changed, the first part has all of the text, and the reasoning follows. Ordered then moves the text
// after the reasoning.
func Ordered(parts []abi.Part) []abi.Part {
	if len(parts) < 2 || parts[0].Type != abi.PartText {
		return parts
	}
	rest := parts[1:]
	if !slices.ContainsFunc(rest, func(p abi.Part) bool { return IsReasoning(&p) }) ||
		slices.ContainsFunc(rest, func(p abi.Part) bool { return p.Type == abi.PartText }) {
		return parts
	}
	return append(slices.Clone(rest), parts[0])
}

// Thoughts makes chunks of the reasoning of a streamed answer.
type Thoughts struct {
	section any
	any     bool
}

// Chunk returns a chunk with text of a section of the reasoning. A blank line separates it from the section before.
func (t *Thoughts) Chunk(section any, text string) abi.Chunk {
	if text == "" {
		return abi.Chunk{}
	}
	if t.any && t.section != section {
		text = "\n\n" + text
	}
	t.section, t.any = section, true
	return abi.Chunk{Kind: abi.ChunkReasoning, Text: text}
}
