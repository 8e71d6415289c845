package wasm

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
)

// goShape returns a module with a function (i32) -> i32 in the form that Go's compiler generates.
// head is the code up to the dispatch, which has three targets: one for 0 and 1, one for 2, and one
// for all other values. The result is 7 or 9, depending on how the function returns. jump is the
// code of target 2, within the loop and one more block.
func goShape(t *testing.T, head, jump []byte) *Module {
	code := append(bytes.Clone(head), 0x20, 0, 0x0e, 3, 0, 0, 1, 2, 0x0b) // local.get 0; br_table 0 0 1 2; end
	code = append(code, 0x41, 2, 0x21, 0, 0x0c, 2, 0x0b)                  // target 0: jump to 2; end
	code = append(code, jump...)
	code = append(code, 0x0b, 0x41, 7, 0x0f) // target 3: return 7
	code = append(code, 0x0b, 0x41, 9, 0x0b) // after the loop: return 9
	m, err := Decode(binaryOf(
		section(sectionType, []byte{1, 0x60, 1, 0x7f, 1, 0x7f}),
		section(sectionFunction, []byte{1, 0}),
		section(sectionExport, []byte{1, 1, 'f', 0, 0}),
		section(sectionCode, vec(bodyOf([]byte{1, 1, 0x7f}, code...))),
	), DefaultLimits())
	require.NoError(t, err)
	return m
}

// TestDirectJumps checks that forward jumps within the body of a Go function become direct, and
// that code that only resembles such a jump stays unchanged.
func TestDirectJumps(t *testing.T) {
	t.Parallel()
	three := []byte{0x03, 0x40, 0x02, 0x40, 0x02, 0x40, 0x02, 0x40} // loop; block; block; block
	const back = 0x0c                                               // br
	for name, c := range map[string]struct {
		head, jump []byte
		labels     []uint32 // labels of the br instructions in the output
	}{
		"forward":              {three, []byte{0x41, 3, 0x21, 0, back, 1}, []uint32{0, 0}},
		"by default":           {three, []byte{0x41, 0x7f, 0x21, 0, back, 1}, []uint32{0, 0}},
		"from an arm":          {three, []byte{0x20, 0, 0x04, 0x40, 0x41, 3, 0x21, 0, back, 2, 0x0b}, []uint32{0, 1}},
		"another local":        {three, []byte{0x41, 3, 0x21, 0, 0x41, 3, 0x21, 1, back, 1}, []uint32{0, 1}},
		"something in between": {three, []byte{0x41, 3, 0x21, 0, 0x01, back, 1}, []uint32{0, 1}},
		"a value":              {three, []byte{0x20, 0, 0x41, 1, 0x6a, 0x21, 0, back, 1}, []uint32{0, 1}},
		"a tee":                {three, []byte{0x41, 3, 0x22, 0, 0x1a, back, 1}, []uint32{0, 1}},
		"another target":       {three, []byte{0x41, 3, 0x21, 0, back, 0}, []uint32{0, 0}},
		"a head with work":     {append([]byte{0x03, 0x40, 0x01}, three[2:]...), []byte{0x41, 3, 0x21, 0, back, 1}, []uint32{2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := goShape(t, c.head, c.jump)
			out := metered(t, m, MeterOptions{})
			var labels []uint32
			var in Instruction
			for it := out.Code[0].Instructions(); it.Next(&in); {
				if in.Op == OpBr {
					labels = append(labels, in.X)
				}
			}
			require.Equal(t, c.labels, labels)

			exact, k := start(t, wazero.NewRuntimeConfig(), countExactly(m)), start(t, wazero.NewRuntimeConfig(), out)
			k.supply.budget = 10_000
			for _, p := range []uint64{0, 1, 2, 3, 1 << 31} {
				before, used := exact.ExportedGlobal("exact").Get(), k.used()
				want, trap := exact.call("f", p)
				require.Empty(t, trap)
				got, trap := k.call("f", p)
				require.Empty(t, trap)
				require.Equal(t, want, got)
				work := int64(exact.ExportedGlobal("exact").Get() - before)
				require.GreaterOrEqual(t, k.used()-used, work)
				if p == 0 { // the function's entry
					require.LessOrEqual(t, k.used()-used, work+dispatchCost)
				}
			}
		})
	}
}

// TestBackwardJump checks that a jump to a target whose block has ended goes backwards and is
// charged exactly. Here target 2 jumps to 0 until the other local exceeds 5.
func TestBackwardJump(t *testing.T) {
	t.Parallel()
	jump := []byte{
		0x20, 1, 0x41, 5, 0x4b, 0x04, 0x40, 0x41, 3, 0x21, 0, 0x0c, 2, 0x0b, // if $1 > 5 goto 3
		0x20, 1, 0x41, 1, 0x6a, 0x21, 1, 0x41, 0, 0x21, 0, 0x0c, 1, // $1++; goto 0
	}
	m := goShape(t, []byte{0x03, 0x40, 0x02, 0x40, 0x02, 0x40, 0x02, 0x40}, jump)
	exact := start(t, wazero.NewRuntimeConfig(), countExactly(m))
	k := start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{}))
	want, trap := exact.call("f", 0)
	require.Empty(t, trap)
	got, trap := k.call("f", 0)
	require.Empty(t, trap)
	require.Equal(t, want, got)
	require.Equal(t, int64(exact.ExportedGlobal("exact").Get()), k.used())
}

// TestJumpOutOfLoop checks that a function has the same results with and without metering, and is
// charged at least its exact work, if its br_table also branches out of the loop. Such a branch is
// not a jump within the loop.
func TestJumpOutOfLoop(t *testing.T) {
	t.Parallel()
	m, err := Decode(binaryOf(
		section(sectionType, []byte{1, 0x60, 1, 0x7f, 1, 0x7f}),
		section(sectionFunction, []byte{1, 0}),
		section(sectionExport, []byte{1, 1, 'f', 0, 0}),
		section(sectionCode, vec(bodyOf(
			leb(0),
			0x02,
			0x40,
			0x03,
			0x40,
			0x02,
			0x40,
			0x20,
			0,
			0x0e,
			1,
			0,
			2,
			0x0b, // block; loop; block; local.get 0; br_table 0 2; end
			0x41,
			9,
			0x21,
			0,
			0x0c,
			0, // jump to 9, which is outside
			0x0b,
			0x0b,
			0x20,
			0,
			0x0b,
		))),
	), DefaultLimits())
	require.NoError(t, err)
	exact := start(t, wazero.NewRuntimeConfig(), countExactly(m))
	k := start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{}))
	for _, p := range []uint64{0, 1} {
		want, trap := exact.call("f", p)
		require.Empty(t, trap)
		got, trap := k.call("f", p)
		require.Empty(t, trap)
		require.Equal(t, want, got)
		require.GreaterOrEqual(t, k.used(), int64(exact.ExportedGlobal("exact").Get()))
	}
}
