package hostile

import (
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// The types and instructions that only the cases of shapeCases use.
const (
	typeV128      = 0x7b
	typeExternRef = 0x6f
)

var (
	otherwise = []byte{0x05} // else
	noSIMD    = join([]byte{0xfd, 0x0c}, make([]byte, 16))
	dropData  = []byte{0xfc, 0x09, 0}
	divide    = []byte{0x6d} // signed, 32 bits
)

// callTable encodes a call of an entry of table 0. signature is the index of its type.
func callTable(signature int) []byte { return join([]byte{0x11}, leb(signature), []byte{0}) }

// typed encodes a block or loop, depending on op, with its parts. signature is the index of its
// type.
func typed(op byte, signature int, parts ...[]byte) []byte {
	return join([]byte{op}, signed(int64(signature)), join(parts...), []byte{0x0b})
}

// shapeCases returns cases about the structure of code: blocks, indices, immediates and stacks,
// which the validator and the metering must read like the engine.
func shapeCases() []Case {
	var all []Case
	for _, group := range [][]Case{
		badIndices(), badImmediates(), badConstants(), atLimits(), trapShapes(), oddEncodings(), deepFrames(), oddHooks(),
	} {
		all = append(all, group...)
	}
	return all
}

// badIndices returns cases of indices and labels that do not exist.
func badIndices() []Case {
	in := func(code ...[]byte) func() []byte {
		return func() []byte { return doing(contract.HookBeforeAgent, code...) }
	}
	changed := func(change func(g *guest)) func() []byte {
		return func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			change(g)
			return g.bytes()
		}
	}
	return []Case{
		refused("block of a type that does not exist", in([]byte{0x02}, signed(99), []byte{0x0b}), "type 99 does not exist"),
		refused("block of type -2^31", in([]byte{0x02}, signed(-1<<31), []byte{0x0b}), "block"),
		refused("else without if", in(otherwise), "else"),
		refused("duplicate else", in(i32(1), []byte{0x04, noValue}, otherwise, otherwise, []byte{0x0b}), "else"),
		refused("branch out of the function", in(branch(9)), "label"),
		refused("branch to label 2^32-1", in([]byte{0x0c}, limit), "label"),
		refused("br_table whose default leaves the function", in(i32(0), []byte{0x0e, 1, 0, 9}), "label"),
		refused("call of a function that does not exist", in(call(1000)), "function 1,000 does not exist"),
		refused("call of the function that the host adds", in(call(1)), "function 1 does not exist"),
		refused(
			"call through a type that does not exist",
			func() []byte {
				return newGuest().entries(1).hook(contract.HookBeforeAgent, i32(0), callTable(77)).bytes()
			},
			"type 77 does not exist",
		),
		refused("call through a table that does not exist", in(i32(0), i32(0), callTable(0), drop), "table 0 does not exist"),
		refused("table.get of a table that does not exist", in(i32(0), []byte{0x25, 7}, drop), "table 7 does not exist"),
		refused("ref.func of a function that was not declared", func() []byte {
			g := newGuest()
			f := g.function("", "")
			return g.hook(contract.HookBeforeAgent, []byte{0xd2}, leb(f), drop).bytes()
		}, "function 0"),
		refused("memory.init without a data count", in(i32(0), i32(0), i32(0), initMemory), "data count"),
		refused("data.drop of a segment that does not exist", func() []byte {
			g := newGuest()
			g.passive = []byte("x")
			return g.hook(contract.HookBeforeAgent, []byte{0xfc, 0x09, 9}).bytes()
		}, "data segment 9 does not exist"),
		refused("elem.drop of a segment that does not exist", in([]byte{0xfc, 0x0d, 3}), "element segment 3 does not exist"),
		refused("local that does not exist", in(local(1<<20), drop), "local"),
		refused("constant global that is set", func() []byte {
			g := newGuest()
			g.globals = append(g.globals, []byte{typeI32, 0, 0x41, 0, 0x0b})
			return g.hook(contract.HookBeforeAgent, i32(1), setGlobal(0)).bytes()
		}, "global 0"),
		refused(
			"start function with a parameter",
			changed(func(g *guest) { g.startAt = leb(g.function("i", "")) }),
			"start function",
		),
		refused(
			"start function that does not exist",
			changed(func(g *guest) { g.startAt = leb(99) }),
			"function 99 does not exist",
		),
		refused("start function that is an import", func() []byte {
			g := newGuest()
			g.startAt = leb(g.use(contract.ImportModule, "write", "ii", ""))
			return g.hook(contract.HookBeforeAgent).bytes()
		}, "start function"),
		refused(
			"export of a function that does not exist",
			changed(func(g *guest) { g.export("x", 99) }),
			"function 99 does not exist",
		),
		refused("global under a name of the host", changed(func(g *guest) {
			g.counter()
			g.exported = append(g.exported, join(str("agent_runner_v1.global.0"), []byte{kindGlobal, 0}))
		}), "reserved for the host"),
		refused(
			"memory exported as memory twice",
			changed(func(g *guest) { g.exported = append(g.exported, join(str("memory"), []byte{kindMemory, 0})) }),
			"duplicate export",
		),
	}
}

