package sandbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/wasm"
)

// requireFault requires that err is a fault of this kind and text, and that the instance is
// dead.
func requireFault(t *testing.T, in *Instance, err error, kind FaultKind, text string) {
	t.Helper()
	fault := faultOf(t, err)
	require.Equal(t, kind, fault.Kind)
	require.Contains(t, fault.Error(), text)
	require.Equal(t, "guest.wasm", fault.Module)
	require.Equal(t, in.Image().Digest(), fault.Digest)
	_, err = in.Call(t.Context(), "count")
	require.ErrorIs(t, err, ErrDead)
}

// TestFaultNamesLimit checks that a fault names the limit that was exceeded.
func TestFaultNamesLimit(t *testing.T) {
	t.Parallel()
	for export, want := range map[string]struct {
		limit string
		value int64
		args  []uint64
	}{
		"loop":         {"Fuel", 1_000_000, nil},
		"recurse":      {"StackBytes", 5000, []uint64{0}},
		"grow_or_trap": {"MemoryBytes", 131072, []uint64{1}},
		"trap":         {"", 0, nil},
	} {
		in := guest(t, InstanceConfig{}, Limits{Fuel: 1_000_000, StackBytes: 5000, MemoryBytes: 131072})
		_, err := in.Call(t.Context(), export, want.args...)
		require.Equal(t, want.limit, faultOf(t, err).Limit, err)
		require.Equal(t, want.value, faultOf(t, err).Value)
	}
}

func faultOf(t *testing.T, err error) (fault *FaultError) {
	t.Helper()
	require.ErrorAs(t, err, &fault)
	return fault
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		export string
		args   []uint64
		limits Limits
		kind   FaultKind
		text   string
		frame  string // the innermost frame of the guest's stack
	}{
		"unreachable":              {"trap", nil, Limits{}, FaultTrap, "trap: unreachable executed in trap", "trap"},
		"division by zero":         {"divide", nil, Limits{}, FaultTrap, "divide: integer divide by zero", "divide"},
		"load out of bounds":       {"load", []uint64{0x7fffffff}, Limits{}, FaultTrap, "load: out of bounds memory access", "load"},
		"store across the end":     {"store", []uint64{2*65536 - 3, 1}, Limits{}, FaultTrap, "store: out of bounds memory access", "store"},
		"table entry that is none": {"indirect", []uint64{7}, Limits{}, FaultTrap, "call of a table entry that is empty or does not exist", "indirect"},
		"empty table entry":        {"indirect", []uint64{1}, Limits{}, FaultTrap, "call of a table entry that is empty or does not exist", "indirect"},
		"function of another type": {"indirect_typed", []uint64{0}, Limits{}, FaultTrap, "indirect call of a function of another type", "indirect_typed"},
		"endless loop":             {"loop", nil, Limits{HookTime: 50 * time.Millisecond}, FaultTimeout, "loop: ran longer than 50ms", "loop"},
		"endless recursion":        {"recurse", []uint64{0}, Limits{HookTime: time.Minute}, FaultStack, "recurse: its calls are nested too deeply: they use more than 4 MiB of stack", "recurse"},
		"all its fuel":             {"loop", nil, Limits{Fuel: 1_000_000, HookTime: time.Hour}, FaultFuel, "loop: used more than its 1000000 fuel", "loop"},
		"no more memory":           {"grow_or_trap", []uint64{1024}, Limits{}, FaultMemory, "unreachable executed, after it was refused memory beyond 64 MiB", "grow_or_trap"},
		"exit": {
			"exit", []uint64{7}, Limits{}, FaultExit, "exit: proc_exit(7)", "wasi_snapshot_preview1.proc_exit(i32)",
		},
		"exit with success": {
			"exit", []uint64{0}, Limits{}, FaultExit, "exit: proc_exit(0)", "wasi_snapshot_preview1.proc_exit(i32)",
		},
		"panic of its language": {
			"panic", nil, Limits{}, FaultExit, "panic: proc_exit(2) (panic: it broke)", "wasi_snapshot_preview1.proc_exit(i32)",
		},
		"pointer out of bounds": {"read", []uint64{0xfffffff0, 8}, Limits{}, FaultBounds, "read: test_v1.read: 8 bytes at 0xfffffff0 do not lie in the memory of 131072 bytes", "test_v1.read(i32,i32) i32"},
		"length out of bounds":  {"read", []uint64{16, 0xffffffff}, Limits{}, FaultBounds, "4294967295 bytes at 0x10 do not lie", "test_v1.read(i32,i32) i32"},
		"printing from nowhere": {"print", []uint64{1, 0xffff0000, 0x20000}, Limits{}, FaultBounds, "wasi_snapshot_preview1.fd_write: 131072 bytes at 0xffff0000", "wasi_snapshot_preview1.fd_write(i32,i32,i32,i32) i32"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := guest(t, InstanceConfig{}, tc.limits)
			_, err := in.Call(t.Context(), tc.export, tc.args...)
			requireFault(t, in, err, tc.kind, tc.text)
			fault := faultOf(t, err)
			require.Equal(t, tc.export, fault.Export)
			require.NotEmpty(t, fault.Stack)
			require.Contains(t, fault.Stack[0], tc.frame)
		})
	}
}

