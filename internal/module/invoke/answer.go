package invoke

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// An AnswerError is the cause of a fault because a hook's answer is malformed.
type AnswerError struct{ Text string }

func (e *AnswerError) Error() string { return e.Text }

// DecodeAnswer decodes the output of a hook that succeeded. If there is no output, out stays
// unchanged. The error is an [*AnswerError], or a *sandbox.FaultError if decoding takes too long;
// see [Invocation.AnswerDeadline].
func (inv *Invocation) DecodeAnswer(out any) error {
	if len(inv.Output) == 0 {
		return nil
	}
	unknown, err := abijson.DecodeUntil(inv.Output, out, inv.AnswerDeadline())
	if err != nil {
		if late, ok := errors.AsType[*sandbox.FaultError](err); ok {
			return late
		}
		return &AnswerError{"answer: " + err.Error()}
	}
	inv.warnUnknown("answer", unknown)
	return nil
}

const (
	// answerGrace is the time that decoding an answer may take after the hook's time is used up.
	// Decoding most answers takes microseconds.
	answerGrace = 5 * time.Millisecond
	// maxStep is the maximum time between two checks that counts as decoding. The work between two
	// checks takes less than maxStep. In the rest of the time, the scheduler ran something else;
	// with a thousand runs this can take seconds.
	maxStep = answerGrace
)

// AnswerDeadline returns a function that returns an error when decoding the answer has taken too
// long. Decoding counts towards the hook's time, because an attacker can write an answer that takes
// more than 100 ms to decode. For short answers, AnswerDeadline returns nil instead of a function.
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
		return &sandbox.FaultError{
			Kind:   sandbox.FaultTimeout,
			Limit:  "HookTime",
			Value:  int64(inv.Limits.HookTime),
			Export: string(inv.Hook),
			Message: fmt.Sprintf("its answer of %d bytes could not be decoded in the rest of %v",
				len(inv.Output), inv.Limits.HookTime),
		}
	}
}

// maxMessage is the maximum length of the message of a module's error, in bytes.
const maxMessage = 8 << 10

// DecodeFailure decodes the error object of a hook that failed. If there is no output, it returns an error object
// with a generic message. An unknown code becomes [abi.CodeInternal], and a message of more than maxMessage bytes is
// truncated. If the output is malformed or decoding takes too long, the second result is an error as in DecodeAnswer.
func (inv *Invocation) DecodeFailure() (*abi.Error, error) {
	if len(inv.Output) == 0 {
		return &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("%s failed without an error message", inv.Hook)}, nil
	}
	var e abi.Error
	unknown, err := abijson.DecodeUntil(inv.Output, &e, inv.AnswerDeadline())
	var late *sandbox.FaultError
	switch {
	case errors.As(err, &late):
		return nil, late
	case err != nil:
		return nil, &AnswerError{"returned 1, and its error object: " + err.Error()}
	}
	inv.warnUnknown("error", unknown)
	if !slices.Contains(contract.Codes(), e.Code) {
		if e.Code != "" {
			inv.log(contract.LogWarn, fmt.Sprintf("error: unknown code %.64q counts as internal", e.Code))
		}
		e.Code = abi.CodeInternal
	}
	if len(e.Message) > maxMessage {
		e.Message = truncate.Text(e.Message, maxMessage) + "…"
	}
	return &e, nil
}
