package agent

import (
	"bytes"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// A Rewrite replaces what a journal has of messages that a run began with, because
// modules have changed or removed them before the first model call. It goes with
// the commit that has the change.
type Rewrite struct {
	Title    string // of the run
	messages map[string]json.RawMessage
}

// Entry returns an entry of the run's log with the messages as the modules left
// them. It returns the same bytes if none of them is in it.
func (r *Rewrite) Entry(log []byte) ([]byte, error) {
	var out bytes.Buffer
	changed := false
	for line := range bytes.Lines(log) {
		now, err := r.line(line)
		if err != nil {
			return nil, err
		}
		if now != nil {
			line, changed = append(now, '\n'), true
		}
		out.Write(line)
	}
	if !changed {
		return log, nil
	}
	return out.Bytes(), nil
}

// line returns a line of a log with the messages replaced, and nil if there are none.
func (r *Rewrite) line(line []byte) ([]byte, error) {
	var e map[string]json.RawMessage
	var d messagesDelta
	var items []json.RawMessage
	if err := json.Unmarshal(line, &e); err != nil {
		return nil, err
	}
	if e["messages"] == nil {
		return nil, nil
	}
	if err := json.Unmarshal(e["messages"], &d); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(d.Items, &items); err != nil {
		return nil, err
	}
	changed := false
	for i, item := range items {
		var m struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(item, &m); err != nil {
			return nil, err
		}
		if now, ok := r.messages[m.ID]; ok && m.ID != "" {
			items[i], changed = now, true
		}
	}
	if !changed {
		return nil, nil
	}
	var err error
	if d.Items, err = abi.Marshal(items); err != nil {
		return nil, err
	}
	if e["messages"], err = abi.Marshal(&d); err != nil {
		return nil, err
	}
	return abi.Marshal(e)
}

// given are the messages that a run began with, as its journal has them.
type given []abi.Message

// givenOf returns the messages of a run that has not asked a model yet, nil of another.
func givenOf(s *State) given {
	if s.ModelCalls > 0 || s.Step > 1 || s.Messages == nil || s.Phase != PhaseStart && s.Phase != PhaseStep && s.Phase != PhaseRewrite {
		return nil
	}
	out := make(given, 0, s.Messages.Len())
	for i := range s.Messages.Len() {
		out = append(out, s.Messages.At(i))
	}
	return out
}

// rewritten compares the messages with those of l from an index on. It returns nil if
// none was changed or removed. A message that was removed is replaced by an empty one:
// later entries of the log count on its place.
func (g given) rewritten(l *chain.List, from int) (*Rewrite, error) {
	if from >= len(g) {
		return nil, nil
	}
	now := map[string]abi.Message{}
	for i := range l.Len() {
		m := l.At(i)
		now[m.ID] = m
	}
	r := &Rewrite{Title: title(l), messages: map[string]json.RawMessage{}}
	for i, was := range g {
		m, there := now[was.ID]
		if !there {
			m = abi.Message{ID: was.ID, Role: was.Role, Origin: was.Origin, Content: abi.Text("")}
		}
		x, err := abi.Marshal(&was)
		if err != nil {
			return nil, err
		}
		y, err := abi.Marshal(&m)
		if err != nil {
			return nil, err
		}
		if !bytes.Equal(x, y) {
			r.messages[was.ID], g[i] = y, m
		}
	}
	if len(r.messages) == 0 {
		return nil, nil
	}
	return r, nil
}
