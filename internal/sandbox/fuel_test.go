package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/sandbox/engine"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

// TestFuelIsDeterministic checks that the fuel of a call does not depend on the engine, on how
// instances are made, or on their earlier calls.
func TestFuelIsDeterministic(t *testing.T) {
	t.Parallel()
	var counts [][]uint64
	for _, opts := range []Options{{}, {portable: true}, {interpret: true}, {IdleBytes: -1}} {
		im := load(t, newSandbox(t, opts), guestWasm, Limits{})
		for range 2 {
			in := instantiate(t, im, InstanceConfig{Value: &testValue{
				call: func(context.Context, *Guest, uint32) uint32 { return 0 },
				wait: func(context.Context, uint32) uint32 { return 0 },
			}})
			var count []uint64
			for _, export := range []string{"count", "call", "wait", "grow", "random", "print", "read"} {
				args := map[string][]uint64{
					"call": {1}, "wait": {1}, "grow": {3}, "print": {1, 100, 15}, "read": {0, 65536},
				}[export]
				call(t, in, export, args...)
				count = append(count, in.Report().Fuel)
			}
			counts = append(counts, count)
			in.Close()
		}
	}
	for _, count := range counts {
		require.Equal(t, counts[0], count)
		require.NotContains(t, count, uint64(0))
	}
	read := counts[0][6]
	require.Greater(t, read, uint64(65536/fuelBytes+importFuel), "moving bytes costs fuel")
	require.Less(t, read, uint64(65536/fuelBytes+importFuel+50))
}

// TestFuelBudget checks that the fuel a call uses is enough for the same call, and half of it
// is not.
func TestFuelBudget(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{})
	calls := 0
	cfg := InstanceConfig{Value: &testValue{call: func(_ context.Context, g *Guest, _ uint32) uint32 {
		if calls++; calls == 50_000 {
			g.Abort(errors.New("enough"))
		}
		return 0
	}}}
	in := instantiate(t, load(t, s, guestWasm, Limits{HookTime: time.Hour}), cfg)
	_, err := in.Call(t.Context(), "call_loop")
	require.EqualError(t, err, "enough")
	used := in.Report().Fuel
	require.Greater(t, used, uint64(50_000*importFuel))

	calls = 0
	in = instantiate(t, load(t, s, guestWasm, Limits{HookTime: time.Hour, Fuel: int64(used)}), cfg)
	_, err = in.Call(t.Context(), "call_loop")
	require.EqualError(t, err, "enough")

	calls = 0
	in = instantiate(t, load(t, s, guestWasm, Limits{HookTime: time.Hour, Fuel: int64(used / 2)}), cfg)
	_, err = in.Call(t.Context(), "call_loop")
	requireFault(t, in, err, FaultFuel, "used more than its")
	require.InDelta(t, 25_000, calls, 2*minSlice/importFuel, "imports count")
	require.InDelta(t, used/2, in.Report().Fuel, 2*minSlice)
}

// TestSlices checks how slices adapt to their time and to the size of the memory.
func TestSlices(t *testing.T) {
	t.Parallel()
	sizer := new(code).slicing(0)
	require.EqualValues(t, minSlice, sizer.slice)
	ran := time.Duration(0)
	after := func(elapsed time.Duration, memory uint64) int64 {
		ran += elapsed
		sizer.adapt(ran, memory)
		return sizer.slice
	}
	require.EqualValues(t, minSlice, after(fastSlice-1, 1<<20), "memory has grown")
	require.EqualValues(t, 2*minSlice, after(fastSlice-1, 1<<20), "fast slices grow")
	for range 10 {
		after(fastSlice-1, 1<<20)
	}
	require.EqualValues(t, maxSlice, after(fastSlice, 1<<20))
	require.EqualValues(t, maxSlice/2, after(longSlice+1, 1<<20), "long ones shrink")
	require.EqualValues(t, minSlice, after(fastSlice-1, largeMemory), "memory has grown")
	for range 10 {
		after(fastSlice-1, largeMemory)
	}
	require.EqualValues(t, maxSlice, after(fastSlice-1, largeMemory))
	require.EqualValues(t, minSlice, after(fastSlice-1, largeMemory+1))
	require.EqualValues(t, maxLargeMemorySlice, after(fastSlice-1, largeMemory+1),
		"they are smaller if there are many pages to touch")
	after(fastSlice-1, 1<<20)
	require.EqualValues(t, minSlice, after(slowSlice+1, 1<<20), "slow ones shrink at once")
	require.EqualValues(t, minSlice, after(longSlice+1, 1<<20))
}

