package hook

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// Spend sets the cost of the call, which a [tracing.Tracer] receives.
func (c *Control) Spend(s tracing.Cost) { c.spent = s }

// traced calls a hook and reports it to the tracer.
func (r *Run) traced(ctx context.Context, c *Call, in Input, out any, apply func() error) (record.Verdict, error) {
	if r.Tracer == nil {
		return r.answer(ctx, c, in, out, apply)
	}
	ctx, end := r.Tracer.Start(
		ctx,
		tracing.Operation{Kind: tracing.OperationHook, Run: r.Host.Where(), Entry: c.member.Name,
			Digest: c.member.desc.Digest, Hook: c.Hook, Call: c.tool},
	)
	v, err := r.answer(ctx, c, in, out, apply)
	o := tracing.Outcome{
		Err:    err,
		Failed: v.Failed,
		Fault:  v.Faulted || faultOf(err, c.member),
		Waited: ControlOf(c).Waited(),
		Cost:   c.spent,
	}
	if !o.Fault && o.Failed == nil {
		o.Answer = out
	}
	end(o)
	return v, err
}
