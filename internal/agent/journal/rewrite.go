package journal

import (
	"bytes"
	"encoding/json"

	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Rewrite replaces input messages of a run in its journal, because modules changed or
// removed them before the first model call. It is part of the commit with that change.
type Rewrite struct {
	Title string // the run's title
	// Messages holds the replacements by message id.
	Messages map[string]json.RawMessage
}

// Entry returns an entry of the run's log with the messages replaced. It returns the same
// bytes if the entry has none of them.
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

// line returns a line of a log with the messages replaced, or nil if it has none of them.
func (r *Rewrite) line(line []byte) ([]byte, error) {
	var e map[string]json.RawMessage
	var d MessagesChange
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
		if now, ok := r.Messages[m.ID]; ok && m.ID != "" {
			items[i], changed = now, true
		}
	}
	if !changed {
		return nil, nil
	}
	var err error
	if d.Items, err = abijson.Marshal(items); err != nil {
		return nil, err
	}
	if e["messages"], err = abijson.Marshal(&d); err != nil {
		return nil, err
	}
	return abijson.Marshal(e)
}

// A MessagesChange replaces the messages of a run from index From on with Items.
type MessagesChange struct {
	From  int             `json:"from"`
	Items json.RawMessage `json:"items"` // an array
}
