package differential

import (
	"flag"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

var (
	seedFlag  = flag.Uint64("seed", 1, "seed of the first module; 0: another one each time")
	countFlag = flag.Int("modules", 300, "how many modules to run")
)

// retries is the number of runs of each program while shrinking. A single run could miss a
// miscompilation that depends on the content of a register.
const retries = 5

func engines(t testing.TB) (compiler, interpreter *Engine) {
	t.Helper()
	var list []*Engine
	for _, config := range []wazero.RuntimeConfig{wazero.NewRuntimeConfig(), wazero.NewRuntimeConfigInterpreter()} {
		e, err := NewEngine(t.Context(), config)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close(t.Context())) })
		list = append(list, e)
	}
	return list[0], list[1]
}

// TestDifferential checks that both engines have the same observations for generated modules. To
// repeat a module, run go test -run TestDifferential -args -seed S -modules 1. A failing module is
// shrunk before it is printed.
func TestDifferential(t *testing.T) {
	longtest.Skip(t)
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	compiler, interpreter := engines(t)
	var fine, traps, fuel, fails int
	for n := range *countFlag {
		p := Generate(seed + uint64(n))
		difference, seen, err := Compare(t.Context(), p, compiler, interpreter)
		require.NoError(t, err, "seed %d", p.Seed)
		if difference != "" {
			minimum := difference
			Shrink(p, func(p *Program) bool {
				for range retries {
					d, _, err := Compare(t.Context(), p, compiler, interpreter)
					if err != nil {
						return false
					}
					if d != "" {
						minimum = d
						return true
					}
				}
				return false
			})
			t.Errorf("compiler and interpreter differ: %s\nas small as it gets: %s\n%v", difference, minimum, p)
			if fails++; fails == 5 {
				t.FailNow()
			}
			continue
		}
		for _, call := range seen.Calls {
			switch {
			case call[0] == '[':
				fine++
			case strings.HasPrefix(call, errOutOfFuel.Error()):
				fuel++
			default:
				traps++
			}
		}
	}
	t.Logf(
		"seeds %d to %d: %d calls returned, %d trapped, %d ran out of fuel",
		seed,
		seed+uint64(*countFlag)-1,
		fine,
		traps,
		fuel,
	)
	if *countFlag >= 300 {
		require.Greater(t, fine, traps+fuel, "most calls should return")
		require.NotZero(t, traps)
		require.NotZero(t, fuel)
	}
}

// TestKnownMiscompilation checks that wazero still has the fault that the generator avoids: a
// branch on 0 < (a & b). If the test fails, the fault is fixed, and operation.orders can be
// removed.
func TestKnownMiscompilation(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the fault is known on amd64")
	}
	compiler, interpreter := engines(t)
	p := Generate(1)
	p.Args = [][]uint64{{}}
	p.module.Types[0] = wasm.FuncType{Results: []wasm.ValueType{wasm.I32}}
	for _, f := range p.functions {
		f.body, f.result = nil, op(wasm.OpUnreachable)
	}
	ask := func(condition []byte) string {
		p.functions[0].result = code(
			condition,
			[]byte{byte(wasm.OpIf), byte(wasm.I32)},
			i32(1),
			op(wasm.OpElse),
			i32(0),
			op(wasm.OpEnd),
		)
		difference, _, err := Compare(t.Context(), p, compiler, interpreter)
		require.NoError(t, err)
		return difference
	}
	load := code(i32(300), op(0x28, 2, 0)) // i32.load
	and := code(load, i32(0x7f), op(opI32Or), i32(0x7f), op(opI32And))
	require.Contains(t, ask(code(i32(0), and, op(0x48))), "call 0: [0]", "i32.lt_s")
	require.Empty(t, ask(code(i32(0), and, i32(0), op(opI32Or), op(0x48))), "what the generator writes instead")
	require.Empty(t, ask(code(and, i32(0), op(0x4a))), "i32.gt_s")
}

// TestGenerateIsRepeatable checks that Generate returns the same program for the same seed.
func TestGenerateIsRepeatable(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		require.Equal(t, Generate(seed).String(), Generate(seed).String())
	}
	require.NotEqual(t, Generate(1).Module(), Generate(2).Module())
}

// TestOperations checks that operations has all 348 numeric instructions, and that the decoder
// accepts each with immediates in range.
func TestOperations(t *testing.T) {
	t.Parallel()
	count := 0
	for result, list := range operations {
		for _, o := range list {
			count++
			m := &wasm.Module{
				Types:     []wasm.FuncType{{Params: o.params, Results: []wasm.ValueType{result}}},
				Functions: []uint32{0},
			}
			var body []byte
			for i := range o.params {
				body = append(body, op(wasm.OpLocalGet, uint32(i))...)
			}
			body = append(body, opcode(o.op)...)
			if o.lanes > 0 {
				body = append(body, byte(o.lanes-1))
			}
			m.Code = []wasm.Code{{Body: append(body, byte(wasm.OpEnd))}}
			_, err := wasm.Decode(m.Encode(), wasm.DefaultLimits())
			require.NoError(t, err, o.name)
		}
	}
	require.Equal(t, 128+8+212, count)
}

// TestShrink checks that a shrunk program still fails, is valid, and is less than half as long.
func TestShrink(t *testing.T) {
	t.Parallel()
	p := Generate(7)
	divides := func(p *Program) bool { return strings.Contains(p.String(), "i64.rem_u") }
	for seed := uint64(7); !divides(p); seed++ {
		p = Generate(seed)
	}
	before := len(p.String())
	Shrink(p, divides)
	require.True(t, divides(p))
	require.Less(t, len(p.String()), before/2)
	_, err := Metered(p)
	require.NoError(t, err, "it is valid still")
}

// TestDifferenceIsSeen checks that Difference reports a difference in a call, a global, the content
// of the memory and its size. It also checks that a program with a thousandth of the fuel has
// another observation.
func TestDifferenceIsSeen(t *testing.T) {
	t.Parallel()
	compiler, interpreter := engines(t)
	p := Generate(3)
	p.Budget = 1_000_000
	difference, seen, err := Compare(t.Context(), p, compiler, interpreter)
	require.NoError(t, err)
	require.Empty(t, difference)
	for name, change := range map[string]func(o *Observation){
		"call 1":      func(o *Observation) { o.Calls = append([]string{o.Calls[0], o.Calls[1] + "0"}, o.Calls[2:]...) },
		"globals":     func(o *Observation) { o.Globals += "0" },
		"other bytes": func(o *Observation) { o.Memory[0]++ },
		"memory of":   func(o *Observation) { o.Size++ },
	} {
		other := *seen
		change(&other)
		require.Contains(t, seen.Difference(&other), name)
	}

	module, err := Metered(p)
	require.NoError(t, err)
	less := *p
	less.Budget /= 1000
	other, err := interpreter.Run(t.Context(), &less, module)
	require.NoError(t, err)
	require.NotEmpty(t, seen.Difference(other), "less fuel ends the program sooner")
}
