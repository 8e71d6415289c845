package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// honest returns a small valid module with every section.
func honest() []byte {
	g := newGuest()
	write := g.abi("write")
	g.counter()
	g.place(answerAt, `{}`)
	g.passive = []byte("passive")
	f := g.function("", "", i32(64), i32(0), i32(7), initMemory)
	g.hook(contract.HookBeforeAgent, call(f), i32(answerAt), i32(2), call(write))
	return g.entries(2, f).bytes()
}

// fixed returns a function that returns b.
func fixed(b []byte) func() []byte { return func() []byte { return b } }

// refused returns a case of a module that is rejected with an error that contains each text.
func refused(name string, module func() []byte, text ...string) Case {
	return Case{Name: name, Module: module, Want: Refused, Text: text}
}

// uploadCases returns cases about decoding, verifying and compiling a module.
func uploadCases() []Case {
	var all []Case
	groups := [][]Case{
		noModules(), badSections(), claims(), heavy(), outerSections(), features(), harmless(),
	}
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}

// noModules returns cases of input that is not a WebAssembly module.
func noModules() []Case {
	return []Case{
		refused("empty", fixed(nil), "this is empty"),
		refused("not WebAssembly", fixed([]byte("hello")), "not a WebAssembly module"),
		refused("WebAssembly text", fixed([]byte("(module)")), "assemble it first"),
		refused("component", fixed([]byte("\x00asm\x0d\x00\x01\x00")), "a component, not a core module"),
		refused("native program", fixed([]byte("\x7fELF\x02\x01\x01")), "another machine"),
		refused("gzip bomb", gzipBomb, "compressed with gzip"),
		refused("zstd bomb", fixed([]byte("\x28\xb5\x2f\xfd\xa4\x00\x00\x00\x80")), "compressed with zstd"),
		refused(
			"brotli bomb",
			fixed(append([]byte{0xcf, 0xff, 0xff, 0x7f, 0xf8}, repeat(64, 0x27, 0, 0xe2)...)),
			"not a WebAssembly module",
		),
		refused("tar archive", fixed(append(make([]byte, 257), "ustar\x00"...)), "tar archive"),
		refused("zip archive", fixed([]byte("PK\x03\x04aaaa")), "zip archive"),
		refused("only a header", fixed(binaryOf()), "does not export its memory"),
	}
}

// gzipBomb returns 64 MiB of zeros, compressed.
func gzipBomb() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	zeros := make([]byte, 1<<20)
	for range 64 {
		_, _ = z.Write(zeros) // never fails
	}
	_ = z.Close()
	return b.Bytes()
}

// badSections returns cases of malformed sections and bodies.
func badSections() []Case {
	one := section(types, []byte{1, 0x60, 0, 0})
	body := func(code ...byte) func() []byte {
		return fixed(binaryOf(one, section(functions, []byte{1, 0}), section(codes, vec(append(leb(len(code)), code...)))))
	}
	return []Case{
		refused("duplicate section", fixed(binaryOf(one, one)), "duplicate section"),
		refused("sections out of order", fixed(binaryOf(section(memories, []byte{1, 0, 1}), one)), "belongs before it"),
		refused("unknown section", fixed(binaryOf([]byte{200, 1, 0})), "no section with number 200"),
		refused(
			"section size too large",
			fixed(binaryOf(section(types, []byte{1, 0x60, 0, 0, 0}))),
			"section's size is 5 bytes, but its contents take 4",
		),
		refused("section size too small", fixed(binaryOf([]byte{types, 3, 1, 0x60, 0, 0})), "type section"),
		refused("section beyond the end", fixed(binaryOf([]byte{types, 100, 1})), "needs 100 more bytes"),
		refused("overlong number", fixed(binaryOf([]byte{types, 0x81, 0x80, 0x80, 0x80, 0x80, 0})), "more than the 5 bytes"),
		refused("number of 33 bits", fixed(binaryOf([]byte{types, 0x81, 0x80, 0x80, 0x80, 0x10})), "does not fit in 32 bits"),
		refused(
			"negative section size",
			fixed(binaryOf([]byte{types, 0xff, 0xff, 0xff, 0xff, 0x7f})),
			"does not fit in 32 bits",
		),
		refused(
			"negative constant too long",
			body(0, 0x41, 0xff, 0xff, 0xff, 0xff, 0x4f, 0x1a, 0x0b),
			"i32.const does not fit in 32 bits",
		),
		refused("functions without code", fixed(binaryOf(one, section(functions, []byte{1, 0}))), "1 functions are declared"),
		refused(
			"code without functions",
			fixed(binaryOf(one, section(codes, []byte{1, 2, 0, 0x0b}))),
			"0 functions are declared",
		),
		refused("body without an end", body(0, 0x01), "function 0"),
		refused(
			"operands of the wrong type",
			func() []byte { return doing(contract.HookBeforeAgent, i64(1), i32(1), add, drop) },
			"is not valid",
		),
		refused("stack underflow", func() []byte { return doing(contract.HookBeforeAgent, drop) }, "is not valid"),
		refused(
			"counter of the host by its index",
			func() []byte { return doing(contract.HookBeforeAgent, i64(1<<40), setGlobal(0)) },
			"global 0 does not exist",
		),
	}
}

