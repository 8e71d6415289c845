package sandbox

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/image"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// TestNothingStaysMapped checks that images are unmapped with their last user. It does not run
// in parallel with tests that hold images.
func TestNothingStaysMapped(t *testing.T) {
	if !image.CanMap() {
		t.Skip("this system maps no images")
	}
	mapped := func() int {
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Count(string(maps), "sandbox-image")
	}
	require.Zero(t, mapped())
	s, err := New(t.Context(), &Options{Surface: testSurface()})
	require.NoError(t, err)
	im, err := s.Load(t.Context(), "guest.wasm", large(nil), Limits{})
	require.NoError(t, err)
	prepared, err := im.Prepare(t.Context(), InstanceConfig{}, func(context.Context, *Instance) error { return nil })
	require.NoError(t, err)
	a, err := prepared.Instantiate(t.Context(), InstanceConfig{})
	require.NoError(t, err)
	b, err := im.Instantiate(t.Context(), InstanceConfig{})
	require.NoError(t, err)
	require.Equal(t, 4, mapped(), "two images, two memories")
	prepared.Close()
	a.Close()
	require.Equal(t, 2, mapped())
	im.Close()
	require.Equal(t, 2, mapped(), "b is still open")
	require.NoError(t, s.Close(t.Context()))
	require.Zero(t, mapped())
	_, err = b.Call(t.Context(), "hook", 1)
	require.ErrorIs(t, err, ErrClosed)
}

// large returns a module whose memory is large enough to be mapped. Its hook adds its
// parameter to a counter in memory and to one in a global, and returns the sum.
func large(change func(m *wasm.Module)) []byte {
	return module(func(m *wasm.Module) {
		m.Memories[0].Size.Min = 2 * image.MaxCopied / pageBytes
		m.Globals = []wasm.Global{
			{GlobalType: wasm.GlobalType{Type: wasm.I32, Mutable: true}, Init: wasm.ConstExpr{Op: wasm.OpI32Const}},
		}
		m.Data = []wasm.Data{{Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: 300_000}, Init: []byte("some data")}}
		m.Code[0].Body = []byte{
			0x23, 0, 0x20, 0, 0x6a, 0x24, 0, // global += parameter
			0x41, 0, 0x41, 0, 0x28, 2, 0, 0x20, 0, 0x6a, 0x36, 2, 0, // memory[0] += parameter
			0x23, 0, 0x41, 0, 0x28, 2, 0, 0x6a, 0x0b, // global + memory[0]
		}
		if change != nil {
			change(m)
		}
	})
}

// eachPlatform runs a test with mapped and with copied images.
func eachPlatform(t *testing.T, test func(t *testing.T, opts Options)) {
	for name, portable := range map[string]bool{"mapped": false, "copied": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, Options{portable: portable})
		})
	}
}

// eachImage runs a test with prepared images that are whole, and with ones that are differences
// from their base. The test calls start with the base: for differences, start makes the base's
// snapshot.
func eachImage(t *testing.T, test func(t *testing.T, opts Options, start func(base *Image))) {
	for name, start := range map[string]func(*Image){
		"whole":      func(*Image) {},
		"difference": func(base *Image) { instantiate(t, base, InstanceConfig{}).Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachPlatform(t, func(t *testing.T, opts Options) { test(t, opts, start) })
		})
	}
}

// TestInstancesAreClean checks that an instance from the pool starts in the initial state.
func TestInstancesAreClean(t *testing.T) {
	t.Parallel()
	eachPlatform(t, func(t *testing.T, opts Options) {
		im := load(t, newSandbox(t, opts), large(nil), Limits{})
		var first *core
		for i := range 3 {
			in, err := im.Instantiate(t.Context(), InstanceConfig{})
			require.NoError(t, err)
			if i == 0 {
				first = in.core
			}
			require.Same(t, first, in.core, "the previous instance was used again")
			data, _ := in.core.memory.Read(300_000, 9)
			require.Equal(t, "some data", string(data))
			require.Equal(t, []uint64{6}, call(t, in, "hook", 3))
			require.Equal(t, []uint64{10}, call(t, in, "hook", 2))
			copy(data, "overwritten")
			in.Close()
			if !image.CanMap() || opts.portable {
				require.Contains(t, im.Reset().Method, "copies all of it back")
			} else {
				require.Equal(t, "copies back the pages it wrote to", im.Reset().Method)
				retained := im.pool.idle[0]
				require.EqualValues(t, int64(2*os.Getpagesize())+retained.core.trimStacks(), retained.bytes)
			}
			require.EqualValues(t, 2*image.MaxCopied, im.Reset().ImageBytes)
		}
	})
}

