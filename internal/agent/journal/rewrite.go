package journal

import (
	"bytes"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Rewrite erases text that modules changed or removed in finished phases of a run. It applies to
// the entries of the log from number First to the one before its commit. The entry of the commit
// itself already lacks the text. A second rewrite has no further effect.
type Rewrite struct {
	First int64
	Title *string // the run's new title; unchanged if nil
	// Phases has the numbers of the phases whose recorded calls lose their answers. If the value is
	// true, the states of the phase's tool calls and the logs of its sub-agents are erased too,
	// because no resumed run needs them.
	Phases map[int64]bool
	// Message returns the current JSON of a message of these phases, or nil if the message was
	// removed. An empty message replaces a removed one, because later entries of the log refer to
	// messages by index.
	Message func(id string) json.RawMessage
}

// An object is a JSON object. Fields that a rewrite does not edit stay encoded.
type object = map[string]json.RawMessage

// Entry returns an entry of the run's log after the rewrite. If the rewrite changes nothing, Entry
// returns log itself.
func (r *Rewrite) Entry(log []byte) ([]byte, error) {
	var out bytes.Buffer
	changed := false
	for line := range bytes.Lines(log) {
		var e object
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, err
		}
		edited, err := r.edit(e)
		if err != nil {
			return nil, err
		}
		if edited {
			if line, err = abijson.Marshal(e); err != nil {
				return nil, err
			}
			line, changed = append(line, '\n'), true
		}
		out.Write(line)
	}
	if !changed {
		return log, nil
	}
	return out.Bytes(), nil
}

// edit edits a line of a log. It reports whether the line changed.
func (r *Rewrite) edit(e object) (changed bool, err error) {
	var phase int64 // the number of phases that had ended
	if err := json.Unmarshal(e["phase"], &phase); err != nil {
		return false, err
	}
	_, within := r.Phases[phase]
	_, ends := r.Phases[phase-1]
	changed, err = editField(e, "records", r.records)
	if err == nil && within && bytes.Contains(e["head"], []byte(`"respond":`)) {
		changed, err = orEdit(changed, e, "head", dropRespond)
	}
	if err == nil && (within || ends) {
		changed, err = orEdit(changed, e, "messages", r.messages)
	}
	if r.Phases[phase] && (e["calls"] != nil || e["inner"] != nil) {
		delete(e, "calls")
		delete(e, "inner")
		changed = true
	}
	return changed, err
}

// orEdit calls editField. It returns true if changed is true or the field changed.
func orEdit[T any](changed bool, e object, field string, edit func(*T) (bool, error)) (bool, error) {
	edited, err := editField(e, field, edit)
	return changed || edited, err
}

// editField decodes a field of an object, edits it, and encodes it again if it changed.
func editField[T any](e object, field string, edit func(*T) (bool, error)) (changed bool, err error) {
	if e[field] == nil {
		return false, nil
	}
	var v T
	if err := json.Unmarshal(e[field], &v); err != nil {
		return false, err
	}
	if changed, err = edit(&v); err != nil || !changed {
		return false, err
	}
	e[field], err = abijson.Marshal(&v)
	return true, err
}

// records removes the answers of the calls that were recorded in the phases of the rewrite. It
// reports whether it changed a record.
func (r *Rewrite) records(records *[]object) (changed bool, err error) {
	for _, d := range *records {
		var phase int64
		if err := json.Unmarshal(d["phase"], &phase); err != nil {
			return false, err
		}
		if _, ok := r.Phases[phase]; !ok {
			continue
		}
		if changed, err = orEdit(changed, d, "record", dropAnswers); err != nil {
			return false, err
		}
	}
	return changed, nil
}

// dropAnswers removes the answers of recorded calls, and the tool calls that middlewares made for
// themselves. It marks each changed record as erased, and reports whether there was one.
func dropAnswers(calls *map[string]object) (changed bool, err error) {
	for _, c := range *calls {
		if c["answer"] != nil || c["own"] != nil {
			delete(c, "answer")
			delete(c, "own")
			c["erased"], changed = json.RawMessage("true"), true
		}
	}
	return changed, nil
}

// dropRespond removes the message with which before_agent answered. It reports whether there was
// one.
func dropRespond(head *object) (changed bool, err error) {
	_, changed = (*head)["respond"]
	delete(*head, "respond")
	return changed, nil
}

// messages replaces the messages of a change with the results of r.Message. It reports whether a
// message changed.
func (r *Rewrite) messages(d *MessagesChange) (changed bool, err error) {
	var items []json.RawMessage
	if err := json.Unmarshal(d.Items, &items); err != nil {
		return false, err
	}
	for i, item := range items {
		var m struct {
			ID     string `json:"id"`
			Role   string `json:"role"`
			Origin string `json:"origin,omitempty"`
		}
		if err := json.Unmarshal(item, &m); err != nil {
			return false, err
		}
		left := r.Message(m.ID)
		if left == nil {
			left, err = abijson.Marshal(&abi.Message{ID: m.ID, Role: m.Role, Origin: m.Origin, Content: abi.Text("")})
			if err != nil {
				return false, err
			}
		}
		if !bytes.Equal(left, item) {
			items[i], changed = left, true
		}
	}
	if changed {
		d.Items, err = abijson.Marshal(items)
	}
	return changed, err
}

// A MessagesChange replaces the messages of a run from index From on with Items.
type MessagesChange struct {
	From  int             `json:"from"`
	Items json.RawMessage `json:"items"` // a JSON array of messages
}