// TestFaultNamesFunctions checks that the message of a fault has the names of functions without their
// signatures, even if a signature is long or has several results, or a name has parentheses.
func TestFaultNamesFunctions(t *testing.T) {
	t.Parallel()
	const params = 100
	b := module(func(m *wasm.Module) {
		m.Types = append(m.Types, wasm.FuncType{
			Params: slices.Repeat([]wasm.ValueType{wasm.I64}, params), Results: []wasm.ValueType{wasm.I32, wasm.I32},
		})
		m.Functions = []uint32{0, uint32(len(m.Types) - 1)}
		m.Code = []wasm.Code{
			{Body: append(bytes.Repeat([]byte{0x42, 0}, params), 0x10, 1, 0x00, 0x0b)}, // call 1, unreachable
			{Body: []byte{0x00, 0x0b}},
		}
	})
	names := "\x04name\x01\x10\x02\x00\x04hook\x01\x07wide(x)"
	b = append(append(b, 0, byte(len(names))), names...)
	in := instantiate(t, load(t, newSandbox(t, Options{}), b, Limits{}), InstanceConfig{})
	_, err := in.Call(t.Context(), "hook", 0)
	require.EqualError(t, err, "hook: unreachable executed in wide(x), called by hook")
	require.Less(t, len(faultOf(t, err).Stack[0]), 400)
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{}, Limits{MemoryBytes: 1 << 20})
	require.Equal(t, []uint64{2}, call(t, in, "grow", 13), "within the limit")
	require.Equal(t, []uint64{0xffffffff}, call(t, in, "grow", 65535), "-1, as for any memory that is full")
	require.Equal(t, []uint64{15}, call(t, in, "grow", 0))
	require.Equal(t, []uint64{16}, call(t, in, "grow_all"), "16 pages of 64 KiB")
	require.EqualValues(t, 1<<20, in.Report().Memory)
	_, limit := in.Image().Memory()
	require.EqualValues(t, 1<<20, limit)
}

func TestAbort(t *testing.T) {
	t.Parallel()
	sentinel := errors.New("stopped by the host")
	in := guest(t, InstanceConfig{Value: &testValue{
		call: func(_ context.Context, g *Guest, _ uint32) uint32 {
			g.Abort(sentinel)
			return 0
		},
	}}, Limits{})
	_, err := in.Call(t.Context(), "call", 1)
	require.Equal(t, sentinel, err, "the error itself, not wrapped")
	_, err = in.Call(t.Context(), "count")
	require.ErrorIs(t, err, ErrDead)
}

// TestAbortThroughNestedGuests checks that an error of an import of a nested guest passes through
// the frames of both guests.
func TestAbortThroughNestedGuests(t *testing.T) {
	t.Parallel()
	sentinel := errors.New("stopped by the host")
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	inner := instantiate(t, im, InstanceConfig{Value: &testValue{
		call: func(_ context.Context, g *Guest, _ uint32) uint32 {
			g.Abort(sentinel)
			return 0
		},
	}})
	outer := instantiate(t, im, InstanceConfig{Value: &testValue{
		call: func(ctx context.Context, g *Guest, n uint32) uint32 {
			results, err := inner.Call(ctx, "call", uint64(n))
			if err != nil {
				g.Abort(err)
			}
			return uint32(results[0])
		},
	}})
	_, err := outer.Call(t.Context(), "call", 1)
	require.Equal(t, sentinel, err)
}

