package hostile

import (
	"fmt"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// hookTime is the HookTime of cases whose hook never ends.
const hookTime = 60 * time.Millisecond

// within returns limits with the given HookTime.
func within(t time.Duration) policy.Limits {
	return policy.Limits{Limits: sandbox.Limits{HookTime: t}}
}

// timed returns the case with a short HookTime.
func timed(c Case) Case {
	c.Limits.HookTime = hookTime
	return c
}

// startCases returns cases that misbehave while the image is built: in the start function,
// _initialize, describe or configure.
func startCases() []Case {
	initialize := func(code ...[]byte) func() []byte {
		return func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			return g.export("_initialize", g.function("", "", code...)).bytes()
		}
	}
	describe := func(code ...[]byte) func() []byte {
		return func() []byte {
			return newGuest().hook(contract.HookBeforeAgent).hook(contract.HookDescribe, code...).bytes()
		}
	}
	return []Case{
		timed(refused("start function loops", func() []byte {
			return newGuest().hook(contract.HookBeforeAgent).start(forever()).bytes()
		}, "its start function", "ran longer than 60ms")),
		refused("start function traps", func() []byte {
			return newGuest().hook(contract.HookBeforeAgent).start(unreachable).bytes()
		}, "its start function", "unreachable executed"),
		refused("start function recurses", func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			g.startAt = leb(g.function("", "", call(1)))
			return g.bytes()
		}, "its start function", "nested too deeply"),
		{
			Name:   "start function makes every host call",
			Module: func() []byte { return everyCall((*guest).start) },
			Want:   Harmless,
		},
		{Name: "_initialize makes every host call", Module: func() []byte {
			return everyCall(
				func(g *guest, code ...[]byte) *guest { return g.export("_initialize", g.function("", "", code...)) },
			)
		}, Want: Harmless},
		{Name: "describe makes every host call", Module: func() []byte {
			return everyCall(func(g *guest, code ...[]byte) *guest { return g.hook(contract.HookDescribe, code...) })
		}, Want: Harmless},
		refused(
			"memory larger than the limit",
			func() []byte { return newGuest().memory(1025).hook(contract.HookBeforeAgent).bytes() },
			"memory",
			"limit",
		),
		refused(
			"memory of 4 GiB",
			func() []byte { return newGuest().memory(1 << 16).hook(contract.HookBeforeAgent).bytes() },
			"memory",
			"limit",
		),
		refused(
			"table of 2^27 entries",
			func() []byte { return newGuest().entries(1 << 27).hook(contract.HookBeforeAgent).bytes() },
			"134,217,728 table entries, more than the limit of 65,536",
		),
		refused("40 tables of 2^27 entries", func() []byte {
			g := newGuest().entries(1 << 27).hook(contract.HookBeforeAgent)
			g.table = join(times(40, join([]byte{typeFuncRef, 0}, leb(1<<27))...))
			return g.bytes()
		}, "limit"),
		timed(refused("_initialize loops", initialize(forever()), "_initialize: ran longer than 60ms")),
		{
			Name:   "_initialize grows to the limit",
			Module: initialize(loop(i32(16), growMemory, i32(0), []byte{0x4e}, branchIf(0))),
			Want:   Harmless,
		},
		refused(
			"_initialize grows, and traps at the limit",
			initialize(loop(i32(16), growMemory, i32(0), []byte{0x4e}, branchIf(0)), unreachable),
			"_initialize: unreachable executed",
			"64 MiB",
		),
		timed(
			refused(
				"_initialize fills 64 MiB endlessly",
				initialize(i32(1020), growMemory, drop, forever(i32(0), i32(1), i32(1<<26), fill)),
				"_initialize: ran longer",
			),
		),
		timed(refused("describe loops", describe(forever()), "describe: ran longer than 60ms")),
		refused("describe traps", describe(unreachable), "describe: unreachable executed"),
		refused("describe returns 7", func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			return g.export("describe", g.function("i", "i", i32(7))).bytes()
		}, "returned 7"),
		refused(
			"describe returns an invalid description",
			func() []byte { return describing(`{"name":7}`) },
			"describe",
			"name: want a string",
		),
		refused(
			"describe names a missing hook",
			func() []byte { return describing(`{"hooks":["gate_tool"]}`) },
			"hooks names gate_tool, which the module does not export",
		),
		refused(
			"describe requires an unknown feature",
			func() []byte { return describing(`{"requires":["root"]}`) },
			`requires "root"`,
		),
		refused(
			"describe has a schema with a remote reference",
			func() []byte { return describing(`{"config_schema":{"$ref":"http://169.254.169.254/"}}`) },
			"config_schema",
		),
		refused("describe has a schema that refers to itself", func() []byte {
			return describing(`{"config_schema":{"$ref":"#"}}`)
		}, "config_schema"),
		refused(
			"describe has a schema that grows exponentially",
			func() []byte { return describing(`{"config_schema":` + multiplying(40) + `}`) },
			"config_schema",
			"references multiply",
		),
		refused("describe has a schema of 70 KB", func() []byte {
			return describing(`{"config_schema":{"description":"` + strings.Repeat("x", 70_000) + `"}}`)
		}, "config_schema", "at most 65536 are allowed"),
		refused(
			"describe has a name of 1 KB",
			func() []byte { return describing(`{"name":"` + strings.Repeat("n", 1024) + `"}`) },
			"at most 128 are allowed",
		),
		timed(Case{Name: "configure loops", Module: func() []byte {
			return newGuest().hook(contract.HookBeforeAgent).hook(contract.HookConfigure, forever()).bytes()
		}, Want: Refused, Text: []string{"configure", "ran longer than 60ms"}}),
		{Name: "configure fails without a reason", Module: func() []byte {
			g := newGuest().hook(contract.HookBeforeAgent)
			return g.export("configure", g.function("i", "i", i32(1))).bytes()
		}, Want: Refused, Text: []string{"configure failed without an error message"}},
	}
}

// describing returns a guest whose describe hook answers with description.
func describing(description string) []byte {
	g := newGuest()
	write := g.abi("write")
	g.memory(4+len(description)>>16).
		place(answerAt, description).
		hook(contract.HookDescribe, i32(answerAt), i32(len(description)), call(write))
	return g.hook(contract.HookBeforeAgent).bytes()
}

// multiplying returns a schema in which each of n definitions refers to the next one twice.
func multiplying(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{}}}`, n)
	return b.String()
}

// everyCall returns a guest that makes each host call of the ABI, except "read", "write" and "log".
// It passes the code to in, which adds the code to a part of the guest in which the host allows
// none of these calls. The guest traps unless each call fails.
func everyCall(in func(g *guest, code ...[]byte) *guest) []byte {
	g := newGuest()
	var code []byte
	for _, row := range abitable.Imports() {
		name := row.Name
		if name == "read" || name == "write" || name == "log" {
			continue
		}
		f := g.abi(name)
		for _, p := range abiTypes[name][0] {
			if p == 'I' {
				code = append(code, i64(0)...)
			} else {
				code = append(code, i32(0)...)
			}
		}
		code = join(code, call(f), i32(0), []byte{0x4e}, when(unreachable))
	}
	return in(g.hook(contract.HookBeforeAgent), code).bytes()
}
