package agent

import (
	"context"
	"encoding/json"
	"iter"
	"sync/atomic"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// RunFor is like [Agent.Run], and also translates the events to a client's protocol. enc encodes
// each event between the run's translate_before and translate_after hooks. Each run needs an
// encoder of its own.
func (a *Agent) RunFor(ctx context.Context, in Input, enc chain.Encoder) iter.Seq2[delivery.Event, error] {
	return func(yield func(delivery.Event, error) bool) {
		r := newRun(a, in)
		r.client.encoder = enc
		stream(ctx, r)(yield)
	}
}

// ResumeFor is like [Agent.Resume], and also translates the events with enc like [Agent.RunFor].
// enc must be a new encoder. The errors are those of [Agent.Resume].
func (a *Agent) ResumeFor(
	ctx context.Context,
	state *runlog.State,
	answers map[string]json.RawMessage,
	enc chain.Encoder,
) (iter.Seq2[delivery.Event, error], error) {
	r, err := answered(ctx, a, state, answers)
	if err != nil {
		return nil, err
	}
	r.client.encoder = enc
	return stream(ctx, r), nil
}

// A client is the client for which a run's events are translated.
type client struct {
	encoder chain.Encoder // if nil, events are not translated
	gone    atomic.Bool   // the client has stopped taking events
	// until is the context of translations. If the run is canceled, until is canceled later than
	// the run's context, so that the run's last events are translated.
	until context.Context
}

// begin sets c.until to a context that is canceled when stop is called, or translateBudget after
// the context run is done.
func (c *client) begin(run context.Context) (stop func()) {
	until, cancel := context.WithCancel(context.WithoutCancel(run))
	c.until = until
	over := context.AfterFunc(run, func() { time.AfterFunc(translateBudget, cancel) })
	return func() { over(); cancel() }
}

// prepare numbers an event, and translates the event if there is an encoder. Events that the
// translation emits are sent before e, so that a run's last event stays last. During its
// translation, e has the number that it would have without those events. Callers hold r.out.
func (r *run) prepare(e *delivery.Event) {
	r.stamp(&e.Event, r.state.LastSeq+1)
	if r.client.encoder != nil && !r.client.gone.Load() {
		var caused []abi.Event
		e.Encoded, caused = r.chain.Translate(r.client.until, e.Event, r.client.encoder)
		for _, c := range caused {
			more := delivery.Event{Event: c}
			r.prepare(&more)
			r.chain.Note(&more.Event)
			r.queueEvent(&more, true)
		}
	}
	r.state.LastSeq++
	e.Event.Seq = r.state.LastSeq
}
