package runlog

import (
	"bytes"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain/message"
)

// Originals holds the input messages of a run as they are stored in its journal.
type Originals []abi.Message

// OriginalsOf returns the messages of a run that has not called the model yet, otherwise nil.
func OriginalsOf(s *State) Originals {
	if s.ModelCalls > 0 || s.Step > 1 || s.Messages == nil ||
		s.Phase != PhaseStart && s.Phase != PhaseStep && s.Phase != PhaseRewrite {
		return nil
	}
	out := make(Originals, 0, s.Messages.Len())
	for i := range s.Messages.Len() {
		out = append(out, s.Messages.At(i))
	}
	return out
}

// Rewritten returns the replacements of the messages in g that l changes or removes, and updates g.
// from is the index from which on l has changed. Rewritten returns nil if no message was changed or
// removed. A removed message is replaced by an empty one, because later entries of the log refer to
// messages by index.
func (g Originals) Rewritten(l *message.List, from int) (*journal.Rewrite, error) {
	if from >= len(g) {
		return nil, nil
	}
	now := map[string]abi.Message{}
	for i := range l.Len() {
		m := l.At(i)
		now[m.ID] = m
	}
	r := &journal.Rewrite{Title: Title(l), Messages: map[string]json.RawMessage{}}
	for i, was := range g {
		m, there := now[was.ID]
		if !there {
			m = abi.Message{ID: was.ID, Role: was.Role, Origin: was.Origin, Content: abi.Text("")}
		}
		x, err := abijson.Marshal(&was)
		if err != nil {
			return nil, err
		}
		y, err := abijson.Marshal(&m)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(x, y) {
			r.Messages[was.ID], g[i] = y, m
		}
	}
	if len(r.Messages) == 0 {
		return nil, nil
	}
	return r, nil
}