// claims returns cases of modules of a few bytes that declare billions of items.
func claims() []Case {
	all := []Case{
		refused("2^32-1 locals", claimed(1, limit), "4,294,967,295 locals, more than the limit"),
		refused("2^33 locals in groups", claimed(2, limit, []byte{typeI32}, limit), "8,589,934,590 locals"),
		refused("1,000 functions of 50,000 locals", func() []byte {
			return binaryOf(section(types, []byte{1, 0x60, 0, 0}), section(functions, times(1000, 0)),
				section(codes, times(1000, function(join([]byte{1}, leb(50_000), []byte{typeI32}))...)))
		}, "50,000 locals, more than the limit"),
		refused(
			"data segment of 4 GiB",
			fixed(binaryOf(section(memories, []byte{1, 0, 1}), section(datas, []byte{1, 1}, limit))),
			"needs 4,294,967,295 more bytes",
		),
		refused(
			"data beyond the memory",
			func() []byte { return newGuest().place(4<<16-1, "ab").hook(contract.HookBeforeAgent).bytes() },
			"do not lie in the memory",
		),
		refused(
			"data at the top of 4 GiB",
			func() []byte { return newGuest().place(-1, "ab").hook(contract.HookBeforeAgent).bytes() },
			"do not lie in the memory",
		),
		refused("elements beyond the table", func() []byte {
			g := newGuest()
			f := g.function("", "")
			return g.entries(1, f, f, f).hook(contract.HookBeforeAgent).bytes()
		}, "table"),
		refused("br_table of 2^32-1", func() []byte {
			return doing(contract.HookBeforeAgent, i32(0), []byte{0x0e}, limit, []byte{0})
		}, "4,294,967,295 branch targets"),
	}
	for _, s := range []struct {
		id   byte
		name string
	}{{types, "type"}, {imports, "import"}, {functions, "function"}, {tables, "table"}, {memories, "memory"},
		{globals, "global"}, {exports, "export"}, {elements, "element"}, {codes, "code"}, {datas, "data"}} {
		all = append(
			all,
			refused(
				"2^32-1 entries in the "+s.name+" section",
				fixed(binaryOf(section(s.id, limit))),
				s.name+" section",
				"4,294,967,295",
			),
		)
	}
	return append(
		all,
		refused(
			"2^32-1 data segments announced",
			fixed(binaryOf(section(dataCount, limit))),
			"data count section",
			"4,294,967,295",
		),
	)
}

// claimed returns a function that returns a module with one function that has the given groups of
// locals.
func claimed(groups int, locals ...[]byte) func() []byte {
	body := function(join(leb(groups), join(locals...), []byte{typeI32}))
	return fixed(
		binaryOf(section(types, []byte{1, 0x60, 0, 0}), section(functions, []byte{1, 0}), section(codes, vec(body))),
	)
}