// badImmediates returns cases of invalid alignments, lanes, opcodes and types of instructions.
func badImmediates() []Case {
	in := func(code ...[]byte) func() []byte {
		return func() []byte { return doing(contract.HookBeforeAgent, code...) }
	}
	shuffle := join([]byte{0xfd, 0x0d}, repeat(16, 32))
	return []Case{
		refused("alignment above the natural one", in(i32(0), []byte{0x28, 3, 0}, drop), "align"),
		refused("alignment of 2^32-1", in(i32(0), []byte{0x28}, limit, []byte{0}, drop), "align"),
		refused(
			"offset of 33 bits",
			in(i32(0), []byte{0x28, 2, 0xff, 0xff, 0xff, 0xff, 0x1f}, drop),
			"does not fit in 32 bits",
		),
		refused("lane 16 of 16", in(noSIMD, []byte{0xfd, 0x15, 16}, drop), "lane"),
		refused("shuffle of lane 32", in(noSIMD, noSIMD, shuffle, drop), "lane"),
		refused("vector instruction that does not exist", in([]byte{0xfd, 0x9a, 1}), "instruction"),
		refused("bulk instruction that does not exist", in([]byte{0xfc, 0x40, 0}), "instruction"),
		refused("prefixed opcode of 2^32-1", in([]byte{0xfc}, limit), ""),
		refused("select of two types", in(i32(1), i32(2), i32(0), []byte{0x1c, 2, typeI32, typeI32}, drop), "select"),
		refused("select of 2^32-1 types", in(i32(1), i32(2), i32(0), []byte{0x1c}, limit), "select"),
		refused("memory.grow of another memory", in(i32(0), []byte{0x40, 1}, drop), "multiple memories"),
		refused("memory.fill of another memory", in(i32(0), i32(0), i32(0), []byte{0xfc, 0x0b, 1}), "multiple memories"),
		refused("local of an invalid type", func() []byte {
			return binaryOf(
				section(types, []byte{1, 0x60, 0, 0}),
				section(functions, []byte{1, 0}),
				section(codes, vec(function([]byte{1, 1, 0x33}))),
			)
		}, "no value type"),
		refused("type that is not a function", fixed(binaryOf(section(types, []byte{1, 0x5f, 0}))), "type"),
	}
}

