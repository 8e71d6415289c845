package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/image"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// snapshotted returns an image that has a snapshot, so that images prepared from it are
// differences.
func snapshotted(t *testing.T, opts Options, wasm []byte) *Image {
	im := load(t, newSandbox(t, opts), wasm, Limits{})
	in, err := im.Instantiate(t.Context(), InstanceConfig{})
	require.NoError(t, err)
	in.Close()
	return im
}

// prepared returns an image whose setup calls the hook.
func prepared(t *testing.T, from *Image, parameter uint64) *Image {
	im, err := from.Prepare(t.Context(), InstanceConfig{}, func(ctx context.Context, in *Instance) error {
		_, err := in.Call(ctx, "hook", parameter)
		return err
	})
	require.NoError(t, err)
	t.Cleanup(im.Close)
	return im
}

// TestDifference checks that a prepared image stores only the difference, and that the
// instance that ran its setup is its first instance.
func TestDifference(t *testing.T) {
	t.Parallel()
	eachPlatform(t, func(t *testing.T, opts Options) {
		base := snapshotted(t, opts, large(nil))
		free := base.sandbox.imageBudget.free
		im := prepared(t, base, 50)
		require.Less(t, free-base.sandbox.imageBudget.free, int64(100), "bytes")
		require.Equal(t, base.Reset(), im.Reset())

		require.Equal(t, 1, im.pool.count())
		first := im.pool.idle[0].core
		in := instantiate(t, im, InstanceConfig{})
		require.Same(t, first, in.core)
		require.Equal(t, []uint64{102}, call(t, in, "hook", 1))
		require.Equal(t, []uint64{2}, call(t, instantiate(t, base, InstanceConfig{}), "hook", 1))

		again := prepared(t, im, 7) // a difference from the same image
		require.Less(t, again.pool.snapshot.Bytes(), int64(100))
		require.Equal(t, []uint64{116}, call(t, instantiate(t, again, InstanceConfig{}), "hook", 1))
		require.Equal(t, []uint64{102}, call(t, instantiate(t, im, InstanceConfig{}), "hook", 1))
	})
}

// TestDifferenceAnew checks that PrepareAnew also stores only the difference.
func TestDifferenceAnew(t *testing.T) {
	t.Parallel()
	eachPlatform(t, func(t *testing.T, opts Options) {
		base := snapshotted(t, opts, growing())
		fresh := func(parameter uint64) *Image {
			im, err := base.PrepareAnew(t.Context(), InstanceConfig{}, func(ctx context.Context, in *Instance) error {
				_, err := in.Call(ctx, "hook", parameter)
				return err
			})
			require.NoError(t, err)
			t.Cleanup(im.Close)
			return im
		}
		const first = 2 * image.MaxCopied / pageBytes
		im := fresh(3)
		require.Less(t, im.pool.snapshot.Bytes(), int64(100))
		again, err := im.PrepareAnew(t.Context(), InstanceConfig{}, func(context.Context, *Instance) error { return nil })
		require.NoError(t, err)
		t.Cleanup(again.Close)
		for _, im := range []*Image{im, im, again, again} {
			in, err := im.Instantiate(t.Context(), InstanceConfig{})
			require.NoError(t, err)
			require.Equal(t, []uint64{3 + first + 3}, call(t, in, "hook", 0))
			memory, _ := in.core.memory.Read(0, in.core.memory.Size())
			for i := range memory {
				memory[i] = 0xff
			}
			in.Close()
		}
	})
}

