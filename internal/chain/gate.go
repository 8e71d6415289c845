package chain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/exchange"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// strictness ranks the decisions of gates. The decision with the highest rank wins.
var strictness = map[string]int{abi.DecideAllow: 0, abi.DecideAsk: 1, abi.DecideDeny: 2, abi.DecideStop: 3}

// A judgement is the outcome of the gates for a call. The zero value allows the call.
type judgement struct {
	denied *abi.Result
	by     string           // the entry that denied the call
	edit   *record.Approval // the answer with which a person replaced the arguments; nil if there is none
}

// A hearing asks the gates about one call with its exact arguments.
type hearing struct {
	run    *Run
	call   *ToolCall
	q      abi.Call
	digest string // digest of the arguments

	worst  string        // the strictest decision so far
	by     *hook.Control // the first gate with that decision
	answer abi.GateToolAnswer
	asks   []abi.Ask

	answered *record.Approval // a person's earlier answer to the gates' questions about this call; nil if there is none
	answers  int              // number of earlier answers, including expired ones
}

// gate asks the gates of all rings about call q with its exact arguments. It leaves out gates whose
// entry excludes the tool. The strictest decision wins. A gate that fails, faults or does not
// decide denies the call. The decision [abi.DecideStop] ends the run at once. If a person has to
// decide, the run pauses. gate sends an event for each decision.
func (r *Run) gate(ctx context.Context, call *ToolCall, q abi.Call) (judgement, error) {
	gates := hook.Only(r.Inward(contract.HookGateTool), func(m *hook.Member) bool { return m.InToolCall(q.Name) })
	if len(gates) == 0 {
		return judgement{}, nil
	}
	h := &hearing{run: r, call: call, q: q, digest: hook.FullDigest(q.Arguments), worst: abi.DecideAllow}
	h.answered, h.answers = r.Record.Decision(q, call.Tool.Owner)
	for _, m := range gates {
		if err := h.ask(ctx, m); err != nil {
			return judgement{}, err
		}
	}
	switch h.worst {
	case abi.DecideAllow:
		return judgement{}, nil
	case abi.DecideAsk:
		return h.askSomebody(ctx)
	default:
		name := h.by.Entry()
		return judgement{
			denied: abi.ErrorResult(cmp.Or(h.answer.Message, fmt.Sprintf("The call of %s was denied by %s.", q.Name, name))),
			by:     name,
		}, nil
	}
}

// A Verdict is the decision of the gates about a call that the caller of [Run.Judge] executes.
type Verdict struct {
	Denied bool
	By     string // the entry that denied the call, or "host" if the arguments are invalid
	Reason string // why the call is denied, for the model and its user
}

// Judge asks the gates of all rings about a call. If the call is not denied, the caller executes
// it. A call whose arguments are not a JSON object is denied, since a gate and the tool could read
// them in different ways. If a gate asks a person and the run cannot pause, the call is denied. The
// error ends or pauses the run.
func (r *Run) Judge(ctx context.Context, state *message.List, call abi.Call, tool abi.Tool) (Verdict, error) {
	if len(r.Inward(contract.HookGateTool)) == 0 {
		return Verdict{}, nil
	}
	args, err := toolset.ParseArguments(call.Arguments)
	if err != nil {
		bad := toolset.BadArguments(call.Name, call.Arguments, err)
		return Verdict{Denied: true, By: exchange.SourceHost, Reason: bad.Content.String()}, nil
	}
	call.Arguments = args
	judged, err := r.gate(ctx, &ToolCall{Call: call, Tool: tool, State: state}, call)
	if err != nil || judged.denied == nil {
		return Verdict{}, err
	}
	return Verdict{Denied: true, By: judged.by, Reason: judged.denied.Content.String()}, nil
}

// ask asks one gate and sends an event with the decision. The error ends or pauses the run.
func (h *hearing) ask(ctx context.Context, m *hook.Member) error {
	c := h.run.Call(m, contract.HookGateTool, h.call.State)
	c.SetTool(&h.q, "/"+h.digest[:hook.DigestLen])
	out, err := h.run.askGate(ctx, c, h.q, h.call.Tool)
	stopped, ok := errors.AsType[*ending.StoppedError](err)
	switch {
	case ok && stopped.Entry == m.Name:
		out.Decision, out.Message = abi.DecideStop, stopped.Reason
	case err != nil:
		return err
	case out.Decision == abi.DecideStop:
		err = &ending.StoppedError{
			Entry:  m.Name,
			Hook:   contract.HookGateTool,
			Reason: safetext.Clip(cmp.Or(out.Message, "the call of "+h.q.Name+" is not allowed"), ending.MaxReason),
		}
	case out.Decision == abi.DecideAsk:
		return h.question(ctx, c, out)
	}
	h.note(c, out)
	return cmp.Or(h.report(ctx, c, out.Decision, abi.Decision{Decision: out.Decision, Reason: out.Message}), err)
}

