package hostile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// abiCases returns cases that pass invalid pointers, lengths and numbers to the host.
func abiCases() []Case {
	pages := 4 << 16
	bounds := func(name, f string, args ...[]byte) Case {
		return Case{Name: name, Module: func() []byte {
			g := newGuest()
			code := join(join(args...), call(g.abi(f)))
			if abiTypes[f][1] != "" {
				code = append(code, drop...)
			}
			return g.hook(contract.HookBeforeAgent, code).bytes()
		}, Want: Faulted, Hook: contract.HookBeforeAgent, Kind: sandbox.FaultBounds, Text: []string{"." + f, "do not lie in the memory of 262144 bytes"}}
	}
	fault := func(name string, text string, build func() []byte) Case {
		return Case{Name: name, Module: build, Want: Faulted, Hook: contract.HookBeforeAgent, Text: []string{text}}
	}
	returning := func(n int) func() []byte {
		return func() []byte {
			g := newGuest()
			return g.export("before_agent", g.function("i", "i", i32(n))).bytes()
		}
	}
	return []Case{
		bounds("answer whose address wraps around", "write", i32(-16), i32(32)),
		bounds("answer of 4 GiB", "write", i32(0), i32(-1)),
		bounds("answer one byte beyond the end", "write", i32(pages-1), i32(2)),
		bounds("answer from outside the memory", "write", i32(1<<30), i32(1)),
		bounds("input to outside the memory", "read", i32(-8), i32(-1)),
		bounds("log of 4 GiB", "log", i32(1), i32(0), i32(-1)),
		bounds("patch from outside the memory", "next", i32(pages), i32(1)),
		bounds("key from outside the memory", "local_get", i32(-1), i32(1)),
		bounds("long key from outside the memory", "local_get", i32(1), i32(-1)),
		bounds("value from outside the memory", "local_set", i32(0), i32(1), i32(-1), i32(-1), i64(-1)),
		bounds("event from outside the memory", "emit", i32(-1), i32(-1)),
		{Name: "printing from outside the memory", Module: func() []byte {
			g := newGuest()
			write := g.wasi("fd_write")
			return g.place(0x100, "\x00\x00\x00\xff\xff\xff\xff\xff").
				hook(contract.HookBeforeAgent, i32(1), i32(0x100), i32(1), i32(0x200), call(write), drop).bytes()
		}, Want: Faulted, Hook: contract.HookBeforeAgent, Kind: sandbox.FaultBounds},
		{Name: "printing 2^32 pieces", Module: func() []byte {
			g := newGuest()
			write := g.wasi("fd_write")
			return g.hook(contract.HookBeforeAgent, i32(1), i32(0), i32(-1), i32(0), call(write),
				[]byte{0x45}, when(unreachable)).
				bytes()
		}, Want: Harmless},
		{Name: "nothing at 0", Module: func() []byte {
			g := newGuest()
			write := g.abi("write")
			return g.hook(contract.HookBeforeAgent, i32(0), i32(0), call(write), i32(-1), i32(0), call(write)).bytes()
		}, Want: Harmless},
		{Name: "answer over the input", Module: func() []byte {
			g := newGuest()
			read, write := g.abi("read"), g.abi("write")
			return g.place(answerAt, `{"instruction":"mine"}`).hook(contract.HookBeforeAgent,
				i32(answerAt+8), i32(1<<16), call(read), drop, i32(answerAt), i32(0), i32(0), copyMemory,
				i32(0), i32(0), call(write)).bytes()
		}, Want: Harmless},
		{Name: "answer changed after it was given", Module: func() []byte {
			g := newGuest()
			write := g.abi("write")
			const text = `{"instruction":"first"}`
			return g.place(answerAt, text).hook(contract.HookBeforeAgent, i32(answerAt), i32(len(text)), call(write),
				i32(answerAt), i32('x'), i32(len(text)), fill).bytes()
		}, Want: Harmless, Check: func(s *Seen) error { return wantInstruction(s, "first") }},
		{Name: "input retained", Module: func() []byte {
			g := newGuest()
			read := g.abi("read")
			return g.hook(contract.HookBeforeAgent, count(n0, 1000, i32(0), i32(1<<17), call(read), drop)).bytes()
		}, Want: Harmless},
		fault("returns 2", "returned 2; want 0 for done or 1 for failed", returning(2)),
		fault("returns -1", "returned -1", returning(-1)),
		fault("returns the minimum number", "returned -2147483648", returning(-1<<31)),
		{
			Name:   "fails without a reason",
			Module: returning(1),
			Want:   Faulted,
			Hook:   "",
			Text:   []string{"before_agent failed without an error message"},
		},
		fault("fails with an invalid error", "returned 1, and its error object", func() []byte {
			g := newGuest()
			write := g.abi("write")
			return g.place(answerAt, "nonsense").
				export("before_agent", g.function("i", "i", i32(answerAt), i32(8), call(write), i32(1))).
				bytes()
		}),
		fault("answer larger than its limit", "more than the limit output_bytes of 8388608", func() []byte {
			g := newGuest()
			write := g.abi("write")
			return g.memory(200).hook(contract.HookBeforeAgent, i32(0), i32(200<<16), call(write)).bytes()
		}),
		{Name: "proc_exit", Module: func() []byte {
			g := newGuest()
			exit := g.wasi("proc_exit")
			return g.hook(contract.HookBeforeAgent, i32(0), call(exit)).bytes()
		}, Want: Faulted, Hook: contract.HookBeforeAgent, Kind: sandbox.FaultExit, Text: []string{"proc_exit(0)"}},
		{Name: "opening a file", Module: func() []byte {
			g := newGuest()
			open := g.wasi("path_open")
			return g.hook(contract.HookBeforeAgent, i32(3), i32(0), i32(0), i32(4), i32(0), i64(-1),
				i64(-1), i32(0), i32(0), call(open),
				[]byte{0x45}, when(unreachable)).
				bytes()
		}, Want: Harmless},
		errorReply("list of messages that does not exist", "messages", `"code":"invalid"`, i32(7), i32(0), i32(1)),
		errorReply("list of messages below 0", "messages", `"code":"invalid"`, i32(-1), i32(0), i32(1)),
		errorReply("changes of a list that does not exist", "changed", `"code":"invalid"`, i32(99), i64(0)),
		{Name: "messages with reversed bounds", Module: func() []byte {
			return asking(
				contract.HookBeforeAgent,
				"messages",
				func(_ *guest, f int) []byte { return join(i32(0), i32(1<<31-1), i32(-1<<31), call(f)) },
			).bytes()
		}, Want: Harmless, Check: func(s *Seen) error { return wantReply(s, "[]") }},
		errorReply("key of 257 bytes", "local_get", "at most 256 are allowed", i32(0), i32(257)),
		errorReply("no key", "local_get", `"code":"invalid"`, i32(0), i32(0)),
		errorReply("key that is not UTF-8", "local_get", "not valid UTF-8", i32(0x600), i32(2)),
		errorReply("model without a grant", "model", `"code":"denied"`, i32(0), i32(0)),
		errorReply("tool without a grant", "tool", `"code":"denied"`, i32(0), i32(0)),
		errorReply("http without a grant", "http", `"code":"denied"`, i32(0), i32(0)),
		errorReply("store without a grant", "store_get", `"code":"denied"`, i32(0), i32(0)),
		errorReply("next in a hook that wraps nothing", "next", `"code":"denied"`, i32(0), i32(0)),
		errorReply("event that is not an object", "emit", `"code":"invalid"`, i32(0x600), i32(2)),
		{Name: "reply larger than its limit", Module: func() []byte {
			return asking(
				contract.HookBeforeAgent,
				"messages",
				func(_ *guest, f int) []byte { return join(i32(0), i32(0), i32(9), call(f)) },
			).bytes()
		}, Limits: policy.Limits{ReplyBytes: 16}, Want: ErrorReply, Text: []string{`"code":"limit"`}},
		{Name: "switched off after five faults", Module: func() []byte {
			return doing(contract.HookOnChunk, unreachable)
		}, OnFault: hook.Skip, Want: Faulted, Hook: contract.HookOnChunk, Kind: sandbox.FaultTrap},
	}
}