// TestSliceAfterGrowth checks that a slice is small after the memory has grown.
func TestSliceAfterGrowth(t *testing.T) {
	t.Parallel()
	var left []int64
	record := func(_ context.Context, g *Guest, _ uint32) uint32 {
		left = append(left, int64(g.in.core.fuel.Get()))
		return 0
	}
	im := load(t, newSandbox(t, Options{}), module(func(m *wasm.Module) {
		m.Imports = []wasm.Import{function("test_v1", "call", 0)}
		m.Exports[1].Index = 1
		m.Code[0].Body = []byte{
			0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, // many iterations
			0x41, 0, 0x10, 0, 0x1a, // call
			0x41, 0xac, 2, 0x40, 0, 0x1a, // grow by 300 pages
			0x41, 0, 0x10, 0, 0x0b,
		}
	}), Limits{HookTime: time.Hour})
	largest := int64(0)
	for n := range uint64(40) { // slices end at a different place each time
		left = nil
		call(t, instantiate(t, im, InstanceConfig{Value: &testValue{call: record}}), "hook", 100_000+n*500)
		require.Len(t, left, 2)
		require.LessOrEqual(t, left[1], int64(minSlice))
		largest = max(largest, left[0])
	}
	require.Greater(t, largest, int64(maxLargeMemorySlice), "slices were large before")
}

// TestShortSlices checks that code with a slice that used a processor for too long gets short
// slices for a while, and that the work of imports and other threads does not count.
func TestShortSlices(t *testing.T) {
	t.Parallel()
	if thread, _ := threadTime(); thread == 0 {
		t.Skip("this system does not report the processor time of a thread")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	work := func() {
		for _, began := threadTime(); ; {
			if _, now := threadTime(); now-began > maxHeld+yieldInterval+time.Millisecond {
				return
			}
		}
	}
	for name, test := range map[string]struct {
		slice func(in *Instance)
		want  int64
	}{
		"work":              {func(*Instance) { work() }, shortSlice},
		"work of an import": {func(in *Instance) { work(); in.afterImport(in.checkLimits()) }, maxSlice},
		"earlier work": {func(in *Instance) {
			work()
			in.meter.ran = in.watch.ran()
			in.watch.began = in.watch.began.Add(-time.Hour)
		}, maxSlice},
		"others' work":   {func(in *Instance) { in.watch.began = in.watch.began.Add(-time.Hour) }, maxSlice},
		"another thread": {func(in *Instance) { work(); in.watch.thread++ }, maxSlice},
	} {
		im := load(t, newSandbox(t, Options{}), guestWasm, Limits{HookTime: time.Hour})
		in := instantiate(t, im, InstanceConfig{Value: &testValue{call: func(_ context.Context, g *Guest, _ uint32) uint32 {
			in := g.in
			in.meter.ran = in.watch.ran()
			in.meter.called = in.meter.ran
			in.watch.marks = true
			in.watch.mark()
			test.slice(in)
			in.checkSlice(in.watch.ran())
			require.Equal(t, test.want, in.meter.max, name)
			return 0
		}}})
		call(t, in, "call", 1)
		next := im.code.slicing(0)
		require.Equal(t, test.want, next.max, name)
		require.LessOrEqual(t, next.slice, next.max, name)
		im.code.heldHost.at.Add(-int64(shortSlicePeriod))
		require.EqualValues(t, maxSlice, im.code.slicing(0).max, "not forever")
	}
	// One long slice only starts the measurement of processor time: others may have used the
	// processor.
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{HookTime: time.Hour})
	for _, measured := range []bool{false, true} {
		call(t, instantiate(t, im, InstanceConfig{Value: &testValue{call: func(_ context.Context, g *Guest, _ uint32) uint32 {
			in := g.in
			require.Equal(t, measured, in.watch.marks)
			in.meter.ran = in.watch.ran()
			in.watch.began = in.watch.began.Add(-time.Hour)
			in.checkSlice(in.watch.ran())
			require.EqualValues(t, maxSlice, in.meter.max)
			return 0
		}}}), "call", 1)
	}
	sizer := slicing{max: shortSlice}
	sizer.adapt(fastSlice-1, 0)
	require.LessOrEqual(t, sizer.slice, int64(shortSlice))
	sizer.adapt(fastSlice, 2*largeMemory)
	require.EqualValues(t, shortSlice, sizer.slice)
}

// TestYield checks that a guest yields the processor from time to time, not after each slice.
func TestYield(t *testing.T) {
	t.Parallel()
	sizer := slicing{}
	require.False(t, sizer.shouldYield(yieldInterval))
	require.True(t, sizer.shouldYield(yieldInterval+1))
	require.False(t, sizer.shouldYield(2*yieldInterval))
	require.True(t, sizer.shouldYield(2*yieldInterval+2))
}

