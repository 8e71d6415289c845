package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// An innerJournal keeps the run of a call in the log of the run around it. Its
// changes, and the events of them that are forwarded, are one change of that run.
type innerJournal struct {
	outer   *run
	index   int // of the call, in its round
	inner   *run
	call    *abi.Call
	forward []abi.EventType
	events  []abi.Event // that its observers were not told of, by an earlier process
}

// innerPatience is that of a run inside another. It is the journal of the
// outermost that is waited for, and gives up.
const innerPatience = math.MaxInt64 / 4

var errNotInner = errors.New("this journal has one run")

// Create implements [Journal].
func (j *innerJournal) Create(_ context.Context, r *journal.Creation) error {
	k := j.outer.recorder
	j.outer.chain.Recording(func() {
		k.call(j.index, &j.outer.state.Calls[j.index]) // how many runs it made
		k.inner(j.index, &runlog.ChildLog{Restarted: true, Log: logOf(r.Log)})
	})
	return j.flush(!r.Lazy, nil)
}

// Commit implements [Journal].
func (j *innerJournal) Commit(_ context.Context, c *journal.Commit) error {
	more := &runlog.ChildLog{Log: logOf(c.Log), LastSeq: c.Last}
	var events []abi.Event
	for line := range bytes.Lines(c.Events) {
		var e abi.Event
		if err := json.Unmarshal(line, &e); err != nil {
			return err
		}
		events = append(events, e)
	}
	if j.inner.chain.Observers() {
		j.inner.mu.Lock()
		more.Observed, more.Events = j.inner.state.Observed, slices.Clone(events)
		j.inner.mu.Unlock()
	}
	if c.Progress != nil {
		more.Stats = c.Progress.Stats
	}
	if p := c.Progress; p != nil && p.Status == journal.StatusFinished && len(events) > 0 {
		more.Ended = &events[len(events)-1]
	} else if p != nil && p.Status == journal.StatusPaused {
		more.Expires = j.inner.state.Expires
	}
	j.record(more, events)
	if c.Lazy && c.Log == nil {
		return nil
	}
	return j.flush(!c.Lazy, c.Written)
}

// record adds a change to those of the run around, with the events that are forwarded to it.
func (j *innerJournal) record(more *runlog.ChildLog, events []abi.Event) {
	k := j.outer.recorder
	j.outer.chain.Recording(func() {
		for i := range events {
			j.outer.childEvent(j.call, events[i], j.forward)
		}
		k.inner(j.index, more)
	})
}

// flush waits for the journal of the run around.
func (j *innerJournal) flush(synced bool, written func()) error {
	if err := j.outer.recorder.Flush(context.Background(), synced, written); err != nil {
		return errors.New(err.Error()) // final: the outer writer has retried
	}
	return nil
}

// Events implements [Journal].
func (j *innerJournal) Events(_ context.Context, _ string, after int64, _ int) ([]abi.Event, error) {
	return slices.DeleteFunc(slices.Clone(j.events), func(e abi.Event) bool { return e.Seq <= after }), nil
}

// Load implements [Journal]: nobody looks for the run of a call.
func (j *innerJournal) Load(context.Context, string) (*journal.StoredRun, error) {
	return nil, errNotInner
}

// Claim implements [Journal]: who has the run around it has this one.
func (j *innerJournal) Claim(context.Context, *journal.Claim) (*journal.StoredRun, error) {
	return nil, errNotInner
}

// Renew implements [Journal].
func (j *innerJournal) Renew(context.Context, string, int64, time.Duration) (bool, error) {
	return false, nil
}

// logOf are the lines of an entry of a log.
func logOf(entry []byte) []json.RawMessage {
	var out []json.RawMessage
	for line := range bytes.Lines(entry) {
		out = append(out, slices.Clone(bytes.TrimSuffix(line, []byte("\n"))))
	}
	return out
}

// inner adds a change of the run of call i.
func (k *recorder) inner(i int, more *runlog.ChildLog) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pending.Inner == nil {
		k.pending.Inner = map[int]*runlog.ChildLog{}
	}
	if k.pending.Inner[i] == nil {
		k.pending.Inner[i] = &runlog.ChildLog{}
	}
	for _, line := range more.Log {
		k.hold(len(line))
	}
	for j := range more.Events {
		k.hold(int(size.Event(&more.Events[j])))
	}
	k.pending.Inner[i].Add(more)
	k.changed = k.changed || len(more.Log) > 0 || more.Restarted || more.Discarded || more.Ended != nil
	k.Ready()
}

// keptInside makes the run of a call one that is kept with the run around it.
func (c *caller) keptInside(r *run, call *abi.Call, forward []abi.EventType) {
	if c.run == nil {
		return
	}
	if r.journal = nil; c.call == nil || c.run.recorder == nil {
		return
	}
	j := &innerJournal{outer: c.run, index: c.run.indexOf(c.call), inner: r, call: call, forward: forward}
	r.journal = &journal.Options{LeaseTTL: journal.DefaultLeaseTTL, RetryTimeout: innerPatience, Journal: j}
	if kept := c.call.Journaled; kept != nil && r.state.ID == c.call.Child.ID {
		j.events = kept.Events
		r.goOnKept(r.journal, &journal.StoredRun{RunInfo: journal.RunInfo{Epoch: 1, Entries: 1, LastSeq: r.state.LastSeq}}, kept.Phase)
	}
}

// anew says that a call begins whose tool is a run of its own: what is known of
// an earlier one of the same call, which a middleware asked for, is of no more use.
// It is nil for other tools.
func (r *run) anew(c *runlog.CallState) func() {
	if _, ok := r.agent.tools[c.Call.Name].(*agentTool); !ok || r.recorder == nil {
		return nil
	}
	return func() {
		if c.Child != nil {
			c.Child, c.Journaled = nil, nil
			r.recorder.inner(r.indexOf(c), &runlog.ChildLog{Discarded: true})
		}
	}
}

// again is the run that a call made in a process which is gone, or that waited.
// What of the answers it has taken already is not given to it twice. Nil: there is
// no such run.
func (c *caller) again(ctx context.Context, a *Agent) (*run, error) {
	answer, ok := tool.Answer(ctx)
	if c.call == nil || c.call.Child == nil || c.call.Journaled == nil && !ok {
		return nil, nil
	}
	child := c.call.Child
	answers := map[string]json.RawMessage{}
	if ok {
		if err := json.Unmarshal(answer, &answers); err != nil {
			return nil, err
		}
	}
	if c.call.Journaled == nil {
		return answered(a, child, answers)
	}
	waits := map[string]bool{}
	for _, p := range child.Pending() {
		waits[p.ID] = true
	}
	for id := range answers {
		if !waits[id] {
			delete(answers, id)
		}
	}
	if len(answers) > 0 {
		return answered(a, child, answers)
	}
	r, err := resumed(a, child)
	if err == nil {
		r.crashed = true
	}
	return r, err
}

// ended is how the run of a call came to its end, in a process that did not live
// to say so.
func (c *caller) ended(a *Agent) (*abi.Result, bool, error) {
	if c.call == nil || c.call.Journaled == nil || c.call.Journaled.Ended == nil {
		return nil, false, nil
	}
	var failed error
	if o := c.call.Child.Outcome; o != nil && o.Err != "" {
		failed = errors.New(o.Err)
	}
	res, err := result(a, c.call.Journaled.Ended, failed)
	return res, true, err
}
