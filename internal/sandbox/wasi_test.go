package sandbox

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// The names and types are held against wazero's own implementation of WASI.
func TestWASIIsWhole(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { _ = r.Close(context.Background()) })
	theirs, err := wasi_snapshot_preview1.NewBuilder(r).Compile(ctx)
	require.NoError(t, err)
	want := map[string]string{}
	for name, def := range theirs.ExportedFunctions() {
		want[name] = FuncType{def.ParamTypes(), def.ResultTypes()}.String()
	}
	got := map[string]string{}
	for _, imp := range wasiImports() {
		got[imp.Name] = imp.Type().String()
	}
	require.Equal(t, want, got)
}

// sink collects the lines that a guest prints.
type sink struct{ lines []string }

func (s *sink) line(b []byte) { s.lines = append(s.lines, string(b)) }

func TestPrint(t *testing.T) {
	t.Parallel()
	var stdout, stderr sink
	in := guest(t, InstanceConfig{Stdout: stdout.line, Stderr: stderr.line}, Limits{})
	require.Equal(t, []uint64{0}, call(t, in, "print", 1, 100, 15))
	require.Equal(t, []string{"one", `two\x1b[31m \xff`}, stdout.lines)
	require.Equal(t, []uint64{0}, call(t, in, "print", 2, 200, 8))
	require.Equal(t, []string{"panic: i"}, stderr.lines, "a line without end is printed when the call ends")
	require.Equal(t, []uint64{errnoBadf}, call(t, in, "print", 3, 200, 8))
	require.Equal(t, []uint64{errnoBadf}, call(t, in, "print", 0, 200, 8))
	require.Equal(t, []uint64{errnoInval}, call(t, in, "fd_write", 1, 0, maxIovs+1, 8))
	require.Len(t, stdout.lines, 2)
}

// A reader that takes longer for a line than the hook has time does not use that up.
func TestPrintToSlowReader(t *testing.T) {
	t.Parallel()
	const limit = 50 * time.Millisecond
	lines := 0
	in := guest(t, InstanceConfig{Stdout: func([]byte) { lines++; time.Sleep(2 * limit) }}, Limits{HookTime: limit})
	require.Equal(t, []uint64{0}, call(t, in, "print", 1, 100, 15))
	require.Equal(t, 2, lines)
	report := in.Report()
	require.GreaterOrEqual(t, report.Waited, 2*limit)
	require.Less(t, report.Time, report.Waited)
}

func TestPrintLimits(t *testing.T) {
	t.Parallel()
	var stderr sink
	in := guest(t, InstanceConfig{Stderr: stderr.line}, Limits{LogBytes: 100, LogLineBytes: 10})
	call(t, in, "print", 2, 2000, 60) // zeros
	require.Equal(t, []string{
		strings.Repeat(`\x00`, 10) + "… (50 bytes more)",
		"(50 bytes of output dropped: the limit is 100 bytes a call, 10 bytes a line)",
	}, stderr.lines)
	stderr.lines = nil
	call(t, in, "print", 2, 0, 65536)
	require.Len(t, stderr.lines, 2)
	require.EqualValues(t, 65536-10, in.Report().Dropped)

	stderr.lines = nil
	call(t, in, "print", 2, 200, 16)
	require.Equal(t, []string{"panic: it … (5 bytes more)", "(5 bytes of output dropped: the limit is 100 bytes a call, 10 bytes a line)"},
		stderr.lines, "the budget is each call's own")
}

func TestPrintManyLines(t *testing.T) {
	t.Parallel()
	var stderr sink
	in := guest(t, InstanceConfig{Stderr: stderr.line}, Limits{})
	newlines := make([]byte, 65536)
	for i := range newlines {
		newlines[i] = '\n'
	}
	in.core.memory.Write(65536, newlines)
	call(t, in, "print", 2, 65536, 65536)
	require.Len(t, stderr.lines, DefaultLogBytes/lineCost+1)
	require.EqualValues(t, 65536-DefaultLogBytes/lineCost, in.Report().Dropped)
}

