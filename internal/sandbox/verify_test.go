package sandbox

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// module returns a small valid module. change modifies it.
func module(change func(m *wasm.Module)) []byte {
	m := &wasm.Module{
		Types: []wasm.FuncType{
			{Params: []wasm.ValueType{wasm.I32}, Results: []wasm.ValueType{wasm.I32}},
			{Params: []wasm.ValueType{wasm.I32, wasm.I32}, Results: []wasm.ValueType{wasm.I64}},
			{},
		},
		Functions: []uint32{0},
		Memories:  []wasm.Memory{{Size: wasm.Range{Min: 1}}},
		Exports: []wasm.Export{
			{Name: "memory", Kind: wasm.ExternalMemory},
			{Name: "hook", Kind: wasm.ExternalFunction},
		},
		Code: []wasm.Code{{Body: []byte{0x20, 0, 0x0b}}}, // local.get 0, end
	}
	if change != nil {
		change(m)
	}
	return m.Encode()
}

// importing returns the module with an import.
func importing(imp wasm.Import) []byte {
	return module(func(m *wasm.Module) {
		m.Imports = []wasm.Import{imp}
		if imp.Kind == wasm.ExternalFunction {
			m.Exports[1].Index = 1
		}
	})
}

// elements returns a module with a table of 10 entries and a segment that sets some of them,
// starting at index at.
func elements(at uint64, functions ...uint32) []byte {
	return module(func(m *wasm.Module) {
		m.Tables = []wasm.Table{{Type: wasm.FuncRef, Size: wasm.Range{Min: 10}}}
		m.Elements = []wasm.Element{
			{Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: at}, Type: wasm.FuncRef, Functions: functions},
		}
	})
}

