package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
)

// A Result is the outcome of replaying a bundle.
type Result struct {
	// Same is set if the replay matches the recording, including the exact fuel.
	Same bool `json:"same"`
	// Differences lists the differences from the recording, one sentence each.
	Differences []string `json:"differences,omitempty"`
	// Incomplete describes the parts of the recording that are missing. It is empty if none are.
	Incomplete string `json:"incomplete,omitempty"`

	Cause string `json:"cause"` // cause of the fault in the replay; empty if there was none
	Fuel  uint64 `json:"fuel"`
	Calls int    `json:"calls"` // recorded host calls that were repeated
}

// An Outcome is the result of replaying a recorded call.
type Outcome struct {
	Fuel   uint64
	Output []byte
	Calls  int // number of recorded host calls that were repeated
	Err    error
}

// Compare returns the differences between a replayed call and r, one sentence each.
func (r *Recording) Compare(now *Outcome) []string {
	var out []string
	var failed *abi.Error
	switch {
	case errors.As(now.Err, &failed) && !r.Failed:
		out = append(out, "it failed now: "+failed.Message)
	case now.Err != nil && !errors.As(now.Err, &failed):
		out = append(out, "it faulted now: "+now.Err.Error())
	case now.Err == nil && r.Failed:
		out = append(out, "it failed then, and does not now")
	}
	return append(out, r.compareWork(now)...)
}

// compareWork returns the differences in fuel, output and number of host calls. It does not compare
// whether the calls succeeded.
func (r *Recording) compareWork(now *Outcome) []string {
	var out []string
	if r.Fuel != now.Fuel {
		out = append(out, fmt.Sprintf("it used %d fuel then, and %d now", r.Fuel, now.Fuel))
	}
	if !bytes.Equal(r.Output, now.Output) {
		out = append(out, "it wrote another answer")
	}
	if left := len(r.Calls) - now.Calls; left > 0 {
		out = append(out, fmt.Sprintf("%d of its %d host calls were not made again", left, len(r.Calls)))
	}
	return out
}

// Compare returns the differences between a replay of the bundle's faulting call and the recording,
// one sentence each.
func Compare(b *Bundle, now *Outcome) []string {
	if b.Fault.Judged {
		return b.Call.Compare(now)
	}
	var out []string
	var fault *ending.FaultError
	switch {
	case errors.Is(now.Err, ErrDiverged):
		out = append(out, now.Err.Error())
	case AnsweredLate(b, now.Err):
	case !errors.As(now.Err, &fault):
		out = append(out, "it did not fault")
	case b.Fault.Limit == "hook_time" && (fault.Limit == "fuel" || fault.Limit == "hook_time"):
		// The recorded call ran out of time. The replay ran out of fuel, because its limit was the
		// fuel that the recorded call had used.
	default:
		out = append(out, b.Fault.compare(fault)...)
	}
	return append(out, b.Call.compareWork(now)...)
}

// AnsweredLate reports whether the module's call succeeded in the recording and in the replay, but
// the host ran out of time while it decoded the recorded answer.
func AnsweredLate(b *Bundle, err error) bool {
	return err == nil && b.Fault.Limit == "hook_time" && !b.Call.Stopped
}

func (f *Fault) compare(now *ending.FaultError) []string {
	var out []string
	if text := ending.FaultText(now); !f.sameCause(text, now.Limit) {
		out = append(out, fmt.Sprintf("the cause was %q, and is %q", f.Cause, text))
	}
	if f.Stage != now.Stage || f.Limit != now.Limit || f.Value != now.Value {
		out = append(out, fmt.Sprintf("it faulted at stage %q with limit %q of %d, and now at stage %q with limit %q of %d",
			f.Stage, f.Limit, f.Value, now.Stage, now.Limit, now.Value))
	}
	if stack := strings.Split(now.Stack, "\n"); now.Stack != "" && !slices.Equal(f.Stack, stack) {
		out = append(out, "the guest's stack is another")
	}
	return out
}

// sameCause reports whether text, the cause of a fault with a limit, is the recorded cause. In
// recordings of earlier versions, some causes lack their end, which names the functions or a logged
// panic.
func (f *Fault) sameCause(text, limit string) bool {
	if f.Cause == text {
		return true
	}
	then, now := strings.TrimSuffix(f.Cause, ending.LimitHint(f.Limit)), strings.TrimSuffix(text, ending.LimitHint(limit))
	more, found := strings.CutPrefix(now, then)
	return found && then != "" && (strings.HasPrefix(more, " in ") || strings.HasPrefix(more, " ("))
}