// TestPreparedInstancesAreClean checks that instances of a prepared image start after its
// setup, which runs once.
func TestPreparedInstancesAreClean(t *testing.T) {
	t.Parallel()
	eachImage(t, func(t *testing.T, opts Options, start func(*Image)) {
		base := load(t, newSandbox(t, opts), large(nil), Limits{})
		start(base)
		runs := 0
		im, err := base.Prepare(t.Context(), InstanceConfig{},
			func(ctx context.Context, in *Instance) error {
				runs++
				_, err := in.Call(ctx, "hook", 50)
				return err
			})
		require.NoError(t, err)
		t.Cleanup(im.Close)
		var live []*Instance
		for range 4 { // some new, some used before
			for range 3 {
				in := instantiate(t, im, InstanceConfig{})
				require.Equal(t, []uint64{102}, call(t, in, "hook", 1))
				live = append(live, in)
			}
			for _, in := range live {
				in.Close()
			}
		}
		require.Equal(t, 1, runs)
	})
}

// TestImageThatGrew checks that instances start with the memory of their image if setup has grown
// that memory.
func TestImageThatGrew(t *testing.T) {
	t.Parallel()
	eachImage(t, func(t *testing.T, opts Options, start func(*Image)) {
		base := load(t, newSandbox(t, opts), guestWasm, Limits{})
		start(base)
		im, err := base.Prepare(t.Context(), InstanceConfig{},
			func(ctx context.Context, in *Instance) error {
				if _, err := in.Call(ctx, "grow", 20); err != nil {
					return err
				}
				_, err := in.Call(ctx, "store", 21*65536, 77)
				return err
			})
		require.NoError(t, err)
		t.Cleanup(im.Close)
		for range 2 {
			in := instantiate(t, im, InstanceConfig{})
			require.Equal(t, []uint64{77}, call(t, in, "load", 21*65536))
			require.Equal(t, []uint64{22}, call(t, in, "grow", 0))
			call(t, in, "store", 21*65536, 1)
			in.Close()
		}

		// An instance that grows does not return to the pool.
		in := instantiate(t, im, InstanceConfig{})
		before := in.core
		require.Equal(t, []uint64{22}, call(t, in, "grow", 30))
		require.Equal(t, []uint64{0}, call(t, in, "load", 40*65536))
		call(t, in, "store", 51*65536, 5)
		require.Equal(t, []uint64{52}, call(t, in, "grow", 0))
		in.Close()
		in = instantiate(t, im, InstanceConfig{})
		require.NotSame(t, before, in.core)
		require.Equal(t, []uint64{22}, call(t, in, "grow", 0))
		_, err = in.Call(t.Context(), "load", 40*65536)
		require.Equal(t, FaultTrap, faultOf(t, err).Kind)
	})
}

// TestGrowthIsMapped checks that a small image does not grow on Go's heap, which would clear
// and copy the memory without interruption. It does not run in parallel with other tests,
// because it counts all allocations.
func TestGrowthIsMapped(t *testing.T) {
	if !image.CanMap() {
		t.Skip("this system maps no images")
	}
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	in := instantiate(t, im, InstanceConfig{})
	require.Contains(t, im.Reset().Method, "copies all of it back")
	call(t, in, "store", 70_000, 77)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.Equal(t, []uint64{2}, call(t, in, "grow", 400))
	require.Equal(t, []uint64{402}, call(t, in, "grow", 600))
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
	require.Equal(t, []uint64{77}, call(t, in, "load", 70_000))
	require.Equal(t, []uint64{0}, call(t, in, "load", 1000<<16))
}

// TestFaultedInstances checks that instances that faulted or were aborted do not return to the
// pool.
func TestFaultedInstances(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	in := instantiate(t, im, InstanceConfig{})
	before := in.core
	_, err := in.Call(t.Context(), "trap")
	require.Error(t, err)
	in.Close()
	in = instantiate(t, im, InstanceConfig{Value: &testValue{
		call: func(_ context.Context, g *Guest, _ uint32) uint32 { g.Abort(errors.New("no more")); return 0 },
	}})
	require.NotSame(t, before, in.core)
	before = in.core
	_, err = in.Call(t.Context(), "call", 1)
	require.Error(t, err)
	in.Close()
	in = instantiate(t, im, InstanceConfig{})
	require.NotSame(t, before, in.core)
}