func function(module, name string, index uint32) wasm.Import {
	return wasm.Import{Module: module, Name: name, Kind: wasm.ExternalFunction, Type: index}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write(guestWasm)
	_ = w.Close()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		program = []byte("\x7fELF rest")
	}
	for name, tc := range map[string]struct {
		wasm   []byte
		limits Limits
		want   string
	}{
		"empty":           {nil, Limits{}, "guest.wasm: this is empty, want a WebAssembly module"},
		"text":            {[]byte("(module)"), Limits{}, "WebAssembly text"},
		"gzip":            {gz.Bytes(), Limits{}, "gzip"},
		"native":          {program[:min(len(program), 1000)], Limits{}, "program for another machine"},
		"component":       {[]byte("\x00asm\x0d\x00\x01\x00"), Limits{}, "component"},
		"truncated":       {guestWasm[:len(guestWasm)/2], Limits{}, "guest.wasm: "},
		"count too large": {append([]byte("\x00asm\x01\x00\x00\x00\x01\x06"), 0xff, 0xff, 0xff, 0xff, 0x0f, 0), Limits{}, "type"},
		"no memory": {module(func(m *wasm.Module) { m.Exports = m.Exports[1:] }), Limits{},
			`guest.wasm: does not export its memory as "memory"; in C: -Wl,--export-memory`},
		"memory of another name": {module(func(m *wasm.Module) { m.Exports[0].Name = "mem" }), Limits{}, `does not export its memory as "memory"`},
		"memory that is a function": {module(func(m *wasm.Module) {
			m.Exports = []wasm.Export{{Name: "memory", Kind: wasm.ExternalFunction}}
		}), Limits{}, `does not export its memory as "memory"`},
		"hook of a wrong type": {module(func(m *wasm.Module) {
			m.Functions[0], m.Code[0].Body = 1, []byte{0x42, 0, 0x0b}
		}), Limits{}, "guest.wasm: hook: want (i32) -> i32, got (i32, i32) -> i64"},
		"hook that is a memory": {module(func(m *wasm.Module) { m.Exports[1].Kind = wasm.ExternalMemory }), Limits{},
			"exports hook as a memory; want a function (i32) -> i32"},
		"_initialize of a wrong type": {module(func(m *wasm.Module) { m.Exports[1].Name = verify.Initialize }), Limits{},
			"_initialize: want () -> (), got (i32) -> i32"},
		"operand of a wrong type": {module(func(m *wasm.Module) { m.Code[0].Body = []byte{0x42, 0, 0x0b} }), Limits{}, "is not valid: "},

		"data out of bounds": {module(func(m *wasm.Module) {
			m.Data = []wasm.Data{{Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: 65535}, Init: []byte("xx")}}
		}), Limits{}, "data segment 0 has 2 bytes for address 0xffff, which do not lie in the memory of 64 KiB"},
		"data at a negative offset": {module(func(m *wasm.Module) {
			m.Data = []wasm.Data{{Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: 0xffffffff}, Init: []byte("xx")}}
		}), Limits{}, "has 2 bytes for address 0xffffffff"},
		"elements out of bounds":        {elements(9, 0, 0), Limits{}, "element segment 0 has 2 entries for index 9, which do not lie in the table of 10 entries"},
		"elements at a negative offset": {elements(0xffffffff, 0), Limits{}, "has 1 entries for index 4294967295"},
		"no elements beyond the table":  {elements(11), Limits{}, "has 0 entries for index 11"},
		"elements for table 1, too many": {module(func(m *wasm.Module) {
			m.Tables = []wasm.Table{
				{Type: wasm.FuncRef, Size: wasm.Range{Min: 10}}, {Type: wasm.FuncRef, Size: wasm.Range{Min: 1}},
			}
			m.Elements = []wasm.Element{{
				Table: 1, Offset: wasm.ConstExpr{Op: wasm.OpI32Const}, Type: wasm.FuncRef, Functions: []uint32{0, 0},
			}}
		}), Limits{}, "which do not lie in the table of 1 entries"},
		"reserved name": {module(func(m *wasm.Module) { m.Exports[1].Name = wasm.GlobalExport(0) }), Limits{},
			"is reserved for the host"},

		"start that is an import": {module(func(m *wasm.Module) {
			m.Imports = []wasm.Import{function("test_v1", "nothing", 2)}
			m.Exports[1].Index = 1
			m.Start = new(uint32)
		}), Limits{}, "has the import nothing as its start function; start with a function of the module"},

		"unknown import": {importing(function("test_v1", "rad", 0)), Limits{},
			"guest.wasm: imports test_v1.rad, which ABI v1 does not have; did you mean read?"},
		"import nothing is like": {importing(function("test_v1", "frobnicate", 0)), Limits{}, "which ABI v1 does not have"},
		"import of a wrong type": {importing(function("test_v1", "read", 0)), Limits{},
			"imports test_v1.read as (i32) -> i32, want (i32, i32) -> i32"},
		"another version": {importing(function("test_v2", "read", 0)), Limits{},
			"imports test_v2: it asks for ABI version 2; this host speaks version 1; build it with an SDK for version 1"},
		"unknown module": {importing(function("other", "f", 0)), Limits{},
			"imports other.f, but ABI v1 has no module other; there are test_v1, wasi_snapshot_preview1"},
		"C function that is not there": {importing(function("env", "helper", 0)), Limits{}, "declared but not linked in"},
		"AssemblyScript's abort":       {importing(function("env", "abort", 0)), Limits{}, "--use abort="},
		"unknown WASI function":        {importing(function(verify.WASIModule, "fd_wrte", 0)), Limits{}, "which WASI preview 1 does not have; did you mean fd_write?"},
		"WASI function of a wrong type": {importing(function(verify.WASIModule, "proc_exit", 0)), Limits{},
			"imports wasi_snapshot_preview1.proc_exit as (i32) -> i32, want (i32) -> ()"},
		"imported memory": {importing(wasm.Import{Module: "env", Name: "memory", Kind: wasm.ExternalMemory}), Limits{}, "memor"},
		"imported table": {importing(wasm.Import{Module: "env", Name: "t", Kind: wasm.ExternalTable,
			Table: wasm.Table{Type: wasm.FuncRef}}), Limits{}, "imports the table env.t, but only functions can be imported"},
		"imported global": {importing(wasm.Import{Module: "env", Name: "g", Kind: wasm.ExternalGlobal,
			Global: wasm.GlobalType{Type: wasm.I32}}), Limits{}, "imports the global env.g, but only functions can be imported"},

		"too large": {guestWasm, Limits{ModuleBytes: 1000}, "guest.wasm: has 1"},
		"too much memory": {module(func(m *wasm.Module) { m.Memories[0].Size.Min = 1025 }), Limits{},
			"guest.wasm: asks for 64.1 MiB of memory from the start, more than the limit of 64 MiB; build it with a smaller initial memory, or raise the limit"},
		"all memory there is": {module(func(m *wasm.Module) { m.Memories[0].Size.Min = 65536 }), Limits{}, "asks for 4 GiB of memory"},
		"too large a table": {module(func(m *wasm.Module) {
			m.Tables = []wasm.Table{{Type: wasm.FuncRef, Size: wasm.Range{Min: 1 << 27}}}
		}), Limits{}, "table"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := newSandbox(t, Options{}).Load(t.Context(), "guest.wasm", tc.wasm, tc.limits)
			var refused *verify.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "guest.wasm", refused.Name)
			require.Contains(t, refused.Error(), tc.want)
			require.Less(t, len(refused.Error()), 1000)
		})
	}
}

