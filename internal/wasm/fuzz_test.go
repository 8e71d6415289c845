package wasm

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// seeds adds modules that use many features.
func seeds(f *testing.F) {
	for _, c := range limitCases {
		f.Add(c.build(c.n))
	}
	f.Add(oneFunction(0xfe, 0x03, 0))
	f.Add(oneFunction(nested(20, 0x02, 0x40, 0x03, 0x40)...))
	f.Add(binaryOf(
		types1,
		section(sectionImport, []byte{1, 1, 'm', 1, 'g', 3, 0x7f, 0}),
		section(sectionFunction, []byte{1, 0}), table1, memory,
		section(sectionElement, []byte{3, 0, 0x23, 0, 0x0b, 1, 0, 3, 0, 1, 0, 5, 0x6f, 1, 0xd0, 0x6f, 0x0b}),
		section(sectionDataCount, []byte{2}),
		section(sectionCode, codeWithEverything()),
		section(sectionData, []byte{2, 1, 1, 'x', 0, 0x41, 0, 0x0b, 1, 'y'}),
	))
}

// FuzzDecode searches for panics, for errors without a message, and for modules for which the
// decoder allocates at least 100 times their size plus 64 KiB.
func FuzzDecode(f *testing.F) {
	seeds(f)
	l := DefaultLimits()
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := Decode(b, l)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(100*len(b)+64<<10))
		if err == nil {
			require.NotNil(t, m)
			return
		}
		var refusal *Error
		require.ErrorAs(t, err, &refusal)
		require.LessOrEqual(t, refusal.Offset, len(b))
		require.NotEmpty(t, refusal.text)
	})
}

// FuzzRoundTrip checks that a decoded module is the same after it is encoded and decoded again.
func FuzzRoundTrip(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		if m, err := Decode(b, DefaultLimits()); err == nil {
			requireSame(t, m)
		}
	})
}
