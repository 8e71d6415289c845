package wasm

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/longtest"
)

// specStep is a step of the specification's test suite that executes something.
type specStep struct {
	Type, Filename, Name, As string
	Line                     int
	Action                   struct {
		Type, Module, Field string
		Args                []specValue
	}
	Expected []specValue
}

// specValue is a number in the suite's notation, or a list of them for v128.
type specValue struct {
	Type     string
	LaneType string `json:"lane_type"`
	Value    json.RawMessage
}

func (v specValue) bits(t *testing.T) []uint64 {
	if v.Type != "v128" {
		var text string
		_ = json.Unmarshal(v.Value, &text) // empty for null and for any reference
		return []uint64{specNumber(t, v.Type, text)}
	}
	var lanes []string
	require.NoError(t, json.Unmarshal(v.Value, &lanes))
	out := make([]uint64, 2)
	width := 128 / len(lanes)
	for i, lane := range lanes {
		n := specNumber(t, v.LaneType, lane) & (math.MaxUint64 >> (64 - width))
		out[i*width/64] |= n << (i * width % 64)
	}
	return out
}

func specNumber(t *testing.T, kind, text string) uint64 {
	switch {
	case text == "" || text == "null":
		return 0
	case strings.HasPrefix(text, "nan"):
		if kind == "f32" {
			return uint64(math.Float32bits(float32(math.NaN())))
		}
		return math.Float64bits(math.NaN())
	case strings.HasPrefix(text, "-"):
		n, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		if strings.Contains(kind, "32") {
			return uint64(uint32(n))
		}
		return uint64(n)
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err)
	if kind == "externref" {
		n++ // 0 is null
	}
	return n
}

// specWorld instantiates the suite's modules in one runtime, after applying rewrite to each.
type specWorld struct {
	runtime wazero.Runtime
	rewrite func(m *Module) *Module
	supply  fuelSupply
	named   map[string]api.Module
	last    api.Module
	all     []api.Module
}

func newSpecWorld(
	t *testing.T,
	config wazero.RuntimeConfig,
	rewrite func(m *Module) *Module,
	shared []byte,
) *specWorld {
	ctx := context.Background()
	w := &specWorld{
		runtime: wazero.NewRuntimeWithConfig(ctx, config),
		rewrite: rewrite,
		supply:  fuelSupply{slice: 1000},
		named:   map[string]api.Module{},
	}
	t.Cleanup(func() { require.NoError(t, w.runtime.Close(ctx)) })
	_, err := w.runtime.NewHostModuleBuilder(ReservedModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(w.supply.refuel), []api.ValueType{api.ValueTypeI64, api.ValueTypeI64},
			[]api.ValueType{api.ValueTypeI64}).
		Export(RefuelImport).Instantiate(ctx)
	require.NoError(t, err)
	_, err = w.runtime.Instantiate(ctx, shared)
	require.NoError(t, err)
	return w
}

// load instantiates a module. Other modules can import it by the given name, unless the name is
// empty.
func (w *specWorld) load(t *testing.T, b []byte, as string) (api.Module, error) {
	m, err := Decode(b, specLimits())
	require.NoError(t, err)
	instance, err := w.runtime.InstantiateWithConfig(
		context.Background(),
		w.rewrite(m).Encode(),
		wazero.NewModuleConfig().WithName(as).WithStartFunctions(),
	)
	if err == nil {
		w.all = append(w.all, instance)
	}
	return instance, err
}

// do executes a step and returns the results or the trap.
func (w *specWorld) do(t *testing.T, s *specStep) (types []api.ValueType, results []uint64, trap string) {
	for _, m := range w.all { // a trap does not restore the depth
		if g, ok := m.ExportedGlobal(DepthExport).(api.MutableGlobal); ok {
			g.Set(testDepth)
		}
	}
	m := w.last
	if s.Action.Module != "" {
		m = w.named[s.Action.Module]
	}
	if s.Action.Type == "get" {
		g := m.ExportedGlobal(s.Action.Field)
		return []api.ValueType{g.Type()}, []uint64{g.Get()}, ""
	}
	var args []uint64
	for _, a := range s.Action.Args {
		args = append(args, a.bits(t)...)
	}
	f := m.ExportedFunction(s.Action.Field)
	results, err := f.Call(context.Background(), args...)
	if err != nil {
		trap, _, _ = strings.Cut(err.Error(), "\n")
	}
	return f.Definition().ResultTypes(), results, trap
}

// TestSpecificationSuiteMetered checks that the modules of the specification's test
// suite have the same results and traps metered in wazero's compiler as unmetered in its
// interpreter, and the results that the suite expects.
func TestSpecificationSuiteMetered(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	dir := filepath.Join(dependency()["github.com/tetratelabs/wazero"], "internal/integration_test/spectest")
	files, err := filepath.Glob(filepath.Join(dir, "v2/testdata/*.json"))
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("the wazero module has no test data here (it is vendored?)")
	}
	shared, err := os.ReadFile(filepath.Join(dir, "testdata/spectest.wasm"))
	require.NoError(t, err)
	steps := 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) { steps += runSpecFile(t, file, shared) })
	}
	require.Greater(t, steps, 40_000)
}

