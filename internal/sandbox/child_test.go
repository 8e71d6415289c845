package sandbox

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// costly is a module within all limits that takes wazero long to compile.
func costly() []byte {
	body := bytes.Repeat([]byte{0x20, 0, 0x20, 0, 0x6c, 0x20, 0, 0x6a, 0x21, 0}, 25_000) // n = n*n + n
	body = append(body, 0x20, 0, 0x0b)
	return module(func(m *wasm.Module) {
		const functions = 30
		m.Functions, m.Code = make([]uint32, functions), make([]wasm.Code, functions)
		for i := range m.Code {
			m.Code[i].Body = body
		}
	})
}

func TestCompileInChild(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	loadCached(t, Options{CacheDir: dir, CompileChild: &ChildOptions{}}, module(nil))
	require.FileExists(t, entryOf(t, dir))

	// What is there is taken without a child, and made by one otherwise.
	s := newSandbox(t, Options{CacheDir: dir, CompileChild: &ChildOptions{}})
	s.children.program = filepath.Join(dir, "nothing")
	load(t, s, module(nil), Limits{})
	_, err := s.Load(t.Context(), "other.wasm", guestWasm, Limits{})
	require.ErrorIs(t, err, os.ErrNotExist)
	var refused *RefusedError
	require.False(t, errors.As(err, &refused), "that is not the module's fault: %v", err)

	// The same without a directory that is kept.
	loadCached(t, Options{CompileChild: &ChildOptions{}}, module(nil))
}

// Machine code that is whole but not for this process is made again by a child.
func TestCompileInChildAnew(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	loadCached(t, Options{CacheDir: dir, CompileChild: &ChildOptions{}}, module(nil))
	file := entryOf(t, dir)
	entry := filepath.Dir(filepath.Dir(file))
	other := filepath.Join(filepath.Dir(file), strings.Repeat("0", 64))
	require.NoError(t, os.Rename(file, other))
	sum, err := sumOf(entry, filepath.Base(entry), nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(entry, sumFile), []byte(sum), 0o600))

	broken := newSandbox(t, Options{CacheDir: dir, CompileChild: &ChildOptions{}})
	broken.children.program = "/bin/true"
	_, err = broken.Load(t.Context(), "guest.wasm", module(nil), Limits{})
	require.ErrorIs(t, err, errNotTaken, "a child that makes nothing does not make this process compile")

	loadCached(t, Options{CacheDir: dir, CompileChild: &ChildOptions{}}, module(nil))
	require.Equal(t, file, entryOf(t, dir))
}

func TestCompileInChildRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options ChildOptions
		module  []byte
		want    string
	}{
		"time":   {ChildOptions{Time: 300 * time.Millisecond}, costly(), "costs.wasm: compiling it took more than 300ms; split its largest functions"},
		"memory": {ChildOptions{MemoryBytes: 32 << 20, Time: time.Minute}, costly(), "costs.wasm: compiling it took more than 32 MiB of memory; split"},
		"types": {ChildOptions{}, module(func(m *wasm.Module) { m.Code[0].Body = []byte{0x0b} }),
			"costs.wasm: is not valid: invalid function[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := newSandbox(t, Options{CacheDir: dir, CompileChild: &c.options})
			_, err := s.Load(t.Context(), "costs.wasm", c.module, Limits{})
			var refused *RefusedError
			require.ErrorAs(t, err, &refused)
			require.ErrorContains(t, err, c.want)
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Empty(t, left)
			require.Equal(t, []uint64{7}, call(t, instantiate(t, load(t, newSandbox(t, Options{CompileChild: &ChildOptions{}}), module(nil), Limits{}), InstanceConfig{}), "hook", 7))
		})
	}
}

// A sandbox that is closed waits for no child.
func TestCompileInChildClosed(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), &Options{CompileChild: &ChildOptions{Time: time.Hour, Most: 1}, Surface: testSurface()})
	require.NoError(t, err)
	module, other := costly(), append(costly(), 0, 1, 0) // with a custom section
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	for _, b := range [][]byte{module, other} { // one runs and one waits for its turn
		wg.Go(func() {
			_, err := s.Load(t.Context(), "costs.wasm", b, Limits{})
			errs <- err
		})
	}
	require.Eventually(t, func() bool { return s.children.slots.held("") == 1 }, 5*time.Minute, time.Millisecond)
	require.NoError(t, s.Close(t.Context()))
	wg.Wait()
	require.ErrorIs(t, <-errs, ErrClosed)
	require.ErrorIs(t, <-errs, ErrClosed)
}

