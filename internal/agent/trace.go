package agent

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// trace tells the tracer of the agent's chain of an operation, which goes on under
// the context that it returns until the function is called.
func (r *run) trace(ctx context.Context, op tracing.Operation) (context.Context, func(tracing.Outcome)) {
	if r.agent.Chain == nil || r.agent.Chain.Tracer == nil {
		return ctx, func(tracing.Outcome) {}
	}
	op.Run = r.Where()
	return r.agent.Chain.Tracer.Start(ctx, op)
}

// modelOutcome is what came of a model call.
func modelOutcome(res *abi.Response, err error) tracing.Outcome {
	o := tracing.Outcome{Err: err}
	if res != nil {
		o.Usage, o.FinishReason = res.Usage, res.FinishReason
	}
	return o
}

// runOutcome is what came of a run that ended.
func runOutcome(e abi.Event, failed *Error) tracing.Outcome {
	o := tracing.Outcome{FinishReason: e.FinishReason, Usage: e.Usage}
	if failed != nil {
		o.Err = failed
	}
	return o
}
