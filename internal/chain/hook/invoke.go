package hook

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// An Input is the input of a hook, with the part that all inputs have. An ender is an answer that
// can end or pause the run.
type (
	Input interface{ Envelope() *abi.Common }
	ender interface{ Ending() *abi.Control }
)

// invoke calls one hook and applies the answer. If an earlier pass recorded the outcome, invoke
// applies that instead. It calls apply if the hook succeeded. If apply fails, the answer is a
// fault, so apply must change nothing in that case. The error ends or pauses the run.
func (r *Run) invoke(ctx context.Context, c *Call, in Input, out any, apply func() error) (record.Verdict, error) {
	if err := ending.FromContext(ctx); err != nil {
		return record.Verdict{}, err
	}
	var resume *abi.Resume
	if !Translates(c.Hook) { // translations belong to no phase
		c.key = r.Record.NextKey(string(c.Hook), c.member.Name, cmp.Or(c.scope, c.run.Scope))
		if !live(c.Hook) {
			if v, ok, err := r.Record.Load(c.key, out); ok {
				return r.replay(c, v, err, apply)
			}
		}
		var waits *abi.Pending
		if resume, waits = r.Record.Resume(c.key); waits != nil {
			return record.Verdict{}, &ending.InterruptedError{Pending: *waits}
		}
		if err := r.PersistOwed(ctx); err != nil {
			return record.Verdict{}, err
		}
	}
	if err := c.member.breaker.allow(); err != nil {
		return r.fault(c, ending.StageBreaker, err)
	}
	return r.callHook(ctx, c, in, out, resume, apply)
}

// callHook calls one hook for [Run.invoke]. It fills the common part of the input, in which resume is
// the answer to an interrupt of the hook, or nil. It reports the outcome to the circuit breaker.
func (r *Run) callHook(
	ctx context.Context, c *Call, in Input, out any, resume *abi.Resume, apply func() error,
) (record.Verdict, error) {
	c.ctx = ctx
	defer c.held.Release()
	if c.fault != nil {
		return r.fault(c, ending.StageInput, c.fault)
	}
	*in.Envelope() = abi.Common{Run: r.Host.Where(), Entry: c.member.Name, Resume: resume}
	v, err := r.traced(ctx, c, in, out, apply)
	b := c.member.breaker
	switch {
	case v.Faulted, faultOf(err, c.member):
		r.emitBreaker(c, b.done(true))
	case err != nil:
		b.release()
	default:
		r.emitBreaker(c, b.done(false))
	}
	if v.OK() && err == nil {
		return v, nil // answer has recorded the outcome together with the writes
	}
	if c.key != "" {
		r.keeping.RLock()
		defer r.keeping.RUnlock()
	}
	endWrites(ctx, c)
	if err == nil {
		r.note(c, out, v)
	}
	return v, err
}

// note records the outcome of a call, unless the hook is called in every pass.
func (r *Run) note(c *Call, out any, v record.Verdict) {
	if gate, ok := out.(*abi.GateToolAnswer); ok && gate.Decision == abi.DecideAsk {
		return // the gate is asked again after a decision
	}
	if c.key != "" && !live(c.Hook) {
		r.Record.Save(c.key, out, v)
	}
}

// commit commits the writes of a successful call and records the call's answer. Both are persisted
// together.
func (r *Run) commit(ctx context.Context, c *Call, out any) error {
	if c.key != "" { // a translation runs while an event is recorded, with the lock held
		r.keeping.RLock()
		defer r.keeping.RUnlock()
	}
	if c.key != "" && !live(c.Hook) {
		if err := r.Record.Reserve(c.weight); err != nil {
			return err
		}
	}
	if err := c.locals.Commit(); err != nil {
		return err
	}
	endWrites(ctx, c)
	r.note(c, out, record.Verdict{})
	return nil
}

// live reports whether hook h is called in every pass through a phase. Wrappers must resume the calls
// that they wrap, and on_chunk and observe receive only new events.
func live(h abi.Hook) bool {
	switch h {
	case contract.HookWrapModel, contract.HookWrapToolCall, contract.HookOnChunk, contract.HookObserve:
		return true
	default:
		return false
	}
}

// replay applies the outcome that an earlier pass recorded.
func (r *Run) replay(c *Call, v record.Verdict, err error, apply func() error) (record.Verdict, error) {
	if err == nil && v.OK() {
		err = apply()
	}
	if err != nil {
		return r.fault(c, ending.StageAnswer, err)
	}
	c.reportLabels()
	return v, nil
}

func (r *Run) emitBreaker(c *Call, change string) {
	if change != "" {
		c.Log(contract.LogWarn, change)
	}
}