// badConstants returns cases of invalid constant expressions, segments and sizes.
func badConstants() []Case {
	raw := func(sections ...[]byte) func() []byte { return fixed(binaryOf(sections...)) }
	memory := section(memories, []byte{1, 0, 1})
	return []Case{
		refused(
			"data at a global of its own",
			raw(memory, section(globals, []byte{1, typeI32, 0, 0x41, 0, 0x0b}), section(datas, []byte{1, 0, 0x23, 0, 0x0b, 0})),
			"imported ones only",
		),
		refused("data at an i64", raw(memory, section(datas, []byte{1, 0, 0x42, 0, 0x0b, 0})), "has type i64, want i32"),
		refused(
			"data at a sum",
			raw(memory, section(datas, []byte{1, 0, 0x41, 0, 0x41, 0, 0x6a, 0x0b, 0})),
			"extended constant expressions",
		),
		refused("data at a call", raw(memory, section(datas, []byte{1, 0, 0x10, 0, 0x0b, 0})), "want one constant and end"),
		refused(
			"data count that is too small",
			raw(memory, section(dataCount, []byte{1}), section(datas, []byte{2, 1, 0, 1, 0})),
			"data",
		),
		refused("only a data count", raw(memory, section(dataCount, []byte{7})), "data"),
		refused("data segment with flags 9", raw(memory, section(datas, []byte{1, 9, 0})), "want 0 to 2"),
		refused(
			"element segment with flags 9",
			raw(section(tables, []byte{1, typeFuncRef, 0, 1}), section(elements, []byte{1, 9, 0})),
			"flags",
		),
		refused(
			"functions in a table of externals",
			raw(
				section(types, []byte{1, 0x60, 0, 0}),
				section(functions, []byte{1, 0}),
				section(tables, []byte{1, typeExternRef, 0, 1}),
				section(elements, []byte{1, 0, 0x41, 0, 0x0b, 1, 0}),
				section(codes, vec(function([]byte{0}))),
			),
			"",
		),
		refused("memory with a maximum below its minimum", raw(section(memories, []byte{1, 1, 5, 4})), "maximum"),
		refused("table with a maximum below its minimum", raw(section(tables, []byte{1, typeFuncRef, 1, 5, 4})), "maximum"),
		refused("memory of 65,537 pages", raw(section(memories, []byte{1, 0}, leb(65_537))), "65,537"),
		{
			Name:   "custom section with a name beyond its end",
			Module: func() []byte { return join(honest(), []byte{custom, 2, 200, 'x'}) },
			Want:   Harmless,
		},
		{
			Name:   "100,000 custom sections",
			Module: func() []byte { return join(honest(), repeat(100_000, custom, 2, 1, 'x')) },
			Want:   Harmless,
		},
	}
}

// atLimits returns cases of modules that reach or exceed the limits of structure.
func atLimits() []Case {
	in := func(code ...[]byte) func() []byte {
		return func() []byte { return doing(contract.HookBeforeAgent, code...) }
	}
	return []Case{
		{Name: "3,998 nested blocks", Module: in(repeat(3_998, 0x02, noValue), repeat(3_998, 0x0b)), Want: Harmless},
		{
			Name:   "3,900 blocks, and a branch out of each",
			Module: in(repeat(3_900, 0x02, noValue), repeat(3_900, 0x20, 0, 0x0d, 0, 0x0b)),
			Want:   Harmless,
		},
		{
			Name:   "60 nested loops, all running",
			Module: in(repeat(60, 0x03, noValue), i32(0), branchIf(59), repeat(60, 0x0b)),
			Want:   Harmless,
		},
		{Name: "two br_table of 4,096", Module: func() []byte { return branchTables(2, 4_096) }, Want: Harmless},
		refused(
			"60 br_table of 4,096",
			func() []byte { return branchTables(60, 4_096) },
			"basic blocks, more than the limit of",
		),
		refused("50,000 memory.grow with 100 globals", func() []byte {
			g := newGuest()
			for range 100 {
				g.counter()
			}
			return g.hook(contract.HookBeforeAgent, repeat(50_000, join(i32(0), growMemory, drop)...)).bytes()
		}, "calls times mutable globals, more than the limit of"),
		refused(
			"40,000 operands that are loaded, then added",
			in(repeat(40_000, join(i32(0), load32(0))...), repeat(39_999, 0x6a), drop),
			"operands are on the stack at fuel checks, more than the limit of",
		),
		refused("straight code over 2,900 locals, eight times", func() []byte {
			g := newGuest()
			locals, code := join([]byte{1}, leb(2_900), []byte{typeI32}), []byte(nil)
			for i := range 25_000 {
				code = append(code, join(local(i%2_900), local((i*7+1)%2_900), add, setLocal((i*3+2)%2_900))...)
			}
			for i := range 8 {
				g.function("", "")
				g.bodies[i] = function(locals, code...)
			}
			return g.hook(contract.HookBeforeAgent).bytes()
		}, "basic blocks times locals, more than the limit of"),
		{
			Name:   "dead code after a return",
			Module: in(i32(0), leave, repeat(3_000, 0x02, noValue, 0x0c, 0, 0x0b)),
			Want:   Harmless,
		},
		{
			Name:   "dead code that pops missing operands",
			Module: in(unreachable, repeat(50_000, 0x6a), drop),
			Want:   Faulted,
			Hook:   contract.HookBeforeAgent,
			Kind:   sandbox.FaultTrap,
			Text:   []string{"unreachable"},
		},
		{Name: "30,000 operands on the stack", Module: in(repeat(30_000, 0x41, 1), repeat(30_000, 0x1a)), Want: Harmless},
		{Name: "20,000 functions that call one another", Module: func() []byte {
			g := newGuest()
			for i := range 19_000 {
				g.function("", "", call(max(i-1, 0)))
			}
			return g.hook(contract.HookBeforeAgent).bytes()
		}, Want: Harmless},
	}
}

