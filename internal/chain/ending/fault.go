package ending

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
)

// A Fault is what a middleware did that no correct one does: it trapped, ran
// over a limit, or answered what makes no sense.
type FaultError struct {
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

// Error names the entry, the hook and the cause.
func (f *FaultError) Error() string {
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
func (f *FaultError) Text() string {
	text := safetext.Clip(f.Cause.Error(), maxCause)
	if key := LimitKey(f.Limit); key != "" {
		text += " (limits." + key + " in agent.yaml)"
	}
	return text
}

// Unwrap returns the cause.
func (f *FaultError) Unwrap() error { return f.Cause }

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
