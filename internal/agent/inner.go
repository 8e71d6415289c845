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
	"github.com/agent-runner/agent-runner/internal/chain/size"
)

// An innerRun is what a run's log has of a run that one of its calls made: a log
// of the same kind, inside the entries of this one.
type innerRun struct {
	Anew    bool              `json:"anew,omitempty"` // what there was before is of another run
	Gone    bool              `json:"gone,omitempty"` // it matters no more
	Log     []json.RawMessage `json:"log,omitempty"`
	LastSeq int64             `json:"last_seq,omitempty"`
	Expires time.Time         `json:"expires,omitzero"`
	Ended   *abi.Event        `json:"ended,omitempty"`
	Stats   []abi.EntryStats  `json:"stats,omitempty"`
	// Events are those that its observers were not told of; the others are nowhere
	// but, where they are forwarded, among the events of the run around it.
	Events   []abi.Event `json:"events,omitempty"`
	Observed int64       `json:"observed,omitempty"`
}

// add adds what a later entry has.
func (i *innerRun) add(more *innerRun) {
	if more.Anew || more.Gone {
		*i = innerRun{Anew: i.Anew || more.Anew, Gone: more.Gone}
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
type KeptChild struct {
	Phase int64 `json:"phase"`
	// Ended is its run_finished event: the call has only to be told of it.
	Ended *abi.Event `json:"ended,omitempty"`
	// Events are those that its observers were not told of.
	Events []abi.Event `json:"events,omitempty"`
}

// restore puts the run of a call together, as the entries so far tell of it.
func (i *innerRun) restore(c *CallState) error {
	if i.Gone || len(i.Log) == 0 || c.Result != nil {
		return nil
	}
	log := make([][]byte, len(i.Log))
	for n, line := range i.Log {
		log[n] = line
	}
	child, phase, err := restore(log)
	if err != nil {
		return err
	}
	child.LastSeq, child.Expires, child.Used = i.LastSeq, i.Expires, i.Stats
	c.Child, c.Kept = child, &KeptChild{phase, i.Ended, i.Events}
	return nil
}

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
	k := j.outer.keeper
	j.outer.chain.Recording(func() {
		k.call(j.index, &j.outer.state.Calls[j.index]) // how many runs it made
		k.inner(j.index, &innerRun{Anew: true, Log: logOf(r.Log)})
	})
	return j.await(&waiter{safe: !r.Lazy})
}

// Commit implements [Journal].
func (j *innerJournal) Commit(_ context.Context, c *journal.Commit) error {
	more := &innerRun{Log: logOf(c.Log), LastSeq: c.Last}
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
	if c.Lazy && c.Log == nil {
		return j.keep(more, events, nil)
	}
	return j.keep(more, events, &waiter{safe: !c.Lazy, written: c.Written})
}

// keep adds a change to those of the run around, with the events that it gets. Nil
// waits for nothing.
func (j *innerJournal) keep(more *innerRun, events []abi.Event, w *waiter) error {
	k := j.outer.keeper
	j.outer.chain.Recording(func() {
		for i := range events {
			j.outer.childEvent(j.call, events[i], j.forward)
		}
		k.inner(j.index, more)
	})
	if w == nil {
		return nil
	}
	return j.await(w)
}

// await waits for the journal of the outermost.
func (j *innerJournal) await(w *waiter) error {
	if err := j.outer.keeper.await(context.Background(), w); err != nil {
		return errors.New(err.Error()) // which is final: the outer keeper has tried again
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
func (k *keeper) inner(i int, more *innerRun) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pending.Inner == nil {
		k.pending.Inner = map[int]*innerRun{}
	}
	if k.pending.Inner[i] == nil {
		k.pending.Inner[i] = &innerRun{}
	}
	for _, line := range more.Log {
		k.hold(len(line))
	}
	for j := range more.Events {
		k.hold(int(size.Event(&more.Events[j])))
	}
	k.pending.Inner[i].add(more)
	k.changed = k.changed || len(more.Log) > 0 || more.Anew || more.Gone || more.Ended != nil
	k.safe = len(k.events)
	signal(k.wake)
}

// keptInside makes the run of a call one that is kept with the run around it.
func (c *caller) keptInside(r *run, call *abi.Call, forward []abi.EventType) {
	if c.run == nil {
		return
	}
	if r.journal = nil; c.call == nil || c.run.keeper == nil {
		return
	}
	j := &innerJournal{outer: c.run, index: c.run.indexOf(c.call), inner: r, call: call, forward: forward}
	r.journal = &journal.Options{LeaseTTL: journal.DefaultLeaseTTL, RetryTimeout: innerPatience, Journal: j}
	if kept := c.call.Kept; kept != nil && r.state.ID == c.call.Child.ID {
		j.events = kept.Events
		r.goOnKept(r.journal, &journal.StoredRun{RunInfo: journal.RunInfo{Epoch: 1, Entries: 1, LastSeq: r.state.LastSeq}}, kept.Phase)
	}
}

// anew says that a call begins whose tool is a run of its own: what is known of
// an earlier one of the same call, which a middleware asked for, is of no more use.
// It is nil for other tools.
func (r *run) anew(c *CallState) func() {
	if _, ok := r.agent.tools[c.Call.Name].(*agentTool); !ok || r.keeper == nil {
		return nil
	}
	return func() {
		if c.Child != nil {
			c.Child, c.Kept = nil, nil
			r.keeper.inner(r.indexOf(c), &innerRun{Gone: true})
		}
	}
}

// again is the run that a call made in a process which is gone, or that waited.
// What of the answers it has taken already is not given to it twice. Nil: there is
// no such run.
func (c *caller) again(ctx context.Context, a *Agent) (*run, error) {
	answer, ok := tool.Answer(ctx)
	if c.call == nil || c.call.Child == nil || c.call.Kept == nil && !ok {
		return nil, nil
	}
	child := c.call.Child
	answers := map[string]json.RawMessage{}
	if ok {
		if err := json.Unmarshal(answer, &answers); err != nil {
			return nil, err
		}
	}
	if c.call.Kept == nil {
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
	if c.call == nil || c.call.Kept == nil || c.call.Kept.Ended == nil {
		return nil, false, nil
	}
	var failed error
	if o := c.call.Child.Outcome; o != nil && o.Err != "" {
		failed = errors.New(o.Err)
	}
	res, err := result(a, c.call.Kept.Ended, failed)
	return res, true, err
}
