package compile

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
	"github.com/agent-runner/agent-runner/internal/sandbox/wasi"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

func TestMain(m *testing.M) {
	if child.IsChild() {
		os.Exit(child.Main()) //nolint:forbidigo // this is a main
	}
	goleak.VerifyTestMain(m)
}

// guest returns the module of the sandbox's own tests.
func guest(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("../testdata/guest.wasm")
	require.NoError(t, err)
	return b
}

// module returns a small valid module. change modifies it.
func module(change func(m *wasm.Module)) []byte {
	m := &wasm.Module{
		Types:     []wasm.FuncType{{Params: []wasm.ValueType{wasm.I32}, Results: []wasm.ValueType{wasm.I32}}},
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

// withImports returns a surface with the imports of the guest.
func withImports() *verify.Surface {
	s := verify.NewSurface("ABI v1", nil)
	one := []api.ValueType{api.ValueTypeI32}
	for name, params := range map[string][]api.ValueType{"call": one, "wait": one, "read": {api.ValueTypeI32, api.ValueTypeI32}} {
		s.Add(verify.ImportInfo{Module: "test_v1", Name: name, Type: verify.FuncType{Params: params, Results: one}})
	}
	for _, f := range wasi.Functions() {
		s.Add(verify.ImportInfo{Module: verify.WASIModule, Name: f.Name, Type: f.Type})
	}
	return s
}

// newCompiler returns a compiler with defaults for the options that the tests leave unset.
func newCompiler(t testing.TB, opts Options) *Compiler {
	t.Helper()
	if opts.Surface == nil {
		opts.Surface = withImports()
	}
	if opts.Structure.Functions == 0 {
		opts.Structure = wasm.DefaultLimits()
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.CacheBytes = cmp.Or(opts.CacheBytes, 1<<30)
	opts.StartStackBytes = 256 << 10
	c, err := New(opts)
	require.NoError(t, err)
	return c
}

// compile compiles a module, and closes it at the end of the test.
func compile(t testing.TB, c *Compiler, b []byte) *Module {
	t.Helper()
	m, err := tryCompile(t, c, b)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

func tryCompile(t testing.TB, c *Compiler, b []byte) (*Module, error) {
	t.Helper()
	sum := sha256.Sum256(b)
	return c.Compile(t.Context(), "", hex.EncodeToString(sum[:]), b)
}

// runHook compiles a module with a new compiler and calls its hook.
func runHook(t testing.TB, opts Options, b []byte) {
	t.Helper()
	m := compile(t, newCompiler(t, opts), b)
	defer m.Close()
	_, err := m.Runtime.NewHostModuleBuilder(wasm.ReservedModule).NewFunctionBuilder().
		WithGoFunction(api.GoFunc(func(_ context.Context, stack []uint64) { stack[0] = 1000 }),
			[]api.ValueType{api.ValueTypeI64, api.ValueTypeI64}, []api.ValueType{api.ValueTypeI64}).
		Export(wasm.RefuelImport).Instantiate(t.Context())
	require.NoError(t, err)
	in, err := m.Runtime.InstantiateModule(t.Context(), m.Compiled, wazero.NewModuleConfig())
	require.NoError(t, err)
	results, err := in.ExportedFunction("hook").Call(t.Context(), 9)
	require.NoError(t, err)
	require.Equal(t, []uint64{9}, results)
}

// codeFile returns the only file of machine code in a cache.
func codeFile(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

func TestCacheIsUsed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "below", "cache")
	runHook(t, Options{CacheDir: dir}, module(nil))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	// If the cached entry is used, the file is not written again and keeps its modification time.
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(codeFile(t, dir), old, old))
	runHook(t, Options{CacheDir: dir}, module(nil))
	info, err = os.Stat(codeFile(t, dir))
	require.NoError(t, err)
	require.WithinDuration(t, old, info.ModTime(), time.Second)
}

// entryFile returns the path of the file called name in the cache entry that contains code, the path
// of a file of machine code.
func entryFile(code, name string) string {
	return filepath.Join(filepath.Dir(filepath.Dir(code)), name)
}

// flip changes a byte in the middle of a file.
func flip(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return flipAt(file, len(b)/2)
}

// flipAt changes the byte of a file at this index. A negative index counts from the end of the
// file.
func flipAt(file string, at int) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if at < 0 {
		at += len(b)
	}
	b[at] ^= 1
	return os.WriteFile(file, b, 0o600)
}

// TestDamagedEntry checks that an entry with any damage is compiled again and never run.
func TestDamagedEntry(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(file string) error{
		"empty":              func(f string) error { return os.Truncate(f, 0) },
		"truncated":          func(f string) error { return os.Truncate(f, 100) },
		"removed":            os.Remove,
		"foreign":            func(f string) error { return os.WriteFile(f, []byte("WAZEVO\x03dev\xff\xff\xff\xff"), 0o600) },
		"no checksums":       func(f string) error { return os.Remove(filepath.Join(filepath.Dir(filepath.Dir(f)), sumFile)) },
		"an additional file": func(f string) error { return os.WriteFile(f+"2", nil, 0o600) },
		"a link": func(f string) error {
			if err := os.Rename(f, f+".away"); err != nil {
				return err
			}
			return os.Symlink(f+".away", f)
		},
		"other code":    flip,
		"other places":  func(f string) error { return flipAt(f, 24) },
		"other version": func(f string) error { return flipAt(f, 8) },
		"other end":     func(f string) error { return flipAt(f, -1) },
		"other module":  func(f string) error { return flip(entryFile(f, moduleFile)) },
		"other facts":   func(f string) error { return flip(entryFile(f, factsName)) },
		"no module":     func(f string) error { return os.Remove(entryFile(f, moduleFile)) },
		"no facts":      func(f string) error { return os.Remove(entryFile(f, factsName)) },
		"malformed facts": func(f string) error {
			if err := os.WriteFile(entryFile(f, factsName), []byte("imports nothing"), 0o600); err != nil {
				return err
			}
			entry := filepath.Dir(entryFile(f, sumFile))
			sum, err := sumOf(entry, filepath.Base(entry), nil)
			if err != nil {
				return err
			}
			return os.WriteFile(entryFile(f, sumFile), []byte(sum), 0o600)
		},
		"code under another name": func(f string) error {
			entry := filepath.Dir(entryFile(f, sumFile))
			if err := os.Rename(f, filepath.Join(filepath.Dir(f), strings.Repeat("0", 64))); err != nil {
				return err
			}
			sum, err := sumOf(entry, filepath.Base(entry), nil)
			if err != nil {
				return err
			}
			return os.WriteFile(entryFile(f, sumFile), []byte(sum), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			runHook(t, Options{CacheDir: dir}, module(nil))
			want, err := os.ReadFile(codeFile(t, dir))
			require.NoError(t, err)
			require.NoError(t, spoil(codeFile(t, dir)))
			runHook(t, Options{CacheDir: dir}, module(nil))
			got, err := os.ReadFile(codeFile(t, dir))
			require.NoError(t, err)
			require.Equal(t, want, got, "compiled again")
			temporary, err := filepath.Glob(filepath.Join(dir, tempName+"*"))
			require.NoError(t, err)
			require.Empty(t, temporary)
		})
	}
}

// TestEntryHasStub checks that an entry contains a module without function bodies. The interpreter, which needs the
// bodies, has its own entry.
func TestEntryHasStub(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c, guest := newCompiler(t, Options{CacheDir: dir}), guest(t)
	compile(t, c, guest)
	stored, err := os.ReadFile(entryFile(codeFile(t, dir), moduleFile))
	require.NoError(t, err)
	stub, err := wasm.Decode(stored, wasm.DefaultLimits())
	require.NoError(t, err)
	for i := range stub.Code {
		require.Equal(t, []byte{byte(wasm.OpUnreachable), byte(wasm.OpEnd)}, stub.Code[i].Body)
	}
	f, metered, err := c.prepare(guest)
	require.NoError(t, err)
	require.Len(t, stub.Code, len(metered.Code))
	stub.Code = metered.Code
	require.Equal(t, metered.Encode(), stub.Encode(), "the rest is identical")
	require.NotNil(t, f.Outline)

	for range 2 {
		runHook(t, Options{CacheDir: dir}, module(nil))
		runHook(t, Options{CacheDir: dir, Interpret: true}, module(nil))
	}
}

// TestEntryOfOtherModule checks that an entry under the key of another module is not used.
func TestEntryOfOtherModule(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entry := func() string { return filepath.Dir(entryFile(codeFile(t, dir), sumFile)) }
	runHook(t, Options{CacheDir: dir}, module(nil))
	original, away := entry(), filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(original, away))
	runHook(t, Options{CacheDir: dir}, module(func(m *wasm.Module) { m.Memories[0].Size.Min++ }))
	require.NoError(t, os.Rename(entry(), original))
	m := compile(t, newCompiler(t, Options{CacheDir: dir}), module(nil))
	require.EqualValues(t, verify.PageBytes, m.Outline.MemoryMin)
}