// trapShapes returns cases of instructions that trap, and of instructions that nearly trap.
func trapShapes() []Case {
	trap := func(name, text string, build func() []byte) Case {
		return Case{
			Name:   name,
			Module: build,
			Want:   Faulted,
			Hook:   contract.HookBeforeAgent,
			Kind:   sandbox.FaultTrap,
			Text:   []string{text},
		}
	}
	in := func(code ...[]byte) func() []byte {
		return func() []byte {
			g := newGuest()
			g.passive = make([]byte, 100)
			f := g.function("", "")
			return g.entries(8, f).hook(contract.HookBeforeAgent, code...).bytes()
		}
	}
	const end = 4 << 16
	return []Case{
		trap("memory.init beyond its segment", "out of bounds", in(i32(0), i32(1), i32(100), initMemory)),
		trap("memory.init of a dropped segment", "out of bounds", in(dropData, i32(0), i32(0), i32(1), initMemory)),
		trap("memory.init to outside the memory", "out of bounds", in(i32(-1), i32(0), i32(1), initMemory)),
		trap("memory.copy of 4 GiB", "out of bounds", in(i32(0), i32(0), i32(-1), copyMemory)),
		trap("memory.copy whose address wraps around", "out of bounds", in(i32(-8), i32(0), i32(16), copyMemory)),
		trap("empty memory.fill beyond the end", "out of bounds", in(i32(end+1), i32(0), i32(0), fill)),
		{Name: "empty memory.fill at the end", Module: in(i32(end), i32(0), i32(0), fill), Want: Harmless},
		trap("table.fill beyond the table", "", in(i32(7), nullFunc, i32(2), fillTable)),
		trap("table.copy whose address wraps around", "", in(i32(-1), i32(0), i32(2), copyTable)),
		trap("table.init beyond its segment", "", in(i32(0), i32(0), i32(2), []byte{0xfc, 0x0c, 0, 0})),
		trap("table.set beyond the table", "", in(i32(8), nullFunc, []byte{0x26, 0})),
		trap("call of an empty table entry", "", in(i32(5), callTable(0))),
		trap("call through another type", "", in(i32(0), i32(0), callTable(1), drop)),
		trap("vector beyond the memory", "out of bounds", in(i32(end-15), []byte{0xfd, 0, 4, 0}, drop)),
		trap("the minimum number divided by -1", "overflow", in(i32(-1<<31), i32(-1), divide, drop)),
		trap("division by 0", "divide by zero", in(i32(1), i32(0), divide, drop)),
		trap("NaN to a number", "", in([]byte{0x43, 0, 0, 0xc0, 0x7f, 0xa8}, drop)),
	}
}

