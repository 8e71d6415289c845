package differential

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// depth is the stack that a call of a program may use, in bytes, by Meter's estimate. It ends
// recursion before the interpreter's limit of 2,000 calls, which the compiler does not have.
const depth = 128 << 10

var (
	errOutOfFuel  = errors.New("out of fuel")
	errOutOfStack = errors.New("out of stack")
)

// An Observation is the observable result of running a program.
type Observation struct {
	Calls   []string // results or trap of each call, and the fuel used so far
	Globals string
	Memory  [sha256.Size]byte
	Size    uint32
}

// Difference describes the first difference between two observations. It returns "" if there is
// none.
func (o *Observation) Difference(other *Observation) string {
	for i := range o.Calls {
		if o.Calls[i] != other.Calls[i] {
			return fmt.Sprintf("call %d: %s, and %s", i, o.Calls[i], other.Calls[i])
		}
	}
	switch {
	case o.Globals != other.Globals:
		return fmt.Sprintf("globals: %s, and %s", o.Globals, other.Globals)
	case o.Size != other.Size:
		return fmt.Sprintf("memory of %d bytes, and of %d", o.Size, other.Size)
	case o.Memory != other.Memory:
		return "other bytes in memory"
	}
	return ""
}

// An Engine runs metered modules in a wazero runtime.
type Engine struct {
	runtime wazero.Runtime
}

// NewEngine returns an engine for a configuration: wazero's compiler or its interpreter.
func NewEngine(ctx context.Context, config wazero.RuntimeConfig) (*Engine, error) {
	e := &Engine{wazero.NewRuntimeWithConfig(ctx, config.WithCoreFeatures(api.CoreFeaturesV2))}
	i64 := api.ValueTypeI64
	_, err := e.runtime.NewHostModuleBuilder(wasm.ReservedModule).NewFunctionBuilder().
		WithGoModuleFunction(api.GoModuleFunc(refuel), []api.ValueType{i64, i64}, []api.ValueType{i64}).
		Export(wasm.RefuelImport).Instantiate(ctx)
	return e, err
}

// Close closes the engine's runtime.
func (e *Engine) Close(ctx context.Context) error { return e.runtime.Close(ctx) }

// fuelSupply is the fuel of one run: its budget, the size of a slice, and the sum of the slices
// granted so far.
type fuelSupply struct {
	budget, slice, given int64
}

type fuelSupplyKey struct{}

// refuel is the host function that a metered module calls when its fuel or stack is used up, and
// when its memory has grown. It returns the fuel of the next slice, or panics if the budget or the
// stack is used up.
func refuel(ctx context.Context, _ api.Module, stack []uint64) {
	t := ctx.Value(fuelSupplyKey{}).(*fuelSupply)
	left := int64(stack[0])
	switch {
	case int64(stack[1]) < 0:
		panic(errOutOfStack)
	case t.given-left > t.budget:
		panic(errOutOfFuel)
	}
	grant := min(t.slice-left, t.budget-(t.given-left))
	t.given += grant
	stack[0] = uint64(left + grant)
}

// Run runs a metered module with the arguments and fuel of p. It returns an error if the module
// cannot be instantiated.
func (e *Engine) Run(ctx context.Context, p *Program, module []byte) (*Observation, error) {
	t := &fuelSupply{budget: p.Budget, slice: p.Slice}
	ctx = context.WithValue(ctx, fuelSupplyKey{}, t)
	m, err := e.runtime.InstantiateWithConfig(ctx, module, wazero.NewModuleConfig().WithName(""))
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.Close(ctx) }() // Close could only fail for a guest's file system
	fuel, depths := mutable(m, wasm.FuelExport), mutable(m, wasm.DepthExport)
	o := &Observation{}
	for i, args := range p.Args {
		depths.Set(depth)
		results, err := m.ExportedFunction(string(rune('a'+i%functions))).Call(ctx, args...)
		text := fmt.Sprint(resultsText(p.module.Types[i%functions].Results, results))
		if err != nil {
			text = firstLine(err)
		}
		o.Calls = append(o.Calls, fmt.Sprintf("%s with %d fuel", text, t.given-int64(fuel.Get())))
	}
	for i, typ := range valueTypes {
		if typ != wasm.V128 { // the host cannot read vectors
			o.Globals += fmt.Sprintf(" %x", mutable(m, wasm.GlobalExport(i)).Get())
		}
	}
	o.Size = m.Memory().Size()
	bytes, _ := m.Memory().Read(0, o.Size)
	o.Memory = sha256.Sum256(bytes)
	return o, nil
}

func mutable(m api.Module, name string) api.MutableGlobal {
	return m.ExportedGlobal(name).(api.MutableGlobal)
}

// resultsText formats the bits of each result.
func resultsText(types []wasm.ValueType, results []uint64) []string {
	out := make([]string, len(results))
	for i, r := range results {
		if t := types[i]; t == wasm.I32 || t == wasm.F32 {
			r &= math.MaxUint32
		}
		out[i] = fmt.Sprintf("%x", r)
	}
	return out
}

// Metered returns the program's module as the sandbox rewrites it.
func Metered(p *Program) ([]byte, error) {
	m, err := wasm.Decode(p.Module().Encode(), wasm.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("the generated module is not valid: %w", err)
	}
	metered, err := wasm.Meter(m, wasm.MeterOptions{Depth: depth, MemoryPages: maxPages})
	if err != nil {
		return nil, err
	}
	return metered.Encode(), nil
}

// Compare runs a program in both engines. It returns their first difference, or "" if there is
// none, and the observation of engine a.
func Compare(ctx context.Context, p *Program, a, b *Engine) (difference string, seen *Observation, err error) {
	module, err := Metered(p)
	if err != nil {
		return "", nil, err
	}
	first, err := a.Run(ctx, p, module)
	if err != nil {
		return "", nil, err
	}
	second, err := b.Run(ctx, p, module)
	if err != nil {
		return "", nil, err
	}
	return first.Difference(second), first, nil
}

// firstLine returns the text of an error without its stack.
func firstLine(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n")
	return text
}
