// Package image provides the linear memories of instances and the images that memories
// start from.
//
// A [Memory] starts empty ([Memory.OpenEmpty]) or from a [Snapshot] ([Memory.Open]). A
// snapshot is made from the memory of an instance ([Memory.Capture]) and is shared by all
// memories that start from it. [Memory.Reset] restores a memory to its snapshot.
//
// The package guarantees that a memory that was opened or reset is byte-for-byte identical
// to its snapshot, and that no memory exceeds its limit. On Linux memories map the image
// privately, and a reset copies back only the pages that were written to. Elsewhere, and
// for small images, memories are copies. A snapshot that differs in few pages from another
// one stores only the differences.
//
// The package implements wazero's interface of memory allocators. It imports nothing else of the sandbox.
package image

import "github.com/tetratelabs/wazero/experimental"

// pageBytes is the size of a WebAssembly page.
const pageBytes = 64 << 10

// Memory is the linear memory of one instance. It must not be copied after it was opened.
type Memory struct {
	// Size is the current size in bytes.
	Size uint64
	// Refused reports that growth failed, because of the limit or because no memory was left. The
	// caller resets it.
	Refused bool

	pages    pages
	snapshot *Snapshot // the snapshot that the memory started from; nil if it started empty
}

var (
	_ experimental.MemoryAllocator = (*Memory)(nil)
	_ experimental.LinearMemory    = (*Memory)(nil)
)

// Open starts the memory from s. The caller's reference to s becomes the memory's, even if
// Open fails. The memory can grow to limit bytes.
func (m *Memory) Open(s *Snapshot, limit uint64) (err error) {
	m.snapshot = s
	p, err := s.image.open(s.image.size(), limit)
	if err != nil {
		return err
	}
	m.pages = p
	return nil
}

// OpenEmpty starts the memory with size bytes of zeros and returns them. It returns nil if size
// exceeds limit or the system lacks memory. If portable is set, the memory is on Go's heap on every
// system.
func (m *Memory) OpenEmpty(size, limit uint64, portable bool) []byte {
	m.pages = newPages(limit, portable)
	return m.pages.resize(size)
}

// Snapshot returns the snapshot that the memory started from, or nil.
func (m *Memory) Snapshot() *Snapshot { return m.snapshot }

// Reset restores the memory to its snapshot and returns the number of bytes that the memory
// does not share with the snapshot. The memory must not have grown.
func (m *Memory) Reset() (own int64) { return m.pages.reset() }

// Close releases the bytes, and the reference to the snapshot. Accesses to the bytes may crash the
// process afterwards.
func (m *Memory) Close() {
	if m.pages != nil {
		m.pages.free()
	}
	if m.snapshot != nil {
		m.snapshot.Release()
	}
	*m = Memory{}
}

// Allocate returns m as the memory of the instance that wazero is making.
func (m *Memory) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate returns nil, which memory.grow reports to the guest as -1, if size exceeds the
// limit or no memory is left. wazero never requests less than before.
func (m *Memory) Reallocate(size uint64) []byte {
	b := m.pages.resize(size)
	if b == nil {
		m.Refused = true
		return nil
	}
	m.Size = size
	return b
}

// Free does nothing. wazero calls it some time after a module is closed. The owner of the memory calls Close when
// nothing can access the memory.
func (m *Memory) Free() {}