// heavy returns cases of modules that would take a compiler seconds or gigabytes, and of modules
// just within the limits.
func heavy() []Case {
	return []Case{
		refused(
			"function of 1 MB",
			func() []byte { return doing(contract.HookBeforeAgent, repeat(1<<20, 0x01)) },
			"more than the limit of 262,144 per function body",
		),
		refused("40,000 nested blocks", func() []byte {
			return doing(contract.HookBeforeAgent, repeat(40_000, 0x02, noValue), repeat(40_000, 0x0b))
		}, "nested blocks, more than the limit of"),
		refused("1,000 nested loops", func() []byte {
			return doing(contract.HookBeforeAgent, repeat(1000, 0x03, noValue), repeat(1000, 0x0b))
		}, "nested loops, more than the limit of"),
		refused("br_table 5,000 x 200", func() []byte { return branchTables(5_000, 200) }, "more than the limit of"),
		refused(
			"br_table of 5,000",
			func() []byte { return branchTables(1, 5_000) },
			"5,000 branch targets, more than the limit of 4,096",
		),
		refused(
			"100,000 empty functions",
			func() []byte { return manyFunctions(100_000, 0) },
			"100,000 functions, more than the limit of 20,000",
		),
		refused(
			"20,000 functions of 1,000 parameters",
			func() []byte { return manyFunctions(20_000, 1000) },
			"1,000 parameters",
		),
		refused(
			"20,000 functions of 90 parameters",
			func() []byte { return manyFunctions(20_000, 90) },
			"more than the limit of 200,000 for all functions",
		),
		refused("50,000 ifs", func() []byte {
			return doing(contract.HookBeforeAgent, repeat(50_000, 0x41, 0, 0x04, noValue, 0x0b))
		}, "basic blocks, more than the limit of"),
		refused(
			"custom section of 50 MB",
			func() []byte { return append(honest(), custom1("x", make([]byte, 50<<20))...) },
			"more than the limit of 16 MiB",
		),
		refused(
			"100,001 data segments",
			func() []byte { return manySegments(100_001) },
			"100,001 data segments, more than the limit of 100,000",
		),
		{Name: "100,000 data segments", Module: func() []byte { return manySegments(100_000) }, Want: Harmless},
		{Name: "loops with locals at the limits", Module: func() []byte {
			return binaryOf(
				section(types, []byte{1, 0x60, 1, typeI32, 1, typeI32}),
				section(functions, []byte{1, 0}),
				section(memories, []byte{1, 0, 1}),
				section(
					exports,
					vec(join(str("before_agent"), []byte{kindFunction, 0}), join(str("memory"), []byte{kindMemory, 0})),
				),
				section(codes, vec(function(join([]byte{1}, leb(2_000), []byte{typeI64}),
					join(repeat(240, 0x03, noValue, 0x20, 1, 0x21, 2, 0x0b), i32(0))...))),
			)
		}, Want: Harmless},
	}
}

func branchTables(n, targets int) []byte {
	table := join(block(i32(0), []byte{0x0e}, times(targets, 0), []byte{0}))
	return doing(contract.HookBeforeAgent, repeat(n, table...))
}

func manyFunctions(n, params int) []byte {
	return binaryOf(
		section(types, []byte{1, 0x60}, times(params, typeI32), []byte{0}),
		section(functions, times(n, 0)),
		section(codes, times(n, 2, 0, 0x0b)),
	)
}

func manySegments(n int) []byte {
	g := newGuest()
	for i := range n {
		g.place(i, "x")
	}
	return g.hook(contract.HookBeforeAgent).bytes()
}

