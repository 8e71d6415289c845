package hostile

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// quirkCases returns cases of valid modules in unusual encodings, and of modules with very many
// items.
func quirkCases() []Case {
	accepted := func(name string, build func() []byte) Case { return Case{Name: name, Module: build, Want: Harmless} }
	with := func(change func(g *guest)) func() []byte {
		return func() []byte {
			g := newGuest()
			change(g)
			return g.hook(contract.HookBeforeAgent).bytes()
		}
	}
	after := func(change func(g *guest)) func() []byte {
		return func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			change(g)
			return g.bytes()
		}
	}
	return []Case{
		accepted("section sizes and counts in five bytes", padded),
		accepted("100,000 empty groups of locals", func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			body := join(leb(100_000), bytes.Repeat([]byte{0, typeI32}, 100_000), i32(0), []byte{0x0b})
			g.bodies[0] = append(leb(len(body)), body...)
			return g.bytes()
		}),
		refused("1,500 groups of two locals each", func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			body := join(leb(1_500), bytes.Repeat([]byte{2, typeI32}, 1_500), i32(0), []byte{0x0b})
			g.bodies[0] = append(leb(len(body)), body...)
			return g.bytes()
		}, "3,001 locals, more than the limit of 3,000"),
		refused("50,000 functions that are not empty", func() []byte {
			return binaryOf(
				section(types, []byte{1, 0x60, 0, 0}),
				section(functions, times(50_000, 0)),
				section(codes, times(50_000, function([]byte{0}, 0x10, 0)...)),
			)
		}, "50,000 functions, more than the limit of 20,000"),
		refused("10,000 types of 115 values", with(func(g *guest) {
			for range 9_990 {
				g.signatures = append(g.signatures, join([]byte{0x60}, times(99, typeI64), times(16, typeI64)))
			}
		}), "parameters and results, more than the limit of 100,000 for all types"),
		accepted("200 imports, all the same", with(func(g *guest) {
			for range 200 {
				g.imported = append(
					g.imported,
					join(str(contract.ImportModule), str("write"), []byte{kindFunction}, leb(g.signature("ii", ""))),
				)
			}
		})),
		refused("import without a name", with(func(g *guest) { g.use("", "", "", "") }), "has an empty module name"),
		refused(
			"import name in another case",
			with(func(g *guest) { g.use(contract.ImportModule, "Write", "ii", "") }),
			"agent_middleware_v1.Write, which ABI version 1 does not have",
		),
		refused(
			"import module with a trailing NUL",
			with(func(g *guest) { g.use(contract.ImportModule+"\x00", "write", "ii", "") }),
			"control character",
		),
		refused(
			"import module in look-alike letters",
			with(func(g *guest) { g.use("аgent_middleware_v1", "write", "ii", "") }),
			"imports ",
		),
		accepted("990 exports of one function", after(func(g *guest) {
			for i := range 990 {
				g.export(strings.Repeat("e", i+1), 0)
			}
		})),
		accepted("export without a name", after(func(g *guest) { g.export("", 0) })),
		accepted(
			"imports exported",
			after(func(g *guest) { g.exported = append(g.exported, join(str("import"), []byte{kindFunction, 0})) }),
		),
		accepted("hook name in look-alike letters", after(func(g *guest) { g.export("bеfore_model", 0) })),
		accepted("every hook is one function", after(func(g *guest) {
			for _, h := range contract.Hooks() {
				if h != contract.HookBeforeAgent && h != contract.HookGateTool {
					g.export(string(h), 0)
				}
			}
		})),
		accepted("999 mutable globals", with(func(g *guest) {
			for range 990 {
				g.counter()
			}
		})),
		accepted("globals of vectors and references", with(func(g *guest) {
			g.globals = append(
				g.globals,
				join([]byte{typeV128, 1}, noSIMD, []byte{0x0b}),
				[]byte{typeFuncRef, 1, 0xd0, typeFuncRef, 0x0b},
				[]byte{typeExternRef, 1, 0xd0, typeExternRef, 0x0b},
			)
		})),
		accepted("tables of functions and of externals", after(func(g *guest) {
			g.table = []byte{
				4,
				typeFuncRef,
				0,
				1,
				typeExternRef,
				0,
				10,
				typeFuncRef,
				1,
				0,
				0,
				typeExternRef,
				1,
				5,
				0x80,
				0x80,
				4,
			}
		})),
		accepted("10,000 empty element segments", after(func(g *guest) {
			g.table = []byte{1, typeFuncRef, 0, 0}
			g.elems = times(10_000, 0, 0x41, 0, 0x0b, 0)
		})),
		accepted("element expressions", after(func(g *guest) {
			g.table = join([]byte{1, typeFuncRef, 0}, leb(60_000))
			g.elems = join([]byte{1, 4, 0x41, 0, 0x0b}, times(60_000, 0xd0, typeFuncRef, 0x0b))
		})),
		refused("element expressions beyond the table", after(func(g *guest) {
			g.table = []byte{1, typeFuncRef, 0, 1}
			g.elems = join([]byte{1, 4, 0x41, 0, 0x0b}, times(2, 0xd0, typeFuncRef, 0x0b))
		}), "do not lie in the table of 1 entries"),
		refused("elements beyond the second table", after(func(g *guest) {
			g.table = []byte{2, typeFuncRef, 0, 9, typeFuncRef, 0, 1}
			g.elems = []byte{1, 2, 1, 0x41, 1, 0x0b, 0, 1, 0}
		}), "do not lie in the table of 1 entries"),
		refused("elements at the end of 32 bits", after(func(g *guest) {
			g.table = []byte{1, typeFuncRef, 0, 1}
			g.elems = join([]byte{1, 0}, i32(-1), []byte{0x0b, 1, 0})
		}), "do not lie in the table"),
		accepted("name section of 10 MB", after(func(g *guest) {
			name := strings.Repeat("n", 100_000)
			g.extra = custom1("name", section(1, leb(100), bytes.Repeat(join(leb(0), str(name)), 100)))
		})),
		{Name: "name of a function of 1 MB, in a stack trace", Module: func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent, unreachable)
			g.extra = custom1("name", section(1, []byte{1, 0}, str(strings.Repeat("\u202e", 1<<20/3))))
			return g.bytes()
		}, Want: Faulted, Hook: contract.HookBeforeAgent, Kind: sandbox.FaultTrap, Check: shortEvents},
		{Name: "_start beside _initialize", Module: after(func(g *guest) {
			g.export("_start", g.function("", "", unreachable)).export("_initialize", g.function("", ""))
		}), Want: Harmless},
	}
}

// padded returns an honest module with five-byte section sizes.
func padded() []byte {
	out := binaryOf()
	for _, s := range sectionsOf(honest()) {
		n := len(s) - 2
		for s[len(s)-n-1] >= 0x80 || len(leb(n))+1+n != len(s) {
			n--
		}
		long := []byte{byte(n) | 0x80, byte(n>>7) | 0x80, byte(n>>14) | 0x80, byte(n>>21) | 0x80, 0}
		out = join(out, s[:1], long, s[len(s)-n:])
	}
	return out
}

// shortEvents returns an error if the JSON of an event of a run is longer than 64 KiB, contains an
// ESC, BEL or NUL character, or cannot be encoded.
func shortEvents(s *Seen) error {
	for _, e := range s.Events {
		b, err := abijson.Marshal(e)
		if err != nil {
			return err
		}
		if len(b) > 64<<10 {
			return fmt.Errorf("an event has %d bytes", len(b))
		}
	}
	return noControlCharacters(s)
}
