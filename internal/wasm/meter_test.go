package wasm

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agent-runner/agent-runner/internal/longtest"
)

var (
	errFuel  = errors.New("fuel used up")
	errDepth = errors.New("stack used up")
)

var generated = flag.Uint64("generated", 200, "how many modules TestMeterPreservesBehavior generates")

// fuelSupply grants fuel to a metered module in slices, as a host does.
type fuelSupply struct {
	slice, budget int64 // fuel per slice and in total; a budget of 0 is unlimited
	given         int64
	calls         int
	largest       int64 // largest overrun of a slice
}

func (k *fuelSupply) refuel(_ context.Context, _ api.Module, stack []uint64) {
	fuel, depth := int64(stack[0]), int64(stack[1])
	if depth < 0 {
		panic(errDepth)
	}
	if k.budget != 0 && k.given-fuel > k.budget {
		panic(errFuel)
	}
	k.calls++
	k.largest = max(k.largest, -fuel)
	add := max(k.slice, k.slice-fuel)
	k.given += add
	stack[0] = uint64(fuel + add)
}

// machine is an instance of the module under test, in a runtime of its own.
type machine struct {
	api.Module
	supply fuelSupply
	ctx    context.Context
	budget uint64 // budget of a generated module
}

const testDepth = 1 << 20

// start instantiates a module in a new runtime. It provides WASI and the host's import for metered
// modules.
func start(t testing.TB, config wazero.RuntimeConfig, m *Module) *machine {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, config)
	t.Cleanup(func() { require.NoError(t, r.Close(ctx)) })
	_, err := wasi_snapshot_preview1.Instantiate(ctx, r)
	require.NoError(t, err)
	k := &machine{ctx: ctx, supply: fuelSupply{slice: 10_000}}
	_, err = r.NewHostModuleBuilder(ReservedModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(k.supply.refuel), []api.ValueType{api.ValueTypeI64, api.ValueTypeI64},
			[]api.ValueType{api.ValueTypeI64}).
		Export(RefuelImport).Instantiate(ctx)
	require.NoError(t, err)
	k.Module, err = r.InstantiateWithConfig(ctx, m.Encode(), wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	require.NoError(t, err)
	return k
}

// used returns the fuel charged so far.
func (k *machine) used() int64 {
	return k.supply.given - int64(k.ExportedGlobal(FuelExport).Get())
}

// call calls an exported function. Before the call, it sets the depth, as a host does, and the
// budget of a generated module. It returns the results, or the first line of the error.
func (k *machine) call(name string, params ...uint64) ([]uint64, string) {
	if g, ok := k.ExportedGlobal(DepthExport).(api.MutableGlobal); ok {
		g.Set(testDepth)
	}
	if g, ok := k.ExportedGlobal("budget").(api.MutableGlobal); ok {
		g.Set(k.budget)
	}
	results, err := k.ExportedFunction(name).Call(k.ctx, params...)
	if err != nil {
		line, _, _ := strings.Cut(err.Error(), "\n")
		return nil, line
	}
	return results, ""
}

func metered(t testing.TB, m *Module, o MeterOptions) *Module {
	t.Helper()
	if o.Depth == 0 {
		o.Depth = testDepth
	}
	out, err := Meter(m, o)
	require.NoError(t, err)
	l := specLimits()
	l.BodyBytes, l.CodeBytes, l.Nesting = math.MaxInt32, math.MaxInt32, math.MaxInt32
	l.BlockSquares, l.BlockLocals, l.LoopLocals, l.CallGlobals = math.MaxInt, math.MaxInt, math.MaxInt, math.MaxInt
	_, err = Decode(out.Encode(), l)
	require.NoError(t, err, "what was written is not valid")
	return out
}

// TestMeterPreservesBehavior checks that generated modules have the same results, traps, memory and
// globals with and without metering. The count must never be less than the work. Over all calls
// that do not trap, it must exceed the work by at most 0.5 %. Measured: 0.02 %.
func TestMeterPreservesBehavior(t *testing.T) {
	t.Parallel()
	n := *generated
	if testing.Short() {
		n = 20
	}
	var exact, used int64
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			e, u := compareGenerated(t, seed)
			exact, used = exact+e, used+u
		})
	}
	require.LessOrEqual(t, used, exact+exact/200)
}

