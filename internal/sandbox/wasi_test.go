package sandbox

import (
	"context"
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/sandbox/wasi"
)

// sink collects printed lines.
type sink struct{ lines []string }

func (s *sink) line(b []byte) { s.lines = append(s.lines, string(b)) }

// Error numbers of WASI.
const (
	errnoBadf  = 8
	errnoInval = 28
	errnoNosys = 52
	errnoSpipe = 70
)

func TestPrint(t *testing.T) {
	t.Parallel()
	var stdout, stderr sink
	in := guest(t, InstanceConfig{Stdout: stdout.line, Stderr: stderr.line}, Limits{})
	require.Equal(t, []uint64{0}, call(t, in, "print", 1, 100, 15))
	require.Equal(t, []string{"one", `two\x1b[31m \xff`}, stdout.lines)
	require.Equal(t, []uint64{0}, call(t, in, "print", 2, 200, 8))
	require.Equal(t, []string{"panic: i"}, stderr.lines, "an incomplete line is emitted when the call ends")
	require.Equal(t, []uint64{errnoBadf}, call(t, in, "print", 3, 200, 8))
	require.Equal(t, []uint64{errnoBadf}, call(t, in, "print", 0, 200, 8))
	require.Equal(t, []uint64{errnoInval}, call(t, in, "fd_write", 1, 0, 1025, 8))
	require.Len(t, stdout.lines, 2)
}

// TestPrintToSlowReader checks that the time of a slow reader does not count as the guest's.
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
	require.Equal(
		t,
		[]string{"panic: it … (5 bytes more)", "(5 bytes of output dropped: the limit is 100 bytes a call, 10 bytes a line)"},
		stderr.lines,
		"each call has its own budget",
	)
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
	require.Len(t, stderr.lines, DefaultLogBytes/32+1)
	require.EqualValues(t, 65536-DefaultLogBytes/32, in.Report().Dropped)
}

// TestPrintManyBuffers checks that the sum of overlapping buffers is bounded.
func TestPrintManyBuffers(t *testing.T) {
	t.Parallel()
	in := guest(t, InstanceConfig{}, Limits{})
	call(t, in, "grow", 900)
	for i := range uint64(1024) {
		call(t, in, "store", 4096+8*i, 4096)
		call(t, in, "store", 4096+8*i+4, 32<<20)
	}
	require.Equal(t, []uint64{errnoInval}, call(t, in, "fd_write", 1, 4096, 1024, 8))
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
	require.Len(t, fault.Output, 16)
	require.Equal(t, "panic: it broke", fault.Output[15])
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

	require.Equal(t, []uint64{0}, call(t, in, "random_get", 0, 2*65536), "the whole memory")
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
	require.EqualValues(t, 1_700_000_000_125_000_000, read("now"), "each call reads the clock")
	require.EqualValues(t, 1_700_000_000_127_000_000, read("wait_then_now"), "the clock is read after waiting")
	require.EqualValues(t, 1_700_000_001_128_000_000, read("sleep", 1_000_000_000),
		"sleeping advances the clock without waiting")
	require.EqualValues(t, 1_700_000_001_129_000_000, read("now"))
	require.EqualValues(t, 1_700_000_001_131_000_000, read("sleep", 1), "rounded up, so that the guest does not spin")
	now -= 3_600_000_000_000
	require.EqualValues(t, 1_700_000_001_131_000_000, read("now"), "never backwards")
	for range 1000 {
		require.LessOrEqual(t, read("sleep", 1<<63), now+3_600_000_000_000+366*24*int64(time.Hour))
	}
}

// TestWASIWithHostileParameters checks that every function returns an error number or faults for
// extreme parameters and pointers outside of the memory.
func TestWASIWithHostileParameters(t *testing.T) {
	t.Parallel()
	hostile := []uint64{0, 1, 2, 3, 48, 65535, 131071, 131072, 0x7fffffff, 0x80000000, 0xfffffff8, 0xffffffff}
	in := guest(t, InstanceConfig{}, Limits{})
	for _, f := range wasi.Functions() {
		imp := wasiImport(f)
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

// inImport calls do as if the guest had called an import.
func (in *Instance) inImport(do func(g *Guest)) (err error) {
	defer func() {
		if _, ok := recover().(unwind); ok {
			err = in.aborted
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
	for _, f := range wasi.Functions() {
		functions[f.Name] = wasiImport(f)
	}
	call := func(name string, params ...uint64) uint64 {
		stack := append(params, 0)
		require.NoError(t, in.inImport(func(g *Guest) { functions[name].Func(t.Context(), g, stack) }))
		return stack[0]
	}
	require.Zero(t, call("fd_fdstat_get", 1, 256))
	require.Equal(t, byte(2), in.guest.Read(256, 24)[0], "a character device")
	require.EqualValues(t, 1<<6, binary.LittleEndian.Uint64(in.guest.Read(264, 8)), "writable")
	require.EqualValues(t, errnoBadf, call("fd_fdstat_get", 3, 256))
	require.EqualValues(t, errnoBadf, call("fd_prestat_get", 3, 256), "no directories")
	require.EqualValues(t, errnoBadf, call("path_open", 3, 0, 0, 1, 0, 0, 0, 0, 256))
	require.EqualValues(t, errnoSpipe, call("fd_seek", 1, 0, 0, 256))
	require.Zero(t, call("fd_filestat_get", 1, 256))
	require.Zero(t, call("fd_read", 0, 0, 0, 256), "stdin is empty")
	require.Zero(t, call("args_sizes_get", 256, 260))
	require.Equal(t, make([]byte, 8), in.guest.Read(256, 8))
	require.EqualValues(t, errnoNosys, call("proc_raise", 9))
	require.Zero(t, call("clock_res_get", 0, 256))
	require.EqualValues(t, errnoInval, call("clock_time_get", 9, 0, 256))
	require.EqualValues(t, errnoInval, call("poll_oneoff", 0, 0, 0, 256))
}