// TestReentryFails checks that an import cannot call its own instance. Re-entering a function of
// wazero would overflow the stack and crash the process.
func TestReentryFails(t *testing.T) {
	t.Parallel()
	var in *Instance
	var errs []error
	in = guest(t, InstanceConfig{Value: &testValue{
		call: func(ctx context.Context, _ *Guest, n uint32) uint32 {
			_, err := in.Call(ctx, "call", 1)
			errs = append(errs, err)
			_, err = in.Call(context.Background(), "count")
			errs = append(errs, err)
			return n + 1
		},
	}}, Limits{})
	require.Equal(t, []uint64{42}, call(t, in, "call", 41), "the refused calls left it alone")
	require.Len(t, errs, 2)
	require.ErrorIs(t, errs[0], ErrBusy)
	require.ErrorIs(t, errs[1], ErrBusy)
	require.Equal(t, []uint64{101}, call(t, in, "count"))
}

func TestNestingLimit(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{Nesting: 3})
	var calls int
	var value *testValue
	value = &testValue{call: func(ctx context.Context, g *Guest, n uint32) uint32 {
		calls++
		in, err := im.Instantiate(ctx, InstanceConfig{Value: value})
		if err != nil {
			g.Abort(err)
		}
		defer in.Close()
		results, err := in.Call(ctx, "call", uint64(n))
		if err != nil {
			g.Abort(err)
		}
		return uint32(results[0])
	}}
	in := instantiate(t, im, InstanceConfig{Value: value})
	_, err := in.Call(t.Context(), "call", 1)
	fault := faultOf(t, err)
	require.Equal(t, FaultNesting, fault.Kind)
	require.ErrorContains(t, err, "guests call guests more than 3 deep")
	require.Equal(t, 3, calls)
}

func TestImportPanics(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		call  func()
		cause func(error) bool
		text  string
	}{
		"value":         {func() { panic("it broke") }, func(err error) bool { return err == nil }, "panicked: it broke"},
		"error":         {func() { panic(boom) }, func(err error) bool { return errors.Is(err, boom) }, "panicked: boom"},
		"runtime error": {func() { _ = (*testValue)(nil).call }, func(err error) bool { var r runtime.Error; return errors.As(err, &r) }, "nil pointer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			s := newSandbox(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			in := instantiate(t, load(t, s, guestWasm, Limits{}), InstanceConfig{Value: &testValue{
				call: func(context.Context, *Guest, uint32) uint32 { tc.call(); return 0 },
			}})
			_, err := in.Call(t.Context(), "call", 0)
			requireFault(t, in, err, FaultInternal, tc.text)
			fault := faultOf(t, err)
			require.True(t, tc.cause(fault.Cause), "%v", fault.Cause)
			require.Contains(t, fault.Error(), "test_v1.call")
			require.Contains(t, log.String(), "a host function panicked")
			require.Contains(t, log.String(), "instance_test.go", "the stack")
		})
	}
}

// TestImportExitsItsGoroutine checks that an import that ends its goroutine, like FailNow of
// package testing, leaves the instance dead, not busy.
func TestImportExitsItsGoroutine(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{Value: &testValue{
		call: func(context.Context, *Guest, uint32) uint32 { runtime.Goexit(); return 0 },
	}}, Limits{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = in.Call(context.Background(), "call", 0)
	}()
	<-done
	_, err := in.Call(t.Context(), "count")
	require.ErrorIs(t, err, ErrDead)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user went away")
	for name, export := range map[string]string{"in a loop": "call_loop", "in an import that waits": "wait"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			begun := make(chan struct{})
			var once sync.Once
			in := guest(t, InstanceConfig{Value: &testValue{
				call: func(context.Context, *Guest, uint32) uint32 { once.Do(func() { close(begun) }); return 0 },
				wait: func(ctx context.Context, _ uint32) uint32 { close(begun); <-ctx.Done(); return 0 },
			}}, Limits{HookTime: time.Hour})
			go func() { <-begun; cancel(cause) }()
			args := []uint64{}
			if export == "wait" {
				args = append(args, 0)
			}
			_, err := in.Call(ctx, export, args...)
			require.Equal(t, cause, err)
			_, err = in.Call(t.Context(), "count")
			require.ErrorIs(t, err, ErrDead)
		})
	}
}