func runSpecFile(t *testing.T, file string, shared []byte) (steps int) {
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var suite struct{ Commands []specStep }
	require.NoError(t, json.Unmarshal(raw, &suite))
	worlds := []*specWorld{
		newSpecWorld(t, wazero.NewRuntimeConfigInterpreter(), func(m *Module) *Module { return m }, shared),
		newSpecWorld(t, wazero.NewRuntimeConfig(), func(m *Module) *Module {
			out, err := Meter(m, MeterOptions{Depth: testDepth})
			require.NoError(t, err)
			return out
		}, shared),
	}
	for i := range suite.Commands {
		s := &suite.Commands[i]
		where := fmt.Sprintf("line %d", s.Line)
		switch s.Type {
		case "module":
			as := ""
			if i+1 < len(suite.Commands) && suite.Commands[i+1].Type == "register" {
				as = suite.Commands[i+1].As
			}
			if s.Filename == "names.2.wasm" {
				return steps // rejected on purpose: a control character in a name; the rest of the file tests names too
			}
			b, err := os.ReadFile(filepath.Join(filepath.Dir(file), s.Filename))
			require.NoError(t, err)
			for _, w := range worlds {
				w.last, err = w.load(t, b, as)
				require.NoError(t, err, where)
				if s.Name != "" {
					w.named[s.Name] = w.last
				}
			}
		case "assert_uninstantiable":
			b, err := os.ReadFile(filepath.Join(filepath.Dir(file), s.Filename))
			require.NoError(t, err)
			_, plain := worlds[0].load(t, b, "") // wazero skips table segments that do not fit
			_, metered := worlds[1].load(t, b, "")
			require.Equal(t, plain == nil, metered == nil, where)
		case "assert_return", "assert_trap", "assert_exhaustion", "action":
			steps++
			types, want, trap := worlds[0].do(t, s)
			_, got, gotTrap := worlds[1].do(t, s)
			requireSpecTrap(t, s, trap, gotTrap)
			requireSpecSame(t, s, types, want, got, where)
			if s.Type == "assert_return" {
				var expected []uint64
				for _, v := range s.Expected {
					expected = append(expected, v.bits(t)...)
				}
				requireSpecSame(t, s, types, expected, got, where)
			}
		}
	}
	return steps
}

func requireSpecTrap(t *testing.T, s *specStep, plain, metered string) {
	t.Helper()
	switch s.Type {
	case "assert_exhaustion": // each engine counts the stack differently
		require.NotEmpty(t, plain, s.Line)
		require.Contains(t, metered, errDepth.Error(), s.Line)
	case "assert_trap":
		require.NotEmpty(t, plain, s.Line)
		require.Equal(t, plain, metered, s.Line)
	default:
		require.Empty(t, plain, s.Line)
		require.Empty(t, metered, s.Line)
	}
}

// requireSpecSame compares results. It treats all NaNs as equal and compares only whether
// references are null.
func requireSpecSame(t *testing.T, s *specStep, types []api.ValueType, want, got []uint64, where string) {
	t.Helper()
	require.Len(t, got, len(want), where)
	at := 0
	for i, kind := range types {
		if at >= len(want) {
			return
		}
		lane := ""
		if i < len(s.Expected) {
			lane = s.Expected[i].LaneType
		}
		n := 1
		switch kind {
		case api.ValueTypeF32:
			require.Equal(t, oneNaN("f32", want[at]&math.MaxUint32), oneNaN("f32", got[at]&math.MaxUint32), where)
			at++
			continue
		case api.ValueTypeF64:
			lane = "f64"
		case api.ValueTypeExternref, 0x70:
			if i < len(s.Expected) && len(s.Expected[i].Value) == 0 {
				at++ // any reference that is not null
				continue
			}
			require.Equal(t, want[at] == 0, got[at] == 0, where)
			at++
			continue
		case api.ValueTypeI32:
			require.Equal(t, uint32(want[at]), uint32(got[at]), where)
			at++
			continue
		}
		if api.ValueTypeName(kind) == "v128" || kind == 0x7b {
			n = 2
		}
		for j := at; j < at+n; j++ {
			require.Equal(t, oneNaN(lane, want[j]), oneNaN(lane, got[j]), "%s, result %d", where, i)
		}
		at += n
	}
}

// oneNaN returns bits with every NaN in the lanes replaced with the canonical NaN.
func oneNaN(lane string, bits uint64) uint64 {
	switch lane {
	case "f32":
		for _, shift := range []int{0, 32} {
			if v := math.Float32frombits(uint32(bits >> shift)); v != v {
				bits = bits&^(math.MaxUint32<<shift) | 0x7fc00000<<shift
			}
		}
	case "f64":
		if v := math.Float64frombits(bits); v != v {
			return 0x7ff8 << 48
		}
	}
	return bits
}
