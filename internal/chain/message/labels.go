package message

import (
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// The host stores the labels of a message only if they differ from the label that follows from the
// message's origin, role and name. Messages that were stored before labels existed therefore need
// no conversion, and the labels of most messages take no memory.

// MaxLabels is the maximum number of labels of a message. [abi.LabelAny] replaces a larger set.
const MaxLabels = 64

// Labels returns the labels of a message. The caller must not change them.
func Labels(m *abi.Message) []string {
	if len(m.Labels) > 0 {
		return m.Labels
	}
	return []string{derived(m)}
}

// derived returns the label that follows from the origin, role and name of a message.
func derived(m *abi.Message) string {
	switch origin := m.Origin; {
	case strings.HasPrefix(origin, abi.OriginModule): // the label of an entry is the origin of its messages
		return origin
	case origin == abi.OriginHost, origin == abi.OriginModel:
		return origin
	case origin == abi.OriginTool, m.Role == abi.RoleTool:
		return ToolLabel(m.Name)
	}
	switch m.Role {
	case abi.RoleSystem, abi.RoleDeveloper:
		return abi.LabelSystem
	case abi.RoleAssistant:
		return abi.OriginModel
	case abi.RoleUser:
		return abi.OriginUser
	default: // the author is unknown
		return abi.LabelAny
	}
}

// ToolLabel returns the label of the results of the tool called name. If the name is longer than [contract.MaxName],
// the label has no name.
func ToolLabel(name string) string {
	if len(name) > contract.MaxName {
		name = ""
	}
	return abi.LabelTool + name
}

// EntryLabel returns the label of content that an entry wrote.
func EntryLabel(entry string) string { return abi.OriginModule + entry }

// SourceLabels returns the labels of an answer with the given source. name is the tool's name for a
// tool's result, and empty for an answer of the model.
func SourceLabels(source, name string) []string {
	switch source {
	case abi.OriginTool:
		return []string{ToolLabel(name)}
	case abi.OriginModel, abi.OriginHost:
		return []string{source}
	default:
		return []string{EntryLabel(source)}
	}
}

// JoinLabels returns the sorted union of sets of labels, or nil if all sets are empty. It returns only [abi.LabelAny]
// if a set contains it, or if the union has more than MaxLabels labels.
func JoinLabels(sets ...[]string) []string {
	n := 0
	for _, set := range sets {
		n += len(set)
	}
	if n == 0 {
		return nil
	}
	out := make([]string, 0, n)
	for _, set := range sets {
		out = append(out, set...)
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if len(out) > MaxLabels || slices.Contains(out, abi.LabelAny) {
		return []string{abi.LabelAny}
	}
	return slices.Clip(out)
}

// SetLabels sets the labels of a message, which then apply to all of its parts.
func SetLabels(m *abi.Message, labels []string) {
	m.Labels, m.PartLabels = labels, nil
	if len(labels) == 1 && labels[0] == derived(m) {
		m.Labels = nil
	}
}

// Unlabelled returns a copy of m without labels. Models, events and most modules receive messages
// without labels.
func Unlabelled(m abi.Message) abi.Message {
	m.Labels, m.PartLabels = nil, nil
	return m
}

// Labelled returns a copy of m with all of its labels set, for modules that read labels.
func Labelled(m abi.Message) abi.Message {
	m.Labels = Labels(&m)
	return m
}

// AdoptLabels gives each tool result without labels the label of the tool whose call it answers,
// whatever tool the result names. It sorts the labels of every message and removes duplicates.
// [abi.LabelAny] replaces more than MaxLabels labels.
func AdoptLabels(messages []abi.Message) {
	var names map[string]string
	for i := range messages {
		m := &messages[i]
		m.Labels = JoinLabels(m.Labels)
		for j := range m.ToolCalls {
			if names == nil {
				names = map[string]string{}
			}
			names[m.ToolCalls[j].ID] = m.ToolCalls[j].Function.Name
		}
		if m.Role == abi.RoleTool && m.Labels == nil && names[m.ToolCallID] != "" {
			SetLabels(m, []string{ToolLabel(names[m.ToolCallID])})
		}
	}
}

// RemoveLabels replaces the message and the result of an event with copies without labels, if they have labels.
func RemoveLabels(e *abi.Event) {
	if e.Message != nil && (e.Message.Labels != nil || e.Message.PartLabels != nil) {
		m := Unlabelled(*e.Message)
		e.Message = &m
	}
	if e.Result != nil && e.Result.Labels != nil {
		res := *e.Result
		res.Labels = nil
		e.Result = &res
	}
}
