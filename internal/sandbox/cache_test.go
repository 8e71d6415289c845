package sandbox

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// loadCached loads a module in a sandbox with that cache and calls it.
func loadCached(t *testing.T, opts Options, module []byte) {
	t.Helper()
	opts.Surface = testSurface()
	s, err := New(t.Context(), &opts)
	require.NoError(t, err)
	im, err := s.Load(t.Context(), "guest.wasm", module, Limits{})
	require.NoError(t, err)
	in, err := im.Instantiate(t.Context(), InstanceConfig{})
	require.NoError(t, err)
	require.Equal(t, []uint64{9}, call(t, in, "hook", 9))
	require.NoError(t, s.Close(t.Context()))
}

// entryOf is the one file of machine code in a cache.
func entryOf(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "*"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	return files[0]
}

func TestCacheIsUsed(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "below", "cache")
	loadCached(t, Options{CacheDir: dir}, module(nil))
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	// What is there is taken: the file keeps its time.
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(entryOf(t, dir), old, old))
	loadCached(t, Options{CacheDir: dir}, module(nil))
	info, err = os.Stat(entryOf(t, dir))
	require.NoError(t, err)
	require.WithinDuration(t, old, info.ModTime(), time.Second)
}

// own is a file of the host's own beside wazero's.
func own(code, name string) string { return filepath.Join(filepath.Dir(filepath.Dir(code)), name) }

func flip(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return flipAt(file, len(b)/2)
}

// flipAt changes a byte of a file, counted from its end if at is less than 0.
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

// Whatever happens to an entry, it is made again, and never run.
func TestCacheEntryThatIsNotWhole(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(file string) error{
		"empty":             func(f string) error { return os.Truncate(f, 0) },
		"cut short":         func(f string) error { return os.Truncate(f, 100) },
		"removed":           os.Remove,
		"foreign":           func(f string) error { return os.WriteFile(f, []byte("WAZEVO\x03dev\xff\xff\xff\xff"), 0o600) },
		"without sum":       func(f string) error { return os.Remove(filepath.Join(filepath.Dir(filepath.Dir(f)), sumFile)) },
		"with another file": func(f string) error { return os.WriteFile(f+"2", nil, 0o600) },
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
		"other module":  func(f string) error { return flip(own(f, moduleFile)) },
		"other facts":   func(f string) error { return flip(own(f, factsName)) },
		"no module":     func(f string) error { return os.Remove(own(f, moduleFile)) },
		"no facts":      func(f string) error { return os.Remove(own(f, factsName)) },
		"facts that are none": func(f string) error {
			if err := os.WriteFile(own(f, factsName), []byte("imports nothing"), 0o600); err != nil {
				return err
			}
			entry := filepath.Dir(own(f, sumFile))
			sum, err := sumOf(entry, filepath.Base(entry), nil)
			if err != nil {
				return err
			}
			return os.WriteFile(own(f, sumFile), []byte(sum), 0o600)
		},
		"code under another name": func(f string) error {
			entry := filepath.Dir(own(f, sumFile))
			if err := os.Rename(f, filepath.Join(filepath.Dir(f), strings.Repeat("0", 64))); err != nil {
				return err
			}
			sum, err := sumOf(entry, filepath.Base(entry), nil)
			if err != nil {
				return err
			}
			return os.WriteFile(own(f, sumFile), []byte(sum), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			loadCached(t, Options{CacheDir: dir}, module(nil))
			want, err := os.ReadFile(entryOf(t, dir))
			require.NoError(t, err)
			require.NoError(t, spoil(entryOf(t, dir)))
			loadCached(t, Options{CacheDir: dir}, module(nil))
			got, err := os.ReadFile(entryOf(t, dir))
			require.NoError(t, err)
			require.Equal(t, want, got, "made again")
			temporary, err := filepath.Glob(filepath.Join(dir, tempName+"*"))
			require.NoError(t, err)
			require.Empty(t, temporary)
		})
	}
}

// The code in an entry goes with a module without bodies, which is never what runs:
// an interpreter has an entry of its own.
func TestCacheKeepsNoBodies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newSandbox(t, Options{CacheDir: dir})
	load(t, s, guestWasm, Limits{})
	kept, err := os.ReadFile(own(entryOf(t, dir), moduleFile))
	require.NoError(t, err)
	shell, err := wasm.Decode(kept, wasm.DefaultLimits())
	require.NoError(t, err)
	for i := range shell.Code {
		require.Equal(t, []byte{byte(wasm.OpUnreachable), byte(wasm.OpEnd)}, shell.Code[i].Body)
	}
	f, metered, err := s.rewrite(guestWasm)
	require.NoError(t, err)
	require.Len(t, shell.Code, len(metered.Code))
	shell.Code = metered.Code
	require.Equal(t, metered.Encode(), shell.Encode(), "all else is the same")
	require.NotNil(t, f.shape)

	for range 2 {
		loadCached(t, Options{CacheDir: dir}, module(nil))
		loadCached(t, Options{CacheDir: dir, interpret: true}, module(nil))
	}
}

// Whether wazero compiles is found out by what it does.
func TestCompiles(t *testing.T) {
	t.Parallel()
	require.True(t, compiles(runtimeConfig(false)), "tests are run where it does")
	require.False(t, compiles(runtimeConfig(true)))
}

