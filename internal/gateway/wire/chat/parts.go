package chat

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// carried maps the part types that the API accepts from a user but not from a tool to their names
// in text.
var carried = map[string]string{abi.PartImage: "image", abi.PartAudio: "audio", abi.PartFile: "file"}

// moveParts converts tool results to the form of the API, whose tool messages contain only text. It
// moves images, audio and files from tool results to one user message after the answers of that
// round, and replaces them with a line of text that refers to the user message. So every call has
// exactly one answer, and the answers stay adjacent. Parts of other types stay in place, because
// the endpoint may support them.
func moveParts(in []abi.Message) []abi.Message {
	if !slices.ContainsFunc(in, func(m abi.Message) bool { return m.Role == abi.RoleTool && m.Content.IsParts() }) {
		return in
	}
	out := make([]abi.Message, 0, len(in)+1)
	var trailing []abi.Part
	flush := func() {
		if len(trailing) > 0 {
			out = append(out, abi.Message{Role: abi.RoleUser, Content: abi.Parts(trailing...)})
		}
		trailing = nil
	}
	for _, m := range in {
		if m.Role != abi.RoleTool {
			flush()
		} else if m.Content.IsParts() {
			var moved []abi.Part
			m.Content, moved = splitResult(&m)
			trailing = append(trailing, moved...)
		}
		out = append(out, m)
	}
	flush()
	return out
}

// splitResult returns the content of a tool message without the parts that it cannot contain. moved
// holds these parts, after a text that names the tool call.
func splitResult(m *abi.Message) (content abi.Content, moved []abi.Part) {
	kept := make([]abi.Part, 0, len(m.Content.Parts()))
	var kinds []string
	for _, p := range m.Content.Parts() {
		kind, ok := carried[p.Type]
		if !ok {
			kept = append(kept, p)
			continue
		}
		kinds = append(kinds, kind)
		moved = append(moved, p)
	}
	if len(moved) == 0 {
		return m.Content, nil
	}
	list := strings.Join(kinds, ", ")
	kept = append(kept, textPart(fmt.Sprintf("[%s: in the message after the tool results]", list)))
	head := fmt.Sprintf("[%s from the result of tool call %s", list, m.ToolCallID)
	if m.Name != "" {
		head += " of " + m.Name
	}
	return abi.Parts(kept...), append([]abi.Part{textPart(head + "]")}, moved...)
}

func textPart(s string) abi.Part { return abi.Part{Type: abi.PartText, Text: s} }
