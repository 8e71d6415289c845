package store

import (
	"sync"

	"modernc.org/libc"
)

// SQLite asks for memory and gives it back with each transaction: pages that it reads
// again because somebody has written, and pages that it could have to take back. Its
// allocator asks the system for 64 KiB, for pieces of a size, and gives them back when
// the last of these is free: which is system calls and new pages several times a
// transaction, while all connections wait for the allocator. So a piece of so many of
// these is kept for as long as the process lives: 8 MiB, of which the system only has
// what was used.
var keptMemory = []struct {
	size libc.Tsize_t // of a piece, in bytes
	of   int          // how many times 64 KiB are kept
}{{200, 8}, {400, 8}, {1000, 8}, {2000, 32}, {4000, 16}, {8000, 48}, {16000, 8}}

// keepMemory has the allocator keep memory; see [keptMemory].
var keepMemory = sync.OnceFunc(func() {
	tls := libc.NewTLS()
	defer tls.Close()
	for _, kept := range keptMemory {
		var rest []uintptr
		for seen := map[uintptr]bool{}; len(seen) < kept.of; {
			p := libc.Xmalloc(tls, kept.size)
			if p == 0 {
				break // SQLite says so when it matters
			}
			if within := p &^ (64<<10 - 1); seen[within] {
				rest = append(rest, p)
			} else {
				seen[within] = true
			}
		}
		for _, p := range rest {
			libc.Xfree(tls, p)
		}
	}
})
