package wasm

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/longtest"
)

// recursive returns a module whose first function has the given locals, numbers of i64 parameters
// and results, and body. The body must call the function itself. The exported function "f" makes
// the first call.
func recursive(t *testing.T, locals []byte, params, results int, body []byte) *Module {
	typ := func(n int) []byte { return append(leb(n), bytes.Repeat([]byte{0x7e}, n)...) }
	m, err := Decode(binaryOf(
		section(sectionType, vec(append(append([]byte{0x60}, typ(params)...), typ(results)...), []byte{0x60, 0, 0})),
		section(sectionFunction, []byte{2, 0, 1}),
		section(sectionTable, []byte{1, 0x70, 0, 1}),
		section(sectionMemory, []byte{1, 0, 1}),
		section(sectionExport, []byte{1, 1, 'f', 0, 1}),
		section(sectionElement, []byte{1, 0, 0x41, 0, 0x0b, 1, 0}),
		section(sectionCode, vec(
			bodyOf(locals, append(body, 0x0b)...),
			bodyOf(
				leb(0),
				append(
					append(append(bytes.Repeat([]byte{0x42, 1}, params), 0x10, 0), bytes.Repeat([]byte{0x1a}, results)...),
					0x0b,
				)...),
		)),
	), DefaultLimits())
	require.NoError(t, err)
	return m
}

// TestFrames checks that frames do not exceed the bound for any code, nor the estimate
// for code like a compiler's.
func TestFrames(t *testing.T) {
	t.Parallel()
	const many = 500
	repeat, load := bytes.Repeat, []byte{0x41, 0, 0x29, 3, 0}
	locals := func(n int) []byte { return append(append([]byte{1}, leb(n)...), 0x7e) }
	each := func(n int, code func(i int) []byte) (b []byte) {
		for i := range n {
			b = append(b, code(i)...)
		}
		return b
	}
	get := func(i int) []byte { return append([]byte{0x20}, leb(i)...) }
	set := func(i int) []byte { return append([]byte{0x21}, leb(i)...) }
	store := func(i int) []byte { return slices.Concat([]byte{0x41, 0}, get(i), []byte{0x37, 3, 0}) }
	for _, c := range []struct {
		name            string
		usual           bool // whether the code is like that of a compiler
		locals          []byte
		params, results int
		body            []byte
	}{
		{"nothing", true, leb(0), 0, 0, []byte{0x10, 0}},
		{"indirect", true, leb(0), 0, 0, []byte{0x41, 0, 0x11, 0, 0}},
		{"parameters", true, leb(0), 90, 0, append(each(90, get), 0x10, 0)},
		{"results", true, leb(0), 0, 16, []byte{0x10, 0}},
		{"locals", true, locals(many), 0, 0, slices.Concat(each(many, func(i int) []byte { return append(bytes.Clone(load), set(i)...) }), []byte{0x10, 0}, each(many, store))},
		{"operands", false, leb(0), 0, 0, slices.Concat([]byte{0x41, 0}, repeat(load, many), []byte{0x10, 0}, repeat([]byte{0x7c}, many-1), []byte{0x37, 3, 0})},
		{"vectors", false, leb(0), 0, 0, slices.Concat([]byte{0x41, 0}, repeat([]byte{0x41, 0, 0xfd, 0, 4, 0}, many), []byte{0x10, 0}, repeat([]byte{0xfd, 0x51}, many-1), []byte{0xfd, 11, 4, 0})},
		{"a local that is set again", false, locals(1), 0, 0, each(many, func(int) []byte { return slices.Concat(load, set(0), []byte{0x10, 0}, store(0)) })},
		{"loops", false, locals(100), 0, 0, slices.Concat(repeat([]byte{0x03, 0x40}, 50),
			each(100, func(i int) []byte { return slices.Concat(get(i), []byte{0x42, 1, 0x7c}, set(i)) }), []byte{0x10, 0},
			repeat([]byte{0x41, 0, 0x28, 2, 0, 0x0d, 0, 0x0b}, 50))},
		{"arms", false, locals(100), 0, 0, slices.Concat(repeat([]byte{0x41, 0, 0x28, 2, 0, 0x04, 0x40}, 50),
			each(100, func(i int) []byte { return append(bytes.Clone(load), set(i)...) }), repeat([]byte{0x0b, 0x10, 0}, 50),
			each(100, store))},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := recursive(t, c.locals, c.params, c.results, c.body)
			k := start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{}))
			const room = 1 << 40
			k.ExportedGlobal(DepthExport).(api.MutableGlobal).Set(room)
			f := k.ExportedFunction("f")
			_, err := f.Call(k.ctx)
			require.ErrorContains(t, err, "stack overflow", "wazero's own limit")
			stack := reflect.ValueOf(f).Elem().FieldByName("stack")
			require.Equal(t, reflect.Slice, stack.Kind(), "where wazero has its stack")
			w := newRewriter(m, MeterOptions{})
			limit, frame := w.framer.bound(m.Types[0], &m.Code[0]), w.framer.frame(m.Types[0], &m.Code[0], 0)
			calls := (room - int64(k.ExportedGlobal(DepthExport).Get())) / frame
			t.Logf("%d calls in %d bytes; at most %.2f times that, estimated as %.2f times", calls, stack.Len(),
				float64(calls*limit)/float64(stack.Len()), float64(calls*frame)/float64(stack.Len()))
			require.GreaterOrEqual(t, calls*limit, int64(stack.Len()))
			require.GreaterOrEqual(t, frame*maxUnderestimate, limit)
			if c.usual {
				require.GreaterOrEqual(t, calls*frame, int64(stack.Len()))
			}
		})
	}
}

// TestFramesOfGo checks that 40 KiB of estimated stack, a hundredth of 4 MiB, is enough
// for a Go guest.
func TestFramesOfGo(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	m, err := Decode(goGuest(t), DefaultLimits())
	require.NoError(t, err)
	k := start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{Depth: 40 << 10}))
	in := document(t, 100<<10)
	at, trap := k.call("room", uint64(len(in)))
	require.Empty(t, trap)
	require.True(t, k.Memory().Write(uint32(at[0]), in))
	k.ExportedGlobal(DepthExport).(api.MutableGlobal).Set(40 << 10)
	_, err = k.ExportedFunction("hook").Call(k.ctx)
	require.NoError(t, err)
}