// TestCacheOfOtherHost checks that a host with fewer imports or lower limits rejects a module
// that another host has cached.
func TestCacheOfOtherHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	compile(t, newCompiler(t, Options{CacheDir: dir}), guest(t))
	var refused *verify.RefusedError
	_, err := tryCompile(t, newCompiler(t, Options{CacheDir: dir, Surface: verify.NewSurface("poor", nil)}), guest(t))
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "imports ")

	limits := wasm.DefaultLimits()
	limits.Functions = 1
	_, err = tryCompile(t, newCompiler(t, Options{CacheDir: dir, Structure: limits}), guest(t))
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "limit")
	require.FileExists(t, codeFile(t, dir))
}

// TestFacts checks that facts survive the cache and that malformed ones are errors.
func TestFacts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var known []*Facts
	for range 2 {
		known = append(known, compile(t, newCompiler(t, Options{CacheDir: dir}), guest(t)).Facts)
	}
	require.NotEmpty(t, known[0].Outline.Imports)
	require.NotEmpty(t, known[0].Outline.Exports)
	require.NotEmpty(t, known[0].Names.index)
	require.NotEmpty(t, known[0].Data.Places)
	require.NotEmpty(t, known[0].Globals)
	var encoded [2][]byte
	for i, f := range known {
		encoded[i] = f.encode()
	}
	require.Equal(t, encoded[0], encoded[1])
	decoded, err := decodeFacts(encoded[0])
	require.NoError(t, err)
	require.Equal(t, encoded[0], decoded.encode())
	for n := range encoded[0] {
		_, err := decodeFacts(encoded[0][:n])
		require.Error(t, err, "the first %d bytes", n)
	}
	_, err = decodeFacts(append(encoded[0], 0))
	require.Error(t, err, "an additional byte")
}

