// Package telemetry makes spans, metrics and timelines of what runs do. What it makes
// are tracers, which an agent is given in its options:
//
//	a, err := h.NewAgent(ctx, &host.AgentOptions{…, Options: chain.Options{Tracer: telemetry.Spans(otel.Tracer("my platform"))}})
//
// No text of a conversation is in any of it: names, numbers and kinds of errors only.
package telemetry

import (
	"context"

	"github.com/agent-runner/agent-runner/host/chain"
)

// Join returns a tracer that tells several: the first begins first and ends last.
// Those that are nil are left out; without any it is nil.
func Join(tracers ...chain.Tracer) chain.Tracer {
	var out joined
	for _, t := range tracers {
		if t != nil {
			out = append(out, t)
		}
	}
	switch len(out) {
	case 0:
		return nil
	case 1:
		return out[0]
	default:
		return out
	}
}

type joined []chain.Tracer

// Start implements [chain.Tracer].
func (j joined) Start(ctx context.Context, op chain.Operation) (context.Context, func(chain.Outcome)) {
	ends := make([]func(chain.Outcome), len(j))
	for i, t := range j {
		ctx, ends[i] = t.Start(ctx, op)
	}
	return ctx, func(o chain.Outcome) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](o)
		}
	}
}