// oddEncodings returns cases of costly instructions in unusual encodings.
func oddEncodings() []Case {
	const pages, size = 1000, 1000 << 16
	in := func(code ...[]byte) func() []byte {
		return func() []byte {
			return newGuest().memory(pages).hook(contract.HookBeforeAgent, forever(code...)).bytes()
		}
	}
	return []Case{
		endless("filling 64 MB, its opcode in three bytes", in(i32(0), i32(1), i32(size), []byte{0xfc, 0x8b, 0x80, 0x00, 0})),
		endless(
			"copying 64 MB, its opcode in five bytes",
			in(i32(0), i32(1), i32(size-1), []byte{0xfc, 0x8a, 0x80, 0x80, 0x80, 0x00, 0, 0}),
		),
		endless("loop to a label in five bytes", func() []byte {
			return doing(contract.HookBeforeAgent, loop([]byte{0x0c, 0x80, 0x80, 0x80, 0x80, 0x00}))
		}),
		endless("call of a function in five bytes", func() []byte {
			g := newGuest()
			f := g.function("", "", repeat(1_000, 0x20, 0, 0x21, 0))
			g.bodies[f] = function(hookLocals, repeat(1_000, 0x20, 0, 0x21, 0)...)
			return g.hook(contract.HookBeforeAgent, forever([]byte{0x10, 0x80, 0x80, 0x80, 0x80, 0x00})).bytes()
		}),
		endless("loop of a type with two values", func() []byte {
			g := newGuest()
			pair := g.signature("ii", "ii")
			return g.hook(contract.HookBeforeAgent, i32(1), i32(2), typed(0x03, pair, branch(0)), drop, drop).bytes()
		}),
		endless("loop by br_if with values", func() []byte {
			g := newGuest()
			pair := g.signature("ii", "ii")
			return g.hook(contract.HookBeforeAgent, i32(1), i32(2), typed(0x03, pair, i32(1), branchIf(0)), drop, drop).bytes()
		}),
		endless("loop by br_table with values", func() []byte {
			g := newGuest()
			pair := g.signature("ii", "ii")
			return g.hook(contract.HookBeforeAgent, i32(1), i32(2),
				typed(0x03, pair, i32(5), []byte{0x0e, 3, 0, 0, 0, 0}), drop, drop).
				bytes()
		}),
		endless("loop with 90 values", func() []byte {
			g := newGuest()
			many := g.signature(string(repeat(90, 'I')), "")
			values := repeat(90, 0x42, 1)
			return g.hook(contract.HookBeforeAgent, values, typed(0x03, many, branch(0))).bytes()
		}),
		endless("loop of vectors", func() []byte {
			return doing(contract.HookBeforeAgent, forever(repeat(500, join(noSIMD, noSIMD, []byte{0xfd, 0xd5, 1}, drop)...)))
		}),
		endless("calls of imports through a table", func() []byte {
			g := newGuest()
			yield := g.wasi("sched_yield")
			signature := g.signature("", "i")
			return g.entries(2, yield, yield).hook(contract.HookBeforeAgent, forever(i32(1), callTable(signature), drop)).bytes()
		}),
		endless("calls of empty table entries", func() []byte {
			g := newGuest()
			f := g.function("", "")
			return g.entries(1, f).hook(contract.HookBeforeAgent, forever(i32(0), callTable(g.signature("", "")))).bytes()
		}),
		endless("thousands of small leaf functions", func() []byte {
			g := newGuest()
			f := g.function("", "", repeat(15, 0x41, 1, 0x1a))
			return g.hook(contract.HookBeforeAgent, forever(repeat(20_000, call(f)...))).bytes()
		}),
		endless("dozens of results", func() []byte {
			g := newGuest()
			f := g.function("", string(repeat(16, 'I')), repeat(16, 0x42, 1))
			return g.hook(contract.HookBeforeAgent, forever(call(f), repeat(16, 0x1a))).bytes()
		}),
	}
}

// looping adds a before_agent hook that calls a recursive function. The function calls itself in
// the innermost of nested loops, after it has set all its locals. A compiler keeps a value for each
// local and loop in the frame of the function, although the code is small.
func (g *guest) looping(loops, locals int) {
	f := g.function("", "")
	var set, use []byte
	for i := range locals {
		set = join(set, local(i), i64(1), []byte{0x7c}, setLocal(i))
		use = join(use, i32(0), local(i), []byte{0x37, 3, 0})
	}
	turn := join(i32(0), load32(0), branchIf(0), []byte{0x0b})
	g.bodies[f] = function(join([]byte{1}, leb(locals), []byte{typeI64}),
		join(repeat(loops, 0x03, noValue), set, call(f), repeat(loops, turn...), use)...)
	g.hook(contract.HookBeforeAgent, call(f))
}