// note records the decision of a gate if it is the strictest so far.
func (h *hearing) note(c *hook.Control, out abi.GateToolAnswer) {
	if strictness[out.Decision] > strictness[h.worst] {
		h.worst, h.by, h.answer = out.Decision, c, out
	}
}

// question records the question of a gate. It sends the event of the question, unless an earlier
// answer applies.
func (h *hearing) question(ctx context.Context, c *hook.Control, out abi.GateToolAnswer) error {
	if a := h.answered; len(h.asks) == 0 && a != nil && a.Approval.ExpiresMS > 0 &&
		a.Approval.ExpiresMS <= h.run.Host.Where().NowMS && !c.HasReported(abi.EventDecision, h.variant("answer")) {
		h.answered = nil
	}
	h.note(c, out)
	reason := cmp.Or(out.Message, fmt.Sprintf("%s asks to approve a call of %s", c.Entry(), h.q.Name))
	reason = safetext.Clip(reason, ending.MaxReason)
	h.asks = append(h.asks, abi.Ask{Entry: c.Entry(), Reason: reason, Payload: out.Payload})
	if h.answered != nil {
		return nil
	}
	return h.report(ctx, c, h.variant(abi.DecideAsk), abi.Decision{Decision: abi.DecideAsk, Reason: reason})
}

// variant returns a variant of an event: of and the number of answers so far. A gate that is called
// again after an answer has a new question, whose events need another variant.
func (h *hearing) variant(of string) string { return of + "/" + strconv.Itoa(h.answers) }

// report sends the event of decision d. The error ends or pauses the run.
func (h *hearing) report(ctx context.Context, c *hook.Control, variant string, d abi.Decision) error {
	d.CallID, d.Tool, d.Owner, d.ArgumentsDigest = h.q.ID, h.q.Name, h.call.Tool.Owner, h.digest
	d.Reason = safetext.Clip(d.Reason, ending.MaxReason)
	return c.Report(ctx, abi.Event{Type: abi.EventDecision, Decision: &d}, variant)
}

// askGate calls one gate about call q and returns its decision. If the gate fails or faults, the
// decision is to deny the call.
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

// askSomebody decides about a call for which gates ask a person. It applies the recorded answer
// about the exact call. If there is none, Approve decides. Without Approve, the run pauses for an
// answer or, if it cannot pause, the call is denied. If several gates ask, the pause lists all
// questions, and one answer applies to all of them.
func (h *hearing) askSomebody(ctx context.Context) (judgement, error) {
	by, d := h.by, abi.Decision{Answered: true}
	switch a := h.answered; {
	case a != nil:
		d.Decision, d.Reason = a.Approval.Decision, a.Approval.Message
		d.Approver, d.AnsweredBy = safetext.Clean(a.Approval.Approver), safetext.Clip(a.By, record.MaxApprover)
		d.ExpiresMS = a.Approval.ExpiresMS
	case h.run.Approve != nil:
		d = h.run.Approve(ctx, h.q, h.asks)
		d.Answered = true
		if d.Decision != abi.Approve {
			d.Decision = abi.Reject
		}
		if ended := ending.FromContext(ctx); ended != nil {
			return judgement{}, ended
		}
	case h.run.Settled:
		d = abi.Decision{
			Decision: abi.Reject,
			Reason:   fmt.Sprintf("The call of %s needs an approval, which cannot be requested here.", h.q.Name),
		}
	default:
		return h.pause()
	}
	if err := h.report(ctx, by, h.variant("answer"), d); err != nil {
		return judgement{}, err
	}
	switch d.Decision {
	case abi.Approve:
		return judgement{}, nil
	case abi.Edit:
		return judgement{edit: h.answered}, nil
	default:
		return judgement{
			denied: abi.ErrorResult(cmp.Or(d.Reason, fmt.Sprintf("The call of %s was not approved.", h.q.Name))),
			by:     by.Entry(),
		}, nil
	}
}

// pause pauses the run for an answer to the gates' questions. If the interrupt exceeds a limit, the
// first gate that asked faults, and the call is denied.
func (h *hearing) pause() (judgement, error) {
	asks := h.asks
	reason, payload := asks[0].Reason, asks[0].Payload
	for _, a := range asks[1:] {
		reason += "; " + a.Entry + ": " + a.Reason
	}
	if len(asks) == 1 {
		asks = nil
	}
	err := h.by.Interrupt(abi.Interrupt{Reason: reason, Payload: payload}, asks)
	if err != nil && !ending.Is(err) {
		_, err = h.by.Fault(ending.StageAnswer, err)
		return judgement{denied: abi.ErrorResult("The policy " + h.by.Entry() + " could not ask."), by: h.by.Entry()}, err
	}
	return judgement{}, err
}
