package abi

import (
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// The lists of messages that a hook can read.
const (
	ListState   = 0 // the state of the run
	ListRequest = 1 // the request of the current model call
)

// A List represents a list of messages in a hook's input. It does not change while the
// hook runs.
type List struct {
	List     int   `json:"list"`
	Revision int64 `json:"revision"`
	Total    int   `json:"total"`
	// Items holds the messages, for modules whose description has "messages": "full". Other modules request the
	// ranges that they need.
	Items []Message `json:"items,omitzero"`
}

// A ListPatch changes a list of messages, by splices or by a new list. Splices refer to
// the list in the hook's input. The zero value changes nothing.
type ListPatch struct {
	Splice  []Splice
	Replace []Message // used if Whole is set
	Whole   bool
}

// A Splice removes Remove messages at index At and inserts others there. Indices refer to
// the list in the hook's input. Splices must be in ascending order and must not overlap.
type Splice struct {
	At     int       `json:"at"`
	Remove int       `json:"remove,omitempty"`
	Insert []Message `json:"insert,omitempty"`
}

// A spliceObject is the encoding of a ListPatch that is not whole.
type spliceObject struct {
	Splice []Splice `json:"splice"`
}

// IsZero reports whether the patch changes nothing.
func (p ListPatch) IsZero() bool { return !p.Whole && len(p.Splice) == 0 }

// MarshalJSON writes {"splice": [...]} or an array of messages.
func (p ListPatch) MarshalJSON() ([]byte, error) {
	if p.Whole {
		return jsoncodec.AppendValue(nil, append([]Message{}, p.Replace...))
	}
	return jsoncodec.AppendValue(nil, spliceObject{p.Splice})
}

// UnmarshalJSON reads {"splice": [...]}, an array of messages, or null, which means no
// change.
func (p *ListPatch) UnmarshalJSON(b []byte) error {
	*p = ListPatch{Whole: len(b) > 0 && b[0] == '['}
	if p.Whole {
		return unmarshal(b, &p.Replace)
	}
	var o spliceObject
	err := unmarshal(b, &o)
	p.Splice = o.Splice
	return err
}