// Buffers that overlap cost no more than one print of that size may, and their
// sum is bounded.
func TestPrintManyBuffers(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{}, Limits{})
	call(t, in, "grow", 900)
	for i := range uint64(maxIovs) {
		call(t, in, "store", 4096+8*i, 4096)
		call(t, in, "store", 4096+8*i+4, 32<<20)
	}
	require.Equal(t, []uint64{errnoInval}, call(t, in, "fd_write", 1, 4096, maxIovs, 8))
	require.Equal(t, []uint64{0}, call(t, in, "fd_write", 1, 4096, 8, 8))
	require.EqualValues(t, 256<<20-DefaultLogLineBytes, in.Report().Dropped)
}

func TestFaultShowsLastLines(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{}, Limits{})
	for range 20 {
		call(t, in, "print", 1, 100, 4)
	}
	_, err := in.Call(t.Context(), "panic")
	fault := faultOf(t, err)
	require.Len(t, fault.Output, recentLines)
	require.Equal(t, "panic: it broke", fault.Output[recentLines-1])
}

func TestRandom(t *testing.T) {
	t.Parallel()
	im := load(t, newSandbox(t, Options{}), guestWasm, Limits{})
	draw := func(seed []byte) []uint64 {
		in := instantiate(t, im, InstanceConfig{Seed: seed})
		return []uint64{call(t, in, "random")[0], call(t, in, "random")[0]}
	}
	seven := draw([]byte("seven"))
	require.NotEqual(t, seven[0], seven[1])
	require.Equal(t, seven, draw([]byte("seven")))
	require.NotEqual(t, seven, draw([]byte("eight")))
	require.NotEqual(t, draw(nil), draw(nil))

	in := instantiate(t, im, InstanceConfig{Seed: []byte("eight")})
	call(t, in, "random")
	in.Reseed(func() []byte { return []byte("seven") })
	require.Equal(t, seven[:1], call(t, in, "random"))

	require.Equal(t, []uint64{0}, call(t, in, "random_get", 0, 2*65536), "all of the memory")
	_, err := in.Call(t.Context(), "random_get", 1, 2*65536)
	requireFault(t, in, err, FaultBounds, "random_get: 131072 bytes at 0x1 do not lie in the memory")
}

func TestClock(t *testing.T) {
	t.Parallel()
	now := int64(1_700_000_000_123_456_789)
	in := guest(t, InstanceConfig{
		Clock: func() int64 { now += 1_000_000; return now },
		Value: &testValue{wait: func(context.Context, uint32) uint32 { return 0 }},
	}, Limits{})
	read := func(export string, args ...uint64) int64 { return int64(call(t, in, export, args...)[0]) }
	require.EqualValues(t, 1_700_000_000_124_000_000, read("now"), "whole milliseconds")
	require.EqualValues(t, 1_700_000_000_125_000_000, read("now"), "another call, another time")
	require.EqualValues(t, 1_700_000_000_127_000_000, read("wait_then_now"), "waiting takes time")
	require.EqualValues(t, 1_700_000_001_128_000_000, read("sleep", 1_000_000_000), "sleeping moves the clock and takes none")
	require.EqualValues(t, 1_700_000_001_129_000_000, read("now"))
	require.EqualValues(t, 1_700_000_001_131_000_000, read("sleep", 1), "rounded up, or a sleeper would spin")
	now -= 3_600_000_000_000
	require.EqualValues(t, 1_700_000_001_131_000_000, read("now"), "never back")
	for range 1000 {
		require.LessOrEqual(t, read("sleep", 1<<63), now+3_600_000_000_000+366*day)
	}
}

