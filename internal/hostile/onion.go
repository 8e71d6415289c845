package hostile

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// wrapping returns a guest that in one hook calls next n times with the given patch, executes the
// code in then, and shows the last reply.
func wrapping(h abi.Hook, n int, patch string, then ...[]byte) []byte {
	return asking(h, "next", func(g *guest, f int) []byte {
		g.place(0x800, patch)
		return join(count(n0, n, i32(0x800), i32(len(patch)), call(f), setLocal(n1)), join(then...), local(n1))
	}).bytes()
}

// onionCases returns cases of middlewares that misuse next, or fail around it.
func onionCases() []Case {
	wrap := func(h abi.Hook, n int, patch string, then ...[]byte) func() []byte {
		return func() []byte { return wrapping(h, n, patch, then...) }
	}
	text := func() []scripted.Reply { return []scripted.Reply{scripted.Text("all done")} }
	failing := func() []scripted.Reply {
		return []scripted.Reply{{Err: model.Errorf(abi.CodeModel, "the model is overloaded")}}
	}
	panicking := func() []scripted.Reply {
		r := scripted.Text("never")
		r.Do = func(context.Context, *model.Request) error { panic("the model broke") }
		return []scripted.Reply{r}
	}
	return []Case{
		{
			Name:   "next never called, no answer",
			Module: func() []byte { return doing(contract.HookWrapModel) },
			Want:   Harmless,
			Check:  func(s *Seen) error { return wantRequests(s, 2) },
		},
		{
			Name:   "next never called for a tool",
			Module: func() []byte { return doing(contract.HookWrapToolCall) },
			Want:   Harmless,
			Check: func(s *Seen) error {
				if r := s.Of(abi.EventToolResult); len(r) != 1 || r[0].Result.Content.String() != "t-ok" {
					return fmt.Errorf("the tool was not called")
				}
				return nil
			},
		},
		{Name: "next three times", Module: wrap(contract.HookWrapModel, 3, ""), Replies: func() []scripted.Reply {
			return []scripted.Reply{scripted.Text("one"), scripted.Text("two"), scripted.Text("three")}
		}, Want: Harmless, Check: func(s *Seen) error {
			if got := s.Last().Message.Content.String(); got != "three" {
				return fmt.Errorf("want the last reply, got %q", got)
			}
			return delivered(s, "one")
		}},
		{
			Name:   "next 65 times",
			Module: wrap(contract.HookWrapToolCall, 65, ""),
			Want:   ErrorReply,
			Text:   []string{`"code":"limit"`, "64 times"},
		},
		{
			Name:    "next with a patch that is not JSON",
			Module:  wrap(contract.HookWrapModel, 1, "nonsense"),
			Replies: text,
			Want:    ErrorReply,
			Text:    []string{`"code":"invalid"`},
		},
		{
			Name:   "next with tool arguments that do not parse",
			Module: wrap(contract.HookWrapToolCall, 1, `{"arguments":"{"}`),
			Want:   Harmless,
			Check: func(s *Seen) error {
				if r := s.Of(abi.EventToolResult); len(r) != 1 || !r[0].Result.IsError {
					return fmt.Errorf("want an error result")
				}
				return nil
			},
		},
		{Name: "error of next ignored", Module: func() []byte {
			return asking(contract.HookWrapModel, "next", func(g *guest, f int) []byte {
				write := g.importIndex("write")
				const answer = `{"response":{"message":{"role":"assistant","content":"all is well"}}}`
				g.place(0x800, answer)
				return join(i32(0), i32(0), call(f), i32(0x800), i32(len(answer)), call(write))
			}, "write").bytes()
		}, Replies: failing, Want: Harmless, Check: func(s *Seen) error {
			if got := s.Last().Message.Content.String(); got != "all is well" {
				return fmt.Errorf("want the module's answer, got %q", got)
			}
			return nil
		}},
		{
			Name:   "trap after next",
			Module: wrap(contract.HookWrapModel, 1, "", unreachable),
			Want:   Faulted,
			Hook:   contract.HookWrapModel,
			Kind:   sandbox.FaultTrap,
		},
		{
			Name:    "trap after next, skipped",
			Module:  wrap(contract.HookWrapModel, 1, "", unreachable),
			OnFault: "skip",
			Want:    Faulted,
			Hook:    contract.HookWrapModel,
			Kind:    sandbox.FaultTrap,
			Check:   func(s *Seen) error { return wantRequests(s, 2) },
		},
		timed(
			Case{
				Name:   "loop after next",
				Module: wrap(contract.HookWrapModel, 1, "", forever()),
				Want:   Faulted,
				Hook:   contract.HookWrapModel,
				Kind:   sandbox.FaultTimeout,
			},
		),
		{
			Name:    "the model panics below guests",
			Module:  wrap(contract.HookWrapModel, 1, ""),
			Entries: 3,
			Replies: panicking,
			Whole:   true,
			Want:    Faulted,
			Hook:    contract.HookWrapModel,
			Kind:    sandbox.FaultInternal,
			Text:    []string{"the model broke"},
		},
		{
			Name:    "70 nested guests",
			Module:  wrap(contract.HookWrapModel, 1, ""),
			Entries: 70,
			Replies: text,
			Want:    Faulted,
			Hook:    contract.HookWrapModel,
			Kind:    sandbox.FaultNesting,
			Text:    []string{"more than 64 deep"},
		},
		{
			Name:    "60 nested guests",
			Module:  wrap(contract.HookWrapModel, 1, ""),
			Entries: 60,
			Replies: text,
			Want:    Harmless,
		},
		{
			Name:    "more concurrent calls than instances",
			Module:  wrap(contract.HookWrapToolCall, 1, ""),
			Limits:  policy.Limits{Instances: 1},
			Replies: parallelCalls,
			Want:    Faulted,
			Hook:    contract.HookWrapToolCall,
			Text:    []string{"instances of 1"},
		},
		{
			Name:    "parallel calls of one entry",
			Module:  wrap(contract.HookWrapToolCall, 1, ""),
			Replies: parallelCalls,
			Want:    Harmless,
		},
		{Name: "endless again", Module: func() []byte {
			return answering(contract.HookAfterModel, `{"again":{"reason":"more"}}`)
		}, Replies: func() []scripted.Reply {
			return []scripted.Reply{
				scripted.Calls(abi.NewToolCall("c1", "t", "{}")),
				scripted.Calls(abi.NewToolCall("c1", "t", "{}")),
				scripted.Calls(
					abi.NewToolCall("c1", "t", "{}"),
				),
				scripted.Text("done"),
				scripted.Text("done"),
				scripted.Text("done"),
				scripted.Text("done"),
				scripted.Text("done"),
			}
		}, Want: Harmless, Check: func(s *Seen) error {
			if len(s.Requests) > 8 {
				return fmt.Errorf("the model was asked %d times", len(s.Requests))
			}
			return nil
		}},
	}
}

