package sandbox

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// TestLoadSharesCode checks that concurrent loads of the same bytes share the code, and that it
// is freed with its last user.
func TestLoadSharesCode(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{})
	const loads = 100
	images := make([]*Image, loads)
	var wg sync.WaitGroup
	for i := range loads {
		wg.Go(func() {
			im, err := s.Load(context.Background(), "guest.wasm", guestWasm, Limits{MemoryBytes: int64(i+1) << 20})
			if err == nil {
				images[i] = im
			}
		})
	}
	wg.Wait()
	for _, im := range images {
		require.NotNil(t, im)
		require.Same(t, images[0].code, im.code, "compiled once")
	}
	require.Equal(t, loads, s.codes.Refs(images[0].Digest()))

	// The last instance keeps the code.
	in, err := images[0].Instantiate(t.Context(), InstanceConfig{})
	require.NoError(t, err)
	for _, im := range images {
		im.Close()
		im.Close()
	}
	require.Equal(t, 1, s.codes.Refs(in.Image().Digest()))
	require.Equal(t, []uint64{101}, call(t, in, "count"))
	_, err = images[0].Instantiate(t.Context(), InstanceConfig{})
	require.ErrorIs(t, err, ErrClosed)
	in.Close()
	in.Close()
	require.Zero(t, s.codes.Refs(in.Image().Digest()))
}

// TestImageProperties checks the properties of its module that an image reports.
func TestImageProperties(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	require.Equal(t, "guest.wasm", im.Name())
	require.Len(t, im.Digest(), 64)
	require.EqualValues(t, len(guestWasm), im.Size())
	initial, maximum := im.Memory()
	require.EqualValues(t, 2*65536, initial)
	require.EqualValues(t, 64<<20, maximum)
	require.Equal(t, "test_v1", im.Imports()[0].Module)
	require.Equal(t, "(i32, i32) -> i32", im.Imports()[2].Type.String())
	require.Contains(t, im.Exports(), verify.ExportInfo{Name: "memory", Kind: "memory"})
	require.True(t, im.HasExport("add"))
	require.False(t, im.HasExport("memory"), "it is not a function")
	require.False(t, im.HasExport("nothing"))
}

// TestLoadCanceled checks that a load with a canceled context fails with its cause, unless the load
// is faster, and that a later load of the same bytes succeeds.
func TestLoadCanceled(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("never mind")
	cancel(cause)
	_, err := s.Load(ctx, "guest.wasm", guestWasm, Limits{})
	if err != nil { // nil if the load was faster than the cancellation
		require.ErrorIs(t, err, cause)
	}
	load(t, s, guestWasm, Limits{})
}

func TestInvalidLimits(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{})
	for text, l := range map[string]Limits{
		"a limit is negative":     {HookTime: -1},
		"less than one page":      {MemoryBytes: 1000},
		"more than the 4 GiB":     {MemoryBytes: 5 << 30},
		"a limit is negative: {M": {ModuleBytes: -5},
	} {
		_, err := s.Load(t.Context(), "guest.wasm", guestWasm, l)
		require.ErrorContains(t, err, text)
	}
}

func TestInconsistentSurface(t *testing.T) {
	t.Parallel()
	do := testSurface().Imports[0].Func
	for text, imports := range map[string][]Import{
		"needs a module, a name and a function": {{Module: "m", Name: "f"}},
		"WASI is the sandbox's own":             {{Module: verify.WASIModule, Name: "fd_write", Func: do}},
		"m.f is there twice":                    {{Module: "m", Name: "f", Func: do}, {Module: "m", Name: "f", Func: do}},
	} {
		_, err := New(t.Context(), &Options{Surface: Surface{Imports: imports}})
		require.ErrorContains(t, err, text)
	}
}

// TestHammer checks that concurrent loads, instances and calls free everything, even if some of
// them fail.
func TestHammer(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{})
	goroutines, rounds := 8, 30
	if testing.Short() {
		rounds = 5
	}
	var wg sync.WaitGroup
	errs := make(chan error, goroutines)
	for g := range goroutines {
		wg.Go(func() { errs <- hammer(s, g, rounds) })
	}
	wg.Wait()
	for range goroutines {
		require.NoError(t, <-errs)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Empty(t, s.live)
	require.Empty(t, s.codes.Keys())
}

func hammer(s *Sandbox, g, rounds int) error {
	ctx := context.Background()
	for i := range rounds {
		im, err := s.Load(ctx, "guest.wasm", guestWasm, Limits{})
		if err != nil {
			return err
		}
		in, err := im.Instantiate(ctx, InstanceConfig{})
		if err != nil {
			return err
		}
		im.Close()
		closed := make(chan struct{})
		go func() { // closes the instance at any time
			defer close(closed)
			if i%3 == 0 {
				in.Close()
			}
		}()
		_, err = in.Call(ctx, "count")
		if err != nil && !errors.Is(err, ErrClosed) {
			return err
		}
		_, err = in.Call(ctx, "trap")
		if fault := new(FaultError); !errors.As(err, &fault) && !errors.Is(err, ErrClosed) {
			return errors.Join(errors.New("trap did not trap"), err)
		}
		if g%2 == 0 {
			in.Close()
			<-closed
		} else {
			<-closed
			in.Close()
		}
	}
	return nil
}
