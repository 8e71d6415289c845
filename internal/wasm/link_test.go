package wasm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// codeOf returns the code of a function.
func codeOf(ops ...byte) Code { return Code{Body: append(ops, byte(OpEnd))} }

// linkable returns two modules that call each other: twice doubles the result of part's
// inc, and inc adds the result of main's function one.
func linkable() (main, part *Module) {
	unary := FuncType{[]ValueType{I32}, []ValueType{I32}}
	none := FuncType{nil, []ValueType{I32}}
	main = &Module{
		Types:     []FuncType{unary, none},
		Imports:   []Import{{Module: "host", Name: "log"}, {Module: "env", Name: "inc"}},
		Functions: []uint32{0, 1},
		Tables:    []Table{{Type: FuncRef, Size: Range{Min: 2}}},
		Memories:  []Memory{{Range{Min: 1}}},
		Elements:  []Element{{Offset: ConstExpr{Op: OpI32Const}, Type: FuncRef, Functions: []uint32{1, 3}}},
		Exports:   []Export{{"memory", ExternalMemory, 0}, {"twice", ExternalFunction, 2}, {"one", ExternalFunction, 3}},
		Code: []Code{
			codeOf(byte(OpLocalGet), 0, byte(OpCall), 1, byte(OpLocalGet), 0, byte(OpCall), 1, byte(opI32Add)),
			codeOf(byte(OpI32Const), 1),
		},
	}
	part = &Module{
		Types: []FuncType{none, unary},
		Imports: []Import{
			{Module: "env", Name: "memory", Kind: ExternalMemory}, {Module: "main", Name: "one", Type: 0},
			{Module: "host", Name: "log", Type: 1}, {Module: "host", Name: "other", Type: 1},
		},
		Functions: []uint32{1, 1},
		Exports:   []Export{{"inc", ExternalFunction, 3}, {"hook", ExternalFunction, 4}},
		Code: []Code{
			codeOf(byte(OpLocalGet), 0, byte(OpCall), 0, byte(opI32Add)),
			codeOf(byte(OpLocalGet), 0, byte(OpCall), 1, byte(OpCall), 2, byte(OpCall), 3),
		},
	}
	return main, part
}

func TestLink(t *testing.T) {
	t.Parallel()
	main, part := linkable()
	linked, err := Link(main, part, "env", "main", "memory", "twice")
	require.NoError(t, err)
	m, err := Decode(linked.Encode(), DefaultLimits())
	require.NoError(t, err)
	require.Len(t, m.Imports, 2, "what both import is imported once")
	require.Equal(t, "log", m.Imports[0].Name)
	require.Equal(t, "other", m.Imports[1].Name)
	// log other twice one inc hook
	require.Equal(t, []Export{{"memory", ExternalMemory, 0}, {"twice", ExternalFunction, 2}, {"hook", ExternalFunction, 5}}, m.Exports)
	require.Equal(t, []uint32{4, 3}, m.Elements[0].Functions)
	for i, want := range [][]byte{
		codeOf(byte(OpLocalGet), 0, byte(OpCall), 4, byte(OpLocalGet), 0, byte(OpCall), 4, byte(opI32Add)).Body,
		codeOf(byte(OpI32Const), 1).Body,
		codeOf(byte(OpLocalGet), 0, byte(OpCall), 3, byte(opI32Add)).Body,
		codeOf(byte(OpLocalGet), 0, byte(OpCall), 0, byte(OpCall), 1, byte(OpCall), 4).Body,
	} {
		require.Equal(t, want, m.Code[i].Body, i)
	}
	again, _ := linkable()
	require.Equal(t, again, main, "what is linked is left as it is")
}

func TestLinkErrors(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(main, part *Module){
		"function inc is not exported":                  func(_, part *Module) { part.Exports[0].Name = "dec" },
		"function one is not exported":                  func(main, _ *Module) { main.Exports[2].Kind = ExternalMemory },
		"one: want () -> i32, got (i32) -> i32":         func(main, _ *Module) { main.Exports[2].Index = 2 },
		"part must contain only functions":              func(_, part *Module) { part.Data = []Data{{}} },
		"part must not use global.get":                  func(_, part *Module) { part.Code[0] = codeOf(byte(OpGlobalGet), 0) },
		"part must not use call_indirect":               func(_, part *Module) { part.Code[0] = codeOf(0x11, 0, 0) },
		"part must not have blocks with several values": func(_, part *Module) { part.Code[0] = codeOf(byte(OpBlock), 0, byte(OpEnd)) },
	} {
		main, part := linkable()
		change(main, part)
		_, err := Link(main, part, "env", "main")
		require.ErrorContains(t, err, want)
	}
}
