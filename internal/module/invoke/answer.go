package invoke

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An AnswerError is the cause of a fault: what the guest wrote is not what a
// hook answers.
type AnswerError struct{ Text string }

func (e *AnswerError) Error() string { return e.Text }

// DecodeAnswer reads the output of a hook that succeeded. None leaves out as it is.
func (inv *Invocation) DecodeAnswer(out any) error {
	if len(inv.Output) == 0 {
		return nil
	}
	unknown, err := abijson.DecodeUntil(inv.Output, out, inv.AnswerDeadline())
	if err != nil {
		if late, ok := errors.AsType[*sandbox.Fault](err); ok {
			return late
		}
		return &AnswerError{"answer: " + err.Error()}
	}
	inv.warnUnknown("answer", unknown)
	return nil
}

const (
	// answerGrace is how long an answer may be read when the hook's time is over. Most
	// are read in some microseconds.
	answerGrace = 5 * time.Millisecond
	// maxStep is the most that counts as the reading of what lies between two looks.
	// It takes less: what is longer is that the machine, or this process, let others
	// run, which with a thousand runs can be for seconds.
	maxStep = answerGrace
)

// AnswerDeadline returns what tells when reading the answer takes too long. That is the
// module's work: JSON of the longest answer can be such that reading it takes
// more than 100 ms. A short answer is read quickly, whatever it is.
func (inv *Invocation) AnswerDeadline() func() error {
	if len(inv.Output) <= smallJSON {
		return nil
	}
	last, took, left := time.Now(), time.Duration(0), max(0, inv.Limits.HookTime-inv.Report.Time)
	return func() error {
		now := time.Now()
		took += min(now.Sub(last), maxStep)
		if last = now; took-answerGrace <= left {
			return nil
		}
		return &sandbox.Fault{Kind: sandbox.FaultTimeout, Limit: "HookTime", Value: int64(inv.Limits.HookTime), Export: string(inv.Hook),
			Message: fmt.Sprintf("its answer of %d bytes could not be read in what was left of %v", len(inv.Output), inv.Limits.HookTime)}
	}
}

// maxMessage bounds the message of an error of a module, in bytes.
const maxMessage = 8 << 10

// DecodeFailure reads the output of a hook that says it failed. Without output the
// error says no more than that; an output that is no error object is a fault,
// like any other answer of the wrong shape.
func (inv *Invocation) DecodeFailure() (*abi.Error, error) {
	if len(inv.Output) == 0 {
		return &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("%s failed without saying why", inv.Hook)}, nil
	}
	var e abi.Error
	unknown, err := abijson.DecodeUntil(inv.Output, &e, inv.AnswerDeadline())
	var late *sandbox.Fault
	switch {
	case errors.As(err, &late):
		return nil, late
	case err != nil:
		return nil, &AnswerError{"returned 1, and its error object: " + err.Error()}
	}
	inv.warnUnknown("error", unknown)
	if !slices.Contains(abi.Codes(), e.Code) {
		if e.Code != "" {
			inv.log(abi.LogWarn, fmt.Sprintf("error: unknown code %.64q counts as internal", e.Code))
		}
		e.Code = abi.CodeInternal
	}
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage], "") + "…"
	}
	return &e, nil
}