// outerSections returns cases of modules with invalid imports or exports.
func outerSections() []Case {
	with := func(module, name, params, results string) func() []byte {
		return func() []byte {
			g := newGuest()
			g.use(module, name, params, results)
			return g.hook(contract.HookBeforeAgent).bytes()
		}
	}
	memory := join(str("memory"), []byte{kindMemory, 0})
	raw := func(sections ...[]byte) func() []byte { return fixed(binaryOf(sections...)) }
	foreign := func(kind ...byte) func() []byte {
		return raw(section(imports, vec(join(str("env"), str("x"), kind))))
	}
	withExport := func(name string) func() []byte {
		return func() []byte { return newGuest().hook(contract.HookBeforeAgent).export(name, 0).bytes() }
	}
	return []Case{
		refused("unknown import", with("env", "system", "i", "i"), "imports env.system"),
		refused(
			"unknown host call",
			with(contract.ImportModule, "become_root", "", ""),
			"imports agent_middleware_v1.become_root, which ABI version 1 does not have",
		),
		refused(
			"host call of another type",
			with(contract.ImportModule, "read", "iiI", "I"),
			"imports agent_middleware_v1.read as (i32, i32, i64) -> i64, want (i32, i32) -> i32",
		),
		refused("WASI of another type", with(wasiModule, "fd_write", "i", "i"), "want (i32, i32, i32, i32) -> i32"),
		refused("WASI beyond preview 1", with(wasiModule, "sock_connect", "i", "i"), "which WASI preview 1 does not have"),
		refused("imported memory", foreign(kindMemory, 0, 1), "imports the memory env.x, but only functions"),
		refused("imported table", foreign(kindTable, typeFuncRef, 0, 1), "imports the table env.x, but only functions"),
		refused("imported global", foreign(kindGlobal, typeI32, 0), "imports the global env.x, but only functions"),
		refused("import with a name of the host", with("agent_runner_v1", "refuel", "II", "I"), "agent_runner_v1"),
		refused("export with a name of the host", withExport("agent_runner_v1.fuel"), "reserved for the host"),
		refused("env.yield imported", with("env", "yield", "", ""), "imports env.yield"),
		refused(
			"newer ABI version",
			with("agent_middleware_v2", "read", "ii", "i"),
			"it asks for ABI version 2; this host speaks version 1",
		),
		refused("two ABI versions", func() []byte {
			g := newGuest()
			g.abi("read")
			g.use("agent_middleware_v7", "read", "ii", "i")
			return g.hook(contract.HookBeforeAgent).bytes()
		}, "it asks for ABI version 7; this host speaks version 1"),
		refused("Extism and the ABI", func() []byte {
			g := newGuest()
			g.abi("read")
			g.use("extism:host/env", "alloc", "I", "I")
			return g.hook(contract.HookBeforeAgent).bytes()
		}, "xtism"),
		refused(
			"no hook",
			func() []byte { return newGuest().export("run", newGuest().function("i", "i", i32(0))).bytes() },
			"",
		),
		refused("no memory", raw(
			section(types, []byte{1, 0x60, 1, typeI32, 1, typeI32}),
			section(functions, []byte{1, 0}),
			section(
				exports,
				vec(join(str("before_agent"), []byte{kindFunction, 0})),
			),
			section(codes, vec(function([]byte{0}, i32(0)...))),
		), "does not export its memory"),
		refused("memory that is a function", raw(
			section(types, []byte{1, 0x60, 0, 0}),
			section(functions, []byte{1, 0}),
			section(
				exports,
				vec(join(str("memory"), []byte{kindFunction, 0})),
			),
			section(codes, vec(function([]byte{0}))),
		), "does not export its memory"),
		refused("hook of another type", func() []byte {
			g := newGuest()
			return g.export("before_agent", g.function("iI", "I", i64(0))).bytes()
		}, "before_agent: want (i32) -> i32, got (i32, i64) -> i64"),
		refused(
			"hook that is a memory",
			raw(
				section(memories, []byte{1, 0, 1}),
				section(exports, vec(memory, join(str("before_agent"), []byte{kindMemory, 0}))),
			),
			"exports before_agent as a memory",
		),
		refused(
			"hook that is a global",
			raw(section(memories, []byte{1, 0, 1}), section(globals, vec([]byte{typeI32, 0, 0x41, 0, 0x0b})),
				section(exports, vec(memory, join(str("gate_tool"), []byte{kindGlobal, 0})))),
			"exports gate_tool as a global",
		),
		refused("_initialize of another type", func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			return g.export("_initialize", g.function("i", "i", i32(0))).bytes()
		}, "_initialize: want () -> ()"),
		refused("duplicate export", withExport("before_agent"), `duplicate export "before_agent"`),
		refused("NUL in a name", withExport("a\x00b"), "control character"),
		refused("escape in a name", withExport("\x1b[2J"), "control character"),
		refused("name with a right-to-left override", withExport("safe\u202etnega"), "control character"),
		refused("name with a line separator", withExport("safe\u2028agent"), "control character"),
		refused(
			"name of 1 MB",
			func() []byte { return withExport(string(repeat(1<<20, 'n')))() },
			"1,048,576 bytes in the name of an export",
		),
		refused("name that is not UTF-8", withExport("\xff\xfe"), "not valid UTF-8"),
	}
}

