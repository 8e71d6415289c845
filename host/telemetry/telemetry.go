// Package telemetry records runs as spans, metrics and timelines. It provides tracers for
// the options of an agent:
//
//	a, err := h.NewAgent(ctx, &host.AgentOptions{
//		…
//		Tracer: telemetry.Spans(otel.Tracer("my platform")),
//	})
//
// Telemetry contains no text of conversations, only names, numbers and kinds of errors.
package telemetry

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// Join returns a tracer that calls several tracers. The first one starts first and ends
// last. Join ignores nil tracers, and returns nil if all are nil.
func Join(tracers ...tracing.Tracer) tracing.Tracer {
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

type joined []tracing.Tracer

// Start implements [tracing.Tracer].
func (j joined) Start(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	ends := make([]func(tracing.Outcome), len(j))
	for i, t := range j {
		ctx, ends[i] = t.Start(ctx, op)
	}
	return ctx, func(o tracing.Outcome) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](o)
		}
	}
}
