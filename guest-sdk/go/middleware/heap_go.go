//go:build wasip1 && !tinygo

package middleware

import (
	"runtime"
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
)

// beginHook is called before a hook. The collector looks after memory.
func beginHook() {}

// endHook is called after a hook.
func endHook(hook abi.Hook, n int32) {
	if hook == abi.HookDescribe || hook == abi.HookConfigure && n > largeConfig {
		warm()
	}
	letCollect()
}

// letCollect lets the garbage collector go on, in proportion to what came from the host.
// It goes on where a hook waits, which hooks do not, or when one has allocated much. In
// the middle of its work it is told of each pointer that is written, with which a hook
// takes two to three times as long: behind a long conversation that was read, all hooks
// of a run did.
func letCollect() {
	came += hookBytes
	for ; came >= collectBytes; came -= collectBytes {
		runtime.Gosched()
	}
}

const (
	// collectBytes is for how many bytes the collector has a turn, which takes as long as
	// to read some 400 bytes where there is nothing to collect.
	collectBytes = 256 << 10
	hookBytes    = 8 << 10 // that a hook counts, beside those that it reads
)

// What warm gets the heap ready for.
const (
	room      = 1 << 20  // bytes that a run may use before memory grows
	mostSmall = 2048     // bytes of the objects that a hook mostly makes
	mostLists = 4096     // bytes of the lists with pointers that it mostly makes
	mostNoted = 512      // bytes of those whose pointers are noted elsewhere
	spanBytes = 8192     // a multiple of which each span begins at
	mostSpans = 64 << 10 // bytes of a size that are looked through
	deep      = 24       // frames of 1 KB that a hook's calls may be deep before the stack grows
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
	registered.rehearse()
	pool = make([]byte, blockBytes)
	ballast = make([]byte, room)
	runtime.KeepAlive(ballast)
	ballast = nil
	runtime.GC()
	begin(&ballast, mostSmall, 0)
	begin(&pointers, mostLists, mostNoted)
	dive(deep)
}

// rehearse calls each hook with nothing, which it refuses: what the first call is made
// in is there from then on.
func (m *Module) rehearse() {
	for i := range m.served {
		_, _ = m.answer(nil, m.served[i].hook, nil)
	}
}

// begin makes lists of each size up to most bytes, and of each so many that the last one
// is the first of a span: all others of it are free. Where a run begins with the last
// ones of a span, its hooks soon look for another, which takes as long as to make twenty
// objects.
//
// Where the pointers of lists up to noted bytes are stands at the end of their span. So
// the last one of these is the first in the second half of a span: what a hook makes is
// on the page that says so, and a host has one page less to put back.
func begin[T any](list *[]T, most, noted uintptr) {
	var one T
	for n, size := 1, uintptr(0); ; n = cap(*list) + 1 { // append makes as long a one as has the size
		for used := uintptr(0); used < mostSpans; used += size {
			*list = append([]T(nil), make([]T, n)...)
			at := uintptr(unsafe.Pointer(unsafe.SliceData(*list)))
			if size = uintptr(cap(*list)) * unsafe.Sizeof(one); size <= noted {
				at -= spanBytes / 2
			}
			if at%spanBytes < size {
				break
			}
		}
		if size >= most {
			break
		}
	}
	*list = nil
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
