package sandbox

import "github.com/tetratelabs/wazero/experimental"

// linear is the memory of one instance. It grows by doubling within its limit,
// so that a guest that grows page by page makes no quadratic garbage.
type linear struct {
	limit   uint64
	buf     []byte
	refused bool // a growth beyond the limit was asked for in this call
}

var (
	_ experimental.MemoryAllocator = (*linear)(nil)
	_ experimental.LinearMemory    = (*linear)(nil)
)

// Allocate makes linear the memory of the instance that is being made.
func (m *linear) Allocate(_, _ uint64) experimental.LinearMemory { return m }

// Reallocate returns nil, which memory.grow tells the guest as -1, if size is
// beyond the limit. It is never asked for less than before.
func (m *linear) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.refused = true
		return nil
	}
	if size > uint64(cap(m.buf)) {
		bigger := make([]byte, size, min(m.limit, max(size, 2*uint64(cap(m.buf)))))
		copy(bigger, m.buf)
		m.buf = bigger
	}
	m.buf = m.buf[:size]
	return m.buf
}

// Free has nothing to do: the garbage collector takes the buffer when the last
// reference to the instance is gone.
func (m *linear) Free() {}
