package sandbox

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"github.com/tetratelabs/wazero/api"
)

// wasiModule is WASI preview 1, which toolchains link whether a guest uses it or
// not. All its functions are there with their exact types; what they give is
// the least that language runtimes start with:
//
//   - no files, arguments, environment or sockets;
//   - stdout and stderr, which become lines for InstanceConfig's sinks, and an
//     empty stdin;
//   - a clock that stands still during a call, except that sleeping moves it at
//     once: nothing here ever waits;
//   - random bytes that InstanceConfig.Seed determines;
//   - proc_exit, which ends the call with a Fault.
//
// Names, types and layouts are those of
// https://github.com/WebAssembly/WASI/blob/main/legacy/preview1/witx/wasi_snapshot_preview1.witx
const wasiModule = "wasi_snapshot_preview1"

// The error numbers that are answered here.
const (
	errnoSuccess = 0
	errnoBadf    = 8  // there is no such file descriptor
	errnoInval   = 28 // a parameter makes no sense
	errnoNosys   = 52 // this host does not have it
	errnoSpipe   = 70 // a stream has no position
)

const (
	// maxIovs is how many buffers one fd_write may have: IOV_MAX elsewhere.
	maxIovs = 1024
	// maxSubscriptions bounds one poll_oneoff.
	maxSubscriptions = 1024
	// clockResolution is a millisecond, so that a guest cannot measure the host.
	clockResolution = 1_000_000
	// randomPiece is how many random bytes are made between two looks at the limits.
	randomPiece = 64 << 10
)

// wasiFunc answers an error number, which is the result of almost all of WASI.
type wasiFunc func(g *Guest, p []uint64) uint32

// wasiImports lists WASI. Types are written as i for i32 and I for i64; all
// functions return an i32 but proc_exit.
func wasiImports() []Import {
	functions := []struct {
		name, params string
		do           wasiFunc
	}{
		{"args_get", "ii", success},
		{"args_sizes_get", "ii", noStrings},
		{"clock_res_get", "ii", clockRes},
		{"clock_time_get", "iIi", clockTime},
		{"environ_get", "ii", success},
		{"environ_sizes_get", "ii", noStrings},
		{"fd_advise", "iIIi", badFile},
		{"fd_allocate", "iII", badFile},
		{"fd_close", "i", onStream(success)},
		{"fd_datasync", "i", badFile},
		{"fd_fdstat_get", "ii", onStream(fdstat)},
		{"fd_fdstat_set_flags", "ii", onStream(success)},
		{"fd_fdstat_set_rights", "iII", onStream(success)},
		{"fd_filestat_get", "ii", onStream(filestat)},
		{"fd_filestat_set_size", "iI", badFile},
		{"fd_filestat_set_times", "iIIi", badFile},
		{"fd_pread", "iiiIi", onStream(noPosition)},
		{"fd_prestat_dir_name", "iii", badFile},
		{"fd_prestat_get", "ii", badFile},
		{"fd_pwrite", "iiiIi", onStream(noPosition)},
		{"fd_read", "iiii", fdRead},
		{"fd_readdir", "iiiIi", badFile},
		{"fd_renumber", "ii", badFile},
		{"fd_seek", "iIii", onStream(noPosition)},
		{"fd_sync", "i", badFile},
		{"fd_tell", "ii", onStream(noPosition)},
		{"fd_write", "iiii", fdWrite},
		{"path_create_directory", "iii", badFile},
		{"path_filestat_get", "iiiii", badFile},
		{"path_filestat_set_times", "iiiiIIi", badFile},
		{"path_link", "iiiiiii", badFile},
		{"path_open", "iiiiiIIii", badFile},
		{"path_readlink", "iiiiii", badFile},
		{"path_remove_directory", "iii", badFile},
		{"path_rename", "iiiiii", badFile},
		{"path_symlink", "iiiii", badFile},
		{"path_unlink_file", "iii", badFile},
		{"poll_oneoff", "iiii", poll},
		{"proc_raise", "i", noSuchCall},
		{"random_get", "ii", random},
		{"sched_yield", "", success},
		{"sock_accept", "iii", badFile},
		{"sock_recv", "iiiiii", badFile},
		{"sock_send", "iiiii", badFile},
		{"sock_shutdown", "ii", badFile},
	}
	imports := make([]Import, 0, len(functions)+1)
	for _, f := range functions {
		types := make([]api.ValueType, len(f.params))
		for i := range types {
			types[i] = map[byte]api.ValueType{'i': api.ValueTypeI32, 'I': api.ValueTypeI64}[f.params[i]]
		}
		imports = append(imports, Import{
			Module: wasiModule, Name: f.name, Params: types, Results: []api.ValueType{api.ValueTypeI32},
			Func: func(_ context.Context, g *Guest, stack []uint64) { stack[0] = uint64(f.do(g, stack)) },
		})
	}
	return append(imports, Import{
		Module: wasiModule, Name: "proc_exit", Params: []api.ValueType{api.ValueTypeI32},
		Func: func(_ context.Context, g *Guest, stack []uint64) {
			g.in.fail(FaultExit, fmt.Sprintf("proc_exit(%d)", uint32(stack[0])), nil)
		},
	})
}

func success(*Guest, []uint64) uint32    { return errnoSuccess }
func badFile(*Guest, []uint64) uint32    { return errnoBadf }
func noPosition(*Guest, []uint64) uint32 { return errnoSpipe }
func noSuchCall(*Guest, []uint64) uint32 { return errnoNosys }

