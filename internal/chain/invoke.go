package chain

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
)

// A verdict is what came of one hook call that did not end the run: an
// answer that was applied, a failure the middleware reported, or a fault that
// was passed over.
type verdict struct {
	failed  *abi.Error
	faulted bool
}

func (v verdict) ok() bool { return v.failed == nil && !v.faulted }

// lenient says, for the hooks whose faults never end a run, what becomes of
// a fault.
var lenient = map[abi.Hook]string{
	abi.HookGateTool:     "denied",
	abi.HookCallTool:     "error_result",
	abi.HookToolMessages: "default_message",
	abi.HookAfterAgent:   "passed_over",
	abi.HookObserve:      "passed_over",

	abi.HookTranslateBefore: "not_translated",
	abi.HookTranslateAfter:  "not_translated",
}

// An envelope is the part that all inputs have; an ender is an answer that
// may end the run.
type (
	envelope interface{ Envelope() *abi.Common }
	ender    interface{ Ending() *abi.Control }
)

// invoke calls one hook of one member and applies its answer. apply runs when
// the hook succeeded, and is to change nothing if it fails: then the answer is
// a fault as a whole. The error is an ending.
func (r *Run) invoke(ctx context.Context, c *Call, in envelope, out any, apply func() error) (verdict, error) {
	if err := over(ctx); err != nil {
		return verdict{}, err
	}
	var resume *abi.Resume
	if !translates(c.Hook) { // which is no part of what a phase does
		c.key = r.record.next(string(c.Hook), c.member.Name, either(c.scope, c.run.scope))
		if !live[c.Hook] {
			if v, ok, err := r.record.done(c.key, out); ok {
				return r.replay(c, v, err, apply)
			}
		}
		var waits *abi.Pending
		if resume, waits = r.record.resume(c.key); waits != nil {
			return verdict{}, &Interrupted{*waits}
		}
		if err := r.keepOwed(ctx); err != nil {
			return verdict{}, err
		}
	}
	b := c.member.breaker
	if err := b.allow(); err != nil {
		return r.fault(c, StageBreaker, err)
	}
	c.ctx = ctx
	defer c.held.Release()
	if c.fault != nil {
		return r.fault(c, StageInput, c.fault)
	}
	*in.Envelope() = abi.Common{Run: r.host.Where(), Entry: c.member.Name, Resume: resume}
	v, err := r.traced(ctx, c, in, out, apply)
	switch {
	case v.faulted, faultOf(err, c.member):
		r.tellBreaker(c, b.done(true))
	case err != nil:
		b.release()
	default:
		r.tellBreaker(c, b.done(false))
	}
	if v.ok() && err == nil {
		return v, nil // it is recorded, with what it wrote
	}
	if c.key != "" {
		r.keeping.RLock()
		defer r.keeping.RUnlock()
	}
	r.settle(ctx, c)
	if err == nil {
		r.note(c, out, v)
	}
	return v, err
}

// note records what came of a call.
func (r *Run) note(c *Call, out any, v verdict) {
	if c.key != "" && !live[c.Hook] && c.asks == nil {
		r.record.keep(c.key, out, v)
	}
}

// commit makes the writes of a call that succeeded, and records what came of
// it: both or neither are kept.
func (r *Run) commit(ctx context.Context, c *Call, out any) error {
	if c.key != "" { // a translation is called while an event is recorded
		r.keeping.RLock()
		defer r.keeping.RUnlock()
	}
	if c.key != "" && !live[c.Hook] {
		if err := r.record.hold(c.weight); err != nil {
			return err
		}
	}
	if err := c.commit(); err != nil {
		return err
	}
	r.settle(ctx, c)
	r.note(c, out, verdict{})
	return nil
}

// live are the hooks that are called in every pass through a phase: they
// wrap something that may have to go on, or are told of what is new.
var live = map[abi.Hook]bool{
	abi.HookWrapModel:    true,
	abi.HookWrapToolCall: true,
	abi.HookOnChunk:      true,
	abi.HookObserve:      true,
}

// replay applies what came of a call in an earlier pass.
func (r *Run) replay(c *Call, v verdict, err error, apply func() error) (verdict, error) {
	if err == nil && v.ok() {
		err = apply()
	}
	if err != nil {
		return r.fault(c, StageAnswer, err)
	}
	return v, nil
}

func (r *Run) tellBreaker(c *Call, change string) {
	if change != "" {
		c.Log(abi.LogWarn, change)
	}
}

