package store

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"modernc.org/libc"
)

// Memory that is asked for again is what was given back: the system would give empty one.
func TestMemoryIsKept(t *testing.T) {
	keepMemory()
	tls := libc.NewTLS()
	defer tls.Close()
	for _, kept := range keptMemory {
		n := kept.of * int(64<<10/kept.size) / 2
		mark := bytes.Repeat([]byte{7}, int(kept.size)-64)
		for round := range 2 {
			var all []uintptr
			for range n {
				p := libc.Xmalloc(tls, kept.size)
				require.NotZero(t, p)
				if round == 1 {
					require.True(t, bytes.Equal(mark, libc.GoBytes(p+64, len(mark))), "%d bytes", kept.size)
				}
				libc.Xmemset(tls, p+64, 7, libc.Tsize_t(len(mark)))
				all = append(all, p)
			}
			for _, p := range all {
				libc.Xfree(tls, p)
			}
		}
	}
}
