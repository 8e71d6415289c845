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

// An innerJournal stores a sub-agent's run in the log of the outer run, which called the sub-agent.
// Each change of the sub-agent's run, with its forwarded events, is one change of the outer run.
type innerJournal struct {
	outer   *run
	index   int // index of the call in its round
	inner   *run
	call    *abi.Call
	forward []abi.EventType
	events  []abi.Event // events from an earlier process, not yet seen by inner's observers
}

// innerRetryTimeout is the retry timeout of a sub-agent's run. It is practically unlimited, because
// the journal of the outermost run retries and fails for all of them.
const innerRetryTimeout = math.MaxInt64 / 4

var errNotInner = errors.New("this journal has one run")

// Create implements [journal.Journal].
func (j *innerJournal) Create(_ context.Context, r *journal.Creation) error {
	k := j.outer.recorder
	j.outer.chain.Recording(func() {
		k.call(j.index, &j.outer.state.Calls[j.index]) // records the call's number of runs
		k.inner(j.index, &runlog.ChildLog{Restarted: true, Log: logOf(r.Log)})
	})
	return j.flush(!r.Lazy, nil)
}

// Commit implements [journal.Journal].
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
	j.record(more, events, c.Rewrite != nil)
	if c.Lazy && c.Log == nil {
		return nil
	}
	return j.flush(!c.Lazy, c.Written)
}

// record adds a change and its forwarded events to the pending changes of the outer run. If erased
// is set, the change erases something.
func (j *innerJournal) record(more *runlog.ChildLog, events []abi.Event, erased bool) {
	k := j.outer.recorder
	j.outer.chain.Recording(func() {
		for i := range events {
			j.outer.childEvent(j.call, events[i], j.forward)
		}
		k.inner(j.index, more)
		if erased {
			k.removedInside()
		}
	})
}

// flush waits until the outer run has written its changes or, if synced is set, until they are
// synced. It calls written, if not nil, when they are written.
func (j *innerJournal) flush(synced bool, written func()) error {
	if err := j.outer.recorder.Flush(context.Background(), synced, written); err != nil {
		return errors.New(err.Error()) // not retryable: the outer writer has already retried
	}
	return nil
}

// Events implements [journal.Journal].
func (j *innerJournal) Events(_ context.Context, _ string, after int64, _ int) ([]abi.Event, error) {
	return slices.DeleteFunc(slices.Clone(j.events), func(e abi.Event) bool { return e.Seq <= after }), nil
}

// Load implements [journal.Journal]. It is never called.
func (j *innerJournal) Load(context.Context, string) (*journal.StoredRun, error) {
	return nil, errNotInner
}

// Claim implements [journal.Journal]. It is never called, because the claim of the outer run
// applies to this one too.
func (j *innerJournal) Claim(context.Context, *journal.Claim) (*journal.StoredRun, error) {
	return nil, errNotInner
}

// Renew implements [journal.Journal].
func (j *innerJournal) Renew(context.Context, string, int64, time.Duration) (bool, error) {
	return false, nil
}

// logOf returns the lines of a log entry.
func logOf(entry []byte) []json.RawMessage {
	var out []json.RawMessage
	for line := range bytes.Lines(entry) {
		out = append(out, slices.Clone(bytes.TrimSuffix(line, []byte("\n"))))
	}
	return out
}

// inner records a change of the run of a sub-agent that call i of the round started.
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

// journalInside makes r, the run of a call, store itself in the log of the outer run. r is not
// stored if the outer run has no journal, or if a middleware made the call. A run without an outer
// run keeps its own journal.
func (c *caller) journalInside(r *run, call *abi.Call, forward []abi.EventType) {
	if c.run == nil {
		return
	}
	if r.journal = nil; c.call == nil || c.run.recorder == nil {
		return
	}
	j := &innerJournal{outer: c.run, index: c.run.indexOf(c.call), inner: r, call: call, forward: forward}
	r.journal = &journal.Options{LeaseTTL: journal.DefaultLeaseTTL, RetryTimeout: innerRetryTimeout, Journal: j,
		Originals: c.run.recorder.Originals}
	if stored := c.call.Journaled; stored != nil && r.state.ID == c.call.Child.ID {
		j.events = stored.Events
		r.restore(r.journal, &journal.StoredRun{RunInfo: journal.RunInfo{Epoch: 1, Entries: 1, LastSeq: r.state.LastSeq}},
			stored.Phase)
	}
}

// restarter returns a function that discards the run that c, a call of a sub-agent, has started.
// The function is called when a middleware repeats the call. restarter returns nil for other tools
// and for runs without a journal.
func (r *run) restarter(c *runlog.CallState) func() {
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

// again returns the call's paused run, or the run that the call started in an earlier process. It
// returns nil if there is none. It does not answer interrupts again that the run has answers to.
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
		return answered(ctx, a, child, answers)
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
		return answered(ctx, a, child, answers)
	}
	r, err := resumed(a, child)
	if err == nil {
		r.crashed = true
	}
	return r, err
}

// ended returns the result of a call whose run ended in an earlier process, if that process crashed
// before it recorded the result. It reports whether there is such a result.
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