// deepFrames returns cases that recurse with the largest possible frames.
func deepFrames() []Case {
	stack := func(name string, build func(g *guest)) Case {
		return Case{Name: name, Module: func() []byte {
			g := newGuest()
			build(g)
			return g.bytes()
		}, Want: Faulted, Hook: contract.HookBeforeAgent, Kind: sandbox.FaultStack, Text: []string{"nested too deeply"}}
	}
	return []Case{
		stack("recursion with 2,900 vectors", func(g *guest) {
			g.function("", "")
			g.bodies[0] = function(join([]byte{1}, leb(2_900), []byte{typeV128}), call(0)...)
			g.hook(contract.HookBeforeAgent, call(0))
		}),
		stack("recursion with 90 parameters and 16 results", func(g *guest) {
			f := g.function(string(repeat(90, 'I')), string(repeat(16, 'I')))
			g.bodies[f] = function([]byte{0}, join(repeat(90, 0x42, 1), call(f))...)
			g.hook(contract.HookBeforeAgent, repeat(90, 0x42, 1), call(f), repeat(16, 0x1a))
		}),
		stack("recursion with 20,000 operands", func(g *guest) {
			f := g.function("", "")
			g.bodies[f] = function([]byte{0}, join(repeat(20_000, 0x23, 0), call(f), repeat(20_000, 0x1a))...)
			g.counter()
			g.hook(contract.HookBeforeAgent, call(f))
		}),
		stack("recursion with vectors that are used later", func(g *guest) {
			f := g.function("", "")
			load := []byte{0x41, 0, 0xfd, 0, 4, 0}
			store := []byte{0xfd, 0x51} // v128.xor
			g.bodies[f] = function([]byte{0}, join(repeat(4_000, load...), call(f), repeat(3_999, store...), drop)...)
			g.hook(contract.HookBeforeAgent, call(f))
		}),
		stack("recursion within 3,900 blocks", func(g *guest) {
			f := g.function("", "")
			g.bodies[f] = function([]byte{0}, join(repeat(3_900, 0x02, noValue), call(f), repeat(3_900, 0x0b))...)
			g.hook(contract.HookBeforeAgent, call(f))
		}),
		stack("recursion with 400 locals in 60 loops", func(g *guest) { g.looping(60, 400) }),
		stack("recursion with 1,500 locals in 20 loops", func(g *guest) { g.looping(20, 1_500) }),
		stack("recursion through a table entry that the function set", func(g *guest) {
			f := g.function("", "")
			g.bodies[f] = function(
				[]byte{0},
				join(i32(3), i32(0), []byte{0x25, 0}, []byte{0x26, 0}, i32(3), callTable(g.signature("", "")))...)
			g.entries(8, f).hook(contract.HookBeforeAgent, call(f))
		}),
	}
}

// oddHooks returns cases with unusual hooks and host calls.
func oddHooks() []Case {
	invalidCase := func(name, f string, args ...[]byte) Case {
		return Case{
			Name: name,
			Module: func() []byte {
				g := newGuest()
				return g.hook(contract.HookBeforeAgent, join(args...), call(g.wasi(f)), drop).bytes()
			},
			Want: Faulted,
			Hook: contract.HookBeforeAgent,
			Kind: sandbox.FaultBounds,
			Text: []string{"do not lie in the memory"},
		}
	}
	return []Case{
		{Name: "hook that is an import", Module: func() []byte {
			g := newGuest()
			closing := g.use(wasiModule, "fd_close", "i", "i")
			return g.export("before_agent", closing).bytes()
		}, Want: Faulted, Hook: contract.HookBeforeAgent, Text: []string{"returned 8"}},
		invalidCase("clock to outside the memory", "clock_time_get", i32(1), i64(0), i32(-4)),
		invalidCase("random bytes to outside the memory", "random_get", i32(-1), i32(-1)),
		invalidCase("sleep from outside the memory", "poll_oneoff", i32(-1), i32(0), i32(1), i32(0)),
		{Name: "2^31 sleeps", Module: func() []byte {
			g := newGuest()
			poll := g.wasi("poll_oneoff")
			return g.hook(contract.HookBeforeAgent, i32(0), i32(0), i32(-1<<31), i32(0), call(poll),
				[]byte{0x45}, when(unreachable)).
				bytes()
		}, Want: Harmless},
		{Name: "sleep without subscriptions", Module: func() []byte {
			g := newGuest()
			poll := g.wasi("poll_oneoff")
			return g.hook(contract.HookBeforeAgent, i32(0), i32(0), i32(0), i32(0), call(poll), drop).bytes()
		}, Want: Harmless},
		timed(Case{Name: "endless answers of 8 MB", Module: func() []byte {
			g := newGuest().memory(200)
			write := g.abi("write")
			return g.hook(contract.HookBeforeAgent, forever(i32(0), i32(8_000_000), call(write))).bytes()
		}, Want: Faulted, Hook: contract.HookBeforeAgent}),
		refused("start function recurses through a table", func() []byte {
			g := newGuest()
			f := g.function("", "")
			g.bodies[f] = function([]byte{0}, join(i32(0), callTable(g.signature("", "")))...)
			return g.entries(1, f).hook(contract.HookBeforeAgent).start(call(f)).bytes()
		}, "nested too deeply"),
		timed(refused("start function fills memory endlessly", func() []byte {
			return newGuest().memory(1000).
				hook(contract.HookBeforeAgent).
				start(forever(i32(0), i32(1), i32(1000<<16), fill)).
				bytes()
		}, "ran longer than 60ms")),
	}
}
