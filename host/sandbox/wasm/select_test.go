package wasm

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
)

// The effects of instructions must agree with all modules known to be valid: at the end
// of each body, exactly the results remain on the stack.
func TestOperands(t *testing.T) {
	t.Parallel()
	followed := map[Opcode]bool{}
	check := func(t *testing.T, m *Module, name string) {
		o := newOperands(m)
		var in Instruction
		for i := range m.Code {
			typ := m.Types[m.Functions[i]]
			o.begin(typ, &m.Code[i])
			dead := -1 // open blocks when code became unreachable
			for it := m.Code[i].Instructions(); it.Next(&in); {
				if open := len(o.blocks); dead < 0 && (in.Op == OpEnd || in.Op == OpElse) {
					b := o.blocks[open-1]
					require.Equal(t, append([]ValueType{}, b.results...), append([]ValueType{}, o.stack[b.height:]...), "%s: function %d at %d", name, i, in.Start)
				}
				o.step(&in)
				if dead < 0 {
					followed[in.Op] = true
				}
				switch in.Op {
				case OpBr, OpBrTable, OpReturn, OpUnreachable:
					if dead < 0 {
						dead = len(o.blocks)
					}
				case OpEnd:
					if len(o.blocks) < dead {
						dead = -1
					}
				case OpElse:
					if len(o.blocks) == dead {
						dead = -1
					}
				}
			}
			require.Equal(t, append([]ValueType{}, typ.Results...), append([]ValueType{}, o.stack...))
		}
	}
	for name, b := range toolchainModules(t) {
		m, err := Decode(b, DefaultLimits())
		require.NoError(t, err)
		check(t, m, name)
	}
	specSuite(t, func(t *testing.T, c specCommand, b []byte) {
		if c.Type == "module" {
			if m, err := Decode(b, specLimits()); err == nil {
				check(t, m, c.Filename)
			}
		}
	})
	for seed := range uint64(50) {
		check(t, generate(seed), fmt.Sprint("seed ", seed))
	}
	for prefix, table := range map[Opcode][]operation{0: plain[:], prefixMisc << 8: misc[:], prefixVector << 8: vector[:]} {
		for i, o := range table {
			require.True(t, o.name == "" || followed[prefix|Opcode(i)], "no module has %s", o.name)
		}
	}
}

// Functions (t, i32) -> t with a local i32 and a call of an empty function. wazero
// 1.12.0's compiler for amd64 miscompiles these, so that they return what a register
// happens to hold.
var selects = []struct {
	t    ValueType
	body []byte
}{
	{F32, unhex("10 01 20 02 04 7d 20 00 05 20 00 43 00 00 80 3f 41 00 1b 0b 20 00 20 00 92 02 7d 20 00 41 00 0d 00 0b 41 00 1b 92 0b")},
	{F32, unhex("03 40 20 01 04 40 10 01 0b 20 02 0d 00 0b 41 00 04 7d 20 00 05 20 00 43 00 00 80 3f 20 02 1b 0b 0b")},
	{F32, unhex("20 01 04 40 10 01 0b 20 00 20 01 04 7d 20 00 05 20 00 43 00 00 80 3f 20 01 1b 0b 20 02 1b 0b")},
	{F64, unhex("03 40 20 01 04 40 10 01 0b 20 02 0d 00 0b 41 00 04 7c 20 00 05 20 00 44 00 00 00 00 00 00 f0 3f 20 01 1b 0b 0b")},
	{F64, unhex("10 01 20 01 04 7c 02 7c 20 00 20 02 0d 00 0b 05 20 00 44 00 00 00 00 00 00 f0 3f 20 02 1b 0b 20 00 a0 0b")},
	{F64, unhex("10 01 20 01 04 7c 02 7c 20 00 20 02 0d 00 0b 05 20 00 44 00 00 00 00 00 00 f0 3f 20 02 1c 01 7c 0b 20 00 a0 0b")},
	{V128, unhex("03 40 20 01 04 40 10 01 0b 20 02 0d 00 0b 20 02 04 7b 20 00 05 20 00 fd 0c 05 00 00 00 00 00 00 00 06 00 00 00 00 00 00 00 20 01 1b 0b 0b")},
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// selectModule returns a module with a function of that body.
func selectModule(t *testing.T, typ ValueType, body []byte) *Module {
	m, err := Decode(binaryOf(
		section(sectionType, []byte{2, 0x60, 2, byte(typ), 0x7f, 1, byte(typ), 0x60, 0, 0}),
		section(sectionFunction, []byte{2, 0, 1}),
		section(sectionExport, []byte{1, 1, 'f', 0, 0}),
		section(sectionCode, vec(bodyOf([]byte{1, 1, 0x7f}, body...), bodyOf(leb(0), 0x0b))),
	), DefaultLimits())
	require.NoError(t, err)
	return m
}

// Meter must work around wazero's miscompiled selects of floats and vectors.
func TestSelect(t *testing.T) {
	t.Parallel()
	for i, c := range selects {
		t.Run(fmt.Sprint(i, c.t), func(t *testing.T) {
			t.Parallel()
			m := selectModule(t, c.t, c.body)
			interpreted := start(t, wazero.NewRuntimeConfigInterpreter(), m)
			compiled := start(t, wazero.NewRuntimeConfig(), metered(t, m, MeterOptions{}))
			for _, condition := range []uint64{0, 1, 1 << 31} {
				params := []uint64{0x4000000040000000, condition}
				if c.t == V128 {
					params = []uint64{0x3333, 0x4444, condition}
				}
				want, trap := interpreted.call("f", params...)
				require.Empty(t, trap)
				got, trap := compiled.call("f", params...)
				require.Empty(t, trap)
				requireSameNumbers(t, m, 0, want, got)
			}
		})
	}
}

// A select must preserve the bits of a NaN.
func TestSelectNaN(t *testing.T) {
	t.Parallel()
	for typ, nan := range map[ValueType]uint64{F32: 0x7fa12345, F64: 0x7ff4000000012345} {
		// f(x, c) = select(x, x, c)
		k := start(t, wazero.NewRuntimeConfig(), metered(t, selectModule(t, typ, []byte{0x20, 0, 0x20, 0, 0x20, 1, 0x1b, 0x0b}), MeterOptions{}))
		for _, condition := range []uint64{0, 1} {
			got, trap := k.call("f", nan, condition)
			require.Empty(t, trap)
			if typ == F32 {
				got[0] = uint64(uint32(got[0]))
			}
			require.Equal(t, []uint64{nan}, got)
		}
	}
}