// TestRejectedThenLoaded checks that a module rejected for its limits can be loaded with others.
func TestRejectedThenLoaded(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{})
	large := module(func(m *wasm.Module) { m.Memories[0].Size.Min = 1025 })
	_, err := s.Load(t.Context(), "guest.wasm", large, Limits{})
	require.ErrorContains(t, err, "more than the limit")
	im := load(t, s, large, Limits{MemoryBytes: 128 << 20})
	require.Equal(t, []uint64{9}, call(t, instantiate(t, im, InstanceConfig{}), "hook", 9))
}

// TestOtherExportsAreFree checks that exports that the surface does not define are allowed.
func TestOtherExportsAreFree(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), module(func(m *wasm.Module) {
		m.Exports = append(m.Exports, wasm.Export{Name: "__wasm_call_ctors"},
			wasm.Export{Name: "mem2", Kind: wasm.ExternalMemory})
	}), Limits{})
	require.Len(t, im.Exports(), 4)
}

func TestStartFunction(t *testing.T) {
	t.Parallel()
	start := func(body ...byte) []byte {
		return module(func(m *wasm.Module) {
			m.Functions = append(m.Functions, 2)
			m.Code = append(m.Code, wasm.Code{Body: append(body, 0x0b)})
			index := uint32(1)
			m.Start = &index
		})
	}
	s := newSandbox(t, Options{})
	in := instantiate(t, load(t, s, start(0x41, 0, 0x41, 7, 0x36, 2, 0), Limits{}), InstanceConfig{}) // stores 7 at 0
	b, _ := in.core.memory.Read(0, 4)
	require.EqualValues(t, 7, binary.LittleEndian.Uint32(b))

	for body, text := range map[string]string{
		"\x00":                 "unreachable executed",
		"\x03\x40\x0c\x00\x0b": "ran longer than 50ms",
	} {
		im := load(t, s, start([]byte(body)...), Limits{HookTime: 50e6})
		_, err := im.Instantiate(t.Context(), InstanceConfig{})
		fault := faultOf(t, err)
		require.Equal(t, text, fault.Message)
		require.Empty(t, fault.Export)
	}
}

// TestExportedImport checks that an import can be exported, and is called for the instance that
// exports it.
func TestExportedImport(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), module(func(m *wasm.Module) {
		m.Imports = []wasm.Import{function("test_v1", "read", 3), function("test_v1", "call", 0)}
		m.Types = append(m.Types,
			wasm.FuncType{Params: []wasm.ValueType{wasm.I32, wasm.I32}, Results: []wasm.ValueType{wasm.I32}})
		m.Exports[1] = wasm.Export{Name: "read", Kind: wasm.ExternalFunction}
		m.Exports = append(m.Exports, wasm.Export{Name: "hook", Kind: wasm.ExternalFunction, Index: 1})
	}), Limits{})
	in := instantiate(t, im, InstanceConfig{Value: &testValue{
		call: func(_ context.Context, _ *Guest, n uint32) uint32 { return n + 1 },
	}})
	require.Equal(t, []uint64{100}, call(t, in, "read", 0, 100))
	require.Equal(t, []uint64{8}, call(t, in, "hook", 7))
	_, err := in.Call(t.Context(), "read", 65536, 1)
	require.Equal(t, FaultBounds, faultOf(t, err).Kind)
}

// TestTableCannotGrow checks that a table cannot grow beyond its maximum or the sandbox's limit,
// and not at all without a maximum.
func TestTableCannotGrow(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		size wasm.Range
		by   uint64
		want uint64
	}{
		"no maximum":        {wasm.Range{Min: 10}, 1, 0xffffffff},
		"its own maximum":   {wasm.Range{Min: 10, Max: 20, HasMax: true}, 10, 10},
		"beyond that":       {wasm.Range{Min: 10, Max: 20, HasMax: true}, 11, 0xffffffff},
		"a maximum of 2^32": {wasm.Range{Min: 10, Max: 1<<32 - 1, HasMax: true}, 1 << 20, 0xffffffff},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			im := load(t, newSandbox(t, Options{}), module(func(m *wasm.Module) {
				m.Tables = []wasm.Table{{Type: wasm.FuncRef, Size: tc.size}}
				m.Code[0].Body = []byte{0xd0, 0x70, 0x20, 0, 0xfc, 15, 0, 0x0b} // ref.null, local.get 0, table.grow 0
			}), Limits{})
			require.Equal(t, []uint64{tc.want}, call(t, instantiate(t, im, InstanceConfig{}), "hook", tc.by))
		})
	}
}

// TestElementsAtTheEnd checks that segments may end at the end of the table.
func TestElementsAtTheEnd(t *testing.T) {
	t.Parallel()
	for name, b := range map[string][]byte{
		"some": elements(8, 0, 0), "none": elements(10), "all": elements(0, make([]uint32, 10)...),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			instantiate(t, load(t, newSandbox(t, Options{}), b, Limits{}), InstanceConfig{})
		})
	}
}
