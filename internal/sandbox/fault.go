package sandbox

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrBusy is the answer to a call of an instance that is in the middle of
	// another one, be it from another goroutine or from its own import.
	ErrBusy = errors.New("sandbox: the instance is in the middle of a call; nested and parallel calls need an instance each")

	// ErrDead is the answer to a call of an instance whose earlier call faulted,
	// was aborted or was canceled: its memory is in an unknown state.
	ErrDead = errors.New("sandbox: the instance ended in an earlier call; make another one")
)

// RefusedError says why a module was not loaded.
type RefusedError struct {
	Name   string // what the module was loaded as, often its file
	Reason string // the thing that is wrong with it
	Fix    string // what its author can do; may be empty
	Err    error  // what is behind it, a *wasm.Error for one; may be nil
}

// Unwrap returns what is behind the refusal.
func (e *RefusedError) Unwrap() error { return e.Err }

func (e *RefusedError) Error() string {
	text := e.Reason
	if e.Name != "" {
		text = e.Name + ": " + text
	}
	if e.Fix != "" {
		text += "; " + e.Fix
	}
	return text
}

// FaultKind says what sort of mistake a guest made.
type FaultKind string

// The kinds of faults.
const (
	FaultTrap     FaultKind = "trap"     // an instruction trapped: unreachable, division by zero, an access out of bounds
	FaultTimeout  FaultKind = "timeout"  // it ran longer than Limits.HookTime
	FaultFuel     FaultKind = "fuel"     // it did more than Limits.Fuel
	FaultMemory   FaultKind = "memory"   // it trapped after it was refused memory beyond Limits.MemoryBytes
	FaultStack    FaultKind = "stack"    // its calls nest too deep
	FaultExit     FaultKind = "exit"     // it called proc_exit
	FaultBounds   FaultKind = "bounds"   // it passed a pointer or length outside its memory to an import
	FaultNesting  FaultKind = "nesting"  // guests called guests deeper than Limits.Nesting
	FaultInternal FaultKind = "internal" // the host's own mistake: an import panicked
)

// Fault is how a call ends in which the guest did something it must not.
type Fault struct {
	Kind    FaultKind
	Message string // short: "unreachable executed", "ran longer than 1s", "proc_exit(2)"

	// Limit is the field of Limits that was passed and Value what it was, in the
	// field's unit; both are empty if the fault is no limit's.
	Limit string
	Value int64

	// Module and Digest say whose fault it was, Export in which call; Export is
	// empty while the module's start function ran.
	Module, Digest, Export string

	// Stack is the guest's call stack, innermost first, at most 30 frames.
	Stack []string

	// Output holds the last lines that the guest printed, at most 16. Language
	// runtimes print there why they gave up.
	Output []string

	// Cause is the host's error behind a fault of kind FaultInternal, nil
	// otherwise.
	Cause error

	words string // the line it printed in this call that says most
}

// Error tells the message, and what the guest printed last if it gave up by
// itself: the message alone says little then.
func (f *Fault) Error() string {
	text := f.Message
	if last := f.lastWords(); last != "" {
		text += " (" + last + ")"
	}
	if f.Export != "" {
		text = f.Export + ": " + text
	}
	return text
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Cause }

// lastWords is what the guest's language runtime said about why it gave up, if
// the guest gave up by itself.
func (f *Fault) lastWords() string {
	switch f.Kind {
	case FaultTrap, FaultExit, FaultMemory:
		return cut(f.words, 200)
	default:
		return ""
	}
}

// limitOf says which limit a kind of fault is about.
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

// maxFrames bounds Fault.Stack; wazero itself tells 30.
const maxFrames = 30

// splitTrap takes wazero's error text apart: the trap and the guest's stack.
// wazero has no exported type for either.
func (in *Instance) splitTrap(err error) (trap string, stack []string) {
	const mark = "\nwasm stack trace:\n"
	text := err.Error()
	head, tail, _ := strings.Cut(text, mark)
	for line := range strings.Lines(tail) {
		line = strings.TrimSpace(line)
		if line == "" || len(stack) == maxFrames {
			break // what follows an empty line is the host's own stack
		}
		if frame := in.image.code.frame(cut(strings.TrimPrefix(line, "."), 256)); frame != "" {
			stack = append(stack, frame)
		}
	}
	if i := strings.LastIndex(head, "wasm error: "); i >= 0 {
		head = head[i+len("wasm error: "):]
	}
	return cut(strings.TrimSuffix(head, " (recovered by wazero)"), 512), stack
}

// trapText says wazero's traps as something that happened.
func trapText(trap string) string {
	switch trap {
	case "unreachable":
		return "unreachable executed"
	case "invalid table access":
		return "call of a table entry that is empty or does not exist"
	case "indirect call type mismatch":
		return "indirect call of a function of another type"
	default:
		return trap
	}
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes more)", len(s)-most)
}
