//go:build wasip1 && !tinygo

package middleware

import (
	"runtime"

	"github.com/agent-runner/agent-runner/abi"
)

// beginHook is called before a hook. The collector looks after memory.
func beginHook() {}

// endHook is called after a hook.
func endHook(hook abi.Hook, n int32) {
	if hook == abi.HookDescribe || hook == abi.HookConfigure && n > largeConfig {
		warm()
	}
}

// What warm gets the heap ready for.
const (
	room      = 1 << 20 // bytes that a run may use before memory grows
	mostSmall = 2048    // bytes of the objects that a hook mostly makes
	mostLists = 4096    // bytes of the lists with pointers that it mostly makes
	deep      = 24      // frames of 1 KB that a hook's calls may be deep before the stack grows
)

// largeConfig is how many bytes of configuration are worth being warm once more: what
// reading it leaves is garbage. After a smaller one the heap is as it was after describe
// but for some pages, which are all that a host has to keep for each configuration.
const largeConfig = 8 << 10

// warm makes the heap and the stack ready, since every run begins with them as they
// are now: without garbage, with room, and with a place for the next object of each
// usual size. Memory that grew is not given to another run. A stack that has to
// grow is moved, which costs as much as some hooks; the collector makes it small.
func warm() {
	pool = make([]byte, blockBytes)
	ballast = make([]byte, room)
	ballast = nil
	runtime.GC()
	for n := 8; n <= mostLists; n += max(8, n/16&^7) { // passes over none of the sizes
		if pointers = make([]*byte, n/8); n <= mostSmall {
			ballast = make([]byte, n)
		}
	}
	ballast, pointers = nil, nil
	dive(deep)
}

// dive uses stack: n frames of 1 KB.
//
//go:noinline
func dive(n int) byte {
	var frame [1 << 10]byte
	if n > 0 {
		frame[n] = dive(n - 1)
	}
	return frame[n/2]
}

var (
	ballast  []byte
	pointers []*byte
)
