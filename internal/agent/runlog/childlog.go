package runlog

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A ChildLog is the change of a sub-agent's run in one entry. It is part of the log of the outer
// run.
type ChildLog struct {
	// The keys of Restarted and Discarded are the names of the fields in an older version.
	Restarted bool              `json:"anew,omitempty"` // earlier entries belong to another run
	Discarded bool              `json:"gone,omitempty"` // the run is no longer needed
	Log       []json.RawMessage `json:"log,omitempty"`  // entries, as in the log of any run
	LastSeq   int64             `json:"last_seq,omitempty"`
	Expires   time.Time         `json:"expires,omitzero"`
	Ended     *abi.Event        `json:"ended,omitempty"`
	Stats     []abi.EntryStats  `json:"stats,omitempty"`
	// Events has the events that the observers of the sub-agent's run have not received. All other
	// events are stored only if they are forwarded, as events of the outer run.
	Events   []abi.Event `json:"events,omitempty"`
	Observed int64       `json:"observed,omitempty"`
}

// Add merges more, a later change, into i. A change that restarts or discards the run replaces the
// earlier changes.
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

// A JournaledChild is the stored data of a sub-agent's run, in addition to the run's [State].
type JournaledChild struct {
	Phase int64 `json:"phase"`
	// Ended is the run's run_finished event, or nil. If it is set, only the call's result is
	// missing.
	Ended *abi.Event `json:"ended,omitempty"`
	// Events has the events that the run's observers have not received.
	Events []abi.Event `json:"events,omitempty"`
}

// restore restores the state of a call's run from the run's log. It does nothing if the call has a
// result or the run was discarded.
func (i *ChildLog) restore(c *CallState) error {
	if i.Discarded || len(i.Log) == 0 || c.Result != nil {
		return nil
	}
	child, phase, err := Restore(linesOf(i.Log))
	if err != nil {
		return err
	}
	child.LastSeq, child.Expires, child.Used = i.LastSeq, i.Expires, i.Stats
	c.Child, c.Journaled = child, &JournaledChild{Phase: phase, Ended: i.Ended, Events: i.Events}
	return nil
}

// linesOf returns the entries of a log as lines of a log.
func linesOf(entries []json.RawMessage) [][]byte {
	lines := make([][]byte, len(entries))
	for i, e := range entries {
		lines[i] = e
	}
	return lines
}
