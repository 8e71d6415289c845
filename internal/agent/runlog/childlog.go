package runlog

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// An innerRun is what a run's log has of a run that one of its calls made: a log
// of the same kind, inside the entries of this one.
type ChildLog struct {
	Restarted bool              `json:"anew,omitempty"` // what there was before is of another run
	Discarded bool              `json:"gone,omitempty"` // it matters no more
	Log       []json.RawMessage `json:"log,omitempty"`
	LastSeq   int64             `json:"last_seq,omitempty"`
	Expires   time.Time         `json:"expires,omitzero"`
	Ended     *abi.Event        `json:"ended,omitempty"`
	Stats     []abi.EntryStats  `json:"stats,omitempty"`
	// Events are those that its observers were not told of; the others are nowhere
	// but, where they are forwarded, among the events of the run around it.
	Events   []abi.Event `json:"events,omitempty"`
	Observed int64       `json:"observed,omitempty"`
}

// add adds what a later entry has.
func (i *ChildLog) Add(more *ChildLog) {
	if more.Restarted || more.Discarded {
		*i = ChildLog{Restarted: i.Restarted || more.Restarted, Discarded: more.Discarded}
	}
	i.Log = append(i.Log, more.Log...)
	i.LastSeq, i.Expires = max(i.LastSeq, more.LastSeq), more.Expires
	if more.Ended != nil {
		i.Ended = more.Ended
	}
	if more.Stats != nil {
		i.Stats = more.Stats
	}
	i.Observed = max(i.Observed, more.Observed)
	i.Events = slices.DeleteFunc(append(i.Events, more.Events...), func(e abi.Event) bool { return e.Seq <= i.Observed })
}

// A KeptChild is what a journal knows of the run of a call, beside its State.
type JournaledChild struct {
	Phase int64 `json:"phase"`
	// Ended is its run_finished event: the call has only to be told of it.
	Ended *abi.Event `json:"ended,omitempty"`
	// Events are those that its observers were not told of.
	Events []abi.Event `json:"events,omitempty"`
}

// restore puts the run of a call together, as the entries so far tell of it.
func (i *ChildLog) restore(c *CallState) error {
	if i.Discarded || len(i.Log) == 0 || c.Result != nil {
		return nil
	}
	log := make([][]byte, len(i.Log))
	for n, line := range i.Log {
		log[n] = line
	}
	child, phase, err := Restore(log)
	if err != nil {
		return err
	}
	child.LastSeq, child.Expires, child.Used = i.LastSeq, i.Expires, i.Stats
	c.Child, c.Journaled = child, &JournaledChild{phase, i.Ended, i.Events}
	return nil
}
