// Package wasi implements WASI preview 1 for guests that get nothing from it but output,
// time and random bytes.
//
// Toolchains link WASI whether a guest uses it or not. All its functions exist with their
// exact types ([Functions]) and do the minimum that language runtimes need to start:
//
//   - no files, arguments, environment or sockets;
//   - stdout and stderr, which become lines for the sinks of [Config], and an empty stdin;
//   - a clock that advances only when the host sets it ([Process.Tick]), and by the
//     requested time when the guest sleeps: nothing here ever waits;
//   - random bytes that Config.Seed determines;
//   - proc_exit, which ends the call.
//
// A [Process] is the state of one instance. It accesses the instance through the interface [Guest], which checks
// pointers and charges fuel. The package imports wazero's value types and the packages text and verify.
//
// The names, types and layouts are those of
// https://github.com/WebAssembly/WASI/blob/main/legacy/preview1/witx/wasi_snapshot_preview1.witx
package wasi

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/tetratelabs/wazero/api"

	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// The error numbers that functions return.
const (
	errnoSuccess = 0
	errnoBadf    = 8  // bad file descriptor
	errnoInval   = 28 // invalid argument
	errnoNosys   = 52 // not supported
	errnoSpipe   = 70 // invalid seek: a stream has no position
)

const (
	// maxIovs is the maximum number of buffers of one fd_write, IOV_MAX on other systems.
	maxIovs = 1024
	// maxSubscriptions is the maximum number of subscriptions of one poll_oneoff.
	maxSubscriptions = 1024
	// clockResolution is a millisecond, in nanoseconds, so that a guest cannot measure the
	// host.
	clockResolution = 1_000_000
	// randomPiece is the number of random bytes between two checks of the limits.
	randomPiece = 64 << 10
)

// A Guest is the instance that called a function. Its methods end the call, and do not
// return, for a pointer outside of the memory or when the fuel is used up.
type Guest interface {
	// View returns a range of the guest's memory, which must not be kept, and charges for it.
	View(ptr, length uint32) []byte
	// CheckBounds checks a range of the guest's memory without charging for it.
	CheckBounds(ptr, length uint32)
	// Charge charges fuel.
	Charge(fuel int64)
	// Wait calls fn, whose time does not count as the guest's.
	Wait(fn func())
	// Exit ends the call with an exit code.
	Exit(code uint32)
}

// A Function is a function of WASI. Call finds the parameters on the stack and leaves the
// result there.
type Function struct {
	Name string
	Type verify.FuncType
	Call func(p *Process, stack []uint64)
}

// function implements a function of WASI that returns an error number, as all but proc_exit do.
type function func(p *Process, params []uint64) (errno uint32)

// Functions returns all functions of WASI.
func Functions() []Function {
	// In parameters, i means i32 and I means i64. All functions but proc_exit return an
	// i32.
	functions := []struct {
		name, params string
		do           function
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
		{"proc_raise", "i", notSupported},
		{"random_get", "ii", random},
		{"sched_yield", "", success},
		{"sock_accept", "iii", badFile},
		{"sock_recv", "iiiiii", badFile},
		{"sock_send", "iiiii", badFile},
		{"sock_shutdown", "ii", badFile},
	}
	all := make([]Function, 0, len(functions)+1)
	for _, f := range functions {
		types := make([]api.ValueType, len(f.params))
		for i := range types {
			types[i] = map[byte]api.ValueType{'i': api.ValueTypeI32, 'I': api.ValueTypeI64}[f.params[i]]
		}
		all = append(all, Function{
			Name: f.name, Type: verify.FuncType{Params: types, Results: []api.ValueType{api.ValueTypeI32}},
			Call: func(p *Process, stack []uint64) { stack[0] = uint64(f.do(p, stack)) },
		})
	}
	return append(all, Function{
		Name: "proc_exit", Type: verify.FuncType{Params: []api.ValueType{api.ValueTypeI32}},
		Call: func(p *Process, stack []uint64) { p.guest.Exit(uint32(stack[0])) },
	})
}

func success(*Process, []uint64) uint32      { return errnoSuccess }
func badFile(*Process, []uint64) uint32      { return errnoBadf }
func noPosition(*Process, []uint64) uint32   { return errnoSpipe }
func notSupported(*Process, []uint64) uint32 { return errnoNosys }

// onStream restricts a function to the three standard streams: no other file is open.
func onStream(do function) function {
	return func(p *Process, params []uint64) uint32 {
		if uint32(params[0]) > 2 {
			return errnoBadf
		}
		return do(p, params)
	}
}

// noStrings implements args_sizes_get and environ_sizes_get: there are no arguments and no
// environment.
func noStrings(p *Process, params []uint64) uint32 {
	p.put32(uint32(params[0]), 0)
	p.put32(uint32(params[1]), 0)
	return errnoSuccess
}