// TestNotResettable checks that each instance of a module that cannot be reset repeats all
// steps and starts in the same state.
func TestNotResettable(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(m *wasm.Module){
		"has a start section": func(m *wasm.Module) {
			m.Functions = append(m.Functions, 2)
			m.Code = append(m.Code, wasm.Code{Body: []byte{0x0b}})
			index := uint32(1)
			m.Start = &index
		},
		"uses table.set (first in function 1)": func(m *wasm.Module) {
			m.Tables = []wasm.Table{{Type: wasm.FuncRef, Size: wasm.Range{Min: 1}}}
			m.Functions = append(m.Functions, 2)
			m.Code = append(m.Code, wasm.Code{Body: []byte{0x41, 0, 0xd0, 0x70, 0x26, 0, 0x0b}})
		},
		"global 1 is mutable and of type funcref": func(m *wasm.Module) {
			m.Globals = append(m.Globals, wasm.Global{GlobalType: wasm.GlobalType{Type: wasm.FuncRef, Mutable: true},
				Init: wasm.ConstExpr{Op: wasm.OpRefNull, Bits: uint64(wasm.FuncRef)}})
		},
		"uses data.drop (first in function 1)": func(m *wasm.Module) {
			m.HasDataCount = true
			m.Data = append(m.Data, wasm.Data{Mode: wasm.Passive, Init: []byte("x")})
			m.Functions = append(m.Functions, 2)
			m.Code = append(m.Code, wasm.Code{Body: []byte{0xfc, 9, 1, 0x0b}})
		},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			runs := 0
			im, err := load(t, newSandbox(t, Options{}), large(change), Limits{}).Prepare(t.Context(), InstanceConfig{},
				func(ctx context.Context, in *Instance) error {
					runs++
					_, err := in.Call(ctx, "hook", 50)
					return err
				})
			require.NoError(t, err)
			t.Cleanup(im.Close)
			require.Equal(t, ResetInfo{Method: "is made anew each time: " + want}, im.Reset())
			for range 2 {
				in := instantiate(t, im, InstanceConfig{})
				require.Equal(t, []uint64{102}, call(t, in, "hook", 1))
				in.Close()
			}
			require.Equal(t, 3, runs)
		})
	}
}

// TestMemoryInit checks that memory.init copies from a passive segment, and traps for an active
// one.
func TestMemoryInit(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), module(func(m *wasm.Module) {
		m.HasDataCount = true
		m.Data = []wasm.Data{
			{Offset: wasm.ConstExpr{Op: wasm.OpI32Const, Bits: 8}, Init: []byte("active")},
			{Mode: wasm.Passive, Init: []byte{7, 0, 0, 0}},
		}
		// memory.init 1: 4 bytes to 0; memory.init 0: parameter bytes to 100; load from 0
		m.Code[0].Body = []byte{
			0x41, 0, 0x41, 0, 0x41, 4, 0xfc, 8, 1, 0,
			0x41, 0xe4, 0, 0x41, 0, 0x20, 0, 0xfc, 8, 0, 0,
			0x41, 0, 0x28, 2, 0, 0x0b,
		}
	}), Limits{})
	in := instantiate(t, im, InstanceConfig{})
	data, _ := in.core.memory.Read(8, 6)
	require.Equal(t, "active", string(data))
	require.Equal(t, []uint64{7}, call(t, in, "hook", 0))
	_, err := in.Call(t.Context(), "hook", 1)
	require.Equal(t, FaultTrap, faultOf(t, err).Kind)
}

// TestImageRoom checks that the memory of all images is bounded, in total and by tenant.
func TestImageRoom(t *testing.T) {
	t.Parallel()
	fill := func(ctx context.Context, in *Instance) error {
		_, err := in.Call(ctx, "hook", 400_000)
		return err
	}
	filling := large(func(m *wasm.Module) {
		m.Code[0].Body = []byte{0x41, 0, 0x41, 1, 0x20, 0, 0xfc, 0x0b, 0, 0x20, 0, 0x0b} // memory.fill
	})
	eachPlatform(t, func(t *testing.T, opts Options) {
		opts.ImageBytes = 3 << 20
		s := newSandbox(t, opts)
		im := load(t, s, filling, Limits{})
		var made []*Image
		for {
			p, err := im.Prepare(t.Context(), InstanceConfig{}, fill)
			if err != nil {
				var full *ImageRoomError
				require.ErrorAs(t, err, &full)
				require.ErrorContains(t, err,
					"no room beside other images within 3 MiB for all and the tenant's share of it; close unused agents")
				break
			}
			made = append(made, p)
		}
		require.Contains(t, []int{6, 7}, len(made), "with or without the pages of zeros")
		require.Positive(t, s.imageBudget.total-s.imageBudget.free)
		made[0].Close()
		again, err := im.Prepare(t.Context(), InstanceConfig{}, fill)
		require.NoError(t, err)
		again.Close()
		for _, p := range made {
			p.Close()
		}
		require.Equal(t, s.imageBudget.total, s.imageBudget.free)

		// A named tenant can use memory only as long as at least as much stays free.
		ctx := WithTenant(t.Context(), &Tenant{Name: "a"})
		var own int
		for ; own < 10; own++ {
			p, err := im.Prepare(ctx, InstanceConfig{}, fill)
			if err != nil {
				break
			}
			defer p.Close()
		}
		require.Equal(t, len(made)/2, own)
		p, err := im.Prepare(WithTenant(t.Context(), &Tenant{Name: "b"}), InstanceConfig{}, fill)
		require.NoError(t, err)
		p.Close()
	})
}
