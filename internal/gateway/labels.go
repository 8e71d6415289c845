package gateway

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// maxLabelledParts is the maximum number of parts of a message that have labels of their own.
const maxLabelledParts = 64

// labelParts labels those parts of the assistant's messages that the model may not have written, such as the output
// of a shell or the results of a search. Their label is that of a tool with the name of their type.
func labelParts(messages []abi.Message) {
	for i := range messages {
		m := &messages[i]
		if m.Role != abi.RoleAssistant || !slices.ContainsFunc(m.Content.Parts(), isForeign) {
			continue
		}
		parts, own := m.Content.Parts(), message.Labels(m)
		labels := make([][]string, len(parts))
		var types []string
		for k, p := range parts {
			if labels[k] = own; isForeign(p) {
				labels[k] = []string{message.ToolLabel(p.Type)}
				types = append(types, labels[k][0])
			}
		}
		all := message.JoinLabels(own, types)
		message.SetLabels(m, all)
		if len(parts) > maxLabelledParts {
			continue
		}
		for k := range labels {
			if !slices.Equal(labels[k], all) {
				m.PartLabels = append(m.PartLabels, abi.PartLabels{Part: k, Labels: labels[k]})
			}
		}
	}
}

// isForeign reports whether a part of an assistant's message may contain words that are not the model's.
func isForeign(p abi.Part) bool { return wire.Opaque(&p) && !wire.IsModels(p.Type) }