// answer calls the hook, applies its answer and records the outcome. If the answer stops the run or
// asks for an interrupt, the error ends or pauses the run. If a gate asks for an interrupt, its
// decision becomes [abi.DecideAsk].
func (r *Run) answer(ctx context.Context, c *Call, in Input, out any, apply func() error) (record.Verdict, error) {
	err := c.member.session.Call(ctx, c, in, out)
	if ending := ControlOf(c).Ending(); ending != nil {
		return record.Verdict{}, ending
	}
	if ending := ending.FromContext(ctx); err != nil && ending != nil {
		return record.Verdict{}, ending
	}
	if err != nil {
		if failed, ok := errors.AsType[*abi.Error](err); ok {
			return record.Verdict{Failed: ending.CleanError(failed)}, nil
		}
		return r.fault(c, ending.StageHook, err)
	}
	if e, ok := out.(ender); ok {
		switch control := e.Ending(); {
		case control.Stop != nil:
			return record.Verdict{}, &ending.StoppedError{
				Entry:  c.member.Name,
				Hook:   c.Hook,
				Reason: safetext.Clip(control.Stop.Reason, ending.MaxReason),
				Code:   safetext.Clip(control.Stop.Code, contract.MaxName),
			}
		case control.Interrupt != nil:
			if err := c.mayInterrupt(); err != nil {
				return r.fault(c, ending.StageAnswer, err)
			}
			gate, ok := out.(*abi.GateToolAnswer)
			if !ok {
				err := r.interrupt(c, *control.Interrupt)
				if ending.Is(err) {
					return record.Verdict{}, err
				}
				return r.fault(c, ending.StageAnswer, err)
			}
			gate.Decision, gate.Message, gate.Payload = abi.DecideAsk, control.Interrupt.Reason, control.Interrupt.Payload
		}
	}
	if err := apply(); err != nil {
		return r.fault(c, ending.StageAnswer, err)
	}
	if err := r.commit(ctx, c, out); err != nil {
		return r.fault(c, ending.StageAnswer, err)
	}
	c.reportLabels()
	return record.Verdict{}, nil
}

// fault reports a fault and decides whether the fault ends the run. stage applies unless err is a
// fault that has a stage.
func (r *Run) fault(c *Call, stage ending.Stage, err error) (record.Verdict, error) {
	var f *ending.FaultError
	if !errors.As(err, &f) {
		f = &ending.FaultError{Stage: stage, Cause: err}
		c.member.invalidAnswers.Add(1)
	}
	f.Entry, f.Digest, f.Hook = c.member.Name, c.member.desc.Digest, c.Hook
	for i, line := range f.Stderr {
		f.Stderr[i] = safetext.Clip(line, maxLogBytes)
	}
	if c.onFault != nil {
		c.onFault(f)
	}
	action := abitable.HookOf(c.Hook).Fault
	never := action != ""
	ends := !never && c.member.OnFault != Skip
	switch {
	case ends && r.last:
		action = abitable.HookOf(contract.HookAfterAgent).Fault
	case ends:
		action = "run_ended"
	case !never:
		action = "skipped"
	}
	e := abi.Event{
		Type:   abi.EventFault,
		Entry:  f.Entry,
		Digest: f.Digest,
		Hook:   f.Hook,
		Stage:  string(f.Stage),
		Cause:  ending.FaultText(f),
		Limit:  f.Limit,
		Value:  f.Value,
		Action: action,
		Stderr: f.Stderr,
	}
	if c.Hook == contract.HookObserve {
		r.Host.Send(e)
	} else {
		c.publish(e)
	}
	if ends {
		return record.Verdict{}, f
	}
	return record.Verdict{Faulted: true}, nil
}

// Call returns the host's side of a new call of hook h. The hook can read the given lists of
// messages.
func (r *Run) Call(m *Member, h abi.Hook, lists ...*message.List) *Control {
	c := &Call{Hook: h, run: r, member: m, held: account.Meter{Of: r.Account}}
	c.locals = r.Locals.Begin(&m.owner, &c.held)
	copy(c.lists[:], lists)
	return ControlOf(c)
}

// view returns the description of list n for the hook's input. If the member wants the messages in
// its input, view sets them for [Control.Shown].
func (c *Call) view(n int) abi.List {
	l := c.lists[n]
	if mode := c.member.desc.Messages; mode == "" || mode == contract.MessagesFull {
		_, first, _ := c.list(n)
		labels := c.member.desc.Labels
		// count the memory twice: for the list's cached JSON and for the input
		if c.fault = ControlOf(c).Hold(2 * l.JSONSize(first, labels)); c.fault == nil {
			c.shown, _ = l.AppendJSON(nil, first, l.Len(), math.MaxInt, labels)
			c.shownList = int32(n)
		}
	}
	return abi.List{List: n, Revision: l.Revision(), Total: l.Len()}
}

// Send sends an event to the caller and to the observers.
func (r *Run) Send(e abi.Event) {
	r.Events(r.Host.Send(e))
}

// Translates reports whether a hook translates events for a client.
func Translates(h abi.Hook) bool {
	return h == contract.HookTranslateBefore || h == contract.HookTranslateAfter
}
