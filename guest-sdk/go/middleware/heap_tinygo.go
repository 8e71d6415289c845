//go:build wasip1 && tinygo && !gc.leaking

package middleware

import (
	"runtime"

	"github.com/agent-runner/agent-runner/abi"
)

// beginHook is called before a hook. The collector looks after memory.
func beginHook() {}

// endHook is called after a hook.
func endHook(hook abi.Hook, _ int32) {
	if hook == abi.HookDescribe {
		pool = make([]byte, blockBytes)
		ballast = make([]byte, room)
		ballast = nil
		runtime.GC()
	}
}

// room is how many bytes a run may use before memory grows: memory that grew is not
// given to another run.
const room = 1 << 20

var ballast []byte
