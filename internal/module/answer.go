package module

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An answerError is the cause of a fault: what the guest wrote is not what a
// hook answers.
type answerError struct{ text string }

func (e *answerError) Error() string { return e.text }

// answer reads the output of a hook that succeeded. None leaves out as it is.
func (v *visit) answer(out any) error {
	if len(v.output) == 0 {
		return nil
	}
	unknown, err := abi.DecodeUntil(v.output, out, v.late())
	if err != nil {
		if late, ok := errors.AsType[*sandbox.Fault](err); ok {
			return late
		}
		return &answerError{"answer: " + err.Error()}
	}
	v.tellUnknown("answer", unknown)
	return nil
}

const (
	// answerTime is how long an answer may be read when the hook's time is over. Most
	// are read in some microseconds.
	answerTime = 5 * time.Millisecond
	// mostPiece is the most that counts as the reading of what lies between two looks.
	// It takes less: what is longer is that the machine, or this process, let others
	// run, which with a thousand runs can be for seconds.
	mostPiece = answerTime
)

// late returns what tells when reading the answer takes too long. That is the
// module's work: JSON of the longest answer can be such that reading it takes
// more than 100 ms. A short answer is read quickly, whatever it is.
func (v *visit) late() func() error {
	if len(v.output) <= quickly {
		return nil
	}
	last, took, left := time.Now(), time.Duration(0), max(0, v.limits.HookTime-v.report.Time)
	return func() error {
		now := time.Now()
		took += min(now.Sub(last), mostPiece)
		if last = now; took-answerTime <= left {
			return nil
		}
		return &sandbox.Fault{Kind: sandbox.FaultTimeout, Limit: "HookTime", Value: int64(v.limits.HookTime), Export: string(v.hook),
			Message: fmt.Sprintf("its answer of %d bytes could not be read in what was left of %v", len(v.output), v.limits.HookTime)}
	}
}

// maxMessage bounds the message of an error of a module, in bytes.
const maxMessage = 8 << 10

// failure reads the output of a hook that says it failed. Without output the
// error says no more than that; an output that is no error object is a fault,
// like any other answer of the wrong shape.
func (v *visit) failure() (*abi.Error, error) {
	if len(v.output) == 0 {
		return &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("%s failed without saying why", v.hook)}, nil
	}
	var e abi.Error
	unknown, err := abi.DecodeUntil(v.output, &e, v.late())
	var late *sandbox.Fault
	switch {
	case errors.As(err, &late):
		return nil, late
	case err != nil:
		return nil, &answerError{"returned 1, and its error object: " + err.Error()}
	}
	v.tellUnknown("error", unknown)
	if !slices.Contains(abi.Codes(), e.Code) {
		if e.Code != "" {
			v.log(abi.LogWarn, fmt.Sprintf("error: unknown code %q counts as internal", short(string(e.Code))))
		}
		e.Code = abi.CodeInternal
	}
	if len(e.Message) > maxMessage {
		e.Message = strings.ToValidUTF8(e.Message[:maxMessage], "") + "…"
	}
	return &e, nil
}