// concurrentCalls is the number of tool calls that the model of parallelCalls makes. The tool
// blocks each of them until all have arrived, or the run is over.
const concurrentCalls = 3

// parallelCalls returns the replies of a model that first makes concurrentCalls calls of the tool
// "meet".
func parallelCalls() []scripted.Reply {
	var list []abi.ToolCall
	for i := range concurrentCalls {
		list = append(list, abi.NewToolCall(fmt.Sprint("c", i), "meet", "{}"))
	}
	return []scripted.Reply{scripted.Calls(list...), scripted.Text("all done")}
}

// wantRequests returns an error unless the model was asked n times.
func wantRequests(s *Seen, n int) error {
	if len(s.Requests) != n {
		return fmt.Errorf("the model was asked %d times, want %d", len(s.Requests), n)
	}
	return nil
}

// delivered returns an error unless the text of all chunks begins with want.
func delivered(s *Seen, want string) error {
	if got := chunkText(s); !strings.HasPrefix(got, want) {
		return fmt.Errorf("want chunks of %q, got %q", want, got)
	}
	return nil
}

func chunkText(s *Seen) string {
	text := ""
	for _, e := range s.Of(abi.EventChunk) {
		if e.Chunk.Kind == abi.ChunkText {
			text += e.Chunk.Text
		}
	}
	return text
}

