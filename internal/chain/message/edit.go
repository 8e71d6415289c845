package message

import (
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// MaxInsert is the maximum number of messages that one answer may insert beyond the length of the
// list.
const MaxInsert = 10_000

// Edit applies a middleware's patch to a list. It fails if the patch does not fit the list, has an
// invalid message or inserts too many. Ids and origins belong to the host: an inserted message
// keeps its id only if the same patch removes the message with that id; see [Own].
func Edit(l *List, p *abi.ListPatch, entry string, newID func() string) (*List, error) {
	if p.IsZero() {
		return l, nil
	}
	if err := contract.CheckListPatch(p, l.Len()); err != nil {
		return nil, fmt.Errorf("messages: %w", err)
	}
	splices := slices.Clone(p.Splice)
	if p.Whole {
		splices = []abi.Splice{wholeSplice(l, p.Replace)}
	}
	removed := map[string]*abi.Message{}
	added, calls := 0, 0
	for _, s := range splices {
		added += len(s.Insert)
		calls += CountCalls(s.Insert)
		for _, it := range l.items[s.At : s.At+s.Remove] {
			removed[it.message.ID] = &it.message
			calls -= len(it.message.ToolCalls)
		}
	}
	if added > MaxInsert+l.Len() {
		return nil, fmt.Errorf("messages: an answer may add %d messages", MaxInsert)
	}
	if calls > MaxAllCalls {
		return nil, fmt.Errorf("messages: an answer may add %d tool calls", MaxAllCalls)
	}
	for i := range splices {
		splices[i].Insert = slices.Clone(splices[i].Insert)
		for j := range splices[i].Insert {
			if err := checkCalls(&splices[i].Insert[j]); err != nil {
				return nil, err
			}
			if err := CheckJSON(&splices[i].Insert[j]); err != nil {
				return nil, fmt.Errorf("messages: %w", err)
			}
			Own(&splices[i].Insert[j], removed, entry, newID)
		}
	}
	if len(splices) == 0 {
		return l, nil
	}
	return l.splice(splices), nil
}

// wholeSplice returns the single splice that turns l into the given messages. It omits their common
// beginning.
func wholeSplice(l *List, messages []abi.Message) abi.Splice {
	same := 0
	for same < min(l.Len(), len(messages)) && messages[same].ID != "" &&
		messages[same].ID == l.items[same].message.ID && equalMessage(&messages[same], l.items[same]) {
		same++
	}
	return abi.Splice{At: same, Remove: l.Len() - same, Insert: messages[same:]}
}

func equalMessage(m *abi.Message, it *item) bool {
	b, err := abijson.Marshal(m)
	return err == nil && string(b) == string(it.encoded())
}

// Own sets the id and origin of an entry's message. A message that replaces a removed one
// keeps the id and, unless its role differs, the origin.
func Own(m *abi.Message, removed map[string]*abi.Message, entry string, newID func() string) {
	if was, ok := removed[m.ID]; ok && m.ID != "" {
		delete(removed, m.ID)
		m.Origin = was.Origin
		if m.Role != was.Role {
			m.Origin = abi.OriginModule + entry
		}
		return
	}
	m.ID, m.Origin = newID(), abi.OriginModule+entry
}