// TestShrink checks that the least recently used entries are evicted, and that directories of
// killed processes are removed.
func TestShrink(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := func(n byte) []byte {
		return module(func(m *wasm.Module) {
			m.Data = []wasm.Data{{Offset: wasm.ConstExpr{Op: wasm.OpI32Const}, Init: []byte("x")}}
			m.Memories[0].Size.Min = 1 + uint32(n)
		})
	}
	runHook(t, Options{CacheDir: dir}, other(0))
	one := sizeOf(dir)
	entries := func() []string {
		all, err := filepath.Glob(filepath.Join(dir, "*"))
		require.NoError(t, err)
		return all
	}
	first := entries()[0]
	old := time.Now().Add(-time.Minute)
	require.NoError(t, os.Chtimes(filepath.Join(first, sumFile), old, old))
	abandoned := filepath.Join(dir, tempName+"1")
	require.NoError(t, os.Mkdir(abandoned, 0o700))
	require.NoError(t, os.Chtimes(abandoned, old.Add(-tempTTL), old.Add(-tempTTL)))
	runHook(t, Options{CacheDir: dir, CacheBytes: one * 5 / 2}, other(1))
	require.Len(t, entries(), 2)
	require.NoDirExists(t, abandoned)
	runHook(t, Options{CacheDir: dir, CacheBytes: one * 5 / 2}, other(2))
	require.Len(t, entries(), 2)
	require.NoDirExists(t, first, "the least recently used entry")
}

// TestBrokenCache checks that modules are compiled when the cache stops working.
func TestBrokenCache(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	var log bytes.Buffer
	c := newCompiler(t, Options{CacheDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	compile(t, c, module(nil))
	require.Contains(t, log.String(), "the cache of compiled modules does not work")
}

func TestUnusableCacheDir(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/agent-runner"} {
		_, err := New(Options{CacheDir: dir})
		require.ErrorContains(t, err, "cache directory "+dir)
		require.ErrorContains(t, err, "choose another cache directory")
	}
	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o777))
	_, err := New(Options{CacheDir: open})
	require.ErrorContains(t, err, "can be written by others")
	require.ErrorContains(t, err, open)
}

// TestCacheDirOfOtherUser checks that a directory of another user is rejected, whatever its
// mode.
func TestCacheDirOfOtherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory to another user")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 12345, -1))
	_, err := New(Options{CacheDir: dir})
	require.ErrorContains(t, err, "belongs to user 12345")
}
