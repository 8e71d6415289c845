//go:build wasip1 && !tinygo

package middleware

import (
	"runtime"
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// beginHook does nothing: Go's garbage collector manages memory.
func beginHook() {}

// endHook is called after a hook that succeeded, with the size n of the hook's input in bytes. It
// prepares memory for runs after describe and after a large configuration, and lets the garbage
// collector run.
func endHook(hook abi.Hook, n int32) {
	if hook == contract.HookDescribe || hook == contract.HookConfigure && n > largeConfig {
		warm()
	}
	allowGC()
}

// allowGC lets the garbage collector run in proportion to the data received from the host. Otherwise the collector
// runs only when a goroutine waits, which hooks do not, or after large allocations. A hook takes two to three times
// as long while the collector marks, because of the write barrier. Without allowGC, this would slow down all hooks of
// a run after one of them has read a long conversation.
func allowGC() {
	receivedBytes += hookBytes
	for ; receivedBytes >= collectBytes; receivedBytes -= collectBytes {
		runtime.Gosched()
	}
}

const (
	// collectBytes is the number of bytes received between collector runs. A collector run that
	// finds no garbage costs as much as reading about 400 bytes.
	collectBytes = 256 << 10
	hookBytes    = 8 << 10 // estimated allocations of a hook in addition to its input
)

// Parameters of warm. Sizes are in bytes.
const (
	spareBytes = 1 << 20  // bytes that a run can use before memory grows
	maxSmall   = 2048     // maximum size of the objects that hooks usually allocate
	maxLists   = 4096     // maximum size of the slices with pointers that hooks usually allocate
	maxBitmap  = 512      // maximum size of objects whose pointer bitmap is at the end of their span
	spanBytes  = 8192     // alignment of spans
	maxSpans   = 64 << 10 // number of bytes to search per size
	deep       = 24       // number of 1 KB stack frames that a hook can use before the stack grows
)

// largeConfig is the size in bytes above which endHook calls warm again after configure, because
// reading a large configuration leaves garbage. After a smaller one the heap differs from its state
// after describe by a few pages, and only those are saved for each configuration.
const largeConfig = 8 << 10

// warm prepares the heap and the stack, because every run starts from the state that they
// have now: no garbage, spare capacity, and a free slot for the next object of each usual
// size. Memory that a run adds is not passed to the next run. Growing a stack copies it,
// which costs as much as several hooks, and a collection shrinks it again.
func warm() {
	registered.rehearse()
	pool = make([]byte, blockBytes)
	ballast = make([]byte, spareBytes)
	runtime.KeepAlive(ballast)
	ballast = nil
	runtime.GC()
	begin(&ballast, maxSmall, 0)
	begin(&pointers, maxLists, maxBitmap)
	growStack(deep)
}

// rehearse calls each hook with an empty input, which the hook rejects. This allocates the memory that the first call
// of each hook needs.
func (m *Module) rehearse() {
	for i := range m.served {
		_, _ = m.answer(nil, m.served[i].hook, nil)
	}
}

// begin allocates slices of each size, in ascending order, until the size in bytes reaches the
// value of most. Of each size, it allocates slices until one is the first of its span, so that the
// rest of the span is free. If a run began at the end of a span, its hooks would soon need another,
// which costs as much as allocating twenty objects.
//
// Slices whose size in bytes is at most noted have their pointer bitmap at the end of the span. Of
// these, begin allocates slices until one is the first in the second half of a span: new objects
// are then on the same page as the bitmap, and a host has one page less to restore.
func begin[T any](list *[]T, most, noted uintptr) {
	var one T
	for n, size := 1, uintptr(0); ; n = cap(*list) + 1 { // append rounds the capacity up to the size class
		for used := uintptr(0); used < maxSpans; used += size {
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

// growStack uses n+1 stack frames of at least 1 KB each. n must be less than 1024.
//
//go:noinline
func growStack(n int) byte {
	var frame [1 << 10]byte
	if n > 0 {
		frame[n] = growStack(n - 1)
	}
	return frame[n/2]
}

var (
	ballast  []byte
	pointers []*byte
)
