package differential

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// TestEachOperation checks that each numeric instruction has the same results in both engines, with
// random and with boundary operands.
func TestEachOperation(t *testing.T) {
	t.Parallel()
	compiler, interpreter := engines(t)
	g := &generator{Rand: rand.New(rand.NewPCG(1, 2))}
	const result = 64
	for _, typ := range valueTypes {
		for _, o := range operations[typ] {
			m := &wasm.Module{
				Types: []wasm.FuncType{{}}, Functions: []uint32{0}, Memories: []wasm.Memory{{Size: wasm.Range{Min: 1}}},
				Exports: []wasm.Export{{Name: "memory", Kind: wasm.ExternalMemory}, {Name: "a"}},
			}
			g.scratch = map[wasm.ValueType]uint32{typ: 0}
			body := i32(0)
			for i, from := range o.params {
				body = code(body, i32(int32(16*i)), op(loadOf(from), 0, 0))
			}
			body = code(body, opcode(o.op))
			if o.lanes > 0 {
				body = append(body, byte(o.lanes-1))
			}
			if o.inexact {
				body = code(body, g.canonical(o))
			}
			body = code(body, op(storeOf(typ), 0, result), op(wasm.OpEnd))
			m.Code = []wasm.Code{{Locals: []wasm.Locals{{Count: 1, Type: typ}}, Body: body}}
			p := &Program{Budget: 1e9, Slice: 1e6}
			p.module, p.functions = *m, []*function{{locals: m.Code[0].Locals, result: body[:len(body)-1]}}
			b, err := Metered(p)
			require.NoError(t, err, o.name)
			first, second := instance(t, compiler, b), instance(t, interpreter, b)
			for range 100 {
				operands := make([]byte, 0, result)
				for range result / 16 {
					operands = append(operands, g.operand()...)
				}
				require.Equal(t, first.apply(operands, result), second.apply(operands, result), "%s of %x", o.name, operands)
			}
		}
	}
}

// operand returns 16 bytes of numbers of one type.
func (g *generator) operand() (b []byte) {
	typ := g.someType()
	for len(b) < 16 {
		switch typ {
		case wasm.I32, wasm.F32:
			b = binary.LittleEndian.AppendUint32(b, uint32(g.bits(typ)))
		default:
			b = binary.LittleEndian.AppendUint64(b, g.bits(typ))
		}
	}
	return b
}

func loadOf(t wasm.ValueType) wasm.Opcode {
	return map[wasm.ValueType]wasm.Opcode{
		wasm.I32: 0x28, wasm.I64: 0x29, wasm.F32: 0x2a, wasm.F64: 0x2b, wasm.V128: 0xfd00,
	}[t]
}

func storeOf(t wasm.ValueType) wasm.Opcode {
	return map[wasm.ValueType]wasm.Opcode{
		wasm.I32: 0x36, wasm.I64: 0x37, wasm.F32: 0x38, wasm.F64: 0x39, wasm.V128: 0xfd0b,
	}[t]
}

type loaded struct {
	api.Module
	ctx context.Context
}

func instance(t *testing.T, e *Engine, b []byte) *loaded {
	t.Helper()
	ctx := context.WithValue(t.Context(), fuelSupplyKey{}, &fuelSupply{budget: 1e12, slice: 1e9})
	m, err := e.runtime.InstantiateWithConfig(ctx, b, wazero.NewModuleConfig().WithName(""))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close(ctx)) })
	return &loaded{m, ctx}
}

// apply writes operands to memory, calls the function, and returns its result or trap.
func (l *loaded) apply(operands []byte, result uint32) string {
	mutable(l.Module, wasm.DepthExport).Set(depth)
	l.Memory().Write(0, operands)
	_, err := l.ExportedFunction("a").Call(l.ctx)
	if err != nil {
		return firstLine(err)
	}
	b, _ := l.Memory().Read(result, 16)
	return string(b)
}
