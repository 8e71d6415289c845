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

// RunFor is [Agent.Run] for a client with a protocol of its own: enc puts
// events into the protocol, between the run's translate_before and
// translate_after hooks. It belongs to this run alone.
func (a *Agent) RunFor(ctx context.Context, in Input, enc chain.Encoder) iter.Seq2[delivery.Event, error] {
	return func(yield func(delivery.Event, error) bool) {
		r := newRun(a, in)
		r.client.encoder = enc
		stream(ctx, r)(yield)
	}
}

// ResumeFor is [Agent.Resume] for a client with a protocol of its own. The
// encoder is a new one.
func (a *Agent) ResumeFor(ctx context.Context, state *runlog.State, answers map[string]json.RawMessage, enc chain.Encoder) (iter.Seq2[delivery.Event, error], error) {
	r, err := answered(a, state, answers)
	if err != nil {
		return nil, err
	}
	r.client.encoder = enc
	return stream(ctx, r), nil
}

// A client describes the protocol into which the run's events are translated.
type client struct {
	encoder chain.Encoder // nil: events are not translated
	gone    atomic.Bool   // it takes no further events
	// until ends when events are translated no longer: the last of a run that was
	// canceled still are.
	until context.Context
}

// begin sets until when events are translated.
func (c *client) begin(run context.Context) (stop func()) {
	until, cancel := context.WithCancel(context.WithoutCancel(run))
	c.until = until
	over := context.AfterFunc(run, func() { time.AfterFunc(translateBudget, cancel) })
	return func() { over(); cancel() }
}

// prepare numbers an event, and translates it if there is a client. What its
// translation gave rise to is sent before it, so that the last event of a run
// is the last; until then its number may be too low by as much. Callers hold r.out.
func (r *run) prepare(e abi.Event) delivery.Event {
	out := delivery.Event{Event: r.stamp(e, r.state.LastSeq+1)}
	if r.client.encoder != nil && !r.client.gone.Load() {
		var caused []abi.Event
		out.Encoded, caused = r.chain.Translate(r.client.until, out.Event, r.client.encoder)
		for _, c := range caused {
			more := r.prepare(c)
			r.chain.Note(more.Event)
			r.hand(more, true)
		}
	}
	r.state.LastSeq++
	out.Event.Seq = r.state.LastSeq
	return out
}
