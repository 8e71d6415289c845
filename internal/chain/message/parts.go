package message

import (
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// maxLabelledParts is the maximum number of parts of a changed message whose parts have labels of
// their own. The parts of a larger message all have the labels of the message.
const maxLabelledParts = 64

// partLabels returns the labels of those parts of m whose labels differ from those of m. m replaces
// was. A part that was also has keeps its labels. The other parts get the labels in added, and the
// labels of the parts of was that m does not have.
func partLabels(m, was *abi.Message, added []string) []abi.PartLabels {
	parts, before := m.Content.Parts(), was.Content.Parts()
	if !m.Content.IsParts() || len(parts) > maxLabelledParts || len(before) > maxLabelledParts {
		return nil
	}
	texts := make([]string, len(before))
	for i := range before {
		texts[i] = encodedPart(&before[i])
	}
	labels := make([][]string, len(parts))
	left := make([]bool, len(before))
	for i := range parts {
		text := encodedPart(&parts[i])
		for j := range texts {
			if !left[j] && texts[j] == text {
				labels[i], left[j] = labelsOfPart(was, j), true
				break
			}
		}
	}
	for j := range before {
		if !left[j] {
			added = JoinLabels(added, labelsOfPart(was, j))
		}
	}
	var out []abi.PartLabels
	for i := range labels {
		if labels[i] == nil {
			labels[i] = added
		}
		if !slices.Equal(labels[i], Labels(m)) {
			out = append(out, abi.PartLabels{Part: i, Labels: labels[i]})
		}
	}
	return out
}

// labelsOfPart returns the labels of part i of a message, which are the message's labels if the
// part has none of its own.
func labelsOfPart(m *abi.Message, i int) []string {
	for _, p := range m.PartLabels {
		if p.Part == i {
			return p.Labels
		}
	}
	return Labels(m)
}

func encodedPart(p *abi.Part) string {
	b, err := abijson.Marshal(p)
	if err != nil {
		return "" // equals no encoded part
	}
	return string(b)
}
