package api

import "time"

// A Timeline records the operations of a run from its start, resumption or takeover until
// it finished or paused.
type Timeline struct {
	Run     string    `json:"run"`
	Began   time.Time `json:"began"`
	Spans   []Span    `json:"spans"`             // in order of their start
	Dropped int       `json:"dropped,omitempty"` // spans beyond the maximum of 5,000, or 4 MiB of JSON
}

// A Span is one operation of a run.
type Span struct {
	ID      int    `json:"id"`               // starts at 1
	Parent  int    `json:"parent,omitempty"` // ID of the enclosing span; 0 if there is none
	Kind    string `json:"kind"`
	Run     string `json:"run,omitempty"` // ID of the run if it differs from the timeline's, as for sub-agents
	Agent   string `json:"agent,omitempty"`
	Step    int    `json:"step,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Hook    string `json:"hook,omitempty"`
	Model   string `json:"model,omitempty"`
	Tool    string `json:"tool,omitempty"`
	CallID  string `json:"call_id,omitempty"`
	StartUS int64  `json:"start_us"`         // start since Timeline.Began, in microseconds
	TookUS  int64  `json:"took_us"`          // duration in microseconds; -1 if the operation has not ended
	OwnUS   int64  `json:"own_us,omitempty"` // duration of a hook without the calls that it wraps, in microseconds
	Fuel    int64  `json:"fuel,omitempty"`   // fuel used by a hook
	Tokens  int64  `json:"tokens,omitempty"` // total tokens of a model call
	Error   string `json:"error,omitempty"`  // kind of failure, or empty
	Finish  string `json:"finish,omitempty"` // finish reason of a run or a model call
}