// Every function answers something to every parameter, and to pointers that lie
// outside, without harm.
func TestWASIWithHostileParameters(t *testing.T) {
	t.Parallel()
	hostile := []uint64{0, 1, 2, 3, 48, 65535, 131071, 131072, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff}
	in := guest(t, InstanceConfig{}, Limits{})
	for _, imp := range wasiImports() {
		for _, p := range hostile {
			stack := make([]uint64, max(len(imp.Params), 1))
			for i := range stack {
				stack[i] = p
			}
			err := in.inImport(func(g *Guest) { imp.Func(t.Context(), g, stack) })
			if err == nil {
				require.LessOrEqual(t, stack[0], uint64(errnoSpipe), "%s %#x", imp.Name, p)
				continue
			}
			fault := faultOf(t, err)
			require.Contains(t, []FaultKind{FaultBounds, FaultExit}, fault.Kind, "%s %#x", imp.Name, p)
		}
	}
}

// inImport runs do as if the guest had called it.
func (in *Instance) inImport(do func(g *Guest)) (err error) {
	defer func() {
		if _, ok := recover().(unwind); ok {
			err = in.ending
		}
	}()
	in.hostCtx = &callContext{Context: context.Background(), in: in}
	do(&in.guest)
	return nil
}

func TestStreams(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{}, Limits{})
	functions := map[string]Import{}
	for _, imp := range wasiImports() {
		functions[imp.Name] = imp
	}
	wasi := func(name string, params ...uint64) uint64 {
		stack := append(params, 0)
		require.NoError(t, in.inImport(func(g *Guest) { functions[name].Func(t.Context(), g, stack) }))
		return stack[0]
	}
	require.Zero(t, wasi("fd_fdstat_get", 1, 256))
	require.Equal(t, byte(2), in.guest.Read(256, 24)[0], "a character device")
	require.EqualValues(t, 1<<6, binary.LittleEndian.Uint64(in.guest.Read(264, 8)), "that can be written")
	require.EqualValues(t, errnoBadf, wasi("fd_fdstat_get", 3, 256))
	require.EqualValues(t, errnoBadf, wasi("fd_prestat_get", 3, 256), "no directories")
	require.EqualValues(t, errnoBadf, wasi("path_open", 3, 0, 0, 1, 0, 0, 0, 0, 256))
	require.EqualValues(t, errnoSpipe, wasi("fd_seek", 1, 0, 0, 256))
	require.Zero(t, wasi("fd_filestat_get", 1, 256))
	require.Zero(t, wasi("fd_read", 0, 0, 0, 256), "stdin is empty")
	require.Zero(t, wasi("args_sizes_get", 256, 260))
	require.Equal(t, make([]byte, 8), in.guest.Read(256, 8))
	require.EqualValues(t, errnoNosys, wasi("proc_raise", 9))
	require.Zero(t, wasi("clock_res_get", 0, 256))
	require.EqualValues(t, errnoInval, wasi("clock_time_get", 9, 0, 256))
	require.EqualValues(t, errnoInval, wasi("poll_oneoff", 0, 0, 0, 256))
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain text, 漢字\t…":      "plain text, 漢字\t…",
		"\x1b[2J\x07\r\x7f":      `\x1b[2J\x07\x0d\x7f`,
		"\u202eevil\u2028\u0085": `\u202eevil\u2028\u0085`,
		"\xff\xc3\x28":           `\xff\xc3(`,
		"\U000e0001":             `\U000e0001`,
		"\ufffd":                 "\ufffd",
	} {
		require.Equal(t, want, string(escape([]byte(in))))
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("one\ntwo\r\n\n\x1b three"), 7)
	f.Fuzz(func(t *testing.T, b []byte, step int) {
		im := &Image{limits: Limits{LogBytes: 100, LogLineBytes: 10}}
		in := &Instance{image: im}
		in.guest = Guest{in: in}
		total := 0
		l := lines{in: in, sink: func(line []byte) {
			total += len(line)
			require.False(t, bytes.ContainsAny(line, "\x1b\r\n\x00"))
			require.LessOrEqual(t, len(line), 10*10+len(fmt.Sprintf("… (%d bytes more)", len(b))))
		}}
		for step = max(1, step%20); len(b) > 0; b = b[min(step, len(b)):] {
			l.write(b[:min(step, len(b))])
		}
		l.flush()
		require.Less(t, in.printed, 100+lineCost)
	})
}
