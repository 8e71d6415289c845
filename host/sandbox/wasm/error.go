package wasm

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says why a module was refused.
type Kind uint8

const (
	// Malformed is a module that does not follow the binary format.
	Malformed Kind = iota
	// Invalid is a well-formed module that breaks a rule of validation, an
	// index out of range say.
	Invalid
	// Unsupported is a module that uses a feature beyond WebAssembly 2.0, or
	// that is no core module at all.
	Unsupported
	// OverLimit is a module that passes one of the Limits.
	OverLimit
)

// String returns the kind in lower case words.
func (k Kind) String() string {
	switch k {
	case Malformed:
		return "malformed"
	case Invalid:
		return "invalid"
	case Unsupported:
		return "unsupported"
	default:
		return "over limit"
	}
}

// Error is the refusal of a module: what is wrong, and where.
type Error struct {
	// Kind is the class of the refusal.
	Kind Kind
	// Offset counts bytes from the beginning of the module.
	Offset int
	// Section is the section's name in the specification ("code"), or
	// "header", or "module" for what concerns all of it.
	Section string
	// Function is an index in the function index space, imports first, or -1
	// outside of function bodies.
	Function int
	// Thing names what is wrong: "locals", "branch target", a feature's name.
	Thing string
	// Value is what the module has, and Limit what it may have at most. Both
	// are 0 where there is no number to tell.
	Value, Limit uint64

	text string
}

// Error returns one sentence that says where, what and how much.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Function >= 0:
		fmt.Fprintf(&b, "function %d: ", e.Function)
	case e.Section == "header" || e.Section == "module":
	default:
		fmt.Fprintf(&b, "%s section: ", e.Section)
	}
	fmt.Fprintf(&b, "%s (offset %#x)", e.text, e.Offset)
	return b.String()
}

// grouped writes n with a comma between thousands.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
