//go:build wasip1 && tinygo && !gc.leaking

package middleware

import (
	"runtime"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// beginHook does nothing: TinyGo's garbage collector manages memory.
func beginHook() {}

// endHook is called after a hook that succeeded. After describe, it reserves memory for runs.
func endHook(hook abi.Hook, _ int32) {
	if hook == contract.HookDescribe {
		pool = make([]byte, blockBytes)
		ballast = make([]byte, spareBytes)
		ballast = nil
		runtime.GC()
	}
}

// spareBytes is the number of bytes that a run can use before memory grows. Memory that a run
// adds is not passed to the next run.
const spareBytes = 1 << 20

var ballast []byte
