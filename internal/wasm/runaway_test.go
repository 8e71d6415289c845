package wasm

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
)

// runaway returns a module with the given bodies of type () -> (), the first of which is exported
// as "f". It has a memory of 64 MiB and a table of 60,000 entries.
func runaway(t *testing.T, bodies ...[]byte) *Module {
	code := [][]byte{}
	for _, b := range bodies {
		code = append(code, bodyOf(times(1, 2, 0x7f), append(b, 0x0b)...))
	}
	m, err := Decode(binaryOf(
		types1,
		section(sectionFunction, times(len(bodies), 0)),
		section(sectionTable, []byte{1, 0x70, 0}, leb(60_000)),
		section(sectionMemory, []byte{1, 0}, leb(1<<10)),
		section(sectionExport, []byte{1, 1, 'f', 0, 0}),
		section(sectionElement, []byte{1, 0, 0x41, 0, 0x0b, 1, 0}),
		section(sectionCode, vec(code...)),
	), DefaultLimits())
	require.NoError(t, err)
	return m
}

// forever returns an infinite loop that executes code.
func forever(code ...byte) []byte {
	return append(append([]byte{0x03, 0x40}, code...), 0x0c, 0, 0x0b)
}

func TestRunaway(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles large or many modules")
	}
	t.Parallel()
	all := []byte{0x41, 0, 0x41, 0, 0x41, 0x80, 0x80, 0x80, 0x20} // 0, 0, 64 MiB
	entries := append([]byte{0x41, 0, 0xd0, 0x70, 0x41}, 0xe0, 0xd4, 0x03)
	tree := [][]byte{}
	for i := range 40 {
		tree = append(tree, []byte{0x10, byte(i + 1), 0x10, byte(i + 1)})
	}
	// Leaf functions with an expensive arm, called from straight-line code.
	arm := append(append([]byte{0x20, 0, 0x04, 0x40, 0x05}, bytes.Repeat([]byte{0x20, 0, 0x21, 1}, 5_000)...), 0x0b)
	for _, c := range []struct {
		name   string
		bodies [][]byte
	}{
		{"leaves", [][]byte{bytes.Repeat([]byte{0x10, 1}, 10_000), arm}},
		{"small leaves", [][]byte{bytes.Repeat([]byte{0x10, 1}, 120_000), bytes.Repeat([]byte{0x41, 1, 0x1a}, smallLeaf/2)}},
		{"small leaves on the longer way", [][]byte{forever(bytes.Repeat([]byte{0x20, 0, 0x45, 0x04, 0x40, 0x10, 1, 0x10, 1, 0x05, 0x10, 1, 0x0b}, 3_000)...), bytes.Repeat([]byte{0x41, 1, 0x1a}, smallLeaf/2)}},
		{"huge body before a loop", [][]byte{append(bytes.Repeat([]byte{0x20, 0, 0x21, 1}, 60_000), forever()...)}},
		{"jumps back", [][]byte{{0x03, 0x40, 0x02, 0x40, 0x02, 0x40, 0x20, 0, 0x0e, 1, 0, 1, 0x0b, 0x01, 0x0b, 0x41, 0, 0x21, 0, 0x0c, 0, 0x0b}}},
		{"loop", [][]byte{forever()}},
		{"br_if", [][]byte{{0x03, 0x40, 0x41, 1, 0x0d, 0, 0x0b}}},
		{"br_table", [][]byte{{0x03, 0x40, 0x41, 9, 0x0e, 2, 0, 0, 0, 0x0b}}},
		{"nested loops", [][]byte{forever(forever()...)}},
		{"loop in an arm", [][]byte{{0x41, 1, 0x04, 0x40, 0x05, 0x0b, 0x41, 1, 0x04, 0x40, 0x03, 0x40, 0x0c, 0, 0x0b, 0x0b}}},
		{"calls without loops", append(tree, []byte{0x01})},
		{"huge body in a loop", [][]byte{forever(bytes.Repeat([]byte{0x20, 0, 0x21, 1}, 50_000)...)}},
		{"fill", [][]byte{forever(append(all, 0xfc, 0x0b, 0)...)}},
		{"copy", [][]byte{forever(append(all, 0xfc, 0x0a, 0, 0)...)}},
		{"table fill", [][]byte{forever(append(entries, 0xfc, 0x11, 0)...)}},
		{"grow by nothing", [][]byte{forever(0x41, 0, 0x40, 0, 0x1a)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := start(
				t,
				wazero.NewRuntimeConfig(),
				metered(t, runaway(t, c.bodies...), MeterOptions{FixTables: true, MemoryPages: 1 << 10}),
			)
			k.supply.budget = 2_000_000
			_, trap := k.call("f")
			require.Contains(t, trap, errFuel.Error())
			// One piece and the work between two checks bound the overrun.
			const limit = pieceBytes>>fuelBytesLog2 + 2*maxUncheckedFuel
			require.LessOrEqual(t, k.supply.given-k.supply.budget, k.supply.slice+limit)
			require.LessOrEqual(t, k.supply.largest, int64(limit))
		})
	}
}