// answer calls the hook and applies what it answers.
func (r *Run) answer(ctx context.Context, c *Call, in envelope, out any, apply func() error) (verdict, error) {
	err := c.member.session.Call(ctx, c, in, out)
	if ending := c.Ending(); ending != nil {
		return verdict{}, ending
	}
	if ending := over(ctx); err != nil && ending != nil {
		return verdict{}, ending
	}
	if err != nil {
		if failed, ok := errors.AsType[*abi.Error](err); ok {
			return verdict{failed: tidy(failed)}, nil
		}
		return r.fault(c, StageHook, err)
	}
	if e, ok := out.(ender); ok {
		switch control := e.Ending(); {
		case control.Stop != nil:
			return verdict{}, &Stop{Entry: c.member.Name, Hook: c.Hook, Reason: clip(control.Stop.Reason, maxReason), Code: clip(control.Stop.Code, abi.MaxName)}
		case control.Interrupt != nil:
			if err := c.mayInterrupt(); err != nil {
				return r.fault(c, StageAnswer, err)
			}
			gate, ok := out.(*abi.GateToolAnswer)
			if !ok {
				err := r.interrupt(c, *control.Interrupt)
				if IsEnding(err) {
					return verdict{}, err
				}
				return r.fault(c, StageAnswer, err)
			}
			gate.Decision, gate.Message, gate.Payload = abi.DecideAsk, control.Interrupt.Reason, control.Interrupt.Payload
		}
	}
	if err := apply(); err != nil {
		return r.fault(c, StageAnswer, err)
	}
	if err := r.commit(ctx, c, out); err != nil {
		return r.fault(c, StageAnswer, err)
	}
	return verdict{}, nil
}

// fault tells of a fault and decides whether it ends the run. stage is that of
// an error which does not say its own.
func (r *Run) fault(c *Call, stage Stage, err error) (verdict, error) {
	var f *Fault
	if !errors.As(err, &f) {
		f = &Fault{Stage: stage, Cause: err}
		c.member.lies.Add(1)
	}
	f.Entry, f.Digest, f.Hook = c.member.Name, c.member.desc.Digest, c.Hook
	for i, line := range f.Stderr {
		f.Stderr[i] = clip(line, maxLogBytes)
	}
	if c.onFault != nil {
		c.onFault(f)
	}
	action, never := lenient[c.Hook]
	ends := !never && c.member.OnFault != Skip
	switch {
	case ends && r.last:
		action = lenient[abi.HookAfterAgent]
	case ends:
		action = "run_ended"
	case !never:
		action = "skipped"
	}
	e := abi.Event{Type: abi.EventFault, Entry: f.Entry, Digest: f.Digest, Hook: f.Hook, Stage: string(f.Stage), Cause: f.Text(),
		Limit: f.Limit, Value: f.Value, Action: action, Stderr: f.Stderr}
	if c.Hook == abi.HookObserve {
		r.host.Send(e)
	} else {
		c.publish(e)
	}
	if ends {
		return verdict{}, f
	}
	return verdict{faulted: true}, nil
}

// faultOf reports whether err is a fault of the member.
func faultOf(err error, m *member) bool {
	fault, ok := errors.AsType[*Fault](err)
	return ok && fault.Entry == m.Name
}

// call makes the host's side of a hook call.
func (r *Run) call(m *member, h abi.Hook, lists ...*List) *Call {
	c := &Call{Hook: h, run: r, member: m, held: account.Meter{Of: r.account}}
	copy(c.lists[:], lists)
	return c
}

// view is how a list stands in a member's input. Its messages, where the member
// wants to be shown them, are in [Call.Shown].
func (c *Call) view(n int) abi.List {
	l := c.lists[n]
	if mode := c.member.desc.Messages; mode == "" || mode == abi.MessagesFull {
		_, first, _ := c.list(n)
		if c.fault = c.Hold(2 * l.jsonSize(first)); c.fault == nil { // here and in the input
			c.shown, _ = l.JSON(first, l.Len(), math.MaxInt)
			c.shownList = n
		}
	}
	return abi.List{List: n, Revision: l.rev, Total: l.Len()}
}

// send sends an event to the caller and to the observers.
func (r *Run) send(e abi.Event) {
	r.queue.add(r.host.Send(e))
}

// maxReason bounds the reason of a stop, in bytes.
const maxReason = 8 << 10

// maxError bounds the message of an error that a middleware made, in bytes.
const maxError = 8 << 10

// tidy makes a middleware's error safe to show. Modules outside it, the model
// and the caller are told of it.
func tidy(e *abi.Error) *abi.Error {
	out := *e
	if !slices.Contains(abi.Codes(), out.Code) {
		out.Code = abi.CodeInternal
	}
	out.Message = clip(out.Message, maxError)
	return &out
}

// clip bounds a guest's text and makes it safe to show.
func clip(s string, most int) string {
	if len(s) > most {
		return cleanText(strings.ToValidUTF8(s[:most], "")) + "…"
	}
	return cleanText(s)
}

// cleanText makes a guest's text safe to show: valid UTF-8, without characters
// that a terminal would obey, or that make text look other than it is.
func cleanText(s string) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if strings.IndexFunc(s, unsafeRune) < 0 {
		return s
	}
	var b strings.Builder
	for _, c := range s {
		switch {
		case !unsafeRune(c):
			b.WriteRune(c)
		case c <= 0xff:
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// unsafeRune reports control characters but the ends of lines and tabs, and
// those that turn the direction of text or break lines unseen.
func unsafeRune(c rune) bool {
	switch {
	case c == '\n', c == '\t':
		return false
	case c < 0x20, c >= 0x7f && c < 0xa0:
		return true
	default:
		return c >= 0x2028 && c <= 0x202e || c >= 0x2066 && c <= 0x2069
	}
}
