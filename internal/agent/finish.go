package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/persist"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
)

// Maximum durations at the end of a run.
const (
	// endBudget limits after_agent and the last observe together, or the last observe before a
	// pause.
	endBudget = 10 * time.Second
	// stoppedBudget limits after_agent and the last observe together if the run was canceled or has
	// exceeded its timeout.
	stoppedBudget = 600 * time.Millisecond
	// translateBudget limits the translation of a stopped run's last events. It is longer than
	// stoppedBudget, so that run_finished is translated even if after_agent uses all of its time.
	translateBudget = stoppedBudget + 200*time.Millisecond
)

// finish ends the run because of err. It answers open calls, runs after_agent and the observers,
// and sends run_finished as the last event.
func (r *run) finish(caller, ctx context.Context, err error) {
	s := &r.state
	if r.recorder != nil {
		if ctx.Err() != nil {
			r.recorder.Stop() // drops pending events, so it must precede the events of after_agent
		}
		r.recorder.Ending()
	}
	e := r.ended(caller, ctx, err)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), endBudget)
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(stoppedBudget, cancel) })()
	defer r.boundEnd(cancel)()
	e.Message = r.chain.AfterAgent(end, chain.End{Messages: s.Messages, NewFrom: r.newFrom(), Final: e.Message,
		Err: e.Error, FinishReason: e.FinishReason, Usage: s.Usage})
	usage := r.Where().Usage // includes model calls of after_agent
	e.Usage, e.Entries = &usage, r.stats()
	r.observeLast(end, e)
	e.Entries = r.stats()
	r.traced = runOutcome(e, r.err)
	r.out.Lock()
	out := delivery.Event{Event: e}
	r.prepare(&out)
	r.out.Unlock()
	r.last(out, journal.StatusFinished)
}

// ended returns the run_finished event as it is before after_agent. If an earlier process recorded
// the outcome, ended returns the recorded event. Otherwise it determines the outcome from err,
// answers open calls, ends the step, and records the outcome, so that a process that resumes the
// run reports the same.
func (r *run) ended(caller, ctx context.Context, err error) abi.Event {
	s := &r.state
	if o := s.Outcome; o != nil {
		if o.Err != "" {
			r.err = &Error{FinishReason: o.FinishReason, StoppedBy: o.StoppedBy, Err: errors.New(o.Err)}
		}
		return o.Event
	}
	e := r.outcome(caller, ctx, err)
	r.repair(whyNotRun(&e, err))
	r.chain.EndOwn(s.Record)
	r.endStep()
	s.Phase, s.Record, s.Outcome = runlog.PhaseEnd, record.New(), &runlog.Outcome{Event: e}
	if r.err != nil {
		s.Outcome.Err = r.err.Error()
	}
	r.persistPhase()
	return e
}

// whyNotRun returns the reason that the results of unexecuted calls have when the run ends. e is
// the run's run_finished event. The reason does not contain the texts of failures, because it is
// part of the conversation and only some readers of a run may see those texts.
func whyNotRun(e *abi.Event, err error) string {
	limited, atLimit := errors.AsType[*ending.LimitError](err)
	stop, stopped := errors.AsType[*ending.StoppedError](err)
	fault, faulted := errors.AsType[*ending.FaultError](err)
	failed, hookFailed := errors.AsType[*ending.HookError](err)
	late, expired := errors.AsType[*ExpiredError](err)
	switch {
	case atLimit:
		return "the run ended at " + limitText(limited)
	case e.FinishReason == abi.RunReturnDirectly || e.FinishReason == abi.RunStop:
		return "the run ended with an answer, without this call"
	case stopped:
		return safetext.Clip(stop.Error(), maxWhy)
	case e.FinishReason == abi.RunError && faulted && fault.Entry != "":
		return fmt.Sprintf("the run failed, because %s failed in %s", fault.Entry, fault.Hook)
	case e.FinishReason == abi.RunError && hookFailed:
		return fmt.Sprintf("the run failed, because %s failed in %s", failed.Entry, failed.Hook)
	case expired:
		return late.Error()
	case e.FinishReason == abi.RunError:
		return "the run failed"
	case e.Error != nil:
		return safetext.Clip(e.Error.Message, maxWhy)
	default:
		return "the run was canceled"
	}
}

// endedBefore is the reason in the results of calls that were open before the run began.
const endedBefore = "the run ended before this call"

// maxWhy is the maximum length of the reason in the result of an unexecuted call, in bytes. A round
// can have many calls.
const maxWhy = 1 << 10

// peek returns an event as it will be sent. If observers emit events before it is sent, its number
// is too low.
func (r *run) peek(e abi.Event) abi.Event {
	r.out.Lock()
	defer r.out.Unlock()
	r.stamp(&e, r.state.LastSeq+1)
	return e
}