func TestRecursion(t *testing.T) {
	t.Parallel()
	for name, body := range map[string][]byte{
		"direct":    {0x10, 0},
		"indirect":  {0x41, 0, 0x11, 0, 0},
		"from loop": forever(0x10, 0),
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t, wazero.NewRuntimeConfig(), metered(t, runaway(t, body), MeterOptions{}))
			_, trap := k.call("f")
			require.Contains(t, trap, errDepth.Error())
			require.Less(t, k.used(), int64(testDepth), "a call takes at least a byte")
			_, trap = k.call("f")
			require.Contains(t, trap, errDepth.Error(), "the host sets the depth anew")
		})
	}
}

// TestDepthRestored checks that the depth is restored however a function is left.
func TestDepthRestored(t *testing.T) {
	t.Parallel()
	call := []byte{0x10, 1}
	for name, body := range map[string][]byte{
		"end":      call,
		"return":   append(call, 0x0f),
		"br":       append(call, 0x0c, 0),
		"br_if":    append(call, 0x02, 0x40, 0x41, 1, 0x0d, 1, 0x0b),
		"br_table": append(call, 0x02, 0x40, 0x41, 5, 0x0e, 1, 0, 1, 0x0b),
		"nested":   append(call, 0x02, 0x40, 0x03, 0x40, 0x41, 1, 0x04, 0x40, 0x0f, 0x0b, 0x0b, 0x0b),
	} {
		t.Run(name, func(t *testing.T) {
			k := start(t, wazero.NewRuntimeConfig(), metered(t, runaway(t, body, []byte{0x01}), MeterOptions{}))
			for range 3 {
				_, trap := k.call("f")
				require.Empty(t, trap)
				require.Equal(t, uint64(testDepth), k.ExportedGlobal(DepthExport).Get())
			}
		})
	}
}

// TestBulkBoundaries checks that metered bulk instructions at every boundary leave the same
// memory as unmetered ones, or trap the same way.
func TestBulkBoundaries(t *testing.T) {
	t.Parallel()
	const size = 16 << 16
	get := []byte{0x20, 0, 0x20, 1, 0x20, 2}
	code := func(op ...byte) []byte { return bodyOf(leb(0), append(append(bytes.Clone(get), op...), 0x0b)...) }
	data := bytes.Repeat([]byte("0123456789abcdef?"), 40_000)
	m, err := Decode(binaryOf(
		section(sectionType, []byte{1, 0x60, 3, 0x7f, 0x7f, 0x7f, 0}),
		section(sectionFunction, times(3, 0)),
		section(sectionMemory, []byte{1, 0, 16}),
		section(
			sectionExport,
			leb(4),
			[]byte{4},
			[]byte("copy"),
			[]byte{0, 0, 4},
			[]byte("fill"),
			[]byte{0, 1, 4},
			[]byte("init"),
			[]byte{0, 2, 6},
			[]byte("memory"),
			[]byte{2, 0},
		),
		section(sectionDataCount, []byte{1}),
		section(sectionCode, vec(code(0xfc, 0x0a, 0, 0), code(0xfc, 0x0b, 0), code(0xfc, 0x08, 0, 0))),
		section(sectionData, []byte{1, 1}, leb(len(data)), data),
	), DefaultLimits())
	require.NoError(t, err)
	a, b := start(t, wazero.NewRuntimeConfig(), m), start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{}))
	places := []uint64{
		0,
		1,
		pieceBytes - 1,
		pieceBytes + 1,
		size - pieceBytes - 1,
		size - 1,
		size,
		size + 1,
		math.MaxUint32,
	}
	lengths := []uint64{
		0,
		1,
		pieceBytes - 1,
		pieceBytes,
		pieceBytes + 1,
		2*pieceBytes + 3,
		size,
		size + 1,
		math.MaxUint32 - 1,
		math.MaxUint32,
	}
	for _, op := range []string{"init", "copy", "fill"} {
		for _, to := range places {
			for _, from := range places {
				for _, n := range lengths {
					_, want := a.call(op, to, from, n)
					_, got := b.call(op, to, from, n)
					require.Equal(t, want, got, "%s %d %d %d", op, to, from, n)
				}
			}
			x, _ := a.Memory().Read(0, size)
			y, _ := b.Memory().Read(0, size)
			require.True(t, bytes.Equal(x, y), "%s %d", op, to)
		}
	}
	require.Positive(t, b.used())
}

