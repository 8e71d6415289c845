package agent

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// maxUnobserved is the approximate maximum number of earlier events that the observers of a resumed
// run receive.
const maxUnobserved = 4096

// observe passes the events since the last call to the observers. With a journal, it commits the
// events first, and does not pass them on if that fails. Observers may receive events twice if the
// process crashes before it stores that they were observed.
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

// observeLast passes the queued events and e to the observers. e will be the last event of the run
// in this process.
func (r *run) observeLast(ctx context.Context, e abi.Event) {
	e = r.peek(e)
	r.chain.Note(&e)
	r.observe(ctx)
	r.out.Lock()
	defer r.out.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.Observed == e.Seq-1 && r.state.LastSeq == e.Seq-1 { // the observers emitted no events
		r.state.Observed = e.Seq
	}
}

// callObservers queues the events that the observers did not receive before an earlier process
// ended. The observers receive them with the next events.
func (r *run) callObservers(ctx context.Context) error {
	k := r.recorder
	if k.LastSeq() <= r.state.Observed || !r.chain.Observers() {
		return nil
	}
	events, err := k.Journal.Events(ctx, r.state.ID, r.state.Observed, maxUnobserved)
	if err != nil {
		return err
	}
	for _, e := range events {
		if e.Type != abi.EventChild { // the run of a sub-agent has its own observers
			r.chain.Note(&e)
		}
	}
	return nil
}

// trace starts an operation in the tracer of the agent's chain. The operation must use the returned
// context. It ends when the returned function is called.
func (r *run) trace(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	if r.agent.Chain == nil || r.agent.Chain.Tracer == nil {
		return ctx, func(tracing.Outcome) {}
	}
	op.Run = r.Where()
	return r.agent.Chain.Tracer.Start(ctx, op)
}

// modelOutcome returns the outcome of a model call for the tracer.
func modelOutcome(res *abi.Response, err error) tracing.Outcome {
	o := tracing.Outcome{Err: err}
	if res != nil {
		o.Usage, o.FinishReason = res.Usage, res.FinishReason
	}
	return o
}

// runOutcome returns the outcome of a run for the tracer.
func runOutcome(e abi.Event, failed *Error) tracing.Outcome {
	o := tracing.Outcome{FinishReason: e.FinishReason, Usage: e.Usage}
	if failed != nil {
		o.Err = failed
	}
	return o
}
