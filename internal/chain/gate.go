package chain

import (
	"cmp"
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// strictness ranks the decisions of gates. The highest rank wins.
var strictness = map[string]int{abi.DecideAllow: 0, abi.DecideAsk: 1, abi.DecideDeny: 2, abi.DecideStop: 3}

// A judgement is the outcome of the gates for a call. Its zero value lets the call pass.
type judgement struct {
	denied *abi.Result
	by     string  // the entry that denied the call
	edited *string // arguments that replace those in question
}

// gate asks every gate of every ring about the exact arguments. The strictest decision wins; a gate
// that fails, faults or does not decide denies. The decision [abi.DecideStop] ends the run at once.
// If a person has to decide, the run pauses.
func (r *Run) gate(ctx context.Context, call *ToolCall, q abi.Call) (judgement, error) {
	worst := abi.DecideAllow
	var by *hook.Control
	var answer abi.GateToolAnswer
	var asks []abi.Ask
	for _, m := range r.Inward(contract.HookGateTool) {
		c := r.Call(m, contract.HookGateTool, call.State)
		c.SetTool(&q, "/"+hook.Digest(q.Arguments))
		out, err := r.askGate(ctx, c, q, call.Tool)
		if err != nil {
			return judgement{}, err
		}
		if out.Decision == abi.DecideStop {
			return judgement{}, &ending.StoppedError{
				Entry:  m.Name,
				Hook:   contract.HookGateTool,
				Reason: safetext.Clip(cmp.Or(out.Message, "the call of "+q.Name+" is not allowed"), ending.MaxReason),
			}
		}
		if out.Decision == abi.DecideAsk {
			asks = append(asks,
				abi.Ask{Entry: m.Name, Reason: safetext.Clip(question(c.Entry(), out, q), ending.MaxReason), Payload: out.Payload})
		}
		if strictness[out.Decision] > strictness[worst] {
			worst, by, answer = out.Decision, c, out
		}
	}
	switch worst {
	case abi.DecideAllow:
		return judgement{}, nil
	case abi.DecideAsk:
		return r.askSomebody(by, asks, call, q)
	default:
		name := by.Entry()
		return judgement{
			denied: abi.ErrorResult(cmp.Or(answer.Message, fmt.Sprintf("The call of %s was denied by %s.", q.Name, name))),
			by:     name,
		}, nil
	}
}

// askGate asks one gate about call q. A gate that fails or faults denies the call.
func (r *Run) askGate(ctx context.Context, c *hook.Control, q abi.Call, tool abi.Tool) (abi.GateToolAnswer, error) {
	var out abi.GateToolAnswer
	v, err := c.Invoke(ctx, &abi.GateToolInput{Call: q, Tool: tool}, &out, func() error {
		if _, ok := strictness[out.Decision]; !ok {
			return fmt.Errorf("decision is %q; want allow, deny, ask or stop", out.Decision)
		}
		return nil
	})
	switch {
	case v.Failed != nil:
		out = abi.GateToolAnswer{Decision: abi.DecideDeny, Message: v.Failed.Error()}
	case v.Faulted:
		out = abi.GateToolAnswer{Decision: abi.DecideDeny, Message: "The policy " + c.Entry() + " could not decide."}
	}
	return out, err
}

// question returns the question of a gate that wants a call approved.
func question(entry string, answer abi.GateToolAnswer, q abi.Call) string {
	return cmp.Or(answer.Message, fmt.Sprintf("%s asks to approve a call of %s", entry, q.Name))
}

// askSomebody applies the decision about this exact call, or pauses the run for one. Where the run
// cannot pause, it denies the call. If several gates ask, the pause lists all questions, and one
// approval answers them.
func (r *Run) askSomebody(by *hook.Control, asks []abi.Ask, call *ToolCall, q abi.Call) (judgement, error) {
	decided, ok := r.Record.Decision(q, call.Tool.Owner)
	switch {
	case !ok && r.Settled:
		return judgement{
			denied: abi.ErrorResult(
				fmt.Sprintf("The call of %s needs an approval, which cannot be requested here.", q.Name),
			),
			by: by.Entry(),
		}, nil
	case !ok:
		reason, payload := asks[0].Reason, asks[0].Payload
		if len(asks) > 1 {
			for _, a := range asks[1:] {
				reason += "; " + a.Entry + ": " + a.Reason
			}
		} else {
			asks = nil
		}
		err := by.Interrupt(abi.Interrupt{Reason: reason, Payload: payload}, asks)
		if err != nil && !ending.Is(err) {
			_, err = by.Fault(ending.StageAnswer, err)
			return judgement{denied: abi.ErrorResult("The policy " + by.Entry() + " could not ask."), by: by.Entry()}, err
		}
		return judgement{}, err
	case decided.Decision == abi.Approve:
		return judgement{}, nil
	case decided.Decision == abi.Edit:
		return judgement{edited: decided.Arguments}, nil
	default:
		return judgement{
			denied: abi.ErrorResult(cmp.Or(decided.Message, fmt.Sprintf("The call of %s was not approved.", q.Name))),
			by:     by.Entry(),
		}, nil
	}
}