// TestGarbageCollectionDuringLoop checks that a guest in a loop does not block the garbage
// collector: without calls of the host, this test would never end.
func TestGarbageCollectionDuringLoop(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	var once sync.Once
	in := guest(t, InstanceConfig{Value: &testValue{
		wait: func(context.Context, uint32) uint32 { once.Do(func() { close(begun) }); return 0 },
	}}, Limits{HookTime: time.Hour, Fuel: math.MaxInt64})
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error)
	go func() {
		_, err := in.Call(ctx, "wait_then_loop", 0)
		done <- err
	}()
	<-begun
	for range 3 {
		runtime.GC()
	}
	cause := errors.New("canceled by the test")
	cancel(cause)
	require.Equal(t, cause, <-done)
}

// TestEveryLoopEnds checks that every kind of work ends at the time limit, on both engines.
func TestEveryLoopEnds(t *testing.T) {
	t.Parallel()
	// Each shape sets the body of a function with one parameter and one result.
	shapes := map[string]func(m *wasm.Module){
		"branches": func(m *wasm.Module) { m.Code[0].Body = []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x00, 0x0b} },
		"branches of a table": func(m *wasm.Module) {
			m.Code[0].Body = []byte{0x03, 0x40, 0x41, 0, 0x0e, 1, 0, 0, 0x0b, 0x00, 0x0b}
		},
		"calls that double": func(m *wasm.Module) {
			m.Functions, m.Code = nil, nil
			for i := range byte(60) {
				m.Functions = append(m.Functions, 0)
				m.Code = append(m.Code, wasm.Code{Body: []byte{0x20, 0, 0x10, i + 1, 0x10, i + 1, 0x0b}})
			}
			m.Code[59].Body = []byte{0x20, 0, 0x0b}
		},
		"recursion twice": func(m *wasm.Module) {
			// if depth > 40 return 0; f(depth+1); return f(depth+1)
			m.Code[0].Body = []byte{
				0x20, 0, 0x41, 40, 0x4a, 0x04, 0x40, 0x41, 0, 0x0f, 0x0b,
				0x20, 0, 0x41, 1, 0x6a, 0x10, 0, 0x1a, 0x20, 0, 0x41, 1, 0x6a, 0x10, 0, 0x0b,
			}
		},
		"memory.fill of all": func(m *wasm.Module) {
			m.Memories[0].Size.Min = 256
			m.Code[0].Body = []byte{
				0x03,
				0x40,
				0x41,
				0,
				0x41,
				1,
				0x41,
				0x80,
				0x80,
				0x80,
				8,
				0xfc,
				11,
				0,
				0x0c,
				0,
				0x0b,
				0x00,
				0x0b,
			}
		},
		"memory.copy of all": func(m *wasm.Module) {
			m.Memories[0].Size.Min = 256
			m.Code[0].Body = []byte{
				0x03,
				0x40,
				0x41,
				0,
				0x41,
				1,
				0x41,
				0xff,
				0xff,
				0xff,
				7,
				0xfc,
				10,
				0,
				0,
				0x0c,
				0,
				0x0b,
				0x00,
				0x0b,
			}
		},
		"table.fill of all": func(m *wasm.Module) {
			m.Tables = []wasm.Table{{Type: wasm.FuncRef, Size: wasm.Range{Min: 60_000}}}
			m.Code[0].Body = []byte{0x03, 0x40, 0x41, 0, 0xd0, 0x70, 0x41, 0xe0, 0xd4, 3, 0xfc, 17, 0, 0x0c, 0, 0x0b, 0x00, 0x0b}
		},
		"memory.grow that fails": func(m *wasm.Module) {
			m.Code[0].Body = []byte{0x03, 0x40, 0x41, 0xff, 0xff, 3, 0x40, 0, 0x1a, 0x0c, 0, 0x0b, 0x00, 0x0b}
		},
	}
	for name, shape := range shapes {
		for engine, interpret := range map[string]bool{"compiled": false, "interpreted": true} {
			t.Run(name+"/"+engine, func(t *testing.T) {
				t.Parallel()
				im := load(t, newSandbox(t, Options{interpret: interpret}), module(shape),
					Limits{HookTime: 20 * time.Millisecond, Fuel: math.MaxInt64})
				in := instantiate(t, im, InstanceConfig{})
				_, err := in.Call(t.Context(), "hook", 0)
				fault := faultOf(t, err)
				require.Equal(t, FaultTimeout, fault.Kind, fault)
				require.NotEmpty(t, fault.Stack)
			})
		}
	}
}

