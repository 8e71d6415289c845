package chain

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
)

// Endings are errors that end the run: a [Stop], a [Fault] of an entry whose
// faults fail the run, a limit of the run, a lack of memory, and the end of its context. No middleware
// catches them: next never returns, and the frames that wait in it are
// discarded from the inside out.

// A Stop ends the run because a middleware said so.
type Stop struct {
	Entry  string   // the entry
	Hook   abi.Hook // the hook that answered with it
	Reason string   // for people, at most 8 KiB
	Code   string   // for programs, the entry's own, at most abi.MaxName bytes
}

// Error says who stopped the run, and why.
func (s *Stop) Error() string {
	if s.Reason == "" {
		return s.Entry + " stopped the run"
	}
	return fmt.Sprintf("%s stopped the run: %s", s.Entry, s.Reason)
}

// A Fault is what a middleware did that no correct one does: it trapped, ran
// over a limit, or answered what makes no sense.
type Fault struct {
	Entry  string // empty while the module is loaded
	Module string // what it was loaded as; empty for native Go
	Digest string // of the module's bytes; empty for native Go
	Hook   abi.Hook
	Stage  Stage

	// Limit is the limit that was passed, of which [LimitKey] is the name in agent.yaml,
	// and Value what it was: bytes, a count, or nanoseconds. Both are empty if the fault is no limit's.
	Limit string
	Value int64

	Cause  error
	Stderr []string // the last lines that the guest printed and logged
	Stack  string   // the guest's, empty where there is none
}

// A Stage says at which point of a hook call, or before all of them, a fault
// happened.
type Stage string

// The stages.
const (
	StageLoad      Stage = "load"      // _initialize, describe
	StageConfigure Stage = "configure" // configure
	StageBreaker   Stage = "breaker"   // it was not called: it faulted too often before
	StageInput     Stage = "input"     // it could not be given its input
	StageHook      Stage = "hook"      // in its own code
	StageHostCall  Stage = "host_call" // in what it asked of the host
	StageAnswer    Stage = "answer"    // in what it answered
)

// maxCause bounds what a fault says of its cause, in bytes: guests have a say in it.
const maxCause = 2 << 10

// Error names the entry, the hook and the cause.
func (f *Fault) Error() string {
	text := f.Text()
	if f.Hook != "" {
		text = string(f.Hook) + ": " + text
	}
	if f.Entry != "" {
		text = f.Entry + ": " + text
	}
	return text
}

// Text is the cause alone, bounded and safe to show, and which key of agent.yaml the
// limit has that was passed.
func (f *Fault) Text() string {
	text := clip(f.Cause.Error(), maxCause)
	if key := LimitKey(f.Limit); key != "" {
		text += " (limits." + key + " in agent.yaml)"
	}
	return text
}

// LimitKey is what agent.yaml calls a limit of a module, among its limits; empty if it has no
// such key.
func LimitKey(limit string) string {
	switch limit {
	case "hook_time":
		return "timeout"
	case "memory_bytes":
		return "memory"
	case "fuel", "run_fuel", "stack_bytes", "module_bytes", "input_bytes", "output_bytes", "reply_bytes", "log_bytes", "log_line_bytes", "host_calls", "instances", "nesting":
		return limit
	default:
		return ""
	}
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// A Limited ends the run because it used up one of its limits.
type Limited struct {
	Limit string `json:"limit"`          // max_steps, model_calls or tool_calls
	Tool  string `json:"tool,omitempty"` // where it is the limit of one tool
	Value int64  `json:"value"`          // how many there may be
}

// Error says which limit it is, and what to do.
func (l *Limited) Error() string {
	const advice = "; raise the limit of %s, or see in its events why it goes on"
	switch {
	case l.Limit == "max_steps":
		return fmt.Sprintf("the run used all its %d steps without coming to an answer"+advice, l.Value, "steps")
	case l.Limit == "model_calls":
		return fmt.Sprintf("the run used all its %d model calls without coming to an answer"+advice, l.Value, "model calls")
	case l.Tool != "":
		return fmt.Sprintf("the run used all its %d calls of %s, and its model calls it once more"+advice, l.Value, l.Tool, "this tool")
	default:
		return fmt.Sprintf("the run used all its %d tool calls, and its model asks for more"+advice, l.Value, "tool calls")
	}
}

// An Over ends the run because its context ended: it was canceled, or its
// deadline passed.
type Over struct{ Cause error }

// Error is that of the cause.
func (o *Over) Error() string { return o.Cause.Error() }

// Unwrap returns the cause.
func (o *Over) Unwrap() error { return o.Cause }

// over is an ending if ctx has ended, else nil. An error that merely wraps
// one of package context is none: somebody's time-out ends a call, not the run.
func over(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != nil {
		return &Over{cause}
	}
	return nil
}

// IsEnding reports whether err ends the run.
func IsEnding(err error) bool {
	return err != nil && (is[*Limited](err) || is[*Interrupted](err) || is[*Stop](err) || is[*Fault](err) || is[*Over](err) || is[*MemoryError](err))
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// faultf is a fault of an answer that cannot be applied.
func faultf(format string, args ...any) error { return &badAnswer{fmt.Errorf(format, args...)} }

// A badAnswer is an answer that decoded but makes no sense.
type badAnswer struct{ error }

func (b *badAnswer) Unwrap() error { return b.error }

// AsError turns err into what middlewares and the model are told of it.
func AsError(err error, code abi.Code) *abi.Error {
	if known, ok := errors.AsType[*abi.Error](err); ok {
		return known
	}
	return &abi.Error{Code: code, Message: err.Error()}
}
