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

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// described is an image whose instances begin in a state that is known, so that others
// which are prepared from it are differences.
func described(t *testing.T, opts Options, wasm []byte) *Image {
	im := load(t, newSandbox(t, opts), wasm, Limits{})
	in, err := im.Instantiate(t.Context(), InstanceConfig{})
	require.NoError(t, err)
	in.Close()
	return im
}

// prepared lets an instance's hook be called once.
func prepared(t *testing.T, from *Image, parameter uint64) *Image {
	im, err := from.Prepare(t.Context(), InstanceConfig{}, func(ctx context.Context, in *Instance) error {
		_, err := in.Call(ctx, "hook", parameter)
		return err
	})
	require.NoError(t, err)
	t.Cleanup(im.Close)
	return im
}

// An image that differs in a page takes what differs, and the instance that was prepared
// is the first of it.
func TestDifference(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, opts Options) {
		base := described(t, opts, large(nil))
		free := base.sandbox.imageBudget.free
		im := prepared(t, base, 50)
		d, ok := im.pool.peek().(*difference)
		require.True(t, ok)
		require.Equal(t, []place{{0, differingPiece}}, d.places)
		require.EqualValues(t, 50, d.content[0])
		require.Less(t, free-base.sandbox.imageBudget.free, int64(100), "bytes")
		require.Equal(t, base.Reset(), im.Reset())

		require.Equal(t, 1, im.pool.count())
		first := im.pool.idle[0].core
		in := instantiate(t, im, InstanceConfig{})
		require.Same(t, first, in.core)
		require.Equal(t, []uint64{102}, call(t, in, "hook", 1))
		require.Equal(t, []uint64{2}, call(t, instantiate(t, base, InstanceConfig{}), "hook", 1))

		again := prepared(t, im, 7) // differs from the same image
		require.Same(t, d.whole, again.pool.peek().(*difference).whole)
		require.Equal(t, []uint64{116}, call(t, instantiate(t, again, InstanceConfig{}), "hook", 1))
		require.Equal(t, []uint64{102}, call(t, instantiate(t, im, InstanceConfig{}), "hook", 1))
	})
}

// Also an image that is prepared anew, from the module's bytes on, is a difference.
func TestDifferenceAnew(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, opts Options) {
		base := described(t, opts, growing())
		anew := func(parameter uint64) *Image {
			im, err := base.PrepareAnew(t.Context(), InstanceConfig{}, func(ctx context.Context, in *Instance) error {
				_, err := in.Call(ctx, "hook", parameter)
				return err
			})
			require.NoError(t, err)
			t.Cleanup(im.Close)
			return im
		}
		const first = 2 * copyAtMost / pageBytes
		im := anew(3)
		require.Len(t, im.pool.peek().(*difference).places, 1)
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

		// One that is shorter than the other is whole.
		d := newDifference(base.pool.state, anywhere, make([]byte, first*pageBytes), opts.portable)
		require.NotNil(t, d)
		d.close()
		require.Nil(t, newDifference(base.pool.state, anywhere, make([]byte, (first-1)*pageBytes), opts.portable))
	})
}

// What differs in many pages had better be shared.
func TestManyPagesDiffer(t *testing.T) {
	t.Parallel()
	filling := large(func(m *wasm.Module) {
		m.Memories[0].Size.Min = 4 * copyAtMost / pageBytes
		m.Code[0].Body = []byte{ // fill parameter bytes with 1; load from 0
			0x41, 0, 0x41, 1, 0x20, 0, 0xfc, 0x0b, 0,
			0x41, 0, 0x28, 2, 0, 0x0b,
		}
	})
	eachWay(t, func(t *testing.T, opts Options) {
		base := described(t, opts, filling)
		memoryOf := func(in *Instance) []byte {
			b, _ := in.core.memory.Read(0, in.core.memory.Size())
			return b
		}
		fresh := bytes.Clone(memoryOf(instantiate(t, base, InstanceConfig{})))
		for n, is := range map[int]bool{0: true, mostDiffering * differingPage: true, mostDiffering*differingPage + 1: false, len(fresh): false} {
			im := prepared(t, base, uint64(n))
			_, ok := im.pool.peek().(*difference)
			require.Equal(t, is, ok, n)
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

// growing is large, and its hook grows the memory by its parameter and keeps that at its
// end. It returns what stands there, and the memory's size.
func growing() []byte {
	return large(func(m *wasm.Module) {
		last := []byte{0x3f, 0, 0x41, 0x10, 0x74, 0x41, 4, 0x6b} // memory.size << 16 - 4
		body := append([]byte{0x20, 0, 0x04, 0x40, 0x20, 0, 0x40, 0, 0x1a}, last...)
		body = append(body, 0x20, 0, 0x36, 2, 0, 0x0b)
		body = append(append(body, last...), 0x28, 2, 0, 0x3f, 0, 0x6a, 0x0b)
		m.Code[0].Body = body
	})
}

// Memory that grew while an instance was prepared belongs to what is reset.
func TestDifferenceThatGrew(t *testing.T) {
	t.Parallel()
	const first = 2 * copyAtMost / pageBytes
	eachWay(t, func(t *testing.T, opts Options) {
		im := prepared(t, described(t, opts, growing()), 3)
		require.IsType(t, &difference{}, im.pool.peek())
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
		require.NotSame(t, before, in.core, "memory that grew in a run cannot shrink")
		require.Equal(t, []uint64{3 + first + 3}, call(t, in, "hook", 0))
	})
}

// Many open instances of many images that differ from one, and find what is theirs.
func TestDifferencesAtOnce(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, opts Options) {
		base := described(t, opts, large(nil))
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
		require.Equal(t, base.sandbox.imageBudget.all, base.sandbox.imageBudget.free)
	})
}

// useOften calls the hook on clean instances.
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
				return fmt.Errorf("the hook returned %d, not %d: it began with what is another's", got[0], want)
			}
			in.Close()
		}
	}
	return nil
}

// The image that others differ from lives as long as they do, in whatever order all of
// them are closed. This test is not parallel, so that no other holds images meanwhile.
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
					require.NotEqual(t, s.imageBudget.all, s.imageBudget.free)
					closes[what]()
				}
				require.Equal(t, s.imageBudget.all, s.imageBudget.free)
				maps, err := os.ReadFile("/proc/self/maps")
				if err == nil && canMap() {
					require.NotContains(t, string(maps), "sandbox-image")
				}
				require.NoError(t, s.Close(t.Context()))
			})
		}
	}
}

// Nothing of one image can be found in another one's instances, nor in the one that both
// differ from.
func TestDifferencesKeepToThemselves(t *testing.T) {
	t.Parallel()
	const secret = "a key that nobody else may see"
	eachWay(t, func(t *testing.T, opts Options) {
		base := described(t, opts, large(nil))
		keeping := func(text string) *Image {
			im, err := base.Prepare(t.Context(), InstanceConfig{}, func(_ context.Context, in *Instance) error {
				for _, at := range []uint32{70, 4096*3 - 5, 2*copyAtMost - 100} {
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
			copy(memory[40_000:], secret) // what a run leaves
			in.Close()
			for name, im := range map[string]*Image{"the other": b, "the base": base} {
				in := instantiate(t, im, InstanceConfig{})
				memory, _ := in.core.memory.Read(0, in.core.memory.Size())
				require.NotContains(t, string(memory), secret, name)
			}
		}
		require.NotContains(t, string(b.pool.peek().(*difference).content), secret)
	})
}