// outcome returns the run_finished event of a run that ended because of err. If the run failed,
// outcome sets r.err. If a limit ended the run, it emits a limit event.
func (r *run) outcome(caller, ctx context.Context, err error) abi.Event {
	usage := r.state.Usage
	e := abi.Event{Type: abi.EventRunFinished, Usage: &usage}
	var (
		done   *answer
		stop   *ending.StoppedError
		over   *ending.AbortedError
		limit  *ending.LimitError
		full   *journal.FullError
		memory *MemoryError
		heavy  *OverloadedError
	)
	switch {
	case errors.As(err, &done):
		e.FinishReason, e.Message = done.reason, &done.final
		return e
	case errors.As(err, &stop):
		e.FinishReason = abi.RunStopped
		e.StoppedBy, e.Hook, e.Reason, e.StopCode = stop.Entry, stop.Hook, stop.Reason, stop.Code
	case errors.As(err, &limit):
		r.emitLimit(limit, actionEnded)
		e.FinishReason = abi.RunLimit
		if limit.Limit == LimitMaxSteps {
			e.FinishReason = abi.RunMaxSteps
		}
		if e.Message = r.atLimit(limit); e.Message != nil || r.onLimit(limit) == LimitEnd {
			return e
		}
		e.Error = &abi.Error{Code: abi.CodeLimit, Message: err.Error()}
	case errors.As(err, &full):
		r.emit(abi.Event{Type: abi.EventLimit, Limit: full.Limit, Value: full.Max, Action: actionEnded})
		e.FinishReason, e.Error = abi.RunLimit, &abi.Error{Code: abi.CodeLimit, Message: full.Error()}
		err = full
	case errors.As(err, &memory):
		r.emit(abi.Event{Type: abi.EventLimit, Limit: ending.LimitMemory, Value: memory.Limit, Action: actionEnded})
		e.FinishReason, e.Error = abi.RunLimit, &abi.Error{Code: abi.CodeLimit, Message: memory.Error()}
		err = memory
	case errors.As(err, &over) && errors.As(context.Cause(ctx), &heavy):
		err = heavy
		e.FinishReason = abi.RunError
		e.Error = &abi.Error{
			Code:         abi.CodeUnavailable,
			Message:      heavy.Error(),
			Retryable:    true,
			RetryAfterMS: shortageRetry.Milliseconds(),
		}
	case errors.As(err, &over) && errors.Is(err, persist.ErrCanceled):
		e.FinishReason = abi.RunCanceled
		err = &CanceledError{persist.ErrCanceled}
	case errors.As(err, &over) && errors.Is(caller.Err(), context.Canceled):
		e.FinishReason = abi.RunCanceled
		err = &CanceledError{context.Cause(caller)}
		if blocked := (*BlockedError)(nil); errors.As(err, &blocked) {
			e.Error = &abi.Error{Code: abi.CodeDenied, Message: blocked.Error()}
		}
	case errors.As(err, &over):
		e.FinishReason = abi.RunTimeout
		err = r.timedOut(context.Cause(ctx))
		e.Error = &abi.Error{Code: abi.CodeLimit, Message: err.Error()}
	default:
		e.FinishReason, e.Error = abi.RunError, runError(err)
		if call := (*ModelError)(nil); errors.As(err, &call) {
			e.Source = call.Source
		}
	}
	r.err = &Error{FinishReason: e.FinishReason, StoppedBy: e.StoppedBy, Err: err}
	return e
}

// timedOut returns the error of a run that exceeded Options.Timeout or the caller's deadline.
func (r *run) timedOut(cause error) error {
	if errors.Is(cause, errTimeout) {
		return &TimeoutError{After: r.root.Timeout, Cause: cause}
	}
	return &TimeoutError{Cause: cause}
}

// runError converts the error that ended a run to the error in run_finished.
func runError(err error) *abi.Error {
	var failed *ending.HookError
	if errors.As(err, &failed) {
		e := *failed.Err
		e.Message = failed.Error()
		return &e
	}
	var refused *AdmissionError
	if errors.As(err, &refused) {
		return &abi.Error{Code: abi.CodeLimit, Message: err.Error(), Retryable: isTemporary(err)}
	}
	var late *ExpiredError
	if errors.As(err, &late) {
		return &abi.Error{Code: abi.CodeLimit, Message: err.Error()}
	}
	if isTemporary(err) {
		return &abi.Error{
			Code:         abi.CodeUnavailable,
			Message:      err.Error() + "; this is not a mistake of the agent: run it again in a minute",
			Retryable:    true,
			RetryAfterMS: shortageRetry.Milliseconds(),
		}
	}
	var fault *ending.FaultError
	if errors.As(err, &fault) {
		return &abi.Error{Code: abi.CodeInternal, Message: fault.Error()}
	}
	return ending.AsError(err, abi.CodeInternal)
}

func asModelError(err error) (*model.Error, bool) {
	var e *model.Error
	ok := errors.As(err, &e)
	return e, ok
}

// shortageRetry is the suggested delay before a run is retried that failed because of a temporary
// shortage of the host.
const shortageRetry = time.Minute

// isTemporary reports whether err is a temporary shortage of the host: whether err or an error that
// it wraps has a method Retryable that returns true.
func isTemporary(err error) bool {
	var short interface{ Retryable() bool }
	return errors.As(err, &short) && short.Retryable()
}

// boundEnd makes the journal call cancel if the hooks at the run's end write more journal bytes
// than allowed; see [persist.Writer.AfterSpent]. For a run inside another one, the journal is that
// of the outermost run. Without a journal, boundEnd does nothing. release undoes the registration.
func (r *run) boundEnd(cancel context.CancelFunc) (release func() bool) {
	k := r.recorder
	for at := r.parent; at != nil; at = at.parent {
		if at.recorder != nil {
			k = at.recorder
		}
	}
	if k == nil {
		return func() bool { return true }
	}
	return k.AfterSpent(cancel)
}
