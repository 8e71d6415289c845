package ending

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
)

// A FaultError reports that a middleware misbehaved: it trapped, exceeded a limit, or
// returned an invalid answer.
type FaultError struct {
	Entry  string // empty while the module is loaded
	Module string // what it was loaded as; empty for native Go
	Digest string // of the module's bytes; empty for native Go
	Hook   abi.Hook
	Stage  Stage

	// Limit is the limit that was exceeded and Value its value in bytes, as a count or in
	// nanoseconds. [LimitKey] maps it to agent.yaml. Both are empty if the fault exceeded
	// no limit.
	Limit string
	Value int64

	Cause  error
	Stderr []string // the last lines that the guest printed and logged
	Stack  string   // the guest's, empty where there is none
}

// Error returns the entry, the hook and the cause.
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

// Text returns the cause alone, bounded and safe to show, with the key in agent.yaml of
// the limit that was exceeded.
func (f *FaultError) Text() string {
	text := safetext.Clip(f.Cause.Error(), maxCause)
	if key := LimitKey(f.Limit); key != "" {
		text += " (limits." + key + " in agent.yaml)"
	}
	return text
}

// Unwrap returns the cause.
func (f *FaultError) Unwrap() error { return f.Cause }

// A Stage is the point of a hook call, or of loading the module, at which a fault
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

// maxCause bounds the text of a fault's cause, in bytes, since guests influence it.
const maxCause = 2 << 10

// LimitKey returns the key of a module's limit in agent.yaml, or "" if it has none.
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
