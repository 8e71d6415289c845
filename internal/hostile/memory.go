package hostile

import (
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// memoryCases returns cases that grow, exhaust or leave the memory, the stack or a table.
func memoryCases() []Case {
	in := func(code ...[]byte) func() []byte {
		return func() []byte { return doing(contract.HookBeforeAgent, code...) }
	}
	isRefused := join(i32(-1), equal, []byte{0x45}, when(unreachable)) // traps unless the growth failed
	faulted := func(name string, kind sandbox.FaultKind, build func() []byte, text ...string) Case {
		return Case{Name: name, Module: build, Want: Faulted, Hook: contract.HookBeforeAgent, Kind: kind, Text: text}
	}
	return []Case{
		{Name: "growing by 4 GiB", Module: in(i32(65_535), growMemory, isRefused), Want: Harmless},
		{Name: "growing by -1", Module: in(i32(-1), growMemory, isRefused), Want: Harmless},
		{
			Name:   "growing page by page",
			Module: in(loop(i32(1), growMemory, i32(0), []byte{0x4e}, branchIf(0))),
			Want:   Harmless,
		},
		faulted(
			"growing page by page, then a trap",
			sandbox.FaultMemory,
			in(loop(i32(1), growMemory, i32(0), []byte{0x4e}, branchIf(0)), unreachable),
			"64 MiB",
		),
		faulted(
			"using memory after a failed grow",
			sandbox.FaultMemory,
			in(i32(4096), growMemory, drop, i32(200<<20), i32(7), store32(0)),
			"64 MiB",
		),
		{
			Name:   "touching all memory",
			Module: in(i32(1020), growMemory, drop, i32(0), i32(7), i32(1<<26), fill),
			Want:   Harmless,
		},
		{Name: "growing a table", Module: func() []byte {
			return newGuest().entries(1).hook(contract.HookBeforeAgent, nullFunc, i32(1<<20), growTable, isRefused).bytes()
		}, Want: Harmless},
		faulted("recursion", sandbox.FaultStack, func() []byte {
			g := newGuest()
			f := g.function("i", "i", local(0), call(0), i32(1), add)
			return g.hook(contract.HookBeforeAgent, i32(0), call(f), drop).bytes()
		}, "nested too deeply", "4 MiB"),
		faulted("recursion with 2,000 locals", sandbox.FaultStack, func() []byte {
			g := newGuest()
			g.function("", "")
			g.bodies[0] = function(join([]byte{1}, leb(2000), []byte{typeI64}), call(0)...)
			return g.hook(contract.HookBeforeAgent, call(0)).bytes()
		}, "nested too deeply"),
		faulted("mutual recursion", sandbox.FaultStack, func() []byte {
			g := newGuest()
			g.function("", "", call(1))
			g.function("", "", call(0))
			return g.hook(contract.HookBeforeAgent, call(0)).bytes()
		}, "nested too deeply"),
		faulted("recursion through a table", sandbox.FaultStack, func() []byte {
			g := newGuest()
			g.function("", "", i32(0), []byte{0x11}, leb(g.signature("", "")), []byte{0})
			return g.entries(1, 0).hook(contract.HookBeforeAgent, call(0)).bytes()
		}, "nested too deeply"),
		faulted("reading beyond the memory", sandbox.FaultTrap, in(i32(-4), load32(0), drop), "out of bounds memory access"),
		faulted(
			"reading beyond 4 GiB",
			sandbox.FaultTrap,
			in(i32(-1), load32(0x7fffffff), drop),
			"out of bounds memory access",
		),
		faulted("table beyond its end", sandbox.FaultTrap, func() []byte {
			return newGuest().entries(1).hook(contract.HookBeforeAgent, i32(0), i32(99), []byte{0x11, 0, 0}, drop).bytes()
		}, ""),
		{Name: "growing in each hook of a run", Module: func() []byte {
			g := newGuest()
			grow := join(i32(256), growMemory, drop)
			for _, h := range []abi.Hook{
				contract.HookBeforeAgent, contract.HookBeforeModel, contract.HookOnChunk, contract.HookAfterModel,
				contract.HookBeforeTool,
			} {
				g.hook(h, grow)
			}
			return g.bytes()
		}, Want: Harmless},
		{
			Name:   "memory of an earlier run",
			Module: remembering,
			Want:   Harmless,
			Check:  func(s *Seen) error { return wantReply(s, "1") },
		},
		{
			Name:   "module larger than its limit",
			Module: honest,
			Limits: policy.Limits{Limits: sandbox.Limits{ModuleBytes: 100}},
			Want:   Refused,
			Text:   []string{"more than the limit of 100 bytes"},
		},
	}
}

// remembering returns a guest that counts its runs in a global and in memory, and shows the
// product. The product is 1 in an instance that has not been used before.
func remembering() []byte {
	g := newGuest()
	g.abi("read")
	g.abi("emit")
	local1 := g.abi("local_add")
	show := g.show()
	n := g.counter()
	const at, key = 0x30000, answerAt
	g.place(key, "seen")
	return g.hook(contract.HookBeforeAgent,
		global(n), i32(1), add, setGlobal(n),
		i32(at), i32(at), load32(0), i32(1), add, store32(0),
		i32(key), i32(4), global(n), i32(at), load32(0), []byte{0x6c, 0xac}, call(local1), call(show)).bytes()
}

// replies returns the data of the events that show emits.
func replies(s *Seen) []string {
	var out []string
	for _, e := range s.Of(abi.EventCustom) {
		if e.Name == "reply" {
			out = append(out, string(e.Data))
		}
	}
	return out
}

// wantReply returns an error unless there is exactly one reply, and it is in oneOf.
func wantReply(s *Seen, oneOf ...string) error {
	got := replies(s)
	for _, want := range oneOf {
		if len(got) == 1 && got[0] == want {
			return nil
		}
	}
	return fmt.Errorf("want a reply of %v, got %v", oneOf, got)
}
