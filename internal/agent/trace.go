package agent

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// trace starts an operation in the tracer of the agent's chain. The operation uses the
// returned context and ends when the returned function is called.
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
