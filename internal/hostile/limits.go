package hostile

import (
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// LimitCases returns for each runtime limit a case that only this limit stops: with the limit
// raised to its maximum, the outcome differs.
func LimitCases() map[string]Case {
	limited := func(c Case, set func(c *Case)) Case {
		set(&c)
		if c.Hook == "" && c.Want == Faulted {
			c.Hook = contract.HookBeforeAgent
		}
		return c
	}
	faulted := func(build func() []byte, kind sandbox.FaultKind, text string) Case {
		return Case{Module: build, Want: Faulted, Kind: kind, Text: []string{text}}
	}
	text := func() []scripted.Reply { return []scripted.Reply{scripted.Text("all done")} }
	return map[string]Case{
		"ModuleBytes": {Module: func() []byte { return append(honest(), custom1("x", make([]byte, 17<<20))...) },
			Want: Refused, Text: []string{"more than the limit of 16 MiB"}},
		"MemoryBytes": faulted(func() []byte {
			return doing(contract.HookBeforeAgent, i32(1100), growMemory, i32(-1), equal, when(unreachable))
		}, sandbox.FaultMemory, "64 MiB"),
		"HookTime": limited(
			faulted(func() []byte { return working(100_000_000) }, sandbox.FaultTimeout, "ran longer than 5ms"),
			func(c *Case) { c.Limits.HookTime = 5 * time.Millisecond },
		),
		"Fuel": limited(faulted(func() []byte { return working(1_000_000) }, sandbox.FaultFuel, "100000 fuel"),
			func(c *Case) { c.Limits.Fuel = 100_000 }),
		"StackBytes": limited(faulted(func() []byte {
			g := newGuest()
			g.function(
				"i",
				"i",
				local(0),
				[]byte{0x45},
				when(i32(0), leave),
				local(0),
				i32(1),
				[]byte{0x6b},
				call(0),
				i32(1),
				add,
			)
			return g.hook(contract.HookBeforeAgent, i32(10_000), call(0), drop).bytes()
		}, sandbox.FaultStack, "nested too deeply"), func(c *Case) { c.Limits.StackBytes = 64 << 10 }),
		"Nesting": limited(
			faulted(func() []byte { return wrapping(contract.HookWrapModel, 1, "") }, sandbox.FaultNesting, "more than 3 deep"),
			func(c *Case) { c.Limits.Nesting, c.Entries, c.Replies, c.Hook = 3, 5, text, contract.HookWrapModel },
		),
		"LogBytes": {
			Module: func() []byte { return logging(strings.Repeat("x", 4000), 100) },
			Want:   Harmless,
			Check:  atMostLog(100, 80<<10),
		},
		"LogLineBytes": {
			Module: func() []byte { return logging(strings.Repeat("x", 7000), 1) },
			Want:   Harmless,
			Check:  atMostLog(1, 5000),
		},
		"InputBytes": limited(
			faulted(func() []byte { return doing(contract.HookBeforeAgent) }, "", "limit input_bytes of 100"),
			func(c *Case) { c.Limits.InputBytes = 100 },
		),
		"OutputBytes": limited(faulted(func() []byte {
			return answering(contract.HookBeforeAgent, `{"instruction":"`+strings.Repeat("x", 1000)+`"}`)
		}, "", "limit output_bytes of 100"), func(c *Case) { c.Limits.OutputBytes = 100 }),
		"ReplyBytes": limited(Case{Module: func() []byte {
			return asking(
				contract.HookBeforeAgent,
				"messages",
				func(_ *guest, f int) []byte { return join(i32(0), i32(0), i32(9), call(f)) },
			).bytes()
		}, Want: ErrorReply, Text: []string{`"code":"limit"`, "16 bytes"}}, func(c *Case) { c.Limits.ReplyBytes = 16 }),
		"HostCalls": limited(faulted(func() []byte {
			g := newGuest()
			f := g.abi("changed")
			return g.hook(contract.HookBeforeAgent, count(n0, 20, i32(0), i64(0), call(f), drop)).bytes()
		}, "", "limit host_calls of 10"), func(c *Case) { c.Limits.HostCalls = 10 }),
		"FuelSchedule": limited(faulted(func() []byte {
			event := `{"name":"n","data":"` + strings.Repeat("x", 10_000) + `"}`
			g := newGuest().place(textAt, event)
			f := g.abi("emit")
			return g.hook(contract.HookBeforeAgent, count(n0, 50, i32(textAt), i32(len(event)), call(f), drop)).bytes()
		}, sandbox.FaultFuel, "10000000 fuel"), func(c *Case) { c.Limits.Fuel = 10_000_000 }),
		"RunFuel": limited(faulted(func() []byte {
			g := newGuest()
			for _, h := range []abi.Hook{contract.HookBeforeAgent, contract.HookBeforeModel} {
				g.hook(h, count(n0, 100_000, i32(1), drop))
			}
			return g.bytes()
		}, "", "limit run_fuel of 1000000"), func(c *Case) { c.Limits.RunFuel, c.Hook = 1_000_000, contract.HookBeforeModel }),
		"Instances": limited(
			faulted(func() []byte { return wrapping(contract.HookWrapToolCall, 1, "") }, "", "limit instances of 1"),
			func(c *Case) { c.Limits.Instances, c.Replies, c.Hook = 1, parallelCalls, contract.HookWrapToolCall },
		),
	}
}

// working returns a guest that divides n times. Compilers do not remove these divisions.
func working(n int) []byte {
	return doing(
		contract.HookBeforeAgent,
		i64(1<<62),
		setLocal(big0),
		count(n0, n, local(big0), i64(3), []byte{0x7f, 0x42, 7, 0x7c}, setLocal(big0)),
		i32(0),
		local(big0),
		[]byte{0x37, 3, 0},
	)
}

// StructureCases returns for each limit of a module's structure a module that exceeds only this
// limit. n is the first value beyond the limit.
func StructureCases() map[string]func(n int) []byte {
	none := section(types, []byte{1, 0x60, 0, 0})
	// bodies returns a module of identical functions () -> ().
	bodies := func(n int, body []byte) []byte {
		return binaryOf(none, section(functions, times(n, 0)), section(codes, times(n, body...)))
	}
	one := func(code []byte) []byte { return bodies(1, function([]byte{0}, code...)) }
	declared := func(n int) []byte { return join([]byte{1}, leb(n), []byte{typeI32}) }
	targets := func(n int) []byte { return join(i32(0), []byte{0x0e}, times(n, 0), []byte{0}) }
	memory := section(memories, []byte{1, 0, 1})
	return map[string]func(n int) []byte{
		"ModuleBytes": func(n int) []byte { return binaryOf(custom1("x", make([]byte, n-15))) },
		"Types":       func(n int) []byte { return binaryOf(section(types, times(n, 0x60, 0, 0))) },
		"Params":      func(n int) []byte { return binaryOf(section(types, []byte{1, 0x60}, times(n, typeI32), []byte{0})) },
		"Results":     func(n int) []byte { return binaryOf(section(types, []byte{1, 0x60, 0}, times(n, typeI32))) },
		"TypeValues": func(n int) []byte {
			return binaryOf(section(types, times(n/100+1, join([]byte{0x60}, times(100, typeI32), []byte{0})...)))
		},
		"Imports": func(n int) []byte {
			return binaryOf(none, section(imports, times(n, join(str("m"), str("f"), []byte{kindFunction, 0})...)))
		},
		"Functions":    func(n int) []byte { return bodies(n, function([]byte{0})) },
		"Tables":       func(n int) []byte { return binaryOf(section(tables, times(n, typeFuncRef, 0, 0))) },
		"TableEntries": func(n int) []byte { return binaryOf(section(tables, []byte{1, typeFuncRef, 0}, leb(n))) },
		"MemoryPages":  func(n int) []byte { return binaryOf(section(memories, []byte{1, 0}, leb(n))) },
		"Globals":      func(n int) []byte { return binaryOf(section(globals, times(n, typeI32, 0, 0x41, 0, 0x0b))) },
		"Exports": func(n int) []byte {
			var list [][]byte
			for i := range n {
				list = append(list, join(str(fmt.Sprint(i)), []byte{kindMemory, 0}))
			}
			return binaryOf(memory, section(exports, vec(list...)))
		},
		"NameBytes": func(n int) []byte {
			return binaryOf(memory, section(exports, vec(join(str(strings.Repeat("x", n)), []byte{kindMemory, 0}))))
		},
		"ElementSegments": func(n int) []byte { return binaryOf(section(elements, times(n, 1, 0, 0))) },
		"ElementEntries": func(n int) []byte {
			return binaryOf(
				none,
				section(functions, []byte{1, 0}),
				section(elements, []byte{1, 1, 0}, times(n, 0)),
				section(codes, vec(function([]byte{0}))),
			)
		},
		"DataSegments":   func(n int) []byte { return binaryOf(section(datas, times(n, 1, 0))) },
		"BodyBytes":      func(n int) []byte { return one(repeat(n-2, 0x01)) },
		"CodeBytes":      func(n int) []byte { return bodies(n/200_000+1, function([]byte{0}, repeat(200_000, 0x01)...)) },
		"FunctionLocals": func(n int) []byte { return bodies(1, function(declared(n))) },
		"Locals":         func(n int) []byte { return bodies(n/2000+1, function(declared(2000))) },
		"Nesting":        func(n int) []byte { return one(join(repeat(n, 0x02, noValue), repeat(n, 0x0b))) },
		"LoopNesting":    func(n int) []byte { return one(join(repeat(n, 0x03, noValue), repeat(n, 0x0b))) },
		"BranchTargets":  func(n int) []byte { return one(targets(n)) },
		"TotalBranchTargets": func(n int) []byte {
			return bodies(n/1000+1, function([]byte{0}, targets(1000)...))
		},
		"BranchValues": func(n int) []byte {
			results := section(types, []byte{2, 0x60, 0, 0, 0x60, 0}, times(16, typeI32))
			body := function([]byte{0}, join([]byte{0x02, 1}, unreachable, targets(1000), []byte{0x0b}, unreachable)...)
			return binaryOf(results, section(functions, times(n/16_000+1, 0)), section(codes, times(n/16_000+1, body...)))
		},
		"Blocks": func(n int) []byte { return one(repeat(n, 0x02, noValue, 0x0b)) },
		"BlockSquares": func(n int) []byte {
			return bodies(n/100_000_000+1, function([]byte{0}, repeat(10_000, 0x02, noValue, 0x0b)...))
		},
		"BlockLocals": func(n int) []byte {
			return bodies(1, function(declared(2900), repeat(n/2900+1, 0x02, noValue, 0x0b)...))
		},
		"LoopLocals": func(n int) []byte {
			return bodies(1, function(declared(2900), repeat(n/2900+1, 0x03, noValue, 0x0b)...))
		},
		"CallGlobals": func(n int) []byte {
			return binaryOf(none, section(functions, []byte{1, 0}), section(globals, times(1000, typeI32, 1, 0x41, 0, 0x0b)),
				section(codes, vec(function([]byte{0}, repeat(n/1000+1, 0x10, 0)...))))
		},
	}
}
