package link

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// opI32Add is i32.add.
const opI32Add = 0x6a

// codeOf returns the code of a function without locals. It appends the final end to ops.
func codeOf(ops ...byte) wasm.Code { return wasm.Code{Body: append(ops, byte(wasm.OpEnd))} }

// linkable returns two modules that call each other: twice doubles the result of part's
// inc, and inc adds the result of main's function one.
func linkable() (main, part *wasm.Module) {
	unary := wasm.FuncType{Params: []wasm.ValueType{wasm.I32}, Results: []wasm.ValueType{wasm.I32}}
	none := wasm.FuncType{Results: []wasm.ValueType{wasm.I32}}
	main = &wasm.Module{
		Types:     []wasm.FuncType{unary, none},
		Imports:   []wasm.Import{{Module: "host", Name: "log"}, {Module: "env", Name: "inc"}},
		Functions: []uint32{0, 1},
		Tables:    []wasm.Table{{Type: wasm.FuncRef, Size: wasm.Range{Min: 2}}},
		Memories:  []wasm.Memory{{Size: wasm.Range{Min: 1}}},
		Elements: []wasm.Element{
			{Offset: wasm.ConstExpr{Op: wasm.OpI32Const}, Type: wasm.FuncRef, Functions: []uint32{1, 3}},
		},
		Exports: []wasm.Export{
			{Name: "memory", Kind: wasm.ExternalMemory, Index: 0},
			{Name: "twice", Kind: wasm.ExternalFunction, Index: 2},
			{Name: "one", Kind: wasm.ExternalFunction, Index: 3},
		},
		Code: []wasm.Code{
			codeOf(byte(wasm.OpLocalGet), 0, byte(wasm.OpCall), 1, byte(wasm.OpLocalGet), 0, byte(wasm.OpCall), 1, opI32Add),
			codeOf(byte(wasm.OpI32Const), 1),
		},
	}
	part = &wasm.Module{
		Types: []wasm.FuncType{none, unary},
		Imports: []wasm.Import{
			{Module: "env", Name: "memory", Kind: wasm.ExternalMemory}, {Module: "main", Name: "one", Type: 0},
			{Module: "host", Name: "log", Type: 1}, {Module: "host", Name: "other", Type: 1},
		},
		Functions: []uint32{1, 1},
		Exports: []wasm.Export{
			{Name: "inc", Kind: wasm.ExternalFunction, Index: 3},
			{Name: "hook", Kind: wasm.ExternalFunction, Index: 4},
		},
		Code: []wasm.Code{
			codeOf(byte(wasm.OpLocalGet), 0, byte(wasm.OpCall), 0, opI32Add),
			codeOf(byte(wasm.OpLocalGet), 0, byte(wasm.OpCall), 1, byte(wasm.OpCall), 2, byte(wasm.OpCall), 3),
		},
	}
	return main, part
}

func TestModules(t *testing.T) {
	t.Parallel()
	main, part := linkable()
	linked, err := Modules(main, part, "env", "main", "memory", "twice")
	require.NoError(t, err)
	m, err := wasm.Decode(linked.Encode(), wasm.DefaultLimits())
	require.NoError(t, err)
	require.Len(t, m.Imports, 2, "shared imports are imported once")
	require.Equal(t, "log", m.Imports[0].Name)
	require.Equal(t, "other", m.Imports[1].Name)
	// The functions are log, other, twice, one, inc and hook, in this order.
	require.Equal(
		t,
		[]wasm.Export{
			{Name: "memory", Kind: wasm.ExternalMemory, Index: 0},
			{Name: "twice", Kind: wasm.ExternalFunction, Index: 2},
			{Name: "hook", Kind: wasm.ExternalFunction, Index: 5},
		},
		m.Exports,
	)
	require.Equal(t, []uint32{4, 3}, m.Elements[0].Functions)
	for i, want := range [][]byte{
		codeOf(byte(wasm.OpLocalGet), 0, byte(wasm.OpCall), 4, byte(wasm.OpLocalGet), 0, byte(wasm.OpCall), 4, opI32Add).Body,
		codeOf(byte(wasm.OpI32Const), 1).Body,
		codeOf(byte(wasm.OpLocalGet), 0, byte(wasm.OpCall), 3, opI32Add).Body,
		codeOf(byte(wasm.OpLocalGet), 0, byte(wasm.OpCall), 0, byte(wasm.OpCall), 1, byte(wasm.OpCall), 4).Body,
	} {
		require.Equal(t, want, m.Code[i].Body, i)
	}
	again, _ := linkable()
	require.Equal(t, again, main, "the inputs are unchanged")
}

func TestModulesErrors(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(main, part *wasm.Module){
		"main must import only functions, but imports env.m": func(main, _ *wasm.Module) {
			main.Imports = append(main.Imports, wasm.Import{Module: "env", Name: "m", Kind: wasm.ExternalMemory})
		},
		"main's memory, but imports env.g": func(_, part *wasm.Module) {
			part.Imports = append(part.Imports, wasm.Import{Module: "env", Name: "g", Kind: wasm.ExternalGlobal})
		},
		"main's memory, but imports env.t": func(_, part *wasm.Module) {
			part.Imports = append(part.Imports, wasm.Import{Module: "env", Name: "t", Kind: wasm.ExternalTable})
		},
		"function inc is not exported":                  func(_, part *wasm.Module) { part.Exports[0].Name = "dec" },
		"function one is not exported":                  func(main, _ *wasm.Module) { main.Exports[2].Kind = wasm.ExternalMemory },
		"one: want () -> i32, got (i32) -> i32":         func(main, _ *wasm.Module) { main.Exports[2].Index = 2 },
		"part must contain only functions":              func(_, part *wasm.Module) { part.Data = []wasm.Data{{}} },
		"part must not use global.get":                  func(_, part *wasm.Module) { part.Code[0] = codeOf(byte(wasm.OpGlobalGet), 0) },
		"part must not use call_indirect":               func(_, part *wasm.Module) { part.Code[0] = codeOf(0x11, 0, 0) },
		"part must not have blocks with several values": func(_, part *wasm.Module) { part.Code[0] = codeOf(byte(wasm.OpBlock), 0, byte(wasm.OpEnd)) },
	} {
		main, part := linkable()
		change(main, part)
		_, err := Modules(main, part, "env", "main")
		require.ErrorContains(t, err, want)
	}
}
