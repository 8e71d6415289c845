package engine

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

const checklist = "follow docs/upgrading-wazero.md, then change engine.Version"

// TestVersion checks that go.mod requires the release of wazero that this package describes.
func TestVersion(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../../../go.mod")
	require.NoError(t, err)
	require.Contains(t, string(b), "github.com/tetratelabs/wazero "+Version+"\n", checklist)
}

// testModule returns a module that exports a function that does nothing, and others that trap or
// recurse.
func testModule() *wasm.Module {
	bodies := map[string][]byte{
		"unreachable": {0x00, 0x0b},
		"divide":      {0x41, 1, 0x41, 0, 0x6d, 0x1a, 0x0b},
		"empty":       {0x41, 5, 0x11, 0, 0, 0x0b},          // call_indirect of entry 5, which is null
		"outside":     {0x41, 9, 0x11, 0, 0, 0x0b},          // of entry 9 of 8
		"type":        {0x41, 1, 0x41, 0, 0x11, 1, 0, 0x0b}, // of entry 0, with type 1
		"recurse":     {0x10, 5, 0x0b},                      // calls itself without end
		"nothing":     {0x0b},
	}
	m := &wasm.Module{
		Types:    []wasm.FuncType{{}, {Params: []wasm.ValueType{wasm.I32}}},
		Tables:   []wasm.Table{{Type: wasm.FuncRef, Size: wasm.Range{Min: 8}}},
		Elements: []wasm.Element{{Offset: wasm.ConstExpr{Op: wasm.OpI32Const}, Type: wasm.FuncRef, Functions: []uint32{0}}},
		Memories: []wasm.Memory{{Size: wasm.Range{Min: 1}}},
	}
	for i, name := range []string{"unreachable", "divide", "empty", "outside", "type", "recurse", "nothing"} {
		m.Functions = append(m.Functions, 0)
		m.Code = append(m.Code, wasm.Code{Body: bodies[name]})
		m.Exports = append(m.Exports, wasm.Export{Name: name, Index: uint32(i)})
	}
	return m
}

// newRuntime returns a runtime whose cache is in dir, or one without a cache if dir is empty.
func newRuntime(t *testing.T, dir string) wazero.Runtime {
	t.Helper()
	config := Config(false)
	if dir != "" {
		cache, err := OpenCache(dir)
		require.NoError(t, err)
		t.Cleanup(func() { _ = cache.Close(context.Background()) })
		config = config.WithCompilationCache(cache)
	}
	r := wazero.NewRuntimeWithConfig(t.Context(), config)
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	return r
}

func requireCompiler(t *testing.T) {
	t.Helper()
	if !HasCompiler() {
		t.Skip("wazero interprets on this platform")
	}
}

func TestHasCompiler(t *testing.T) {
	t.Parallel()
	require.Equal(t, HasCompiler(), compiles(Config(false)))
	require.False(t, compiles(Config(true)))
}

// TestTrapTexts checks the texts that the sandbox turns into kinds of faults.
func TestTrapTexts(t *testing.T) {
	t.Parallel()
	r := newRuntime(t, "")
	m, err := r.Instantiate(t.Context(), testModule().Encode())
	require.NoError(t, err)
	for export, want := range map[string]string{
		"unreachable": trapUnreachable,
		"divide":      "integer divide by zero",
		"empty":       trapTableAccess,
		"outside":     trapTableAccess,
		"type":        trapIndirectCallType,
		"recurse":     TrapStackOverflow,
	} {
		_, err := m.ExportedFunction(export).Call(t.Context())
		require.Error(t, err)
		trap, frames := SplitTrap(err)
		require.Equal(t, want, trap, "%s; %s", err, checklist)
		if export == "recurse" {
			require.Empty(t, frames, checklist) // there is no stack left to trace
			continue
		}
		require.Len(t, frames, 1, "%s; %s", err, checklist)
		index, signature, ok := SplitFrame(frames[0])
		require.True(t, ok, "%q; %s", frames[0], checklist)
		require.Equal(t, "()", signature)
		require.Equal(t, uint32(map[string]int{"unreachable": 0, "divide": 1, "empty": 2, "outside": 3, "type": 4}[export]),
			index)
	}
}

// TestTrapOfHostFunction checks the text of a panic in a host function.
func TestTrapOfHostFunction(t *testing.T) {
	t.Parallel()
	r := newRuntime(t, "")
	_, err := r.NewHostModuleBuilder("env").NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(context.Context, []uint64) { panic(errors.New("it broke")) }), nil, nil).
		Export("f").Instantiate(t.Context())
	require.NoError(t, err)
	m := testModule()
	m.Imports = []wasm.Import{{Module: "env", Name: "f", Kind: wasm.ExternalFunction}}
	m.Exports = []wasm.Export{{Name: "run", Index: 1}}
	m.Elements, m.Functions, m.Code = nil, []uint32{0}, []wasm.Code{{Body: []byte{0x10, 0, 0x0b}}}
	guest, err := r.Instantiate(t.Context(), m.Encode())
	require.NoError(t, err)
	_, err = guest.ExportedFunction("run").Call(t.Context())
	trap, frames := SplitTrap(err)
	require.Equal(t, "it broke", trap, checklist)
	require.Equal(t, []string{"env.f()", "$1()"}, frames, checklist)
}

