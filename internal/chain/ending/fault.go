package ending

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
)

// A FaultError reports that a middleware misbehaved: it trapped, exceeded a limit, or
// returned an invalid answer.
type FaultError struct {
	Entry  string // name of the entry; empty if the fault occurred while the module was loaded
	Module string // the name that the module was loaded under; empty for native Go
	Digest string // digest of the module's bytes; empty for native Go
	Hook   abi.Hook
	Stage  Stage

	// Limit is the name of the exceeded limit, and Value the limit's value: bytes, a count or
	// nanoseconds. [LimitKey] returns the limit's key in agent.yaml. Limit is empty and Value is 0
	// if no limit was exceeded.
	Limit string
	Value int64

	Cause  error
	Stderr []string // the last lines that the guest printed or logged
	Stack  string   // the guest's stack trace; empty if there is none
}

// Error returns the entry, the hook if there is one, and the cause.
func (f *FaultError) Error() string {
	text := FaultText(f)
	if f.Hook != "" {
		text = string(f.Hook) + ": " + text
	}
	if f.Entry != "" {
		text = f.Entry + ": " + text
	}
	return text
}

// FaultText returns the cause without entry and hook, truncated and safe to show. If a limit was
// exceeded, the text ends with the limit's key in agent.yaml.
func FaultText(f *FaultError) string {
	return safetext.Clip(f.Cause.Error(), maxCause) + LimitHint(f.Limit)
}

// LimitHint returns the end of a fault's text: a phrase with the key in agent.yaml of a module's
// limit. It returns "" if the limit has no key.
func LimitHint(limit string) string {
	if key := LimitKey(limit); key != "" {
		return " (limits." + key + " of its entry in agent.yaml)"
	}
	return ""
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
	StageBreaker   Stage = "breaker"   // circuit breaker open; the hook was not called
	StageInput     Stage = "input"     // preparing the hook's input
	StageHook      Stage = "hook"      // in the middleware's own code
	StageHostCall  Stage = "host_call" // in a call from the middleware to the host
	StageAnswer    Stage = "answer"    // in the hook's answer
)

// maxCause is the maximum length of the text of a fault's cause, in bytes. Guests influence that
// text.
const maxCause = 2 << 10

// LimitKey returns the key in agent.yaml of the module's limit called limit, or "" if that limit
// has no key.
func LimitKey(limit string) string {
	switch limit {
	case "hook_time":
		return "timeout"
	case "memory_bytes":
		return "memory"
	case "fuel",
		"run_fuel",
		"stack_bytes",
		"module_bytes",
		"input_bytes",
		"output_bytes",
		"reply_bytes",
		"log_bytes",
		"log_line_bytes",
		"host_calls",
		"instances",
		"nesting":
		return limit
	default:
		return ""
	}
}
