package agent

import (
	"context"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
)

// trace tells the tracer of the agent's chain of an operation, which goes on under
// the context that it returns until the function is called.
func (r *run) trace(ctx context.Context, op chain.Operation) (context.Context, func(chain.Outcome)) {
	if r.agent.Chain == nil || r.agent.Chain.Tracer == nil {
		return ctx, func(chain.Outcome) {}
	}
	op.Run = r.Where()
	return r.agent.Chain.Tracer.Start(ctx, op)
}

// modelOutcome is what came of a model call.
func modelOutcome(res *abi.Response, err error) chain.Outcome {
	o := chain.Outcome{Err: err}
	if res != nil {
		o.Usage, o.FinishReason = res.Usage, res.FinishReason
	}
	return o
}

// runOutcome is what came of a run that ended.
func runOutcome(e abi.Event, failed *Error) chain.Outcome {
	o := chain.Outcome{FinishReason: e.FinishReason, Usage: e.Usage}
	if failed != nil {
		o.Err = failed
	}
	return o
}