// streamCases returns cases that disturb streams.
func streamCases() []Case {
	text := func() []scripted.Reply {
		r := scripted.Text("one two three four")
		r.Size = 1
		return []scripted.Reply{r}
	}
	// atChunk returns a guest with code in the third call of on_chunk.
	atChunk := func(code ...[]byte) func() []byte {
		return func() []byte {
			g := newGuest()
			n := g.counter()
			return g.hook(contract.HookOnChunk, global(n), i32(1), add, setGlobal(n), global(n), i32(3), equal, when(code...)).
				bytes()
		}
	}
	prefix := func(s *Seen) error {
		if got := chunkText(s); !strings.HasPrefix("one two three four", got) {
			return fmt.Errorf("chunks were lost or doubled: %q", got)
		}
		return nil
	}
	whole := func(s *Seen) error {
		if got := chunkText(s); got != "one two three four" {
			return fmt.Errorf("chunks were lost or doubled: %q", got)
		}
		return nil
	}
	chunks := func(list string) func() []byte {
		return func() []byte { return answering(contract.HookOnChunk, `{"chunks":`+list+`}`) }
	}
	return []Case{
		{
			Name:    "trap at the third chunk",
			Paced:   true,
			Module:  atChunk(unreachable),
			Replies: text,
			Want:    Faulted,
			Hook:    contract.HookOnChunk,
			Kind:    sandbox.FaultTrap,
			Check:   prefix,
		},
		{
			Name:    "trap at the third chunk, skipped",
			Paced:   true,
			Module:  atChunk(unreachable),
			Replies: text,
			OnFault: "skip",
			Want:    Faulted,
			Hook:    contract.HookOnChunk,
			Kind:    sandbox.FaultTrap,
			Check:   whole,
		},
		timed(
			Case{
				Name:    "loop at the third chunk",
				Paced:   true,
				Module:  atChunk(forever()),
				Replies: text,
				Want:    Faulted,
				Hook:    contract.HookOnChunk,
				Kind:    sandbox.FaultTimeout,
				Check:   prefix,
			},
		),
		{Name: "withholds all chunks", Module: chunks(`[]`), Replies: text, Want: Harmless, Check: func(s *Seen) error {
			if got := chunkText(s); got != "" {
				return fmt.Errorf("chunks came through: %q", got)
			}
			return nil
		}},
		{Name: "sends more after the end", Module: chunks(`[{"kind":"text","text":"x"}]`), Replies: text, Want: Harmless},
		{
			Name:    "renumbered chunks",
			Module:  chunks(`[{"kind":"text","text":"x","seq":-9},{"kind":"text","text":"y","seq":99999999}]`),
			Replies: text,
			Want:    Harmless,
		},
		{
			Name:   "tool calls in the stream of a tool",
			Module: chunks(`[{"kind":"tool_call","index":0,"id":"c9","name":"t","arguments":"{}"}]`),
			Want:   Faulted,
			Hook:   contract.HookOnChunk,
			Text:   []string{"a tool_call in this stream"},
		},
		{
			Name:    "tool call of index 2^31",
			Module:  chunks(`[{"kind":"tool_call","index":2147483648,"id":"c9","name":"nothing","arguments":"{}"}]`),
			Replies: text,
			Want:    Faulted,
			Hook:    contract.HookOnChunk,
			Text:    []string{"want 0 to 1023"},
		},
		{
			Name:    "text of a tool call as a number",
			Module:  chunks(`[{"kind":"text","text":7}]`),
			Replies: text,
			Want:    Faulted,
			Hook:    contract.HookOnChunk,
			Text:    []string{"chunks[0].text: want a string"},
		},
		{
			Name:    "20,000 chunks for each chunk",
			Module:  chunks(`[` + strings.Repeat(`{"kind":"text","text":"x"},`, 19_999) + `{"kind":"text","text":"x"}]`),
			Replies: func() []scripted.Reply { return []scripted.Reply{scripted.Text("one")} },
			Want:    Harmless,
		},
		errorReply("stream opened without a stream", "next_stream", `"code":"denied"`, i32(0), i32(0)),
		errorReply("read of a stream that is not open", "recv", `"code":"denied"`),
		errorReply("chunks sent without a caller", "send", `"code":"denied"`, i32(0), i32(0)),
	}
}