// compareGenerated compares the module of a seed with and without metering. The metered
// one runs in wazero's compiler for even seeds and in its interpreter for odd ones, the
// unmetered one in the interpreter, which has no optimizations that could be wrong.
// Small budgets make both modules run out of fuel at many places. It returns, for the calls
// that did not trap, the exact work and the fuel that the metered module counted.
func compareGenerated(t *testing.T, seed uint64) (exact, used int64) {
	interpreter := wazero.NewRuntimeConfigInterpreter()
	config := wazero.NewRuntimeConfig()
	if seed%2 == 1 {
		config = interpreter
	}
	m, err := Decode(generate(seed).Encode(), DefaultLimits())
	require.NoError(t, err)
	original := start(t, interpreter, countExactly(m))
	rewritten := start(t, config, metered(t, m, MeterOptions{}))
	for _, budget := range []uint64{300, 1, 2, 3, 5, 300, 9, 17, 40, 300} {
		original.budget, rewritten.budget = budget, budget
		for i := range genFunctions {
			name := fmt.Sprint("f", i)
			params := genParams(m, i, budget*seed)
			before, usedBefore := original.ExportedGlobal("exact").Get(), rewritten.used()
			want, trap := original.call(name, params...)
			got, gotTrap := rewritten.call(name, params...)
			require.Equal(t, trap, gotTrap, name)
			requireSameNumbers(t, m, i, want, got)
			e, u := int64(original.ExportedGlobal("exact").Get()-before), rewritten.used()-usedBefore
			require.GreaterOrEqual(t, u, e, name)
			if trap == "" {
				exact, used = exact+e, used+u
			}
		}
		requireSameState(t, original, rewritten)
	}
	return exact, used
}

func genParams(m *Module, f int, seed uint64) (params []uint64) {
	for i, p := range m.Types[m.Functions[f]].Params {
		v := (seed + uint64(i)) * 0x9e3779b97f4a7c15
		switch p {
		case I32:
			v = uint64(uint32(v))
		case F32:
			v = uint64(math.Float32bits(float32(v & 0xff)))
		case F64:
			v = math.Float64bits(float64(v & 0xfff))
		case V128:
			params = append(params, ^v)
		}
		params = append(params, v)
	}
	return params
}

// requireSameNumbers requires that results are equal, and treats all NaNs as equal.
func requireSameNumbers(t *testing.T, m *Module, f int, want, got []uint64) {
	t.Helper()
	require.Len(t, got, len(want))
	i := 0
	for _, r := range m.Types[m.Functions[f]].Results {
		if i >= len(want) {
			return
		}
		switch r {
		case F32:
			require.Equal(t, fmt.Sprint(math.Float32frombits(uint32(want[i]))), fmt.Sprint(math.Float32frombits(uint32(got[i]))))
		case F64:
			require.Equal(t, fmt.Sprint(math.Float64frombits(want[i])), fmt.Sprint(math.Float64frombits(got[i])))
		case V128:
			i++
			require.Equal(t, want[i-1:i+1], got[i-1:i+1])
		case I32: // the upper half is undefined
			require.Equal(t, uint32(want[i]), uint32(got[i]))
		default:
			require.Equal(t, want[i], got[i])
		}
		i++
	}
}

func requireSameState(t *testing.T, a, b *machine) {
	t.Helper()
	size := a.Memory().Size()
	require.Equal(t, size, b.Memory().Size())
	x, _ := a.Memory().Read(0, size)
	y, _ := b.Memory().Read(0, size)
	if string(x) != string(y) {
		require.Fail(t, "memory differs")
	}
	for _, g := range []string{"g0", "g1"} {
		require.Equal(t, a.ExportedGlobal(g).Get(), b.ExportedGlobal(g).Get(), g)
	}
}

// FuzzMeter checks that metering does not change the behavior of generated modules, for the
// fuzzer's seeds.
func FuzzMeter(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { compareGenerated(t, seed) })
}

// TestMeterPreservesValidity checks that Meter preserves validity and invalidity,
// because only the compiler checks operand types, and it reads Meter's output.
func TestMeterPreservesValidity(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	r := compiler(t)
	valid, invalid := 0, 0
	specSuite(t, func(t *testing.T, c specCommand, b []byte) {
		m, err := Decode(b, specLimits())
		if err != nil {
			return
		}
		_, before := r.CompileModule(t.Context(), m.Encode())
		out, err := Meter(m, MeterOptions{})
		require.NoError(t, err)
		_, after := r.CompileModule(t.Context(), out.Encode())
		require.Equal(t, before == nil, after == nil, "%s: before %v, after %v", c.Filename, before, after)
		if before == nil {
			valid++
		} else {
			invalid++
		}
	})
	require.Greater(t, valid, 500)
	require.Greater(t, invalid, 500)
}