// TestStackBytes checks that the private field is still there and grows with the stack.
func TestStackBytes(t *testing.T) {
	t.Parallel()
	requireCompiler(t)
	m, err := newRuntime(t, "").Instantiate(t.Context(), testModule().Encode())
	require.NoError(t, err)
	f := m.ExportedFunction("recurse")
	before, ok := StackBytes(f)
	require.True(t, ok, checklist)
	require.Positive(t, before)
	_, err = f.Call(t.Context())
	require.ErrorContains(t, err, TrapStackOverflow)
	after, ok := StackBytes(f)
	require.True(t, ok)
	require.Greater(t, after, before, checklist)
	_, ok = StackBytes(nil)
	require.False(t, ok)
}

// codeFile returns the only file of machine code below dir.
func codeFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1, checklist)
	return files[0]
}

// TestMachineCodeLayout checks the layout of a file that wazero has just written.
func TestMachineCodeLayout(t *testing.T) {
	t.Parallel()
	requireCompiler(t)
	dir := t.TempDir()
	_, err := newRuntime(t, dir).CompileModule(t.Context(), testModule().Encode())
	require.NoError(t, err)
	b, err := os.ReadFile(codeFile(t, dir))
	require.NoError(t, err)
	header, length, err := readHeader(bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	require.NotNil(t, header, checklist)
	require.Positive(t, length)
	code, rest := b[len(header):int64(len(header))+length], b[int64(len(header))+length:]
	sum := crc32.Checksum(code, crc32.MakeTable(crc32.Castagnoli))
	require.Equal(t, []byte{byte(sum), byte(sum >> 8), byte(sum >> 16), byte(sum >> 24)}, rest[:4], checklist)

	// wazero verifies the checksum, so that the sandbox does not have to.
	code[len(code)/2] ^= 1
	require.NoError(t, os.WriteFile(codeFile(t, dir), b, 0o600))
	_, err = newRuntime(t, dir).CompileModule(CachedOnly(t.Context()), testModule().Encode())
	require.Error(t, err, checklist)
	require.True(t, IsCacheError(err), "%s; %s", err, checklist)
}

// TestChecksumFile checks that a checksum covers everything but the code, and everything in
// files that are not machine code.
func TestChecksumFile(t *testing.T) {
	t.Parallel()
	const whole = "WAZEVO\x03dev" + "\x01\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" +
		"\x05\x00\x00\x00\x00\x00\x00\x00" + "\xc3codeCRC4more"
	sum := func(content string) string {
		file := filepath.Join(t.TempDir(), "code")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		var out strings.Builder
		require.NoError(t, ChecksumFile(&out, file))
		return out.String()
	}
	code := strings.Index(whole, "\xc3code")
	for i := range len(whole) {
		changed := []byte(whole)
		changed[i] ^= 1
		inCode := i >= code && i < code+5
		require.Equal(t, inCode, sum(whole) == sum(string(changed)), "byte %d", i)
	}
	for n := range len(whole) {
		require.NotEqual(t, sum(whole), sum(whole[:n]), "the first %d bytes", n)
	}
	for _, other := range []string{
		"", "WAZEVO", "\x00asm and whatever", whole[:code], "WAZEVO\x03dev\xff\xff\xff\xff",
		strings.Replace(whole, "\x05", "\x50", 1),
	} {
		require.Equal(t, other, sum(other), "the whole file")
	}
}

// TestStub checks that wazero runs the machine code of a module for its stub.
func TestStub(t *testing.T) {
	t.Parallel()
	requireCompiler(t)
	dir, m := t.TempDir(), testModule()
	_, err := newRuntime(t, dir).CompileModule(t.Context(), m.Encode())
	require.NoError(t, err)
	before := codeFile(t, dir)
	stub := Stub(m)
	ok, err := RenameCode(t.Context(), Config(false), dir, stub, func() (string, error) { return t.TempDir(), nil })
	require.NoError(t, err)
	require.True(t, ok, checklist)
	require.NotEqual(t, before, codeFile(t, dir))

	r := newRuntime(t, dir)
	compiled, err := r.CompileModule(CachedOnly(t.Context()), stub)
	require.NoError(t, err, checklist)
	guest, err := r.InstantiateModule(t.Context(), compiled, wazero.NewModuleConfig())
	require.NoError(t, err)
	_, err = guest.ExportedFunction("nothing").Call(t.Context())
	require.NoError(t, err, "the stub's own body traps; %s", checklist)
	_, err = newRuntime(t, t.TempDir()).CompileModule(CachedOnly(t.Context()), stub)
	require.ErrorIs(t, err, ErrNotCached, checklist)

	ok, err = RenameCode(t.Context(), Config(true), t.TempDir(), stub, func() (string, error) { return t.TempDir(), nil })
	require.NoError(t, err)
	require.False(t, ok, "there is no machine code")
}

// TestActiveSegments checks that wazero ignores an element segment that does not fit its table
// instead of failing. The sandbox verifies element segments itself for that reason.
func TestActiveSegments(t *testing.T) {
	t.Parallel()
	m := testModule()
	m.Elements[0].Offset.Bits = 100
	_, err := newRuntime(t, "").Instantiate(t.Context(), m.Encode())
	require.NoError(t, err, "compile/prepare.go could leave element segments to wazero now")
}