// An entry that is whole but another module's is not taken for this one's.
func TestCacheEntryOfAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entry := func() string { return filepath.Dir(own(entryOf(t, dir), sumFile)) }
	loadCached(t, Options{CacheDir: dir}, module(nil))
	mine, away := entry(), filepath.Join(t.TempDir(), "away")
	require.NoError(t, os.Rename(mine, away))
	loadCached(t, Options{CacheDir: dir}, module(func(m *wasm.Module) { m.Memories[0].Size.Min++ }))
	require.NoError(t, os.Rename(entry(), mine))
	s := newSandbox(t, Options{CacheDir: dir})
	first, _ := load(t, s, module(nil), Limits{}).Memory()
	require.EqualValues(t, pageBytes, first)
}

// What one host accepted is not taken by one that accepts less.
func TestCacheOfAnotherHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	load(t, newSandbox(t, Options{CacheDir: dir}), guestWasm, Limits{})
	poor, err := New(t.Context(), &Options{CacheDir: dir})
	require.NoError(t, err)
	defer func() { require.NoError(t, poor.Close(context.Background())) }()
	var refused *RefusedError
	_, err = poor.Load(t.Context(), "guest.wasm", guestWasm, Limits{})
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "imports test_v1.")

	limits := wasm.DefaultLimits()
	limits.Functions = 1
	strict, err := New(t.Context(), &Options{CacheDir: dir, Surface: testSurface(), Structure: &limits})
	require.NoError(t, err)
	defer func() { require.NoError(t, strict.Close(context.Background())) }()
	_, err = strict.Load(t.Context(), "guest.wasm", guestWasm, Limits{})
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "limit")
	entryOf(t, dir) // is there still
}

// What is known of a module is the same from the cache.
func TestFactsAreKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var known []facts
	for range 2 {
		s := newSandbox(t, Options{CacheDir: dir})
		known = append(known, load(t, s, guestWasm, Limits{}).code.facts)
	}
	require.NotEmpty(t, known[0].shape.imports)
	require.NotEmpty(t, known[0].shape.exports)
	require.NotEmpty(t, known[0].names.index)
	require.NotEmpty(t, known[0].data.places)
	require.NotEmpty(t, known[0].globals)
	var encoded [2][]byte
	for i, f := range known {
		encoded[i] = f.encode()
	}
	require.Equal(t, encoded[0], encoded[1])
	kept, err := decodeFacts(encoded[0])
	require.NoError(t, err)
	require.Equal(t, encoded[0], kept.encode())
	for n := range encoded[0] {
		_, err := decodeFacts(encoded[0][:n])
		require.Error(t, err, "the first %d bytes", n)
	}
	_, err = decodeFacts(append(encoded[0], 0))
	require.Error(t, err, "a byte more")
}

// Of a file with machine code all is summed up but the code, for which wazero itself
// holds it against its checksum.
func TestSumMachineCode(t *testing.T) {
	t.Parallel()
	const whole = "WAZEVO\x03dev" + "\x01\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x00" + "\x05\x00\x00\x00\x00\x00\x00\x00" + "\xc3codeCRC4more"
	sum := func(content string) string {
		file := filepath.Join(t.TempDir(), "code")
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		var out strings.Builder
		require.NoError(t, sumMachineCode(&out, file))
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
	for _, other := range []string{"", "WAZEVO", "\x00asm and whatever", whole[:code], "WAZEVO\x03dev\xff\xff\xff\xff", strings.Replace(whole, "\x05", "\x50", 1)} {
		require.Equal(t, other, sum(other), "all of it")
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := func(n byte) []byte {
		return module(func(m *wasm.Module) {
			m.Data = []wasm.Data{{Offset: wasm.ConstExpr{Op: wasm.OpI32Const}, Init: []byte("x")}}
			m.Memories[0].Size.Min = 1 + uint32(n)
		})
	}
	loadCached(t, Options{CacheDir: dir}, other(0))
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
	require.NoError(t, os.Chtimes(abandoned, old.Add(-tempLasts), old.Add(-tempLasts)))
	loadCached(t, Options{CacheDir: dir, CacheBytes: one * 5 / 2}, other(1))
	require.Len(t, entries(), 2)
	require.NoDirExists(t, abandoned)
	loadCached(t, Options{CacheDir: dir, CacheBytes: one * 5 / 2}, other(2))
	require.Len(t, entries(), 2)
	require.NoDirExists(t, first, "it was not used for the longest time")
}

// A cache that stops working does not keep modules from being loaded.
func TestCacheThatFails(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	var log bytes.Buffer
	s := newSandbox(t, Options{CacheDir: dir, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, os.RemoveAll(dir))
	require.NoError(t, os.WriteFile(dir, nil, 0o600))
	in := instantiate(t, load(t, s, module(nil), Limits{}), InstanceConfig{})
	require.Equal(t, []uint64{9}, call(t, in, "hook", 9))
	require.Contains(t, log.String(), "the cache of compiled modules does not work")
}

func TestCacheDirThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/agent-runner"} {
		_, err := New(t.Context(), &Options{CacheDir: dir})
		require.ErrorContains(t, err, "cache directory "+dir)
		require.ErrorContains(t, err, "choose another cache directory")
	}
	open := t.TempDir()
	require.NoError(t, os.Chmod(open, 0o777))
	_, err := New(t.Context(), &Options{CacheDir: open})
	require.ErrorContains(t, err, "can be written by others")
	require.True(t, strings.Contains(err.Error(), open))
}

// A directory of another user's is refused, however closed it is to others.
func TestCacheDirOfAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can give a directory away")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 12345, -1))
	_, err := New(t.Context(), &Options{CacheDir: dir})
	require.ErrorContains(t, err, "belongs to user 12345")
}
