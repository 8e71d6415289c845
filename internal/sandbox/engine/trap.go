package engine

import (
	"strconv"
	"strings"
)

// wazero's messages for the traps that the sandbox distinguishes.
const (
	TrapStackOverflow    = "stack overflow" // of wazero's own stack, whose limit is higher than the sandbox's
	trapUnreachable      = "unreachable"
	trapTableAccess      = "invalid table access"
	trapIndirectCallType = "indirect call type mismatch"
)

// maxFrames bounds a stack trace. wazero itself prints at most 30 frames.
const maxFrames = 30

// SplitTrap splits the message of an error of wazero into the trap and the lines of the
// guest's stack trace, innermost first. wazero has no exported type for either.
func SplitTrap(err error) (trap string, frames []string) {
	head, tail, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	for line := range strings.Lines(tail) {
		line = strings.TrimSpace(line)
		if line == "" || len(frames) == maxFrames {
			break // an empty line separates the host's own stack
		}
		frames = append(frames, strings.TrimPrefix(line, ".")) // the empty name of the module
	}
	if i := strings.LastIndex(head, "wasm error: "); i >= 0 {
		head = head[i+len("wasm error: "):]
	}
	return strings.TrimSuffix(head, " (recovered by wazero)"), frames
}

// DescribeTrap returns a description of a trap for people, or the trap's own text if there is no other description.
func DescribeTrap(trap string) string {
	switch trap {
	case trapUnreachable:
		return "unreachable executed"
	case trapTableAccess:
		return "call of a table entry that is empty or does not exist"
	case trapIndirectCallType:
		return "indirect call of a function of another type"
	default:
		return trap
	}
}

// SplitFrame takes a line of a stack trace apart: "$17(i32) i32" is function 17, followed
// by "(i32) i32". It reports false for other lines, such as those of host functions.
func SplitFrame(line string) (function uint32, signature string, ok bool) {
	number, signature, ok := strings.Cut(strings.TrimPrefix(line, "$"), "(")
	if !ok || !strings.HasPrefix(line, "$") {
		return 0, "", false
	}
	index, err := strconv.ParseUint(number, 10, 32)
	return uint32(index), "(" + signature, err == nil
}
