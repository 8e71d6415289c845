package message

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// MaxInsert is the maximum number of messages that one answer may insert in addition to the length
// of the list.
const MaxInsert = 10_000

// An Editor describes the entry that edits a list.
type Editor struct {
	Entry string
	NewID func() string // returns the id of a new message
	// Trusted allows the entry to remove labels of messages.
	Trusted bool
	// Removed has the labels that a trusted entry removed, by message. Edit appends to it.
	Removed []RemovedLabels
}

// RemovedLabels are the labels that a trusted entry removed from one message.
type RemovedLabels struct {
	Message string   `json:"message"` // the message's ID
	Labels  []string `json:"labels"`
}

// Edit applies a middleware's patch to a list. It returns an error if the patch does not fit the
// list, has an invalid message, or inserts too many messages or tool calls.
//
// The host sets IDs, origins and labels. An inserted message keeps its ID only if the same patch
// removes the message with that ID. A message that the patch inserts or changes gets the labels of
// the message that it replaces, of all messages that the patch removes without a replacement, and
// of the entry.
func Edit(l *List, p *abi.ListPatch, by *Editor) (*List, error) {
	if p.IsZero() {
		return l, nil
	}
	if err := contract.CheckListPatch(p, l.Len()); err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	splices := slices.Clone(p.Splice)
	if p.Whole {
		splices = []abi.Splice{by.wholeSplice(l, p.Replace)}
	}
	e := edit{Editor: by, removed: map[string]*abi.Message{}}
	added, calls := 0, 0
	for _, s := range splices {
		added += len(s.Insert)
		calls += CountCalls(s.Insert)
		for _, it := range l.items[s.At : s.At+s.Remove] {
			e.removed[it.message.ID] = &it.message
			calls -= len(it.message.ToolCalls)
		}
	}
	if limit := MaxInsert + l.Len(); added > limit {
		return nil, fmt.Errorf("messages: an answer inserts %d messages; at most %d are allowed", added, limit)
	}
	if calls > MaxAllCalls {
		return nil, fmt.Errorf("messages: an answer may add %d tool calls", MaxAllCalls)
	}
	e.gone = e.labelsOfGone(splices)
	for i := range splices {
		splices[i].Insert = slices.Clone(splices[i].Insert)
		for j := range splices[i].Insert {
			m := &splices[i].Insert[j]
			if err := checkCalls(m); err != nil {
				return nil, err
			}
			if err := CheckJSON(m); err != nil {
				return nil, fmt.Errorf("messages: %w", err)
			}
			e.own(m)
		}
	}
	if len(splices) == 0 {
		return l, nil
	}
	by.Removed = append(by.Removed, e.lost...)
	return l.splice(splices), nil
}

// wholeSplice returns a splice that replaces the messages of l with the given ones. It leaves out
// the messages at the beginning that are the same in both.
func (by *Editor) wholeSplice(l *List, messages []abi.Message) abi.Splice {
	same := 0
	for same < min(l.Len(), len(messages)) && messages[same].ID != "" &&
		messages[same].ID == l.items[same].message.ID && by.leaves(&messages[same], l.items[same]) {
		same++
	}
	return abi.Splice{At: same, Remove: l.Len() - same, Insert: messages[same:]}
}

// leaves reports whether m is equal to the message of item it, so that replacing it with m would
// change nothing.
func (by *Editor) leaves(m *abi.Message, it *item) bool {
	if by.Trusted && m.Labels != nil && !slices.Equal(m.Labels, Labels(&it.message)) {
		return false
	}
	plain := Unlabelled(*m)
	b, err := abijson.Marshal(&plain)
	return err == nil && string(b) == string(it.encoded())
}

// An edit is the application of one patch.
type edit struct {
	*Editor
	removed map[string]*abi.Message // removed messages by ID that no message of the patch has replaced yet
	gone    []string                // labels of the messages that the patch removes without a replacement
	lost    []RemovedLabels
}

// labelsOfGone returns the labels of the removed messages that have no replacement. A replacement
// is an inserted message with the same ID.
func (e *edit) labelsOfGone(splices []abi.Splice) []string {
	replaced := 0
	kept := map[string]bool{}
	for i := range splices {
		for j := range splices[i].Insert {
			if id := splices[i].Insert[j].ID; e.removed[id] != nil && id != "" && !kept[id] {
				kept[id] = true
				replaced++
			}
		}
	}
	if replaced == len(e.removed) {
		return nil
	}
	union := map[string]bool{}
	for id, m := range e.removed {
		if !kept[id] {
			for _, label := range Labels(m) {
				union[label] = true
			}
		}
	}
	out := make([]string, 0, len(union))
	for label := range union {
		out = append(out, label)
	}
	return JoinLabels(out)
}

// own sets the ID, origin and labels of an inserted message. A message that replaces a removed one
// keeps that message's ID and, if the roles are equal, its origin.
func (e *edit) own(m *abi.Message) {
	was, ok := e.removed[m.ID]
	given := m.Labels
	m.Labels, m.PartLabels = nil, nil
	if !ok || m.ID == "" {
		m.ID, m.Origin = e.NewID(), EntryLabel(e.Entry)
		e.label(m, JoinLabels(e.gone, []string{EntryLabel(e.Entry)}), given)
		return
	}
	delete(e.removed, m.ID)
	m.Origin = was.Origin
	if m.Role != was.Role {
		m.Origin = EntryLabel(e.Entry)
	}
	if unchanged(m, was) {
		if e.label(m, Labels(was), given); slices.Equal(Labels(m), Labels(was)) {
			m.PartLabels = was.PartLabels
		}
		return
	}
	added := JoinLabels(e.gone, []string{EntryLabel(e.Entry)})
	all := JoinLabels(Labels(was), added)
	if e.label(m, all, given); slices.Equal(Labels(m), all) {
		m.PartLabels = partLabels(m, was, added)
	}
}

// label sets the labels of a message to labels. If the entry is trusted and given is not nil, label
// leaves out the labels that are neither in given nor the entry's own. If no label is left, the
// message gets the entry's own label.
func (e *edit) label(m *abi.Message, labels, given []string) {
	if !e.Trusted || given == nil {
		SetLabels(m, labels)
		return
	}
	own := EntryLabel(e.Entry)
	left := slices.DeleteFunc(slices.Clone(labels), func(label string) bool {
		return label != own && !slices.Contains(given, label)
	})
	if len(left) == 0 {
		left = []string{own}
	}
	removed := slices.DeleteFunc(slices.Clone(labels), func(label string) bool { return slices.Contains(left, label) })
	if len(removed) == 0 {
		left = labels
	} else {
		e.lost = append(e.lost, RemovedLabels{m.ID, removed})
	}
	SetLabels(m, left)
}

// unchanged reports whether m is equal to was, the message that it replaces. It first compares the
// fields that usually differ, since encoding both messages takes time.
func unchanged(m, was *abi.Message) bool {
	return m.Role == was.Role && m.Content.IsParts() == was.Content.IsParts() &&
		(m.Content.IsParts() || m.Content.String() == was.Content.String()) &&
		len(m.ToolCalls) == len(was.ToolCalls) && Same(m, was)
}

// Own sets the ID, origin and labels of a message that an entry wrote. about has the labels of the
// content that the entry has seen. The message gets those labels and the entry's own.
func Own(m *abi.Message, about []string, entry string, newID func() string) {
	m.ID, m.Origin = newID(), EntryLabel(entry)
	SetLabels(m, JoinLabels(about, []string{EntryLabel(entry)}))
}