func TestReservedNames(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"import": binaryOf(section(sectionImport, []byte{1}, str(ReservedModule), str("x"), []byte{3, 0x7f, 0})),
		"export": binaryOf(section(sectionMemory, []byte{1, 0, 1}), section(sectionExport, []byte{1}, str(FuelExport), []byte{2, 0})),
	} {
		m, err := Decode(b, DefaultLimits())
		require.NoError(t, err)
		_, err = Meter(m, MeterOptions{})
		var refusal *Error
		require.ErrorAs(t, err, &refusal, name)
		require.Contains(t, err.Error(), "reserved for the host")
	}
}

// TestGuestCannotRefuel checks that Decode rejects the indices of the counters, so that a guest
// cannot access them.
func TestGuestCannotRefuel(t *testing.T) {
	t.Parallel()
	for _, global := range []byte{1, 2} { // the module only has global 0
		_, err := Decode(oneFunction(0x42, 0, 0x24, global), DefaultLimits())
		require.ErrorContains(t, err, fmt.Sprintf("global %d does not exist", global))
	}
}

func TestResetObstacles(t *testing.T) {
	t.Parallel()
	for want, b := range map[string][]byte{
		"has a start section":                             binaryOf(types1, section(sectionFunction, []byte{1, 0}), section(sectionStart, []byte{0}), section(sectionCode, []byte{1, 2, 0, 0x0b})),
		"uses table.set (first in function 0)":            oneFunction(0x41, 0, 0xd0, 0x70, 0x26, 0),
		"uses table.grow (first in function 0)":           oneFunction(0xd0, 0x70, 0x41, 0, 0xfc, 0x0f, 0, 0x1a),
		"uses table.fill (first in function 0)":           oneFunction(0x41, 0, 0xd0, 0x70, 0x41, 0, 0xfc, 0x11, 0),
		"uses table.copy (first in function 0)":           oneFunction(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x0e, 0, 0),
		"global 0 is mutable and of type v128":            binaryOf(section(sectionGlobal, []byte{1, 0x7b, 1, 0xfd, 0x0c}, make([]byte, 16), []byte{0x0b})),
		"global 0 is mutable and of type externref":       binaryOf(section(sectionGlobal, []byte{1, 0x6f, 1, 0xd0, 0x6f, 0x0b})),
		"imports the global m.g, which others can change": binaryOf(section(sectionImport, times(1, 1, 'm', 1, 'g', 3, 0x7f, 1))),
		"imports the memory m.m, which others can change": binaryOf(section(sectionImport, times(1, 1, 'm', 1, 'm', 2, 0, 1))),
	} {
		m, err := Decode(b, DefaultLimits())
		require.NoError(t, err, want)
		require.Equal(t, []string{want}, m.ResetObstacles())
	}
	m, err := Decode(oneFunction(), DefaultLimits())
	require.NoError(t, err)
	require.Empty(t, m.ResetObstacles())
}

func TestOptions(t *testing.T) {
	t.Parallel()
	m, err := Decode(binaryOf(
		section(sectionTable, []byte{2, 0x70, 0, 5, 0x70, 1, 5, 9}),
		section(sectionMemory, []byte{1, 0, 2}),
	), DefaultLimits())
	require.NoError(t, err)
	out := metered(t, m, MeterOptions{FixTables: true, MemoryPages: 7, Depth: 1234})
	require.Equal(t, []Range{{5, 5, true}, {5, 9, true}}, []Range{out.Tables[0].Size, out.Tables[1].Size})
	require.Equal(t, Range{2, 7, true}, out.Memories[0].Size)
	require.Equal(t, uint64(1234), out.Globals[1].Init.Bits)
	require.Equal(t, Range{Min: 2}, m.Memories[0].Size, "the original is as it was")
	out = metered(t, m, MeterOptions{})
	require.Equal(t, Range{Min: 5}, out.Tables[0].Size)
	require.Equal(t, Range{Min: 2}, out.Memories[0].Size)
}