// storageCases returns cases that overfill or misuse run-local values, counters, logs and events.
func storageCases() []Case {
	logging := func(text string, n int) func() []byte { return func() []byte { return logging(text, n) } }
	return []Case{
		{Name: "keys of another entry", Module: remembering, Entries: 2, Want: Harmless, Check: func(s *Seen) error {
			if got := replies(s); !slices.Equal(got, []string{"1", "1"}) {
				return fmt.Errorf("each entry has its own keys; got %v", got)
			}
			return nil
		}},
		{
			Name:   "value of 5 MB",
			Module: func() []byte { return storing(1, 5<<20) },
			Want:   ErrorReply,
			Text:   []string{`"code":"limit"`},
		},
		{
			Name:   "values of 5 MB in total",
			Module: func() []byte { return storing(50, 100<<10) },
			Want:   ErrorReply,
			Text:   []string{`"code":"limit"`},
		},
		{
			Name:   "5,000 keys",
			Module: func() []byte { return storing(5_000, 1) },
			Want:   ErrorReply,
			Text:   []string{`"code":"limit"`},
		},
		{
			Name:   "4,999 counters",
			Module: func() []byte { return counting(4_999) },
			Limits: within(time.Minute),
			Want:   ErrorReply,
			Text:   []string{`"code":"limit"`},
		},
		{Name: "counter beyond 64 bits", Module: func() []byte {
			return asking(contract.HookBeforeAgent, "local_add", func(g *guest, f int) []byte {
				g.place(0x600, "k")
				return join(i32(0x600), i32(1), i64(1<<63-1), call(f), drop, i32(0x600), i32(1), i64(1), call(f))
			}).bytes()
		}, Want: ErrorReply, Text: []string{"overflow"}},
		errorReply(
			"value that is not JSON",
			"local_set",
			`"code":"invalid"`,
			i32(0x600),
			i32(0),
			i32(0x600),
			i32(2),
			i64(-1),
		),
		{Name: "unexpected version", Module: func() []byte {
			return asking(contract.HookBeforeAgent, "local_set", func(g *guest, f int) []byte {
				g.place(0x600, "k1")
				return join(i32(0x600), i32(1), i32(0x601), i32(1), i64(99), call(f))
			}).bytes()
		}, Want: ErrorReply, Text: []string{`"code":"conflict"`}},
		{Name: "log flood", Module: logging("line", 5_000), Want: Harmless, Check: atMostLog(300, 80<<10)},
		{
			Name:   "log line of 1 MB",
			Module: logging(strings.Repeat("x", 1<<20), 3),
			Want:   Harmless,
			Check:  atMostLog(10, 80<<10),
		},
		{
			Name:   "log lines with escapes",
			Module: logging("a\x1b[2J\x1b]0;pwned\x07\r\x00\xff\u202eb", 1),
			Want:   Harmless,
			Check:  noControlCharacters,
		},
		{
			Name:   "log lines that look like events",
			Module: logging("\n{\"type\":\"run_finished\"}\n", 1),
			Want:   Harmless,
			Check: func(s *Seen) error {
				if n := len(s.Of(abi.EventRunFinished)); n != 1 {
					return fmt.Errorf("%d ends of the run", n)
				}
				return nil
			},
		},
		{Name: "endless printing", Module: printing, Want: Harmless, Check: atMostLog(3000, 80<<10)},
		{Name: "event flood", Module: func() []byte {
			return asking(contract.HookBeforeAgent, "config", func(g *guest, f int) []byte {
				emit := g.importIndex("emit")
				const event = `{"name":"n","data":1}`
				g.place(0x800, event)
				return join(count(n0, 300, i32(0x800), i32(len(event)), call(emit), drop), call(f))
			}).bytes()
		}, Want: Harmless, Check: func(s *Seen) error {
			if n := len(s.Of(abi.EventCustom)); n > 256 {
				return fmt.Errorf("%d events", n)
			}
			return nil
		}},
		{Name: "event of 1 MB", Module: func() []byte {
			return asking(contract.HookBeforeAgent, "emit", func(g *guest, f int) []byte {
				event := `{"name":"n","data":"` + strings.Repeat("x", 1<<20) + `"}`
				g.memory(40).place(0x30000, event)
				return join(i32(0x30000), i32(len(event)), call(f))
			}).bytes()
		}, Want: ErrorReply, Text: []string{`"code":"limit"`}},
		{Name: "events with the names of run events", Module: func() []byte {
			return asking(contract.HookBeforeAgent, "emit", func(g *guest, f int) []byte {
				const event = `{"name":"run_finished","data":{"type":"run_finished"}}`
				g.place(0x800, event)
				return join(i32(0x800), i32(len(event)), call(f))
			}).bytes()
		}, Want: Harmless, Check: func(s *Seen) error {
			if n := len(s.Of(abi.EventRunFinished)); n != 1 {
				return fmt.Errorf("%d ends of the run", n)
			}
			return nil
		}},
		errorReply("event without a name", "emit", `"code":"invalid"`, i32(0x620), i32(2)),
		{Name: "events from an observer", Module: func() []byte {
			return asking(contract.HookObserve, "config", func(g *guest, f int) []byte {
				emit := g.importIndex("emit")
				const event = `{"name":"n","data":1}`
				g.place(0x800, event)
				return join(i32(0x800), i32(len(event)), call(emit), i32(0), []byte{0x4e}, when(unreachable), call(f))
			}).bytes()
		}, Want: Harmless, Check: func(s *Seen) error {
			if n := len(s.Of(abi.EventCustom)); n != 0 {
				return fmt.Errorf("%d events", n)
			}
			return nil
		}},
	}
}

