package client

import (
	"context"
	"time"
)

// A Timeline is what a run did from when it began, was resumed or was taken over,
// until it ended or paused.
type Timeline struct {
	Run     string    `json:"run"`
	Began   time.Time `json:"began"`
	Spans   []Span    `json:"spans"`             // in the order in which they began
	Dropped int       `json:"dropped,omitempty"` // that were too many to be kept
}

// A Span is one operation of a run.
type Span struct {
	ID      int    `json:"id"`               // from 1
	Parent  int    `json:"parent,omitempty"` // that it is within; 0: none
	Kind    string `json:"kind"`
	Run     string `json:"run,omitempty"` // of a sub-agent, where it is not the timeline's
	Agent   string `json:"agent,omitempty"`
	Step    int    `json:"step,omitempty"`
	Entry   string `json:"entry,omitempty"`
	Hook    string `json:"hook,omitempty"`
	Model   string `json:"model,omitempty"`
	Tool    string `json:"tool,omitempty"`
	CallID  string `json:"call_id,omitempty"`
	StartUS int64  `json:"start_us"`         // since the timeline began, microseconds
	TookUS  int64  `json:"took_us"`          // -1: it is not over
	OwnUS   int64  `json:"own_us,omitempty"` // of a hook, without what it wraps
	Fuel    int64  `json:"fuel,omitempty"`   // of a hook
	Tokens  int64  `json:"tokens,omitempty"` // of a model call
	Error   string `json:"error,omitempty"`  // what kind of failure it was
	Finish  string `json:"finish,omitempty"` // of a run or a model call
}

// RunTrace returns the timelines of a run that has ended or waits: one for each time
// that it went on.
func (c *Client) RunTrace(ctx context.Context, id string) ([]*Timeline, error) {
	var out struct {
		Timelines []*Timeline `json:"timelines"`
	}
	err := c.get(ctx, path("/v1/runs/%s/trace", id), nil, &out)
	return out.Timelines, err
}