// features returns cases of modules that use WebAssembly proposals that the host disables. The
// rejection must name the proposal.
func features() []Case {
	in := func(code ...byte) func() []byte {
		return func() []byte { return doing(contract.HookBeforeAgent, code) }
	}
	memory := func(limits ...byte) func() []byte {
		return fixed(binaryOf(section(memories, append([]byte{1}, limits...))))
	}
	return []Case{
		refused("threads: atomics", in(0xfe, 0x03, 0), "threads"),
		refused("threads: shared memory", memory(3, 1, 1), "threads"),
		refused("exception handling", in(0x06, noValue), "exception handling"),
		refused("exception tags", fixed(binaryOf([]byte{13, 0})), "exception handling"),
		refused("tail calls", in(0x12, 0), "tail calls"),
		refused("64-bit memory", memory(4, 1), "64-bit memory"),
		refused("two memories", fixed(binaryOf(section(memories, []byte{2, 0, 1, 0, 1}))), "multiple memories"),
		refused("garbage collection", in(0xfb, 0), "garbage collection"),
		refused("function references", in(0x14, 0), "typed function references"),
		refused("relaxed vectors", in(0xfd, 0x80, 2), "relaxed vector instructions"),
		refused("custom page sizes", memory(8, 1, 0), "custom page sizes"),
	}
}

// harmless returns cases of modules that look hostile but are not.
func harmless() []Case {
	lie := join(leb(1), leb(20), limit, limit, limit)
	return []Case{
		{
			Name:   "false name section",
			Module: func() []byte { return append(honest(), custom1("name", lie)...) },
			Want:   Harmless,
		},
		{
			Name: "hostile names for stack traces",
			Module: func() []byte {
				name := join([]byte{1}, leb(0), str("\x1b]0;pwned\x07\xff\n"))
				return append(
					doing(contract.HookBeforeAgent, unreachable),
					custom1("name", join([]byte{1}, leb(len(name)), name))...)
			},
			Want:  Faulted,
			Hook:  contract.HookBeforeAgent,
			Kind:  "trap",
			Text:  []string{"unreachable executed"},
			Check: noControlCharacters,
		},
		{Name: "false debug information", Module: func() []byte {
			return join(
				honest(),
				custom1(".debug_info", repeat(4000, 0xff)),
				custom1(".debug_line", limit),
				custom1("producers", limit),
			)
		}, Want: Harmless},
		{
			Name:   "custom sections between all others",
			Module: func() []byte { return between(honest(), custom1("x", []byte("y"))) },
			Want:   Harmless,
		},
		{Name: "payload of a NaN", Module: notANumber, Want: Harmless, Check: func(s *Seen) error {
			return wantReply(s, "0", "-4194304", "2143289344") // 0/0 and its canonical form differ by machine, not by run
		}},
	}
}

// between returns a copy of module with the bytes what inserted before, between and after its
// sections.
func between(module, what []byte) []byte {
	out := append(bytes.Clone(module[:8]), what...)
	for b := module[8:]; len(b) > 0; {
		size, n := 0, 1
		for shift := 0; ; shift += 7 {
			size |= int(b[n]&0x7f) << shift
			n++
			if b[n-1] < 0x80 {
				break
			}
		}
		out = join(out, b[:n+size], what)
		b = b[n+size:]
	}
	return out
}

// notANumber returns a guest that emits the bits of 0/0 as an event.
func notANumber() []byte {
	g := newGuest()
	local := g.abi("local_add")
	g.abi("read")
	g.abi("emit")
	show := g.show()
	g.place(answerAt, "nan")
	zero := []byte{0x43, 0, 0, 0, 0}
	return g.hook(contract.HookBeforeAgent, i32(answerAt), i32(3), zero, zero,
		[]byte{0x95, 0xbc, 0xac}, call(local), call(show)).
		bytes()
}

// noControlCharacters returns an error if an event of the run contains an ESC, BEL or NUL
// character.
func noControlCharacters(s *Seen) error {
	for _, e := range s.Events {
		b, err := abijson.Marshal(e)
		if err != nil {
			return err
		}
		if bytes.ContainsAny(b, "\x1b\x07\x00") || bytes.Contains(b, []byte(`\u001b`)) ||
			bytes.Contains(b, []byte(`\u0007`)) || bytes.Contains(b, []byte(`\u0000`)) {
			return fmt.Errorf("an event holds control characters: %q", b)
		}
	}
	return nil
}
