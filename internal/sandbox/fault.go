package sandbox

import (
	"errors"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/sandbox/text"
)

var (
	// ErrBusy is the error of a call of an instance that is in another call. The call may come from
	// another goroutine or from an import of the instance itself.
	ErrBusy = errors.New(
		"sandbox: the instance is in the middle of a call; nested and parallel calls need an instance each",
	)

	// ErrDead is the error of a call of an instance whose earlier call faulted, was aborted
	// or was canceled, so that the state of its memory is unknown.
	ErrDead = errors.New("sandbox: the instance ended in an earlier call; make another one")
)

// FaultKind is a kind of mistake of a guest or, for FaultInternal, of the host.
type FaultKind string

// The kinds of faults.
const (
	FaultTrap     FaultKind = "trap"     // an instruction trapped: unreachable, division by zero, an access out of bounds
	FaultTimeout  FaultKind = "timeout"  // the guest ran longer than Limits.HookTime
	FaultFuel     FaultKind = "fuel"     // the guest used more than Limits.Fuel
	FaultMemory   FaultKind = "memory"   // the guest trapped after it was denied memory beyond Limits.MemoryBytes
	FaultStack    FaultKind = "stack"    // the guest's calls used more than Limits.StackBytes
	FaultExit     FaultKind = "exit"     // the guest called proc_exit
	FaultBounds   FaultKind = "bounds"   // the guest passed a pointer or length outside its memory to an import
	FaultNesting  FaultKind = "nesting"  // guests called guests deeper than Limits.Nesting
	FaultInternal FaultKind = "internal" // a mistake of the host, such as an import that panicked
)

// FaultError is the error of a call that failed because of a mistake of the guest or, for
// FaultInternal, of the host.
type FaultError struct {
	Kind    FaultKind
	Message string // short: "unreachable executed", "ran longer than 1s", "proc_exit(2)"

	// Limit is the field of Limits that was exceeded and Value its value, in the field's unit. Both
	// are zero for faults that no limit caused.
	Limit string
	Value int64

	// Module and Digest identify the guest, and Export the call. Export is empty in the
	// module's start function.
	Module, Digest, Export string

	// Stack is the guest's call stack, innermost first, at most 30 frames.
	Stack []string

	// Output contains the last lines that the guest printed, at most 16. Before a language runtime ends a program
	// because of an error, it usually prints the error.
	Output []string

	// Cause is the host's error that caused a fault of kind FaultInternal, or nil if there is none.
	// It is nil for other faults.
	Cause error

	reason    string   // the printed line of this call that best explains the fault
	functions []string // the names of the functions of Stack
}

// Error returns the message. If the guest trapped, exited or lacked memory, the printed line that best explains the
// failure follows. Without such a line, the names of the innermost functions follow.
func (f *FaultError) Error() string {
	message := f.Message
	if reason := f.printedReason(); reason != "" {
		message += " (" + reason + ")"
	} else if where := f.where(); where != "" {
		message += " in " + where
	}
	if f.Export != "" {
		message = f.Export + ": " + message
	}
	return message
}

// Unwrap returns the cause.
func (f *FaultError) Unwrap() error { return f.Cause }

// printedReason returns the line that the guest's language runtime printed to explain the failure, or "" if the host
// ended the call.
func (f *FaultError) printedReason() string {
	switch f.Kind {
	case FaultTrap, FaultExit, FaultMemory:
		return text.Cut(f.reason, 300)
	default:
		return ""
	}
}

// shownFrames is the maximum number of functions in the message of a fault.
const shownFrames = 3

// where returns the names of the innermost functions if the guest's own instructions caused the
// fault, or "" if the functions have no names.
func (f *FaultError) where() string {
	switch f.Kind {
	case FaultTrap, FaultMemory, FaultStack:
	default:
		return ""
	}
	var names []string
	for _, name := range f.functions[:min(len(f.functions), shownFrames)] {
		if strings.HasPrefix(name, "$") {
			break
		}
		names = append(names, text.Cut(name, 100))
	}
	names = slices.Compact(names) // the frames of a recursive function become one name
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return names[0] + ", called by " + strings.Join(names[1:], ", ")
}

// limitOf returns the name and the value of the limit whose excess is a fault of the kind, or zero
// values for other kinds.
func (l *Limits) limitOf(kind FaultKind) (name string, value int64) {
	switch kind {
	case FaultTimeout:
		return "HookTime", int64(l.HookTime)
	case FaultFuel:
		return "Fuel", l.Fuel
	case FaultMemory:
		return "MemoryBytes", l.MemoryBytes
	case FaultStack:
		return "StackBytes", l.StackBytes
	case FaultNesting:
		return "Nesting", int64(l.Nesting)
	default:
		return "", 0
	}
}

// maxSignature bounds the signature of a function in a stack, in bytes.
const maxSignature = 256

// splitTrap returns the trap in an error of wazero, the guest's stack with the names of the original
// module, and the names of its functions without their signatures.
func (in *Instance) splitTrap(err error) (trap string, stack, functions []string) {
	trap, frames := engine.SplitTrap(err)
	for _, line := range frames {
		if name, signature := in.image.code.Frame(line); name != "" {
			functions = append(functions, name)
			stack = append(stack, name+text.Cut(signature, maxSignature))
		}
	}
	return text.Cut(trap, 512), stack, functions
}