func TestChildExplains(t *testing.T) {
	t.Parallel()
	c := childLimits{1 << 30, 20 * time.Second}
	var exit *exec.ExitError
	require.ErrorAs(t, exec.Command("/bin/false").Run(), &exit)
	require.EqualError(t, c.explain("", exit, "", "fatal error: runtime: out of memory"),
		"compiling it took more than 1 GiB of memory; split its largest functions, or raise the memory that compiling may take")
	require.EqualError(t, c.explain("", exit, "", "SIGXCPU: cpu limit exceeded"),
		"compiling it took more than 20s of processor time; split its largest functions, or raise the time that compiling may take")
	require.ErrorContains(t, c.explain("", exit, "", "panic: BUG\n\ngoroutine 1"), "the compiler ended with exit status 1: panic: BUG")
}

func TestChildOptionsThatMakeNoSense(t *testing.T) {
	_, err := New(t.Context(), &Options{CompileChild: &ChildOptions{Time: -1}})
	require.ErrorContains(t, err, "a limit is negative")

	// A program that forgets to ask whether it is a child starts no further ones.
	args := os.Args
	defer func() { os.Args = args }()
	t.Setenv(childEnv, "1")
	require.False(t, IsCompileChild(), "with other arguments it is none")
	os.Args = []string{args[0], childArg}
	_, err = New(t.Context(), &Options{CompileChild: &ChildOptions{}})
	require.ErrorContains(t, err, "call IsCompileChild at the beginning of main")
}

// Jobs are done in children, within the same limits.
func TestRunJob(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{CompileChild: &ChildOptions{MemoryBytes: 256 << 20}})
	hasty := newSandbox(t, Options{CompileChild: &ChildOptions{Time: time.Second}})
	out, err := s.RunJob(t.Context(), Job{Name: "reverse", Input: []byte("abc")})
	require.NoError(t, err)
	require.Equal(t, "cba", string(out))
	cached := newSandbox(t, Options{CompileChild: &ChildOptions{}, CacheDir: filepath.Join(t.TempDir(), "cache")})
	out, err = cached.RunJob(t.Context(), Job{Name: "reverse", Input: []byte("where")})
	require.NoError(t, err)
	require.Equal(t, cached.disk.dir, filepath.Dir(string(out)), "where it is removed if this process is killed")
	require.NoDirExists(t, string(out))
	var refused *RefusedError
	for input, want := range map[string]string{
		"fail": "it failed", "loop": "the job reverse took more than 1s", "leak": "the job reverse took more than 256 MiB of memory",
		"panic": "the job reverse ended with exit status 2: panic: nothing to reverse",
	} {
		box := s
		if input == "loop" {
			box = hasty
		}
		_, err := box.RunJob(t.Context(), Job{Name: "reverse", Input: []byte(input)})
		require.ErrorContains(t, err, want)
		require.Equal(t, input != "fail", errors.As(err, &refused))
	}
	_, err = s.RunJob(t.Context(), Job{Name: "reverse", Input: []byte("leak"), MemoryBytes: 64 << 20})
	require.ErrorContains(t, err, "the job reverse took more than 64 MiB of memory")
	if runtime.GOOS == "linux" {
		_, err = s.RunJob(t.Context(), Job{Name: "reverse", Input: []byte("loop"), CPUTime: time.Second})
		require.ErrorContains(t, err, "the job reverse took more than 1s of processor time")
	}
	_, err = s.RunJob(t.Context(), Job{Name: "other"})
	require.ErrorContains(t, err, "the child does not know the job other: give it to CompileChildMain")
	_, err = newSandbox(t, Options{}).RunJob(t.Context(), Job{Name: "reverse"})
	require.ErrorIs(t, err, ErrNoChildren)
}

// reverse is a job that goes wrong when it is told to.
func reverse(input []byte) ([]byte, error) {
	switch string(input) {
	case "where":
		dir, err := os.Getwd()
		return []byte(dir), err
	case "environment":
		return []byte(strings.Join(os.Environ(), "\n")), nil
	case "fail":
		return nil, errors.New("it failed")
	case "loop":
		for { //nolint:staticcheck // to spin is what it is there for
		}
	case "leak":
		for all := [][]byte{}; ; all = append(all, bytes.Repeat([]byte{1}, 1<<20)) {
		}
	case "panic":
		panic("nothing to reverse")
	}
	slices.Reverse(input)
	return input, nil
}

// Whatever a child is told, it works on orders alone.
func TestChildOrder(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", "chd2", strings.Repeat("x", 100)} {
		require.ErrorContains(t, workHere(strings.NewReader(in), io.Discard, nil), "only the host starts this command")
	}
}