func TestCanceledBefore(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{}, Limits{})
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("too late")
	cancel(cause)
	_, err := in.Call(ctx, "count")
	require.Equal(t, cause, err)
	require.Equal(t, []uint64{101}, call(t, in, "count"), "nothing happened to it")
}

// TestWaitingDoesNotCount checks that an import can wait for longer than the time limit.
func TestWaitingDoesNotCount(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	in := guest(t, InstanceConfig{Value: &testValue{
		wait: func(context.Context, uint32) uint32 { time.Sleep(2 * limit); return 7 },
	}}, Limits{HookTime: limit})
	require.Equal(t, []uint64{7}, call(t, in, "wait", 0))
	require.GreaterOrEqual(t, in.Report().Waited, 2*limit)

	_, err := in.Call(t.Context(), "wait_then_loop", 0)
	requireFault(t, in, err, FaultTimeout, "ran longer than 100ms")
	report := in.Report()
	require.GreaterOrEqual(t, report.Waited, 2*limit)
	require.GreaterOrEqual(t, report.Time, limit, "what was left runs on after the wait")
}

// TestLoopOfImports checks that the time of cheap imports counts.
func TestLoopOfImports(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{Value: &testValue{
		call: func(context.Context, *Guest, uint32) uint32 { return 0 },
	}}, Limits{HookTime: 20 * maxAdvance})
	_, err := in.Call(t.Context(), "call_loop")
	requireFault(t, in, err, FaultTimeout, "ran longer than 500ms")
	require.Greater(t, in.Report().HostCalls, 10, "also on a machine that lets others run between any two of them")
}

func TestParallelCallFails(t *testing.T) {
	t.Parallel()
	begun, end := make(chan struct{}), make(chan struct{})
	in := guest(t, InstanceConfig{Value: &testValue{
		wait: func(context.Context, uint32) uint32 { close(begun); <-end; return 1 },
	}}, Limits{})
	result := make(chan error)
	go func() {
		_, err := in.Call(context.Background(), "wait", 0)
		result <- err
	}()
	<-begun
	_, err := in.Call(t.Context(), "count")
	require.ErrorIs(t, err, ErrBusy)
	close(end)
	require.NoError(t, <-result)
	require.Equal(t, []uint64{101}, call(t, in, "count"))
}

func TestCloseDuringCall(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	var once sync.Once
	in := guest(t, InstanceConfig{Value: &testValue{
		call: func(context.Context, *Guest, uint32) uint32 { once.Do(func() { close(begun) }); return 0 },
	}}, Limits{HookTime: time.Hour})
	go func() { <-begun; in.Close(); in.Close() }()
	_, err := in.Call(t.Context(), "call_loop")
	require.ErrorIs(t, err, ErrClosed)
	_, err = in.Call(t.Context(), "count")
	require.ErrorIs(t, err, ErrClosed)
}

func TestCallOfMissingExport(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{}, Limits{})
	_, err := in.Call(t.Context(), "nothing")
	require.ErrorContains(t, err, `guest.wasm exports no function "nothing"`)
	_, err = in.Call(t.Context(), "memory")
	require.ErrorContains(t, err, `exports no function "memory"`)
	_, err = in.Call(t.Context(), "add", 1)
	require.ErrorContains(t, err, "add takes 2 parameters, not 1")
	require.Equal(t, []uint64{101}, call(t, in, "count"), "it still lives")
}

func TestPrepare(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	countTwice := func(ctx context.Context, in *Instance) error {
		for range 2 {
			if _, err := in.Call(ctx, "count"); err != nil {
				return err
			}
		}
		return nil
	}
	once, err := im.Prepare(t.Context(), InstanceConfig{}, countTwice)
	require.NoError(t, err)
	t.Cleanup(once.Close)
	twice, err := once.Prepare(t.Context(), InstanceConfig{}, countTwice)
	require.NoError(t, err)
	t.Cleanup(twice.Close)

	for range 2 {
		require.Equal(t, []uint64{101}, call(t, instantiate(t, im, InstanceConfig{}), "count"))
		require.Equal(t, []uint64{103}, call(t, instantiate(t, once, InstanceConfig{}), "count"))
		require.Equal(t, []uint64{105}, call(t, instantiate(t, twice, InstanceConfig{}), "count"))
	}
}

