package wasm

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
)

// tabled returns a module with a table of n entries after four empty ones. Every third of the n
// entries is null. The others are functions of one or two parameters, which return the sum of the
// parameters and the entry's number.
func tabled(n int) *Module {
	one, two := FuncType{[]ValueType{I32}, []ValueType{I32}}, FuncType{[]ValueType{I32, I32}, []ValueType{I32}}
	m := &Module{
		Types: []FuncType{
			one,
			two,
			{[]ValueType{I32, I32}, []ValueType{I32}},
			{[]ValueType{I32, I32, I32}, []ValueType{I32}},
		},
		Tables: []Table{{Type: FuncRef, Size: Range{Min: uint32(n) + 4}}},
	}
	var entries []ConstExpr
	for i := range n {
		if i%3 == 2 {
			entries = append(entries, ConstExpr{Op: OpRefNull, Bits: uint64(FuncRef)})
			continue
		}
		a := assembler{}
		a.get(0)
		if i%3 == 1 {
			a.get(1)
			a.op(opI32Add)
		}
		a.i32(int32(i))
		a.op(opI32Add)
		a.op(OpEnd)
		entries = append(entries, ConstExpr{Op: OpRefFunc, Bits: uint64(len(m.Functions))})
		m.Functions = append(m.Functions, uint32(i%3))
		m.Code = append(m.Code, Code{Body: a})
	}
	m.Elements = []Element{{Mode: Active, Offset: ConstExpr{Op: OpI32Const, Bits: 4}, Type: FuncRef, Exprs: entries}}
	for typ, name := range []string{"one", "two"} { // name(parameters…, entry)
		a := assembler{}
		for p := range uint32(typ) + 2 {
			a.get(p)
		}
		a.index(OpCallIndirect, uint32(typ), 0)
		a.op(OpEnd)
		m.Exports = append(m.Exports, Export{Name: name, Index: uint32(len(m.Functions))})
		m.Functions = append(m.Functions, uint32(typ)+2)
		m.Code = append(m.Code, Code{Body: a})
	}
	return m
}

// TestFixedTable checks that calls through a replaced table have the same results, trap in the same
// cases and cost the same fuel as calls through the original table.
func TestFixedTable(t *testing.T) {
	t.Parallel()
	const n = 400
	m := tabled(n)
	fixed := metered(t, m, MeterOptions{})
	require.Empty(t, fixed.Elements)
	require.Zero(t, fixed.Tables[0].Size.Min, "so that it takes no memory in any instance")
	asItIs := metered(t, m, MeterOptions{minFixed: n})
	require.Len(t, asItIs.Elements, 1)

	a, b := start(t, wazero.NewRuntimeConfigCompiler(), fixed), start(t, wazero.NewRuntimeConfigCompiler(), asItIs)
	answered := 0
	for entry := range uint64(n + 10) {
		for name, params := range map[string][]uint64{"one": {1000, entry}, "two": {1000, 2000, entry}} {
			got, trapped := a.call(name, params...)
			want, wantTrapped := b.call(name, params...)
			require.Equal(t, want, got, "%s %d", name, entry)
			require.Equal(t, wantTrapped != "", trapped != "", "%s %d", name, entry)
			if trapped != "" {
				require.Contains(t, trapped, "invalid table access")
				continue
			}
			answered++
		}
	}
	require.Equal(t, 267, answered)
	require.Equal(t, b.used(), a.used())
}

// TestTablesNotFixed checks that a table stays unchanged if it is small or large, if nothing calls
// through it, or if something could observe or change it.
func TestTablesNotFixed(t *testing.T) {
	t.Parallel()
	body := func(ops ...byte) func(m *Module) {
		return func(m *Module) { m.Code[0].Body = append(append([]byte{}, ops...), 0x20, 0, 0x0b) }
	}
	for name, change := range map[string]func(m *Module){
		"small":      func(m *Module) { *m = *tabled(minFixedEntries) },
		"large":      func(m *Module) { m.Tables[0].Size.Min = maxFixedEntries + 1 },
		"exported":   func(m *Module) { m.Exports = append(m.Exports, Export{Name: "t", Kind: ExternalTable}) },
		"two tables": func(m *Module) { m.Tables = append(m.Tables, Table{Type: FuncRef}) },
		"passive":    func(m *Module) { m.Elements = append(m.Elements, Element{Mode: Passive, Type: FuncRef}) },
		"beyond it":  func(m *Module) { m.Elements[0].Offset.Bits = 5 },
		"never called": func(m *Module) {
			m.Code[len(m.Code)-1].Body, m.Code[len(m.Code)-2].Body = []byte{0x20, 0, 0x0b}, []byte{0x20, 0, 0x0b}
		},
		"a global of it": func(m *Module) { m.Globals = []Global{{GlobalType{FuncRef, false}, ConstExpr{Op: OpRefFunc}}} },
		"table.get":      body(0x41, 0, 0x25, 0, 0x1a),
		"table.set":      body(0x41, 0, 0xd0, 0x70, 0x26, 0),
		"table.size":     body(0xfc, 16, 0, 0x1a),
		"ref.func":       body(0xd2, 0, 0x1a),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := tabled(minFixedEntries * 2)
			require.NotNil(t, fix(m, minFixedEntries))
			change(m)
			require.Nil(t, fix(m, minFixedEntries))
		})
	}
}
