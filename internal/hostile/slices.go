package hostile

import "github.com/agent-runner/agent-runner/internal/contract"

// sliceCases returns cases of hooks that are fast for a long time and then do the work that takes
// the most time per fuel. Because of the fast part, the host grants the largest slices of fuel.
func sliceCases() []Case { return append(touches(), slowWork()...) }

// fastIterations is the number of fast iterations at the beginning of a hook of [sliceCases].
const fastIterations = 300_000

// quickly returns a guest with a hook that loops fastIterations times, runs code once, and then
// loops endlessly.
func (g *guest) quickly(code ...[]byte) []byte {
	return g.hook(contract.HookBeforeAgent, count(n0, fastIterations), join(code...), forever()).bytes()
}

// touches returns cases that write to untouched pages. Each store touches two pages.
func touches() []Case {
	const pages, size = 1000, 1000 << 16
	// edge is the offset of a store that begins in one page and ends in the next. far is the
	// distance between two such stores.
	const edge, far = 4094, 2 * 4096
	vector := func(op byte, at int) []byte { return join([]byte{0xfd, op, 4}, leb(at)) }
	vectors := func(end, from int) []byte {
		var code []byte
		for at := edge; at < end; at += far {
			code = append(code, join(local(n1), local(n1), vector(0, at+from), vector(11, at))...)
		}
		return code
	}
	stores := func(end int) []byte {
		var code []byte
		for at := edge; at < end; at += far {
			code = append(code, join(local(n1), local(n1), store32(at))...)
		}
		return code
	}
	next := join(local(n1), i32(1<<20), add, setLocal(n1))
	return []Case{
		endless(
			"64 MB touched by straight code",
			func() []byte { return newGuest().memory(pages).quickly(stores(size - 4)) },
		),
		endless("64 MB touched by small leaf functions", func() []byte {
			g := newGuest().memory(pages)
			at := g.counter()
			code := join(global(at), teeLocal(n0), i32(7*far), add, setGlobal(at))
			for i := range 7 {
				code = join(code, local(n0), local(n0), store32(edge+i*far))
			}
			f := g.function("", "", code)
			return g.quickly(repeat(size/far/7, call(f)...))
		}),
		endless("64 MB touched by a loop", func() []byte {
			return newGuest().memory(pages).quickly(count(n2, size>>20-1, stores(1<<20), next))
		}),
		endless("64 MB touched by vectors", func() []byte {
			return newGuest().memory(pages).quickly(count(n2, size>>21, vectors(1<<20, size/2), next))
		}),
		endless("64 MB touched by small copies", func() []byte {
			return newGuest().memory(pages).quickly(count(
				n2,
				size/2/far-1,
				local(
					n1,
				),
				i32(edge+1),
				add,
				local(n1),
				i32(edge+1+size/2),
				add,
				i32(2),
				copyMemory,
				local(n1),
				i32(far),
				add,
				setLocal(n1),
			))
		}),
		endless("64 MB touched immediately after growing", func() []byte {
			return newGuest().memory(1).quickly(i32(pages-1), growMemory, drop, stores(size-4))
		}),
		endless("7.5 MB touched by vectors", func() []byte {
			const few = 120 << 16 // not a large memory
			return newGuest().memory(few >> 16).quickly(vectors(few/2, few/2-far))
		}),
	}
}

// slowWork returns cases that take a long time without touching new pages.
func slowWork() []Case {
	return []Case{
		endless("fast for long, then dependent loads", func() []byte { return chase(1<<16, 120) }),
		endless("fast for long, then dependent loads from 32 MB", func() []byte { return chase(1<<19, 1000) }),
		endless("subnormal quotients in leaf functions", func() []byte {
			g := newGuest().place(64, "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x40")
			load := func(at int) []byte { return join(i32(0), []byte{0x2b, 3}, leb(at)) }
			f := g.function("", "", i32(0), load(64), repeat(10, join(load(72), []byte{0xa3})...), []byte{0x39, 3}, leb(80))
			return g.quickly(repeat(80_000, call(f)...))
		}),
		endless("100,000s of divisions in leaf functions", func() []byte {
			g := newGuest()
			f := g.function("I", "I", local(0), repeat(14, join(i64(-7), []byte{0x7f})...))
			return g.quickly(i64(-1<<62), repeat(125_000, call(f)...), drop)
		}),
		endless("2,900 locals at control flow joins", func() []byte { return joins(2_900, 12, typeI64, []byte{0x37, 3, 0}) }),
		endless("900 vectors at control flow joins",
			func() []byte { return joins(900, 40, typeV128, []byte{0xfd, 11, 4, 0}) }),
		endless("900 globals after rare calls", func() []byte {
			g := newGuest()
			const globals = 900
			for range globals {
				g.counter()
			}
			f := g.function("", "")
			var use []byte
			for i := range globals {
				use = join(use, global(i), setGlobal((i+1)%globals))
			}
			return g.quickly(forever(repeat(1_000, join(local(n3), when(call(f)))...), local(n3), when(use)))
		}),
		endless("calls across a table of 60,000", func() []byte {
			g := newGuest()
			var list []int
			for range 5_000 {
				list = append(list, g.function("", ""))
			}
			for i := len(list); i < 60_000; i++ {
				list = append(list, list[i*7919%5_000])
			}
			return g.entries(60_000, list...).quickly(forever(
				repeat(
					1_000,
					join(local(n1), i32(7919*64), add, teeLocal(n1), i32(0x7fff), and, callTable(g.signature("", "")))...),
			))
		}),
	}
}

// chase returns a guest that stores n pointers, 64 bytes apart, and then follows them endlessly.
// Most pointers do not refer to a neighbor.
func chase(n, pages int) []byte {
	shift, times := []byte{0x74}, []byte{0x6c}
	build := count(n1, n,
		local(n1), i32(6), shift,
		local(n1), i32(0x9e35), times, i32(0x3a17), add, i32(n-1), and, i32(6), shift, store32(0))
	return newGuest().memory(pages).hook(contract.HookBeforeAgent, build, count(n0, fastIterations),
		forever(local(n2), repeat(10_000, load32(0)...), setLocal(n2))).bytes()
}

// joins returns a guest whose hook has the given number of locals of type typ. Branches that are
// never taken set the locals, and the compiler merges each local where control flow joins.
func joins(locals, times int, typ byte, store []byte) []byte {
	const first = big1 + 1
	var set, use []byte
	for i := range locals {
		set = join(set, local(first+i), setLocal(first+(i+1)%locals))
		use = join(use, i32(0), local(first+i), store)
	}
	g := newGuest()
	f := g.function("i", "i")
	g.bodies[f] = function(join([]byte{3}, hookLocals[1:], leb(locals), []byte{typ}), join(count(n0, fastIterations),
		forever(repeat(times, join(local(n3), when(set))...), local(n3), when(use)), i32(0))...)
	return g.export(string(contract.HookBeforeAgent), f).bytes()
}