func TestPrepareFails(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	sentinel := errors.New("this configuration makes no sense")
	_, err := im.Prepare(t.Context(), InstanceConfig{}, func(context.Context, *Instance) error { return sentinel })
	require.ErrorIs(t, err, sentinel)
	_, err = im.Prepare(t.Context(), InstanceConfig{}, func(ctx context.Context, in *Instance) error {
		_, err := in.Call(ctx, "trap")
		return err
	})
	require.Equal(t, FaultTrap, faultOf(t, err).Kind)
}

// TestPrepareConfiguration checks that the configuration of Prepare applies to setup, and that of
// Instantiate afterwards.
func TestPrepareConfiguration(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	answer := func(n uint32) *testValue {
		return &testValue{call: func(context.Context, *Guest, uint32) uint32 { return n }}
	}
	var now, random uint64
	prepared, err := im.Prepare(
		t.Context(),
		InstanceConfig{Value: answer(1)},
		func(ctx context.Context, in *Instance) error {
			require.Equal(t, []uint64{1}, call(t, in, "call", 0))
			now, random = call(t, in, "now")[0], call(t, in, "random")[0]
			return nil
		},
	)
	require.NoError(t, err)
	t.Cleanup(prepared.Close)
	require.EqualValues(t, imageTime, now, "an image does not depend on the time")
	require.NotZero(t, random)
	first := random
	in := instantiate(t, prepared, InstanceConfig{Value: answer(2)})
	require.Equal(t, first, random, "nor on chance")
	require.Equal(t, []uint64{2}, call(t, in, "call", 0))
	require.NotEqual(t, random, call(t, in, "random")[0])
	require.Greater(t, call(t, in, "now")[0], now)
}

func TestSandboxCloseInterruptsCalls(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), &Options{Surface: testSurface()})
	require.NoError(t, err)
	im, err := s.Load(t.Context(), "guest.wasm", guestWasm, Limits{HookTime: time.Hour})
	require.NoError(t, err)
	begun := make(chan struct{}, 2)
	result := make(chan error, 2)
	for _, export := range []string{"wait", "wait_then_loop"} {
		var calls atomic.Int32
		in, err := im.Instantiate(t.Context(), InstanceConfig{Value: &testValue{
			wait: func(ctx context.Context, _ uint32) uint32 {
				begun <- struct{}{}
				if calls.Add(1); export == "wait" {
					<-ctx.Done()
				}
				return 0
			},
		}})
		require.NoError(t, err)
		go func() {
			_, err := in.Call(context.Background(), export, 0)
			result <- err
		}()
	}
	<-begun
	<-begun
	require.NoError(t, s.Close(t.Context()))
	require.ErrorIs(t, <-result, ErrClosed)
	require.ErrorIs(t, <-result, ErrClosed)

	_, err = im.Instantiate(t.Context(), InstanceConfig{})
	require.ErrorIs(t, err, ErrClosed)
	_, err = s.Load(t.Context(), "guest.wasm", guestWasm, Limits{})
	require.ErrorIs(t, err, ErrClosed)
	im.Close()
	require.NoError(t, s.Close(t.Context()))
}

// TestSandboxCloseGivesUp checks that an import that ignores its context delays Close only until
// the context of Close is done.
func TestSandboxCloseGivesUp(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), &Options{Surface: testSurface()})
	require.NoError(t, err)
	im, err := s.Load(t.Context(), "guest.wasm", guestWasm, Limits{})
	require.NoError(t, err)
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error)
	in, err := im.Instantiate(t.Context(), InstanceConfig{Value: &testValue{
		wait: func(context.Context, uint32) uint32 { close(begun); <-end; return 0 },
	}})
	require.NoError(t, err)
	go func() {
		_, err := in.Call(context.Background(), "wait", 0)
		done <- err
	}()
	<-begun
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("no more patience")
	cancel(cause)
	require.ErrorIs(t, s.Close(ctx), cause)
	close(end)
	require.ErrorIs(t, <-done, ErrClosed)
}
