package sandbox

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// costly returns a module that is within all limits, but takes wazero a long time to compile.
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

// TestCompileInChild checks that a module that a child has compiled runs, with and without a cache.
func TestCompileInChild(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"", t.TempDir()} {
		for range 2 {
			s := newSandbox(t, Options{CacheDir: dir, CompileChild: &child.Options{}})
			require.Equal(t, []uint64{7},
				call(t, instantiate(t, load(t, s, module(nil), Limits{}), InstanceConfig{}), "hook", 7))
		}
	}
}

// TestCloseStopsChildren checks that closing a sandbox does not wait for its children.
func TestCloseStopsChildren(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(),
		&Options{CompileChild: &child.Options{Timeout: time.Hour, MaxProcesses: 1}, Surface: testSurface()})
	require.NoError(t, err)
	module, other := costly(), append(costly(), 0, 1, 0) // with a custom section
	var wg sync.WaitGroup
	errs := make(chan error, 2)
	for _, b := range [][]byte{module, other} { // one compiles, the other waits for a slot
		wg.Go(func() {
			_, err := s.Load(t.Context(), "costs.wasm", b, Limits{})
			errs <- err
		})
	}
	require.Eventually(t, func() bool { return s.children.InUse() == 1 }, 5*time.Minute, time.Millisecond)
	require.NoError(t, s.Close(t.Context()))
	wg.Wait()
	require.ErrorIs(t, <-errs, ErrClosed)
	require.ErrorIs(t, <-errs, ErrClosed)
}

// TestAbandonedCompilation checks that a compilation ends when the contexts of all its callers are canceled, and not
// before.
func TestAbandonedCompilation(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{CompileChild: &child.Options{Timeout: time.Hour, MaxProcesses: 1}})
	first, cancelFirst := context.WithCancel(t.Context())
	second, cancelSecond := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, ctx := range []context.Context{first, second} {
		wg.Go(func() {
			_, err := s.Load(ctx, "costs.wasm", costly(), Limits{})
			require.ErrorIs(t, err, context.Canceled)
		})
	}
	refs := func() (n int) {
		for _, digest := range s.codes.Keys() {
			n += s.codes.Refs(digest)
		}
		return n
	}
	require.Eventually(t, func() bool { return s.children.InUse() == 1 && refs() == 2 }, 5*time.Minute, time.Millisecond)
	cancelFirst()
	require.Eventually(t, func() bool { return refs() == 1 }, time.Minute, time.Millisecond)
	require.Equal(t, 1, s.children.InUse(), "another caller still waits for it")
	cancelSecond()
	wg.Wait()
	require.Eventually(t, func() bool { return s.children.InUse() == 0 }, 5*time.Minute, time.Millisecond)
	load(t, s, module(nil), Limits{})
}

// TestRunJob checks that a job runs in a temporary directory below the cache directory, that this
// directory is removed afterwards, and that RunJob fails without child processes.
func TestRunJob(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	s := newSandbox(t, Options{CompileChild: &child.Options{}, CacheDir: dir})
	out, err := s.RunJob(t.Context(), child.Job{Name: "where"})
	require.NoError(t, err)
	require.Equal(t, dir, filepath.Dir(string(out)), "where it is removed if this process is killed")
	require.NoDirExists(t, string(out))
	_, err = newSandbox(t, Options{}).RunJob(t.Context(), child.Job{Name: "where"})
	require.ErrorIs(t, err, ErrNoChildren)
}

// whereJob is a job that returns its working directory.
func whereJob([]byte) ([]byte, error) {
	dir, err := os.Getwd()
	return []byte(dir), err
}
