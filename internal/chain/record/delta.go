package record

import (
	"encoding/json"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/local"
)

// A Delta has the changes of a phase's record and of run-local values. The writes of a hook to
// run-local values are in the same delta as its answer. A hook that is repeated therefore finds the
// values as before its first call.
type Delta struct {
	Record map[string]json.RawMessage `json:"record,omitempty"`
	Asked  json.RawMessage            `json:"asked,omitempty"` // all interrupts, answers and approvals
	Locals []local.Change             `json:"locals,omitempty"`
}

// Empty reports whether there are no changes.
func (d *Delta) Empty() bool { return len(d.Record) == 0 && d.Asked == nil && len(d.Locals) == 0 }

// Size returns the approximate size of the changes in bytes.
func (d *Delta) Size() int {
	n := len(d.Asked)
	for key, b := range d.Record {
		n += len(key) + len(b)
	}
	for i := range d.Locals {
		n += len(d.Locals[i].Key) + len(d.Locals[i].Value)
	}
	return n
}

// Answers returns the answers to interrupts in the delta, by interrupt ID.
func (d *Delta) Answers() (map[string]json.RawMessage, error) {
	if d.Asked == nil {
		return nil, nil
	}
	var f recordFile
	if err := json.Unmarshal(d.Asked, &f); err != nil {
		return nil, err
	}
	out := map[string]json.RawMessage{}
	for _, a := range f.Answers {
		out[a.ID] = a.Answer
	}
	return out, nil
}

// ApplyRecord applies the delta's changes of the record to r.
func (d *Delta) ApplyRecord(r *Record) error {
	for key, b := range d.Record {
		var e entry
		if err := json.Unmarshal(b, &e); err != nil {
			return err
		}
		put(&r.entries, key, &e)
	}
	if d.Asked == nil {
		return nil
	}
	var f recordFile
	if err := json.Unmarshal(d.Asked, &f); err != nil {
		return err
	}
	r.ask(&f)
	return nil
}

// Changes returns the entries that changed since the last call of Changes. If an interrupt, answer
// or approval changed, it also returns all interrupts, answers and approvals.
func (r *Record) Changes() (entries map[string]json.RawMessage, asked json.RawMessage, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range r.dirty {
		b, err := r.entries[key].encode()
		if err != nil {
			return nil, nil, err
		}
		if entries == nil {
			entries = map[string]json.RawMessage{}
		}
		entries[key] = b
	}
	if r.askedDirty {
		if asked, err = abijson.Marshal(recordFile{
			Waiting: r.waiting, Answers: r.answers, Approvals: r.approvals,
		}); err != nil {
			return nil, nil, err
		}
	}
	for _, key := range r.dirty {
		r.entries[key].dirty = false
	}
	r.askedDirty, r.dirty = false, r.dirty[:0]
	return entries, asked, nil
}
