package extism

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzExtismBlocks compares blocks with a linear list under random allocations, accesses and frees.
func FuzzExtismBlocks(f *testing.F) {
	f.Add([]byte{0, 5, 0, 9, 1, 0, 2, 0, 3, 7, 0, 1, 3, 200})
	f.Add(bytes.Repeat([]byte{0, 3, 2, 0}, 200))
	f.Fuzz(func(t *testing.T, ops []byte) {
		s := blocks{limit: 1 << 12}
		var live []block
		bytes := 0
		for i := 0; i+1 < len(ops); i += 2 {
			n := uint64(ops[i+1])
			switch ops[i] % 4 {
			case 0:
				if s.checkSize(n) != nil {
					require.Greater(t, bytes+int(n), s.limit)
					continue
				}
				data := make([]byte, n)
				at := s.add(data, false)
				require.Equal(t, n == 0, at == 0)
				if n > 0 {
					live = append(live, block{at: at, data: data})
					bytes += int(n)
				}
			case 1: // free the n-th live block
				if len(live) == 0 {
					continue
				}
				k := int(n) % len(live)
				bytes -= len(live[k].data)
				require.True(t, s.free(live[k].at))
				require.False(t, s.free(live[k].at))
				live = append(live[:k:k], live[k+1:]...)
			default: // access a random range
				at := firstBlock - 8 + n*7 + uint64(i)*3
				length := uint64(ops[i]/4) % 20
				var want []byte
				for _, b := range live {
					if at >= b.at && at < b.at+uint64(len(b.data)) && at+length <= b.at+uint64(len(b.data)) {
						want = b.data[at-b.at : at-b.at+length]
					}
				}
				got := s.part(at, length)
				require.Equal(t, want == nil, got == nil)
				require.Equal(t, len(want), len(got))
				if len(want) > 0 {
					require.Same(t, &want[0], &got[0])
				}
			}
			require.Equal(t, bytes, s.bytes)
			for _, b := range live {
				require.NotNil(t, s.at(b.at))
			}
		}
	})
}

// TestBlockMemoryIsReused checks that the memory of a large freed block is cleared and reused,
// unless it contains the plug-in's answer or is much larger than needed.
func TestBlockMemoryIsReused(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	p := &plugin{blocks: blocks{limit: 8 * size}}
	looks := 0
	add := func(n uint64) (uint64, []byte) {
		at := p.add(p.fresh(n, func() { looks++ }), false)
		return at, p.part(at, n)
	}
	at, b := add(size)
	b[size-1] = 1
	require.True(t, p.free(at))
	require.False(t, p.free(at))

	small, c := add(size / 4)
	require.NotSame(t, &b[0], &c[0], "a small block holds no large one's memory")
	require.True(t, p.free(small))

	at, c = add(size - 10)
	require.Same(t, &b[0], &c[0])
	require.Equal(t, make([]byte, size-10), c)

	require.Equal(t, size/clearBytes, looks)

	p.output, p.outputAt = p.part(at+5, 20), at+5
	require.True(t, p.free(at))
	_, other := add(size)
	require.NotSame(t, &b[0], &other[0], "an answer stays")

	reset(p, nil, nil, nil)
	_, again := add(size)
	require.Same(t, &other[0], &again[0])
	require.Equal(t, size, p.bytes)
}
