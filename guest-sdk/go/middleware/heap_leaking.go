//go:build wasip1 && tinygo && gc.leaking

package middleware

import (
	"unsafe"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// With -gc=leaking, modules are fastest, but memory is never freed. A run may have any number of
// hooks, so its memory must be bounded: once memory is full, the next hook begins with the memory
// that configure left, as the ABI permits. A single hook can use as much memory as the limits of
// its module allow.

const (
	// spareBytes is the number of bytes that a run can use before memory grows. Memory that a run adds
	// is not passed to the next run.
	spareBytes = 1 << 20
	// full is the number of bytes added to the snapshot's memory above which beginHook restores the
	// snapshot.
	full = 4 << 20
)

// A snapshot is a copy of memory. It is stored after the memory that it copies.
type snapshot struct {
	base []byte  // memory starting at begin(), as describe left it
	at   []page  // copies of the pages that configure changed or added
	to   uintptr // end of the copied memory
	end  uintptr // end of the heap, including this snapshot
}

// A page is a copy of a small part of memory.
type page struct {
	at  uintptr
	was [pageBytes]byte
}

const pageBytes = 128

var kept *snapshot // the snapshot to restore; nil until describe or configure has succeeded

// beginHook is called before a hook, while no other hook of this instance is running:
// nested calls have their own instances.
func beginHook() {
	if kept != nil && heapPointer-kept.end > full {
		kept.restore()
	}
}

// endHook is called after a hook that succeeded. After describe and configure, it takes a snapshot
// and reserves memory for runs.
func endHook(hook abi.Hook, _ int32) {
	switch hook {
	case contract.HookDescribe:
		pool = make([]byte, blockBytes)
		kept = snapshotOf()
	case contract.HookConfigure:
		if kept == nil {
			kept = snapshotOf()
		} else {
			kept = kept.changed()
		}
	default:
		return
	}
	if left := heapEnd - heapPointer; left < spareBytes {
		pages := int32((spareBytes - left + wasmPage - 1) / wasmPage)
		if memoryGrow(0, pages) >= 0 {
			heapEnd += uintptr(pages) * wasmPage
		}
	}
}

// snapshotOf returns a snapshot of all memory in use.
//
//go:noinline
func snapshotOf() *snapshot {
	n := heapPointer - begin()
	s := &snapshot{base: make([]byte, n)}
	copy(s.base, memory(begin(), n))
	s.end = heapPointer
	return s
}

// changed returns a snapshot with the pages that differ from s: most of memory for a
// large configuration, little for a small one. A host that saves the differences for each
// configuration then saves little.
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
		return at < base || at+n > base+uintptr(len(s.base)) // the snapshot itself does not change
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

// restore resets memory to the snapshot and clears the memory after it.
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

// put copies b to memory at the given address, except over the variables that hold the heap's end and the snapshot.
// The compiler assumes that variables do not change during the copy.
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

// begin returns the address of the first variable. The heap follows the variables; the
// stack precedes them.
func begin() uintptr { return uintptr(unsafe.Pointer(&globals)) }

func memory(at, n uintptr) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(at)), n) }

// same reports whether the n bytes at the addresses a and b are equal. It compares words of eight
// bytes, to which a heap's objects are aligned.
func same(a, b, n uintptr) bool {
	for i := uintptr(0); i < n; i += 8 {
		if *(*uint64)(unsafe.Pointer(a + i)) != *(*uint64)(unsafe.Pointer(b + i)) {
			return false
		}
	}
	return true
}

// Symbols of TinyGo's runtime.

//go:extern __global_base
var globals [0]byte

// heapPointer is the address of the next object.
//
//go:extern runtime.heapptr
var heapPointer uintptr

//go:extern runtime.heapEnd
var heapEnd uintptr

// memoryGrow is the instruction memory.grow.
//
//export llvm.wasm.memory.grow.i32
func memoryGrow(memory, pages int32) int32

const wasmPage = 64 << 10
