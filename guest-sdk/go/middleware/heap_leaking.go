//go:build wasip1 && tinygo && gc.leaking

package middleware

import (
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
)

// With -gc=leaking nothing is freed, which makes the fastest modules. A run may have
// any number of hooks, though, so there has to be an end: memory is a cache, as the ABI
// has it, and once it is full a hook begins with it as configure left it. One hook
// alone may use as much as its module may have.

const (
	room = 1 << 20 // bytes that a run may use before memory grows: memory that grew is not given to another run
	full = 4 << 20 // bytes in use after which memory is put back
)

// A snapshot is what memory was. It lies behind what it is of.
type snapshot struct {
	base []byte  // from begin on, as describe left it
	at   []page  // where configure left something else, or more
	to   uintptr // where that ends
	end  uintptr // where the heap did, with this in it
}

// A page is a part of memory.
type page struct {
	at  uintptr
	was [pageBytes]byte
}

const pageBytes = 128

var kept *snapshot // nil: there is none yet

// beginHook is called before a hook, while no other one of this instance goes on: a call
// within a call has an instance of its own.
func beginHook() {
	if kept != nil && heapPointer-kept.end > full {
		kept.restore()
	}
}

// endHook is called after a hook.
func endHook(hook abi.Hook, _ int32) {
	switch hook {
	case abi.HookDescribe:
		pool = make([]byte, blockBytes)
		kept = snapshotOf()
	case abi.HookConfigure:
		if kept == nil {
			kept = snapshotOf()
		} else {
			kept = kept.changed()
		}
	default:
		return
	}
	if left := heapEnd - heapPointer; left < room {
		pages := int32((room - left + wasmPage - 1) / wasmPage)
		if memoryGrow(0, pages) >= 0 {
			heapEnd += uintptr(pages) * wasmPage
		}
	}
}

// snapshotOf copies all that there is.
//
//go:noinline
func snapshotOf() *snapshot {
	n := heapPointer - begin()
	s := &snapshot{base: make([]byte, n)}
	copy(s.base, memory(begin(), n))
	s.end = heapPointer
	return s
}

// changed copies what is not as in s: that may be most of memory of a large
// configuration, and is little of a small one. So a host that keeps what differs for
// each configuration keeps little.
//
//go:noinline
func (s *snapshot) changed() *snapshot {
	first, end := begin(), heapPointer
	differ := func(at uintptr) bool {
		n := min(pageBytes, end-at)
		base := uintptr(unsafe.Pointer(unsafe.SliceData(s.base)))
		if off := at - first; off+n <= uintptr(len(s.base)) {
			return !same(at, base+off, n)
		}
		return at < base || at+n > base+uintptr(len(s.base)) // its copy stays as it is
	}
	pages := 0
	for at := first; at < end; at += pageBytes {
		if differ(at) {
			pages++
		}
	}
	out := &snapshot{base: s.base, to: end, at: make([]page, 0, pages)}
	for at := first; at < end; at += pageBytes {
		if differ(at) {
			out.at = append(out.at, page{at: at})
			copy(out.at[len(out.at)-1].was[:], memory(at, min(pageBytes, end-at)))
		}
	}
	out.end = heapPointer
	return out
}

// restore makes memory what it was, and empty behind that.
//
//go:noinline
func (s *snapshot) restore() {
	used := heapPointer
	put(begin(), s.base)
	for i := range s.at {
		p := &s.at[i]
		put(p.at, p.was[:min(pageBytes, s.to-p.at)])
	}
	clear(memory(s.end, used-s.end))
	heapPointer = s.end
}

// put copies b to a place, around what says where memory ends and what it was: the
// compiler does not know that copying changes variables.
func put(at uintptr, b []byte) {
	for len(b) > 0 {
		n := uintptr(len(b))
		for _, v := range [...]uintptr{place(&heapPointer), place(&heapEnd), uintptr(unsafe.Pointer(&kept))} {
			switch {
			case v == at:
				n = 0
			case v > at:
				n = min(n, v-at)
			}
			if n == 0 {
				break
			}
		}
		if n == 0 {
			n = min(unsafe.Sizeof(at), uintptr(len(b)))
		} else {
			copy(memory(at, n), b)
		}
		at, b = at+n, b[n:]
	}
}

func place(v *uintptr) uintptr { return uintptr(unsafe.Pointer(v)) }

// begin is where variables begin; behind them is the heap. The stack is in front.
func begin() uintptr { return uintptr(unsafe.Pointer(&globals)) }

func memory(at, n uintptr) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(at)), n) }

// same compares eight bytes at a time: a heap's parts begin and end so.
func same(a, b, n uintptr) bool {
	for i := uintptr(0); i < n; i += 8 {
		if *(*uint64)(unsafe.Pointer(a + i)) != *(*uint64)(unsafe.Pointer(b + i)) {
			return false
		}
	}
	return true
}

// What TinyGo's runtime has.

//go:extern __global_base
var globals [0]byte

// heapPointer is where the next object goes.
//
//go:extern runtime.heapptr
var heapPointer uintptr

//go:extern runtime.heapEnd
var heapEnd uintptr

// memoryGrow is the instruction.
//
//export llvm.wasm.memory.grow.i32
func memoryGrow(memory, pages int32) int32

const wasmPage = 64 << 10
