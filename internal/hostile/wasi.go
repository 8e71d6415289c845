package hostile

import (
	"encoding/binary"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// words encodes numbers of 32 bits in little endian.
func words(list ...uint32) string {
	var b []byte
	for _, n := range list {
		b = binary.LittleEndian.AppendUint32(b, n)
	}
	return string(b)
}

// subscriptions encodes n sleeps of timeout nanoseconds each for poll_oneoff.
func subscriptions(n int, timeout uint64, flags uint16) string {
	var b []byte
	for i := range n {
		b = binary.LittleEndian.AppendUint64(b, uint64(i))
		b = append(b, make([]byte, 16)...) // kind 0, clock 0
		b = binary.LittleEndian.AppendUint64(b, timeout)
		b = append(b, make([]byte, 8)...) // precision
		b = binary.LittleEndian.AppendUint16(b, flags)
		b = append(b, make([]byte, 6)...)
	}
	return string(b)
}

// wasiCases returns cases that call WASI with invalid descriptors, pointers and sizes, print or
// sleep endlessly, or exit.
func wasiCases() []Case {
	const text = 0x1000
	// asked returns a case of a guest that calls one function of WASI and traps unless the
	// function returns answer.
	asked := func(name, f string, answer int, params string, args ...[]byte) Case {
		return Case{Name: name, Module: func() []byte {
			g := newGuest()
			index := g.use(wasiModule, f, params, "i")
			return g.hook(contract.HookBeforeAgent, join(args...), call(index), i32(answer), []byte{0x47}, when(unreachable)).
				bytes()
		}, Want: Harmless}
	}
	invalidCase := func(name, f, params string, args ...[]byte) Case {
		c := asked(name, f, 0, params, args...)
		c.Want, c.Hook, c.Kind, c.Text = Faulted, contract.HookBeforeAgent, sandbox.FaultBounds, []string{
			f,
			"do not lie in the memory",
		}
		return c
	}
	printing := func(name string, pieces int, piece string) Case {
		return endless(name, func() []byte {
			g := newGuest()
			write := g.wasi("fd_write")
			return g.memory(1000).place(text, strings.Repeat(piece, pieces)).
				hook(contract.HookBeforeAgent, forever(i32(1), i32(text), i32(pieces), i32(8), call(write), drop)).bytes()
		})
	}
	sleeping := func(name string, n int, timeout uint64, flags uint16) Case {
		return endless(name, func() []byte {
			g := newGuest()
			poll := g.wasi("poll_oneoff")
			return g.place(text, subscriptions(n, timeout, flags)).
				hook(contract.HookBeforeAgent, forever(i32(text), i32(2<<16), i32(n), i32(8), call(poll), drop)).bytes()
		})
	}
	exiting := func(h abi.Hook) Case {
		return Case{Name: "proc_exit(0) in " + string(h), Module: func() []byte {
			g := newGuest()
			exit := g.wasi("proc_exit")
			return g.hook(h, i32(0), call(exit)).bytes()
		}, Want: Faulted, Hook: h, Kind: sandbox.FaultExit, Text: []string{"proc_exit(0)"}}
	}
	const badFile, invalid, position = 8, 28, 70
	return []Case{
		asked("write to a file that is not open", "fd_write", badFile, "iiii", i32(3), i32(-1), i32(1), i32(-1)),
		asked("write to descriptor -1", "fd_write", badFile, "iiii", i32(-1), i32(0), i32(0), i32(0)),
		asked("read of stdout", "fd_read", badFile, "iiii", i32(1), i32(-1), i32(-1), i32(-1)),
		asked("end of stdin, wherever it is to go", "fd_read", 0, "iiii", i32(0), i32(-1), i32(-1), i32(8)),
		invalidCase("end of stdin, told nowhere", "fd_read", "iiii", i32(0), i32(0), i32(0), i32(-2)),
		asked("stdout turned back", "fd_seek", position, "iIii", i32(1), i64(-1), i32(0), i32(-1)),
		asked("first directory", "fd_prestat_get", badFile, "ii", i32(3), i32(-1)),
		asked(
			"secrets opened",
			"path_open",
			badFile,
			"iiiiiIIii",
			i32(3),
			i32(0),
			i32(0),
			i32(11),
			i32(0),
			i64(-1),
			i64(-1),
			i32(0),
			i32(-1),
		),
		asked("link out of nowhere", "path_symlink", badFile, "iiiii", i32(-1), i32(-1), i32(3), i32(-1), i32(-1)),
		asked("connection accepted", "sock_accept", badFile, "iii", i32(3), i32(0), i32(-1)),
		asked("signal raised", "proc_raise", 52, "i", i32(9)),
		asked("arguments, to nowhere", "args_get", 0, "ii", i32(-1), i32(-1)),
		invalidCase("their size, to nowhere", "args_sizes_get", "ii", i32(-4), i32(-2)),
		invalidCase("size of the environment, across the end", "environ_sizes_get", "ii", i32(0), i32(4<<16-3)),
		invalidCase("descriptor's state, to nowhere", "fd_fdstat_get", "ii", i32(1), i32(4<<16-23)),
		asked("clock that does not exist", "clock_time_get", invalid, "iIi", i32(4), i64(0), i32(-1)),
		invalidCase("random bytes around the end", "random_get", "ii", i32(4<<16-1), i32(2)),
		asked("1,025 sleeps", "poll_oneoff", invalid, "iiii", i32(0), i32(0), i32(1025), i32(0)),
		invalidCase("events to nowhere", "poll_oneoff", "iiii", i32(0), i32(-32), i32(1), i32(0)),
		printing("printing 1,000 pieces of 64 MB", 1000, words(0, 1000<<16)),
		printing("printing 1,024 pieces of nothing", 1024, words(0, 0)),
		printing("printing 1,024 new lines", 1024, words(text-1, 1)),
		sleeping("1,024 sleeps again and again", 1024, 1<<63, 0),
		sleeping("sleeps until the end of time", 1, 1<<64-1, 1),
		exiting(
			contract.HookWrapModel,
		), exiting(contract.HookGateTool), exiting(contract.HookOnChunk), exiting(contract.HookAfterAgent),
		refused("proc_exit in _initialize", func() []byte {
			g := newGuest()
			exit := g.wasi("proc_exit")
			g.hook(contract.HookBeforeAgent)
			return g.export("_initialize", g.function("", "", i32(0), call(exit))).bytes()
		}, "_initialize", "proc_exit(0)"),
		endless("arguments asked for without end", func() []byte {
			g := newGuest()
			f := g.use(wasiModule, "args_sizes_get", "ii", "i")
			return g.hook(contract.HookBeforeAgent, forever(repeat(1000, join(i32(0), i32(4), call(f), drop)...))).bytes()
		}),
	}
}
