package agent

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
)

// maxUnobserved is how many events the observers of a run that goes on are told of
// from before.
const maxUnobserved = 4096

// observe tells the observers of what has happened since they were last told. Of
// a run that is kept they learn what is kept, and the run goes on from there; of
// what they were told in the moment of a crash they are told once more.
func (r *run) observe(ctx context.Context) {
	if !r.chain.Unobserved() {
		return
	}
	if r.recorder != nil && r.recorder.Flush(ctx, true, nil) != nil {
		return
	}
	r.out.Lock()
	last := r.state.LastSeq
	r.out.Unlock()
	r.chain.Observe(ctx)
	r.mu.Lock()
	r.state.Observed = last
	r.mu.Unlock()
}

// observeLast tells the observers also of the event that is about to be the last
// of this part of the run.
func (r *run) observeLast(ctx context.Context, e abi.Event) {
	e = r.peek(e)
	r.chain.Note(e)
	r.observe(ctx)
	r.out.Lock()
	defer r.out.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Observed == e.Seq-1 && r.state.LastSeq == e.Seq-1 { // they said nothing themselves
		r.state.Observed = e.Seq
	}
}

// tellObservers tells the observers, with what comes next, of the events that an
// earlier process did not live to tell them of.
func (r *run) tellObservers(ctx context.Context) error {
	k := r.recorder
	if k.LastSeq() <= r.state.Observed || !r.chain.Observers() {
		return nil
	}
	events, err := k.Journal.Events(ctx, r.state.ID, r.state.Observed, maxUnobserved)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Type != abi.EventChild { // the run inside has observers of its own
			r.chain.Note(e)
		}
	}
	return nil
}