// fdstat implements fd_fdstat_get: each standard stream is a character device.
func fdstat(p *Process, params []uint64) uint32 {
	const characterDevice, rightRead, rightWrite = 2, 1 << 1, 1 << 6
	b := make([]byte, 24)
	b[0] = characterDevice
	rights := uint64(rightWrite)
	if params[0] == 0 {
		rights = rightRead
	}
	binary.LittleEndian.PutUint64(b[8:], rights)
	copy(p.guest.View(uint32(params[1]), uint32(len(b))), b)
	return errnoSuccess
}

func filestat(p *Process, params []uint64) uint32 {
	b := make([]byte, 64)
	b[16] = 2 // a character device
	b[24] = 1 // one link
	copy(p.guest.View(uint32(params[1]), uint32(len(b))), b)
	return errnoSuccess
}

// fdRead reports the end of stdin.
func fdRead(p *Process, params []uint64) uint32 {
	if uint32(params[0]) != 0 {
		return errnoBadf
	}
	p.put32(uint32(params[3]), 0)
	return errnoSuccess
}

// fdWrite prints. It reports all bytes as written, including those that the limits drop,
// because a guest would otherwise retry forever.
func fdWrite(p *Process, params []uint64) uint32 {
	fd, iovs, count := uint32(params[0]), uint32(params[1]), uint32(params[2])
	out := &p.stdout
	switch fd {
	case 1:
	case 2:
		out = &p.stderr
	default:
		return errnoBadf
	}
	if count > maxIovs {
		return errnoInval
	}
	list := p.guest.View(iovs, count*8)
	written := uint64(0)
	for ; len(list) > 0; list = list[8:] {
		piece := p.guest.View(binary.LittleEndian.Uint32(list), binary.LittleEndian.Uint32(list[4:]))
		if written += uint64(len(piece)); written > math.MaxInt32 {
			return errnoInval
		}
		out.write(piece)
	}
	p.put32(uint32(params[3]), uint32(written))
	return errnoSuccess
}

func clockRes(p *Process, params []uint64) uint32 {
	if uint32(params[0]) > 3 {
		return errnoInval
	}
	p.put64(uint32(params[1]), clockResolution)
	return errnoSuccess
}

// clockTime returns the same time for all clocks, including those of processor time.
func clockTime(p *Process, params []uint64) uint32 {
	if uint32(params[0]) > 3 {
		return errnoInval
	}
	p.put64(uint32(params[2]), uint64(p.time()))
	return errnoSuccess
}

// time returns the time of the guest's clocks in nanoseconds.
func (p *Process) time() int64 {
	now := p.now + p.slept
	return now - now%clockResolution
}

// day bounds one sleep, in nanoseconds. All sleeps together are bounded by a year, so that the
// clock cannot overflow.
const day = 24 * 60 * 60 * 1_000_000_000

// poll fires every subscription at once. If some subscriptions are to clocks, it advances the
// guest's clock to the earliest requested time, as if the guest had slept. Otherwise a guest that
// sleeps would spin until its time is used up.
func poll(p *Process, params []uint64) uint32 {
	in, out, count := uint32(params[0]), uint32(params[1]), uint32(params[2])
	const subscription, event = 48, 32
	if count == 0 || count > maxSubscriptions {
		return errnoInval
	}
	wanted, events := p.guest.View(in, count*subscription), p.guest.View(out, count*event)
	wake := int64(math.MaxInt64)
	for s := range slices.Chunk(wanted, subscription) {
		switch kind := s[8]; kind {
		case 0:
			wake = min(wake, p.wakeTime(s))
		case 1, 2: // streams are always ready
		default:
			return errnoInval
		}
	}
	if wake != math.MaxInt64 {
		p.slept = min(max(p.slept, wake-p.now), 365*day)
	}
	for e := range slices.Chunk(events, event) {
		var answer [event]byte
		copy(answer[:], wanted[:8]) // the user data
		answer[10] = wanted[8]      // the kind
		copy(e, answer[:])
		wanted = wanted[subscription:]
	}
	p.put32(uint32(params[3]), count)
	return errnoSuccess
}

// wakeTime returns the time at which a subscription to a clock fires.
func (p *Process) wakeTime(subscription []byte) int64 {
	timeout := binary.LittleEndian.Uint64(subscription[24:])
	absolute := subscription[40]&1 != 0
	now := p.time()
	if absolute {
		timeout -= min(timeout, uint64(now))
	}
	// Round up, so that the clock does not stop before the requested time.
	wake := now + int64(min(timeout, day)) + clockResolution - 1
	return wake - wake%clockResolution
}

// random fills a buffer of any size, piece by piece, so that each piece is charged before it
// is generated.
func random(p *Process, params []uint64) uint32 {
	ptr, left := uint32(params[0]), uint32(params[1])
	p.guest.CheckBounds(ptr, left)
	for left > 0 {
		n := min(left, randomPiece)
		p.draw(p.guest.View(ptr, n))
		ptr, left = ptr+n, left-n
	}
	return errnoSuccess
}

func (p *Process) put32(ptr, v uint32) { binary.LittleEndian.PutUint32(p.guest.View(ptr, 4), v) }

func (p *Process) put64(ptr uint32, v uint64) {
	binary.LittleEndian.PutUint64(p.guest.View(ptr, 8), v)
}
