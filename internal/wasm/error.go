package wasm

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind classifies why a module was rejected.
type Kind uint8

const (
	// Malformed means that the module violates the binary format.
	Malformed Kind = iota
	// Invalid means that a well-formed module violates a validation rule, for instance
	// with an index out of range.
	Invalid
	// Unsupported means that the module uses a feature beyond WebAssembly 2.0, or is not
	// a core module.
	Unsupported
	// OverLimit means that the module exceeds one of the Limits.
	OverLimit
)

// String returns the kind as lower-case words.
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

// Error describes why and where a module was rejected.
type Error struct {
	// Kind classifies the error.
	Kind Kind
	// Offset is the byte offset in the module.
	Offset int
	// Section is the name of the section in the specification, such as "code", or
	// "header" or "module" if the error concerns no single section.
	Section string
	// Function is an index in the function index space, which begins with the imports. It
	// is -1 outside of function bodies.
	Function int
	// Thing names what is wrong, such as "locals", "branch target" or a feature's name.
	Thing string
	// Value is the number in the module, and Limit is the maximum or the expected number. Both are
	// 0 if the error has no number.
	Value, Limit uint64

	text string
}

// Error returns one sentence with the position, the reason and the numbers.
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

// grouped formats n with commas between groups of three digits.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
