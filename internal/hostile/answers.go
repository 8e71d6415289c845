package hostile

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// failing returns a guest that fails in one hook with text as its error.
func failing(h abi.Hook, text string) []byte {
	g := newGuest()
	write := g.abi("write")
	g.memory(4+len(text)>>16).place(answerAt, text)
	return g.export(string(h), g.function("i", "i", i32(answerAt), i32(len(text)), call(write), i32(1))).bytes()
}

// keys returns n different fields of a JSON object.
func keys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"%x":0`, i)
	}
	return b.String()[1:]
}

// answerCases returns cases that answer with JSON that costs the host more to parse than the guest
// to write.
func answerCases() []Case {
	const limit = 8_388_000 // bytes of the largest answer
	answer := func(name string, text func() string) Case {
		return Case{Name: name, Module: func() []byte { return answering(contract.HookBeforeAgent, text()) }, Want: Harmless}
	}
	late := func(c Case) Case {
		c = timed(c)
		c.Want, c.Hook, c.Kind, c.Limits.Fuel = Faulted, contract.HookBeforeAgent, sandbox.FaultTimeout, 1<<62
		return c
	}
	repeated := func(begin, part, end string) func() string {
		return func() string { return begin + strings.Repeat(part, (limit-len(begin)-len(end))/len(part)) + end }
	}
	return []Case{
		late(answer("8 MB of unknown fields", func() string { return `{"x":{` + keys(700_000) + `}}` })),
		{
			Name:   "8 MB of brackets",
			Module: func() []byte { return answering(contract.HookBeforeAgent, strings.Repeat("[", limit)) },
			Want:   Faulted,
			Hook:   contract.HookBeforeAgent,
			Text:   []string{"answer: "},
		},
		{
			Name:   "8 MB of brackets in a value",
			Module: func() []byte { return answering(contract.HookBeforeAgent, `{"x":`+strings.Repeat("[", limit-10)) },
			Want:   Faulted,
			Hook:   contract.HookBeforeAgent,
			Text:   []string{"deeper than 64 levels"},
		},
		answer("8 MB of escapes", repeated(`{"instruction":"`, `\u00e9`, `"}`)),
		answer("8 MB of spaces", repeated(`{`, ` `, `}`)),
		answer("8 MB of digits and dots", repeated(`{"x":[`, `1.5e-7,`, `1]}`)),
		late(Case{Name: "error of 8 MB of fields", Module: func() []byte {
			return failing(contract.HookBeforeAgent, `{"code":"internal","message":"m",`+keys(700_000)+`}`)
		}}),
		{Name: "error whose message has 8 MB", Module: func() []byte {
			return failing(contract.HookBeforeAgent, repeated(`{"code":"internal","message":"`, "x", `"}`)())
		}, Want: Faulted, Text: []string{"xxx"}},
		timed(refused("configure fails with 8 MB of fields", func() []byte {
			g := newGuest()
			write, text := g.abi("write"), `{"code":"invalid","message":"m",`+keys(700_000)+`}`
			g.memory(4+len(text)>>16).place(answerAt, text)
			return g.export("configure", g.function("i", "i", i32(answerAt), i32(len(text)), call(write), i32(1))).
				hook(contract.HookBeforeAgent).
				bytes()
		}, "configure: ")),
		refused(
			"description of 8 MB in small parts",
			func() []byte { return describing(repeated(`{"x":[`, `{},`, `{}]}`)()) },
			"describe: the answer has 8387998 bytes",
		),
		{Name: "tool arguments of 8 MB checked repeatedly", Module: func() []byte {
			return nexting(`{"arguments":"[`+strings.Repeat("[],", 2_000_000)+`[]]"}`, 100)
		}, Limits: within(hookTime), Want: Faulted, Hook: contract.HookWrapToolCall, Kind: sandbox.FaultTimeout},
		endlessCalls("value of thousands of fields, repeatedly", `{`+keys(100_000)+`}`, "local_set"),
		endlessCalls("event of thousands of fields, repeatedly", `{"name":"n","data":{`+keys(60_000)+`}}`, "emit"),
		endlessCalls(
			"patch of thousands of fields, repeatedly",
			`{"model":"m","params":{`+keys(100_000)+`}}`,
			"next",
		),
	}
}

// nexting returns a guest that calls next n times with a patch.
func nexting(patch string, n int) []byte {
	g := newGuest()
	next := g.abi("next")
	return g.memory(4+len(patch)>>16).place(answerAt, patch).
		hook(contract.HookWrapToolCall, count(n0, n, i32(answerAt), i32(len(patch)), call(next), drop)).bytes()
}

// endlessCalls returns a case that passes text to the host call f in an endless loop.
func endlessCalls(name, text, f string) Case {
	h := contract.HookBeforeAgent
	if f == "next" {
		h = contract.HookWrapModel
	}
	c := endless(name, func() []byte {
		g := newGuest()
		index := g.abi(f)
		g.memory(4+len(text)>>16).place(16, "k").place(answerAt, text)
		args := join(i32(answerAt), i32(len(text)))
		if f == "local_set" {
			args = join(i32(16), i32(1), args, i64(-1))
		}
		return g.hook(h, forever(args, call(index), drop)).bytes()
	})
	c.Hook, c.Limits.HostCalls = h, 1<<30
	return c
}