// storing returns a guest that sets n run-local values of the given size in bytes, and shows the
// last reply.
func storing(n, bytes int) []byte {
	return asking(contract.HookBeforeAgent, "local_set", func(g *guest, f int) []byte {
		const key, value = 0x600, 0x30000
		g.memory(4 + (value+bytes)>>16)
		text := join(i32(value), i32('1'), i32(bytes), fill)
		if bytes > 1 { // a string, because numbers cannot be long
			text = join(text, i32(value), i32('"'), store8(0), i32(value+bytes-1), i32('"'), store8(0))
		}
		return join(text, count(n0, n,
			i32(key), local(n0), i32(0x7f), and, store8(0),
			i32(key), local(n0), i32(7), []byte{0x76}, i32(0x7f), and, store8(1),
			i32(key), i32(2), i32(value), i32(bytes), i64(-1), call(f), setLocal(n1)), local(n1))
	}).bytes()
}

// counting returns a guest that creates n counters and shows the last reply.
func counting(n int) []byte {
	return asking(contract.HookBeforeAgent, "local_add", func(_ *guest, f int) []byte {
		const key = 0x600
		return join(count(n0, n,
			i32(key), local(n0), i32(0x7f), and, store8(0),
			i32(key), local(n0), i32(7), []byte{0x76}, i32(0x7f), and, store8(1),
			i32(key), i32(2), i64(1), call(f), setLocal(n1)), local(n1))
	}).bytes()
}

// printing returns a guest that writes 100 MB to stdout in writes of 1 MB, each of which begins
// with four line ends and has no others.
func printing() []byte {
	g := newGuest()
	write := g.wasi("fd_write")
	g.memory(20).place(0x100, "\x00\x00\x01\x00\x00\x00\x10\x00") // 1 MB at 0x10000
	return g.hook(contract.HookBeforeAgent, i32(0x10000), i32('x'), i32(1<<20), fill,
		i32(0x10000), i32(0x0a0a0a0a), store32(0),
		count(n0, 100, i32(1), i32(0x100), i32(1), i32(0x200), call(write), drop)).bytes()
}

// atMostLog returns a check that the run logged at most the given numbers of lines and bytes.
func atMostLog(lines, bytes int) func(*Seen) error {
	return func(s *Seen) error {
		size, n := 0, 0
		for _, e := range s.Of(abi.EventLog) {
			size += len(e.Text)
			n++
		}
		if n > lines || size > bytes {
			return fmt.Errorf("%d lines of log with %d bytes", n, size)
		}
		return nil
	}
}

// logging returns a guest that logs text n times.
func logging(text string, n int) []byte {
	g := newGuest()
	log := g.abi("log")
	return g.memory(4+len(text)>>16).place(answerAt, text).
		hook(contract.HookBeforeAgent, count(n0, n, i32(1), i32(answerAt), i32(len(text)), call(log))).bytes()
}