// TestManyPagesDiffer checks that instances of small differences, large differences and whole
// images start with the right memory.
func TestManyPagesDiffer(t *testing.T) {
	t.Parallel()
	filling := large(func(m *wasm.Module) {
		m.Memories[0].Size.Min = 4 * image.MaxCopied / pageBytes
		m.Code[0].Body = []byte{ // fill parameter bytes with 1; load from 0
			0x41, 0, 0x41, 1, 0x20, 0, 0xfc, 0x0b, 0,
			0x41, 0, 0x28, 2, 0, 0x0b,
		}
	})
	eachPlatform(t, func(t *testing.T, opts Options) {
		base := snapshotted(t, opts, filling)
		memoryOf := func(in *Instance) []byte {
			b, _ := in.core.memory.Read(0, in.core.memory.Size())
			return b
		}
		fresh := bytes.Clone(memoryOf(instantiate(t, base, InstanceConfig{})))
		for _, n := range []int{0, 1, len(fresh) / 2, len(fresh)/2 + 1, len(fresh)} {
			im := prepared(t, base, uint64(n))
			want := append(bytes.Repeat([]byte{1}, n), fresh[n:]...)
			for range 3 {
				in := instantiate(t, im, InstanceConfig{})
				require.True(t, bytes.Equal(want, memoryOf(in)), n)
				clear(memoryOf(in))
				in.Close()
			}
		}
	})
}

// growing returns a large module. If the parameter of its hook is not 0, the hook grows the memory
// by that many pages and stores the parameter at the end of the memory. It returns the sum of the
// value at the end and the memory's size in pages.
func growing() []byte {
	return large(func(m *wasm.Module) {
		last := []byte{0x3f, 0, 0x41, 0x10, 0x74, 0x41, 4, 0x6b} // memory.size << 16 - 4
		body := append([]byte{0x20, 0, 0x04, 0x40, 0x20, 0, 0x40, 0, 0x1a}, last...)
		body = append(body, 0x20, 0, 0x36, 2, 0, 0x0b)
		body = append(append(body, last...), 0x28, 2, 0, 0x3f, 0, 0x6a, 0x0b)
		m.Code[0].Body = body
	})
}

// TestDifferenceThatGrew checks that a reset restores memory that grew during setup.
func TestDifferenceThatGrew(t *testing.T) {
	t.Parallel()
	const first = 2 * image.MaxCopied / pageBytes
	eachPlatform(t, func(t *testing.T, opts Options) {
		im := prepared(t, snapshotted(t, opts, growing()), 3)
		require.Less(t, im.pool.snapshot.Bytes(), int64(1000))
		require.EqualValues(t, (first+3)*pageBytes, im.Reset().ImageBytes)
		var live []*Instance
		for range 3 {
			for range 2 {
				in, err := im.Instantiate(t.Context(), InstanceConfig{})
				require.NoError(t, err)
				require.Equal(t, []uint64{3 + first + 3}, call(t, in, "hook", 0))
				grown, _ := in.core.memory.Read(first*pageBytes, 3*pageBytes)
				require.Equal(t, len(grown)-1, bytes.Count(grown, []byte{0}))
				for i := range grown {
					grown[i] = 0xff
				}
				live = append(live, in)
			}
			for _, in := range live {
				in.Close()
			}
			live = nil
		}
		require.Equal(t, 2, im.pool.count())
		in := instantiate(t, im, InstanceConfig{})
		before := in.core
		require.Equal(t, []uint64{1 + first + 4}, call(t, in, "hook", 1))
		in.Close()
		in = instantiate(t, im, InstanceConfig{})
		require.NotSame(t, before, in.core, "memory that grew after setup cannot shrink")
		require.Equal(t, []uint64{3 + first + 3}, call(t, in, "hook", 0))
	})
}

// TestDifferencesConcurrently checks that concurrent instances of several differences from one
// image have the right memory.
func TestDifferencesConcurrently(t *testing.T) {
	t.Parallel()
	eachPlatform(t, func(t *testing.T, opts Options) {
		base := snapshotted(t, opts, large(nil))
		const images = 6
		ims := make([]*Image, images)
		errs := make(chan error, 2*images)
		var wg sync.WaitGroup
		for i := range ims {
			wg.Go(func() {
				var err error
				ims[i], err = base.Prepare(context.Background(), InstanceConfig{}, func(ctx context.Context, in *Instance) error {
					_, err := in.Call(ctx, "hook", uint64(i*1000))
					return err
				})
				errs <- err
			})
		}
		wg.Wait()
		for range images {
			require.NoError(t, <-errs)
		}
		for range 2 { // each image has two users
			for i, im := range ims {
				wg.Go(func() { errs <- useOften(im, uint64(2*i*1000+2)) })
			}
		}
		base.Close()
		wg.Wait()
		for range 2 * images {
			require.NoError(t, <-errs)
		}
		for _, im := range ims {
			im.Close()
		}
		require.Equal(t, base.sandbox.imageBudget.total, base.sandbox.imageBudget.free)
	})
}

