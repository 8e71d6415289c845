package chain

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

var strictness = map[string]int{abi.DecideAllow: 0, abi.DecideAsk: 1, abi.DecideDeny: 2, abi.DecideStop: 3}

// gate asks every gate of every ring about the exact arguments. The strictest
// decision wins; a gate that fails, faults or does not decide denies. A nil
// result lets the call pass; otherwise by is the entry that said no.
func (r *Run) gate(ctx context.Context, call *ToolCall, q abi.Call) (res *abi.Result, by string, err error) {
	worst := abi.DecideAllow
	var message string
	for _, m := range r.inward(abi.HookGateTool) {
		c := r.call(m, abi.HookGateTool, call.State)
		var out abi.GateToolAnswer
		v, err := r.invoke(ctx, c, &abi.GateToolInput{Call: q, Tool: call.Tool}, &out, func() error {
			if _, ok := strictness[out.Decision]; !ok {
				return faultf("decision is %q; want allow, deny, ask or stop", out.Decision)
			}
			return nil
		})
		switch {
		case err != nil:
			return nil, "", err
		case v.failed != nil:
			out.Decision, out.Message = abi.DecideDeny, v.failed.Error()
		case v.faulted:
			out.Decision, out.Message = abi.DecideDeny, "the policy "+m.Name+" could not decide"
		}
		if out.Decision == abi.DecideStop {
			return nil, "", &Stop{Entry: m.Name, Reason: clip(either(out.Message, "the call of "+q.Name+" is not allowed"), maxReason)}
		}
		if strictness[out.Decision] > strictness[worst] {
			worst, by, message = out.Decision, m.Name, out.Message
		}
	}
	switch worst {
	case abi.DecideAllow:
		return nil, "", nil
	case abi.DecideAsk:
		text := fmt.Sprintf("The call of %s needs somebody's approval, and nobody can be asked here.", q.Name)
		if message != "" {
			text += " " + message
		}
		return abi.ErrorResult(text), by, nil
	default:
		return abi.ErrorResult(either(message, fmt.Sprintf("The call of %s was denied by %s.", q.Name, by))), by, nil
	}
}