// TestStackLimit checks that the limit counts bytes, not calls: large frames reach it sooner.
func TestStackLimit(t *testing.T) {
	t.Parallel()
	// f(n) = n == 0 ? 0 : f(n-1), with some locals
	im := func(t *testing.T, locals uint32, l Limits) *Instance {
		return instantiate(t, load(t, newSandbox(t, Options{}), module(func(m *wasm.Module) {
			m.Code[0].Locals = []wasm.Locals{{Count: locals, Type: wasm.I64}}
			m.Code[0].Body = []byte{0x20, 0, 0x45, 0x04, 0x40, 0x41, 0, 0x0f, 0x0b, 0x20, 0, 0x41, 1, 0x6b, 0x10, 0, 0x0b}
		}), l), InstanceConfig{})
	}
	require.Equal(t, []uint64{0}, call(t, im(t, 0, Limits{}), "hook", 10_000))
	_, err := im(t, 1000, Limits{}).Call(t.Context(), "hook", 10_000)
	require.Equal(t, FaultStack, faultOf(t, err).Kind)
	_, err = im(t, 0, Limits{StackBytes: 100_000}).Call(t.Context(), "hook", 10_000)
	require.Equal(t, FaultStack, faultOf(t, err).Kind)
	require.Contains(t, faultOf(t, err).Error(), "more than 100000 bytes of stack")

	// The limit applies to each call separately.
	in := im(t, 0, Limits{StackBytes: 1 << 20})
	for range 100 {
		require.Equal(t, []uint64{0}, call(t, in, "hook", 5000))
	}
}

// TestStackBeyondEstimate checks that code that would use 16 times the estimated stack ends before
// it does.
func TestStackBeyondEstimate(t *testing.T) {
	t.Parallel()
	const loops, locals = 60, 400
	leb := func(n uint64) []byte { return binary.AppendUvarint(nil, n) }
	// Nested loops, each of which may change every local.
	body := bytes.Repeat([]byte{0x03, 0x40}, loops)
	for i := range uint64(locals) {
		body = slices.Concat(body, []byte{0x20}, leb(1+i), []byte{0x42, 1, 0x7c, 0x21}, leb(1+i))
	}
	body = append(body, 0x41, 0, 0x10, 0, 0x1a, 0x41, 0, 0x10, 1, 0x1a) // call function 0, then this function
	body = append(body, bytes.Repeat([]byte{0x41, 0, 0x28, 2, 0, 0x0d, 0, 0x0b}, loops)...)
	for i := range uint64(locals) {
		body = slices.Concat(body, []byte{0x41, 0, 0x20}, leb(1+i), []byte{0x37, 3, 0})
	}
	im := load(t, newSandbox(t, Options{}), module(func(m *wasm.Module) {
		m.Imports = []wasm.Import{function("test_v1", "call", 0)}
		m.Exports[1].Index = 1
		m.Code[0] = wasm.Code{Locals: []wasm.Locals{{Count: locals, Type: wasm.I64}}, Body: append(body, 0x41, 0, 0x0b)}
	}), Limits{StackBytes: 1 << 20, HookTime: time.Hour})
	largest := int64(0)
	in := instantiate(t, im, InstanceConfig{Value: &testValue{call: func(_ context.Context, g *Guest, _ uint32) uint32 {
		size, _ := engine.StackBytes(g.in.core.functions["hook"])
		largest = max(largest, size)
		return 0
	}}})
	_, err := in.Call(t.Context(), "hook", 0)
	require.Equal(t, FaultStack, faultOf(t, err).Kind)
	require.Greater(t, largest, int64(1<<20), "the code exceeds the estimate")
	require.Less(t, largest, int64(3*(2<<20+stackExcess)))
}

// TestInterpreter checks the kinds and stacks of faults on wazero's interpreter, and that a call
// returns its result.
func TestInterpreter(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, Options{interpret: true})
	for export, want := range map[string]FaultKind{
		"trap": FaultTrap, "loop": FaultTimeout, "recurse": FaultStack, "exit": FaultExit, "grow_or_trap": FaultMemory,
	} {
		limits := Limits{HookTime: time.Hour}
		if export == "loop" {
			limits.HookTime = 20 * time.Millisecond
		}
		in := instantiate(t, load(t, s, guestWasm, limits), InstanceConfig{})
		require.Equal(t, []uint64{101}, call(t, in, "count"))
		args := map[string][]uint64{"recurse": {0}, "exit": {3}, "grow_or_trap": {2000}}[export]
		_, err := in.Call(t.Context(), export, args...)
		require.Equal(t, want, faultOf(t, err).Kind)
		require.NotEmpty(t, faultOf(t, err).Stack, faultOf(t, err))
		require.Contains(t, faultOf(t, err).Stack[0], map[bool]string{true: "proc_exit", false: export}[export == "exit"])
		in.Close()
	}
	in := instantiate(t, load(t, s, guestWasm, Limits{}), InstanceConfig{})
	require.Equal(t, []uint64{api.EncodeI64(39)}, call(t, in, "add", api.EncodeI32(-3), 42))
}