// useOften calls the hook of pairs of concurrent instances. It returns an error if a result is not
// want.
func useOften(im *Image, want uint64) error {
	ctx := context.Background()
	for range 40 {
		in, err := im.Instantiate(ctx, InstanceConfig{})
		if err != nil {
			return err
		}
		other, err := im.Instantiate(ctx, InstanceConfig{})
		if err != nil {
			return err
		}
		for _, in := range []*Instance{in, other} {
			got, err := in.Call(ctx, "hook", 1)
			if err != nil {
				return err
			}
			if got[0] != want {
				return fmt.Errorf("the hook returned %d, not %d: the instance started with the state of another one", got[0], want)
			}
			in.Close()
		}
	}
	return nil
}

// TestDifferencesClose checks that everything is freed in whatever order an image, a difference
// from it, and an instance are closed. It does not run in parallel with tests that hold images.
func TestDifferencesClose(t *testing.T) {
	for name, order := range map[string]string{
		"base first":    "base image instance",
		"base last":     "image instance base",
		"image first":   "image base instance",
		"upwards":       "base instance image",
		"downwards":     "instance image base",
		"instance then": "instance base image",
	} {
		for _, portable := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " portable ", portable), func(t *testing.T) {
				s, err := New(t.Context(), &Options{Surface: testSurface(), portable: portable})
				require.NoError(t, err)
				base, err := s.Load(t.Context(), "guest.wasm", large(nil), Limits{})
				require.NoError(t, err)
				in, err := base.Instantiate(t.Context(), InstanceConfig{})
				require.NoError(t, err)
				in.Close()
				im := prepared(t, base, 50)
				in, err = im.Instantiate(t.Context(), InstanceConfig{})
				require.NoError(t, err)
				closes := map[string]func(){"base": base.Close, "image": im.Close, "instance": func() {
					require.Equal(t, []uint64{102}, call(t, in, "hook", 1))
					in.Close()
				}}
				for _, what := range strings.Fields(order) {
					require.NotEqual(t, s.imageBudget.total, s.imageBudget.free)
					closes[what]()
				}
				require.Equal(t, s.imageBudget.total, s.imageBudget.free)
				maps, err := os.ReadFile("/proc/self/maps")
				if err == nil && image.CanMap() {
					require.NotContains(t, string(maps), "sandbox-image")
				}
				require.NoError(t, s.Close(t.Context()))
			})
		}
	}
}

// TestDifferencesAreIsolated checks that nothing of one image is visible in instances of
// another one, or of the image that both differ from.
func TestDifferencesAreIsolated(t *testing.T) {
	t.Parallel()
	const secret = "a key that others must not see"
	eachPlatform(t, func(t *testing.T, opts Options) {
		base := snapshotted(t, opts, large(nil))
		keeping := func(text string) *Image {
			im, err := base.Prepare(t.Context(), InstanceConfig{}, func(_ context.Context, in *Instance) error {
				for _, at := range []uint32{70, 4096*3 - 5, 2*image.MaxCopied - 100} {
					if !in.core.memory.Write(at, []byte(text)) {
						return errors.New("out of bounds")
					}
				}
				return nil
			})
			require.NoError(t, err)
			t.Cleanup(im.Close)
			return im
		}
		a, b := keeping(secret), keeping("another one")
		for range 3 {
			in, err := a.Instantiate(t.Context(), InstanceConfig{})
			require.NoError(t, err)
			memory, _ := in.core.memory.Read(0, in.core.memory.Size())
			require.Equal(t, 3, bytes.Count(memory, []byte(secret)))
			copy(memory[40_000:], secret) // left by a run
			in.Close()
			for name, im := range map[string]*Image{"the other": b, "the base": base} {
				in := instantiate(t, im, InstanceConfig{})
				memory, _ := in.core.memory.Read(0, in.core.memory.Size())
				require.NotContains(t, string(memory), secret, name)
			}
		}
	})
}
