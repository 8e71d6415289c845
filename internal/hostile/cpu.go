package hostile

import (
	"math"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// endless returns a case of a hook that never ends by itself. Its fuel is unlimited, so that the deadline ends the
// hook on every machine: a compiler removes work that has no effect, and a limited hook could use up its fuel before
// the deadline.
func endless(name string, build func() []byte) Case {
	c := timed(Case{Name: name, Module: build, Want: Faulted, Hook: contract.HookBeforeAgent, Kind: sandbox.FaultTimeout,
		Text: []string{"ran longer than 60ms"}})
	c.Limits.Fuel = math.MaxInt64
	return c
}

// cpuCases returns cases that use the processor without end, or beyond a limit.
func cpuCases() []Case {
	all := append(loops(), bulks()...)
	all = append(all, costlyCalls()...)
	return append(all, hooksThatLoop()...)
}

// loops returns cases of endless loops, recursion and host calls in before_agent.
func loops() []Case {
	looping := func(code ...[]byte) func() []byte {
		return func() []byte { return doing(contract.HookBeforeAgent, code...) }
	}
	return []Case{
		endless("loop", looping(forever())),
		endless("loop by br_if", looping(loop(i32(1), branchIf(0)))),
		endless("loop by br_table", looping(loop(i32(9), []byte{0x0e, 2, 0, 0, 0}))),
		endless("nested loops", looping(forever(forever(forever())))),
		endless("loop in an if", looping(i32(0), []byte{0x04, noValue, 0x05}, forever(), []byte{0x0b})),
		endless("calls without loops", callTree),
		endless("recursion with two calls", func() []byte {
			g := newGuest()
			f := len(g.declared)
			g.function(
				"i",
				"i",
				local(0),
				i32(2),
				less,
				when(i32(1), leave),
				local(0),
				i32(1),
				[]byte{0x6b},
				call(f),
				local(0),
				i32(2),
				[]byte{0x6b},
				call(f),
				add,
			)
			return g.hook(contract.HookBeforeAgent, i32(90), call(f), drop).bytes()
		}),
		endless("recursion through a table", func() []byte {
			g := newGuest()
			g.function("i", "i", local(0), i32(2), less, when(i32(1), leave),
				local(0), i32(1), []byte{0x6b}, i32(0), []byte{0x11}, leb(g.signature("i", "i")), []byte{0},
				local(0), i32(2), []byte{0x6b}, i32(0), []byte{0x11}, leb(g.signature("i", "i")), []byte{0}, add)
			return g.entries(1, 0).hook(contract.HookBeforeAgent, i32(90), call(0), drop).bytes()
		}),
		endless("long straight code many times", func() []byte {
			g := newGuest()
			f := g.function("", "", repeat(60_000, join(local(n0), setLocal(n1))...))
			return g.hook(contract.HookBeforeAgent, forever(call(f))).bytes()
		}),
		endless("long straight code in a loop", looping(forever(repeat(60_000, join(local(n0), setLocal(n1))...)))),
		endless("divisions", looping(forever(i64(-7), i64(3), []byte{0x7f}, drop))),
		endless("square roots", looping(forever(repeat(1000, join([]byte{0x44, 1, 2, 3, 4, 5, 6, 7, 0x40, 0x9f}, drop)...)))),
		endless("subnormal products", func() []byte {
			tiny := []byte{0x44, 1, 0, 0, 0, 0, 0, 0x10, 0} // slightly above the smallest normal number
			half := []byte{0x44, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f}
			return doing(contract.HookBeforeAgent, forever(repeat(10_000, join(tiny, half, []byte{0xa2}, drop)...)))
		}),
		endless("subnormal products of loaded values", func() []byte {
			g := newGuest().place(64, "\x01\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x00\x00\xe0\x3f")
			load := func(at int) []byte { return join(i32(0), []byte{0x2b, 3}, leb(at)) }
			turn := join(i32(0), load(64), load(72), []byte{0xa2, 0x39, 3}, leb(80))
			return g.hook(contract.HookBeforeAgent, forever(repeat(5_000, turn...))).bytes()
		}),
		endless("fast for long, then untouched pages", func() []byte {
			// Slices of fuel are large when the stores begin.
			g := newGuest().memory(120) // below the size of a large memory
			var stores []byte
			for at := 0; at < 120<<16-4; at += 4096 {
				stores = append(stores, join(i32(at), i32(1), store32(0))...)
			}
			return g.hook(contract.HookBeforeAgent, count(n0, 5_000_000), stores, forever()).bytes()
		}),
		endless("small overlapping copies", func() []byte {
			return doing(contract.HookBeforeAgent, forever(repeat(2_000, join(i32(64), i32(65), i32(200), copyMemory)...)))
		}),
		endless("empty copies", func() []byte {
			return doing(contract.HookBeforeAgent, forever(repeat(5_000, join(i32(0), i32(0), i32(0), copyMemory)...)))
		}),
		endless("table.set and table.get", func() []byte {
			g := newGuest().entries(60_000)
			turn := join(
				local(n0),
				i32(0xffff),
				and,
				nullFunc,
				[]byte{0x26, 0},
				local(n0),
				i32(0x7fff),
				and,
				[]byte{0x25, 0},
				drop,
				local(n0),
				i32(7919),
				add,
				setLocal(n0),
			)
			return g.hook(contract.HookBeforeAgent, forever(repeat(1_000, join(i32(0x7fff), local(n0),
				and, setLocal(n0), turn)...))).
				bytes()
		}),
		endless("loads from random addresses", func() []byte {
			return newGuest().memory(1000).hook(contract.HookBeforeAgent, forever(
				local(n0), i32(4096+64), add, i32(1<<25-1), and, teeLocal(n0), local(n0), store32(0))).bytes()
		}),
		endless("waiting for the clock", func() []byte {
			g := newGuest()
			now := g.wasi("clock_time_get")
			return g.hook(contract.HookBeforeAgent, forever(i32(1), i64(1), i32(64), call(now), drop)).bytes()
		}),
		{Name: "sleeping for years", Module: sleeper, Want: Harmless},
		{
			Name:   "endless host calls",
			Module: func() []byte { return callingForever("changed") },
			Want:   Faulted,
			Hook:   contract.HookBeforeAgent,
			Text:   []string{"host_calls", "10000"},
		},
		timed(Case{Name: "endless host calls without a limit", Module: func() []byte { return callingForever("changed") },
			Limits: policy.Limits{
				HostCalls: 1 << 30,
			}, Want: Faulted, Hook: contract.HookBeforeAgent, Kind: sandbox.FaultTimeout}),
		endless("endless WASI calls", func() []byte {
			g := newGuest()
			yield := g.wasi("sched_yield")
			return g.hook(contract.HookBeforeAgent, forever(call(yield), drop)).bytes()
		}),
		endless("endless random bytes", func() []byte {
			g := newGuest()
			random := g.wasi("random_get")
			return g.memory(1000).hook(contract.HookBeforeAgent, forever(i32(0), i32(1000<<16), call(random), drop)).bytes()
		}),
		{
			Name:   "work beyond the fuel",
			Module: looping(forever()),
			Limits: policy.Limits{Limits: sandbox.Limits{Fuel: 5_000_000}},
			Want:   Faulted,
			Hook:   contract.HookBeforeAgent,
			Kind:   sandbox.FaultFuel,
			Text:   []string{"5000000 fuel"},
		},
	}
}

// callTree returns a guest that makes more than 2^40 calls without a loop.
func callTree() []byte {
	g := newGuest()
	const deep = 40
	for i := range deep {
		g.function("", "", call(i+1), call(i+1))
	}
	g.function("", "")
	return g.hook(contract.HookBeforeAgent, call(0)).bytes()
}

// sleeper returns a guest that asks 10,000 times to sleep for 2^63-1 ns, which is 292
// years.
func sleeper() []byte {
	g := newGuest()
	poll := g.wasi("poll_oneoff")
	g.place(
		0x100,
		"\x01\x00\x00\x00\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"\x01\x00\x00\x00\x00\x00\x00\x00"+
			"\xff\xff\xff\xff\xff\xff\xff\x7f"+"\x00\x00\x00\x00\x00\x00\x00\x00"+"\x00\x00\x00\x00\x00\x00\x00\x00",
	)
	sleep := count(n0, 10_000, i32(0x100), i32(0x200), i32(1), i32(0x300), call(poll), when(unreachable))
	return g.hook(contract.HookBeforeAgent, sleep).bytes()
}

// callingForever returns a guest that makes a cheap host call in an endless loop.
func callingForever(string) []byte {
	g := newGuest()
	f := g.abi("changed")
	return g.hook(contract.HookBeforeAgent, forever(i32(0), i64(0), call(f), drop)).bytes()
}

// bulks returns cases of single instructions that move or grow the whole memory or table.
func bulks() []Case {
	const pages, size = 1000, 1000 << 16
	in := func(code ...[]byte) func() []byte {
		return func() []byte {
			g := newGuest().memory(pages)
			g.passive = make([]byte, 1<<20)
			return g.entries(65_000).hook(contract.HookBeforeAgent, forever(code...)).bytes()
		}
	}
	return []Case{
		endless("filling 64 MB", in(i32(0), i32(1), i32(size), fill)),
		endless("copying 64 MB", in(i32(0), i32(1), i32(size-1), copyMemory)),
		endless("copying 64 MB backwards", in(i32(1), i32(0), i32(size-1), copyMemory)),
		endless("copying data", in(i32(0), i32(0), i32(1<<20), initMemory)),
		endless("filling a table", in(i32(0), nullFunc, i32(65_000), fillTable)),
		endless("copying a table", in(i32(0), i32(1), i32(64_999), copyTable)),
		endless("growing by 0", in(i32(0), growMemory, drop)),
		endless("growing beyond the limit", in(i32(65_535), growMemory, drop)),
		endless("growing a table", in(nullFunc, i32(1<<20), growTable, drop)),
		{
			Name:   "filling beyond the memory",
			Module: in(i32(0), i32(1), i32(math.MaxInt32), fill),
			Want:   Faulted,
			Hook:   contract.HookBeforeAgent,
			Kind:   sandbox.FaultTrap,
			Text:   []string{"out of bounds memory access"},
		},
	}
}

// hooksThatLoop returns cases with an endless loop in a hook. It skips hooks in which other cases
// loop.
func hooksThatLoop() []Case {
	var all []Case
	for _, row := range abitable.Hooks() {
		h := abi.Hook(row.Name)
		switch {
		case row.During == "load" || row.During == "client" || h == contract.HookBeforeAgent || h == contract.HookCallTool:
			continue // other cases loop there
		}
		c := endless("loop in "+string(h), func() []byte { return doing(h, forever()) })
		c.Hook = h
		all = append(all, c)
	}
	return all
}

// costlyCalls returns cases that endlessly make host calls. Each call is much work for the host and
// little for the guest.
func costlyCalls() []Case {
	const text = 0x30000
	// repeated returns a guest that calls f endlessly on size bytes of text, after a prelude.
	repeated := func(
		h abi.Hook, size int, begin, end string, f string, build func(f int) (before, turn []byte),
	) func() []byte {
		return func() []byte {
			g := newGuest().memory(4 + (text+size)>>16)
			before, turn := build(g.abi(f))
			if f != "local_set" && f != "next" && f != "emit" {
				before = join(i32(answerAt-16), i32(1), i32(text), i32(size), i64(-1), call(g.abi("local_set")), drop, before)
			}
			return g.place(answerAt-16, "k").place(text, begin).place(text+size-len(end), end).hook(h,
				i32(text+len(begin)), i32('x'), i32(size-len(begin)-len(end)), fill, before, forever(turn)).bytes()
		}
	}
	value := func(f int) (before, turn []byte) { return nil, join(i32(answerAt-16), i32(1), call(f), drop) }
	written := func(f int) (before, turn []byte) {
		return nil, join(i32(answerAt-16), i32(1), i32(text), i32(4_000_000), i64(-1), call(f), drop)
	}
	patch := func(f int) (before, turn []byte) { return nil, join(i32(text), i32(8_000_000), call(f), drop) }
	denied := func(f int) (before, turn []byte) { return nil, join(i32(0), i32(0), call(f), drop) }
	all := []Case{
		endless(
			"value of 4 MB read repeatedly",
			repeated(contract.HookBeforeAgent, 4_000_000, `"`, `"`, "local_get", value),
		),
		endless(
			"value of 4 MB written repeatedly",
			repeated(contract.HookBeforeAgent, 4_000_000, `"`, `"`, "local_set", written),
		),
		endless(
			"event of 8 MB repeatedly",
			repeated(contract.HookBeforeAgent, 8_000_000, `{"name":"n","data":"`, `"}`, "emit", patch),
		),
		endless(
			"patch of 8 MB that does not parse, repeatedly",
			repeated(contract.HookWrapModel, 8_000_000, `{"model":"`, `"`, "next", patch),
		),
		endless("denied calls, repeatedly", repeated(contract.HookBeforeAgent, 100, `"`, `"`, "model", denied)),
		endless("messages of 7 MB repeatedly", longMessages),
		endless("patch of 8 MB in small parts, repeatedly", func() []byte {
			g := newGuest()
			build := g.tiled(text, 8_000_000, `{"x":[`, `[],`, `[]]}`)
			return g.hook(contract.HookWrapModel, build, forever(i32(text), i32(8_000_000), call(g.abi("next")), drop)).bytes()
		}),
		endless("value of 4 MB in small parts, repeatedly", func() []byte {
			g := newGuest()
			build := g.place(answerAt-16, "k").tiled(text, 4_000_000, `[`, `{},`, `1]`)
			return g.hook(contract.HookBeforeAgent, build,
				forever(i32(answerAt-16), i32(1), i32(text), i32(4_000_000), i64(-1), call(g.abi("local_set")), drop)).bytes()
		}),
	}
	for i := range all {
		all[i].Limits.HostCalls = 1 << 30
	}
	all[3].Hook, all[5].Hook, all[6].Hook = contract.HookWrapModel, contract.HookBeforeModel, contract.HookWrapModel
	return all
}

// tiled returns code that writes size bytes at an address: begin, copies of part, spaces,
// and end.
func (g *guest) tiled(at, size int, begin, part, end string) []byte {
	first := strings.Repeat(part, 1000)
	g.memory(1+(at+size)>>16).place(at, begin+first)
	from, whole := at+len(begin), (size-len(begin)-len(end))/len(part)*len(part)
	code := [][]byte{i32(from + whole), i32(' '), i32(at + size - from - whole), fill}
	for n := len(first); n < whole; n *= 2 {
		code = append(code, join(i32(from+n), i32(from), i32(min(n, whole-n)), copyMemory))
	}
	for i := range end {
		code = append(code, join(i32(at+size-len(end)+i), i32(int(end[i])), i32(1), fill))
	}
	return join(code...)
}

// longMessages returns a guest that puts a message of 7 MB into the conversation and reads it
// endlessly.
func longMessages() []byte {
	g := newGuest()
	write, messages := g.abi("write"), g.abi("messages")
	const at, size = 0x10000, 7_000_000
	const begin, end = `{"messages":{"splice":[{"at":0,"insert":[{"role":"user","content":"`, `"}]}]}}`
	g.memory(2+(at+size)>>16).place(at, begin).place(at+size-len(end), end)
	g.hook(
		contract.HookBeforeAgent,
		i32(at+len(begin)),
		i32('x'),
		i32(size-len(begin)-len(end)),
		fill,
		i32(at),
		i32(size),
		call(write),
	)
	return g.hook(contract.HookBeforeModel, forever(i32(0), i32(0), i32(9), call(messages), drop)).bytes()
}