// onStream answers for the three standard streams only: nothing else is open.
func onStream(do wasiFunc) wasiFunc {
	return func(g *Guest, p []uint64) uint32 {
		if uint32(p[0]) > 2 {
			return errnoBadf
		}
		return do(g, p)
	}
}

// noStrings answers that there are no arguments, or no environment.
func noStrings(g *Guest, p []uint64) uint32 {
	g.put32(uint32(p[0]), 0)
	g.put32(uint32(p[1]), 0)
	return errnoSuccess
}

// fdstat describes a standard stream as a character device.
func fdstat(g *Guest, p []uint64) uint32 {
	const characterDevice, rightRead, rightWrite = 2, 1 << 1, 1 << 6
	b := make([]byte, 24)
	b[0] = characterDevice
	rights := uint64(rightWrite)
	if p[0] == 0 {
		rights = rightRead
	}
	binary.LittleEndian.PutUint64(b[8:], rights)
	g.Write(uint32(p[1]), b)
	return errnoSuccess
}

func filestat(g *Guest, p []uint64) uint32 {
	b := make([]byte, 64)
	b[16] = 2 // a character device
	b[24] = 1 // one link
	g.Write(uint32(p[1]), b)
	return errnoSuccess
}

// fdRead is at the end of stdin.
func fdRead(g *Guest, p []uint64) uint32 {
	if uint32(p[0]) != 0 {
		return errnoBadf
	}
	g.put32(uint32(p[3]), 0)
	return errnoSuccess
}

// fdWrite prints. All is reported as written, also what the limits drop, since
// a guest that is told less would try for ever.
func fdWrite(g *Guest, p []uint64) uint32 {
	fd, iovs, count := uint32(p[0]), uint32(p[1]), uint32(p[2])
	out := &g.in.stdout
	switch fd {
	case 1:
	case 2:
		out = &g.in.stderr
	default:
		return errnoBadf
	}
	if count > maxIovs {
		return errnoInval
	}
	list := g.view(iovs, count*8)
	written := uint64(0)
	for ; len(list) > 0; list = list[8:] {
		piece := g.view(binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:]))
		if written += uint64(len(piece)); written > math.MaxInt32 {
			return errnoInval
		}
		out.write(piece)
	}
	g.put32(uint32(p[3]), uint32(written))
	return errnoSuccess
}

func clockRes(g *Guest, p []uint64) uint32 {
	if uint32(p[0]) > 3 {
		return errnoInval
	}
	g.put64(uint32(p[1]), clockResolution)
	return errnoSuccess
}

// clockTime shows the same time on all clocks, processor time included.
func clockTime(g *Guest, p []uint64) uint32 {
	if uint32(p[0]) > 3 {
		return errnoInval
	}
	g.put64(uint32(p[2]), uint64(g.in.time()))
	return errnoSuccess
}

// time is what the guest's clocks show, in nanoseconds.
func (in *Instance) time() int64 {
	now := in.now + in.slept
	return now - now%clockResolution
}

// day bounds what one sleep moves the clock, a year all of them, so that it cannot
// overflow.
const day = 24 * 60 * 60 * 1_000_000_000

// poll answers each subscription at once. One to a clock moves the guest's own
// clock to the time it asked for, as if it had slept; without that, a guest that
// sleeps would spin until its time is used up.
func poll(g *Guest, p []uint64) uint32 {
	in, out, count := uint32(p[0]), uint32(p[1]), uint32(p[2])
	const subscription, event = 48, 32
	if count == 0 || count > maxSubscriptions {
		return errnoInval
	}
	wanted, events := g.view(in, count*subscription), g.view(out, count*event)
	wake := int64(math.MaxInt64)
	for s := range slices.Chunk(wanted, subscription) {
		switch kind := s[8]; kind {
		case 0:
			wake = min(wake, g.in.wakeTime(s))
		case 1, 2: // streams are always ready
		default:
			return errnoInval
		}
	}
	if wake != math.MaxInt64 {
		g.in.slept = min(max(g.in.slept, wake-g.in.now), 365*day)
	}
	for e := range slices.Chunk(events, event) {
		var answer [event]byte
		copy(answer[:], wanted[:8]) // the guest's own mark
		answer[10] = wanted[8]      // the kind
		copy(e, answer[:])
		wanted = wanted[subscription:]
	}
	g.put32(uint32(p[3]), count)
	return errnoSuccess
}

// wakeTime is when a subscription to a clock would fire.
func (in *Instance) wakeTime(subscription []byte) int64 {
	timeout := binary.LittleEndian.Uint64(subscription[24:])
	absolute := subscription[40]&1 != 0
	now := in.time()
	if absolute {
		timeout -= min(timeout, uint64(now))
	}
	// Round up, or the clock would stand before the time that was asked for.
	wake := now + int64(min(timeout, day)) + clockResolution - 1
	return wake - wake%clockResolution
}

// random fills a buffer of any size, piece by piece, so that each is charged
// before it is made.
func random(g *Guest, p []uint64) uint32 {
	ptr, left := uint32(p[0]), uint32(p[1])
	g.in.bounds(ptr, left)
	for left > 0 {
		n := min(left, randomPiece)
		g.in.draw(g.view(ptr, n))
		ptr, left = ptr+n, left-n
	}
	return errnoSuccess
}

func (g *Guest) put32(ptr, v uint32) { binary.LittleEndian.PutUint32(g.view(ptr, 4), v) }

func (g *Guest) put64(ptr uint32, v uint64) { binary.LittleEndian.PutUint64(g.view(ptr, 8), v) }