// errorReply returns the case of a host call of the function f with args in before_agent, whose
// reply is an error that contains text.
func errorReply(name, f, text string, args ...[]byte) Case {
	return Case{Name: name, Want: ErrorReply, Text: []string{text}, Module: func() []byte {
		return asking(contract.HookBeforeAgent, f, func(g *guest, index int) []byte {
			g.place(0x600, "\xff\xfe").place(0x620, "{}")
			return join(join(args...), call(index))
		}).bytes()
	}}
}

// wantInstruction returns an error unless the first request to the model begins with the
// instruction want.
func wantInstruction(s *Seen, want string) error {
	if len(s.Requests) == 0 {
		return fmt.Errorf("the model was not asked")
	}
	if got := s.Requests[0].Messages[0]; got.Role != abi.RoleSystem || got.Content.String() != want {
		return fmt.Errorf("want the instruction %q, got %q", want, got.Content.String())
	}
	return nil
}

// jsonCases returns cases that answer with invalid or ambiguous JSON.
func jsonCases() []Case {
	bad := func(name, answer string, text ...string) Case {
		return Case{Name: name, Module: func() []byte { return answering(contract.HookBeforeAgent, answer) }, Want: Faulted,
			Hook: contract.HookBeforeAgent, Text: text}
	}
	in := func(h abi.Hook, c Case, answer string) Case {
		c.Hook, c.Module = h, func() []byte { return answering(h, answer) }
		return c
	}
	good := func(name, answer string, check func(*Seen) error) Case {
		return Case{
			Name:   name,
			Module: func() []byte { return answering(contract.HookBeforeAgent, answer) },
			Want:   Harmless,
			Check:  check,
		}
	}
	deep := func(n int, open, end string) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	long := strings.Repeat("9", 1<<20)
	all := []Case{
		bad("invalid UTF-8", "{\"instruction\":\"a\xff\"}", "UTF-8"),
		bad("overlong UTF-8", "{\"instruction\":\"\xc0\xae\"}", "UTF-8"),
		bad("surrogate in UTF-8", "{\"instruction\":\"\xed\xa0\x80\"}", "UTF-8"),
		bad("unpaired surrogate", `{"instruction":"\ud800"}`, "answer"),
		bad("byte order mark", "\ufeff{}", "answer"),
		bad("cut off", `{"instruction":"a`, "answer"),
		bad("trailing text", `{} {}`, "unexpected text after"),
		bad("trailing zero bytes", "{}\x00\x00", "unexpected text after"),
		bad("control character in a string", "{\"instruction\":\"a\x01\"}", "answer"),
		bad("comment", `{/* hi */}`, "answer"),
		bad("trailing comma", `{"instruction":"a",}`, "answer"),
		bad("single quotes", `{'instruction':'a'}`, "answer"),
		bad("NaN", `{"params":{"temperature":NaN}}`, "answer"),
		bad("duplicate key", `{"instruction":"a","instruction":"b"}`, "instruction", "duplicated"),
		bad("duplicate key, spelled differently", `{"instruction":"a","\u0069nstruction":"b"}`, "duplicated"),
		bad("key in another case", `{"Instruction":"a"}`, "instruction"),
		bad(
			"duplicate key in a passed-through value",
			`{"tools":{"add":[{"name":"x","parameters":{"a":1,"a":2}}]}}`,
			"duplicated",
		),
		bad("66 levels", `{"x":`+deep(65, "[", "]")+`}`, "deeper than 64 levels"),
		bad("10,001 levels", deep(10_001, "[", "]"), "want an object"),
		bad("10,001 levels in an unknown key", `{"x":`+deep(10_001, `{"x":`, "}")+`}`, "deeper than 64 levels"),
		bad("number of 1 MB", `{"x":`+long+`}`, "at most 64 are allowed"),
		bad("number with a leading zero", `{"x":01}`, "answer"),
		bad("number with a plus", `{"x":+1}`, "answer"),
		bad("half of 8 MB of {},", `{"messages":[`+strings.Repeat("{},", 1<<20)+`{}]}`, "messages"),
		bad("8 MB of {},", `{"messages":[`+strings.Repeat("{},", 8<<20/3+1)+`{}]}`, "more than the limit output_bytes"),
		bad("array", `[]`, "want an object"),
		bad("number", `7`, "want an object"),
		bad("instruction that is a number", `{"instruction":7}`, "instruction: want a string"),
		bad("messages that are a string", `{"messages":"all"}`, "messages"),
		bad("splice beyond the end", `{"messages":{"splice":[{"at":99,"remove":1,"insert":[]}]}}`, "messages"),
		bad("splice below 0", `{"messages":{"splice":[{"at":-1,"remove":0,"insert":[]}]}}`, "messages"),
		bad("splice of 2^53", `{"messages":{"splice":[{"at":9007199254740993,"remove":1}]}}`, "messages"),
		bad("splice of 1e999999", `{"messages":{"splice":[{"at":1e999999,"remove":1}]}}`, "at"),
		bad("splice of half a message", `{"messages":{"splice":[{"at":0.5,"remove":1}]}}`, "at"),
		bad("splices that overlap", `{"messages":{"splice":[{"at":0,"remove":1},{"at":0,"remove":1}]}}`, "messages"),
		bad(
			"message of an unknown role",
			`{"messages":{"splice":[{"at":0,"insert":[{"role":"root","content":"x"}]}]}}`,
			"role",
		),
		bad(
			"20,001 messages",
			`{"messages":{"splice":[{"at":0,"insert":[`+strings.TrimSuffix(
				strings.Repeat(`{"role":"user","content":"x"},`, 20_001),
				",",
			)+`]}]}}`,
			"are allowed",
		),
		bad("tool named like another", `{"tools":{"add":[{"name":"t"}]}}`, `"t" exists already`),
		bad("tool without a name", `{"tools":{"add":[{"name":""}]}}`, "name"),
		bad("tool with a name of 1 KB", `{"tools":{"add":[{"name":"`+strings.Repeat("n", 1024)+`"}]}}`, "name"),
		bad("respond of a user", `{"respond":{"role":"user","content":"x"}}`, "assistant"),
		{Name: "invalid answer is not applied", Module: func() []byte {
			return answering(contract.HookBeforeAgent, `{"instruction":"mine","messages":{"splice":[{"at":99,"remove":1}]}}`)
		}, OnFault: hook.Skip, Want: Faulted, Hook: contract.HookBeforeAgent, Text: []string{"messages"},
			Check: func(s *Seen) error { return wantInstruction(s, "be brief") }},
		good("64 levels", `{"x":`+deep(63, "[", "]")+`}`, nil),
		good("key of 1 MB", `{"`+strings.Repeat("k", 1<<20)+`":1}`, nil),
		good("thousands of unknown keys", `{`+unknownKeys(5000)+`}`, func(s *Seen) error {
			if n := len(s.Of(abi.EventLog)); n > 257 {
				return fmt.Errorf("%d lines of log", n)
			}
			return nil
		}),
		good("numbers of all sizes", `{"x":[1e999999,9007199254740993,-0,1e-400,123456789012345678901234567890]}`, nil),
		good(
			"forged id and origin",
			`{"messages":{"splice":[{"at":1,"insert":[{"role":"user","content":"x","id":"msg_1","origin":"model"}]}]}}`,
			forged,
		),
		good("8 MB of text", `{"instruction":"`+strings.Repeat("a", 8<<20-64)+`"}`, nil),
	}
	return append(
		all,
		in(contract.HookGateTool, bad("gate without a decision", "", "decision"), `{}`),
		in(contract.HookGateTool, bad("gate with an unknown decision", "", "decision"), `{"decision":"sudo"}`),
		in(contract.HookGateTool, bad("gate with two decisions", "", "duplicated"), `{"decision":"deny","decision":"allow"}`),
		in(
			contract.HookGateTool,
			bad("gate that decides in another case", "", "ecision"),
			`{"Decision":"allow","decision":"allow"}`,
		),
		in(
			contract.HookToolMessages,
			bad("tool message for another call", "", "call"),
			`{"messages":[{"role":"tool","tool_call_id":"other","content":"x"}]}`,
		),
		in(
			contract.HookToolMessages,
			bad("tool messages without the answer", "", "call"),
			`{"messages":[{"role":"user","content":"x"}]}`,
		),
		in(
			contract.HookAfterModel,
			bad("response and error together", "", "error"),
			`{"response":{"message":{"role":"assistant","content":"x"}},"error":{"code":"model","message":"x"}}`,
		),
		in(
			contract.HookAfterModel,
			bad("response of a tool", "", "assistant"),
			`{"response":{"message":{"role":"tool","tool_call_id":"c1","content":"x"}}}`,
		),
		in(
			contract.HookAfterModel,
			bad("usage below 0", "", "usage"),
			`{"response":{"message":{"role":"assistant","content":"x"},"usage":{"prompt_tokens":-9e18}}}`,
		),
		in(contract.HookBeforeModelRewriteState, bad("activation of a missing tool", "", "rm"), `{"active":["rm"]}`),
		in(contract.HookOnChunk, bad("chunk of an unknown kind", "", "kind"), `{"chunks":[{"kind":"shell","text":"x"}]}`),
		in(contract.HookBeforeTool, bad("result that is a number", "", "result"), `{"result":7}`),
		Case{Name: "tool arguments of 8 MB", Module: func() []byte {
			return answering(contract.HookBeforeTool, `{"arguments":"`+strings.Repeat("a", 8<<20-64)+`"}`)
		}, Want: Harmless, Check: func(s *Seen) error {
			if r := s.Of(abi.EventToolResult); len(r) != 1 || !r[0].Result.IsError || len(r[0].Result.Content.String()) > 4096 {
				return fmt.Errorf("want a short error result, got %d", len(r))
			}
			return nil
		}},
	)
}

// unknownKeys returns n fields of a JSON object whose keys no answer has.
func unknownKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":1`, i)
	}
	return b.String()[1:]
}

// forged returns an error if the first request to the model has a duplicate id, or a message with
// content "x" whose origin is not the module, or no message with that content.
func forged(s *Seen) error {
	ids := map[string]bool{}
	for _, m := range s.Requests[0].Messages {
		if m.ID != "" && ids[m.ID] {
			return fmt.Errorf("the id %q is duplicated", m.ID)
		}
		ids[m.ID] = true
		if m.Content.String() == "x" && !strings.HasPrefix(m.Origin, abi.OriginModule) {
			return fmt.Errorf("the origin %q was taken over", m.Origin)
		}
	}
	if !slices.ContainsFunc(s.Requests[0].Messages, func(m abi.Message) bool { return m.Content.String() == "x" }) {
		return fmt.Errorf("the message is not there")
	}
	return nil
}
