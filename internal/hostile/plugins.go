package hostile

import (
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abitable"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// Modules that Extism plug-ins import.
const (
	extismEnv  = "extism:host/env"
	extismUser = "extism:host/user"
)

// extismTypes are the types of Extism's functions, in the form of abiTypes.
var extismTypes = map[string][2]string{
	"alloc": {"I", "I"}, "free": {"I", ""}, "length": {"I", "I"}, "load_u8": {"I", "i"}, "load_u64": {"I", "I"},
	"store_u8": {
		"Ii",
		"",
	}, "store_u64": {"II", ""}, "input_offset": {"", "I"}, "input_load_u8": {"I", "i"}, "input_load_u64": {"I", "I"},
	"input_set": {
		"II",
		"",
	}, "output_set": {"II", ""}, "error_set": {"I", ""}, "config_get": {"I", "I"}, "var_get": {"I", "I"},
	"var_set": {
		"II",
		"",
	}, "http_request": {"II", "I"}, "http_status_code": {"", "i"}, "log_info": {"I", ""}, "reset": {"", ""},
	"length_unsafe": {
		"I",
		"I",
	}, "memory_bytes": {"", "I"}, "input_length": {"", "I"}, "output_offset": {"", "I"}, "output_length": {"", "I"},
	"error_get": {"", "I"}, "http_headers": {"", "I"}, "get_log_level": {"", "i"}, "log_error": {"I", ""},
}

// userCalls maps the host calls of the ABI for plug-ins to their parameters: one offset ("I"), or
// none.
var userCalls = func() map[string]string {
	calls := map[string]string{}
	for _, row := range abitable.Imports() {
		switch {
		case row.Name == "read" || row.Name == "write" || row.Name == "log": // Extism has functions of its own
		case row.Params == "":
			calls[row.Name] = ""
		default:
			calls[row.Name] = "I"
		}
	}
	return calls
}()

// extism imports a function of Extism and returns its index.
func (g *guest) extism(name string) int {
	t := extismTypes[name]
	return g.use(extismEnv, name, t[0], t[1])
}

// pluginHook adds a hook of a plug-in that returns success. It has the locals of hookLocals
// without the parameter; big0 and big1 are for offsets.
func (g *guest) pluginHook(h abi.Hook, code ...[]byte) *guest {
	return g.export(string(h), g.function("", "i", join(code...), i32(0)))
}

// The locals of a plug-in's hook.
const (
	place0 = big0 - 1 // place0 and place1 hold offsets of blocks, an i64 each
	place1 = big1 - 1
)

// passing returns code that makes a block with text as its content and stores the offset of the
// block in a local.
func (g *guest) passing(text string, into int) []byte {
	code := join(i64(int64(len(text))), call(g.extismOf("alloc")), setLocal(into))
	for i := range text {
		code = append(
			code,
			join(local(into), i64(int64(i)), []byte{0x7c}, i32(int(text[i])), call(g.extismOf("store_u8")))...)
	}
	return code
}

// extismOf returns the index of an import of Extism. It panics if the guest has not imported it.
func (g *guest) extismOf(name string) int {
	i, ok := g.names[extismEnv+"."+name]
	if !ok {
		panic("import " + name + " first")
	}
	return i
}

// plugin returns a function that builds a plug-in with the named imports, and with code as its
// before_agent.
func plugin(code func(g *guest) []byte, names ...string) func() []byte {
	return func() []byte {
		g := newGuest()
		for _, name := range names {
			g.extism(name)
		}
		return g.pluginHook(contract.HookBeforeAgent, code(g)).bytes()
	}
}

// pluginCases returns cases of Extism plug-ins. Their blocks are in the host's memory.
func pluginCases() []Case {
	fault := func(name, text string, code func(g *guest) []byte, names ...string) Case {
		return Case{
			Name:   name,
			Module: plugin(code, names...),
			Want:   Faulted,
			Hook:   contract.HookBeforeAgent,
			Text:   []string{text},
		}
	}
	accepted := func(name string, code func(g *guest) []byte, names ...string) Case {
		return Case{Name: name, Module: plugin(code, names...), Want: Harmless}
	}
	f := (*guest).extismOf
	all := []Case{
		fault(
			"block of 2^63 bytes",
			"block_bytes",
			func(g *guest) []byte { return join(i64(-1<<63), call(f(g, "alloc")), []byte{0x1a}) },
			"alloc",
		),
		fault(
			"blocks without end",
			"blocks",
			func(g *guest) []byte { return forever(i64(1), call(f(g, "alloc")), drop) },
			"alloc",
		),
		fault(
			"blocks of 1 MB without end",
			"block_bytes",
			func(g *guest) []byte { return forever(i64(1<<20), call(f(g, "alloc")), drop) },
			"alloc",
		),
		accepted("200,000 blocks, each freed", func(g *guest) []byte {
			return count(n0-1, 200_000, i64(100), call(f(g, "alloc")), call(f(g, "free")))
		}, "alloc", "free"),
		accepted(
			"empty blocks",
			func(g *guest) []byte { return count(n0-1, 1000, i64(0), call(f(g, "alloc")), call(f(g, "free"))) },
			"alloc",
			"free",
		),
		accepted("freeing what is no block", func(g *guest) []byte {
			return join(
				i64(-1),
				call(f(g, "free")),
				i64(0),
				call(f(g, "free")),
				call(f(g, "input_offset")),
				teeLocal(place0),
				call(f(g, "free")),
				local(place0),
				call(f(g, "free")),
			)
		}, "free", "input_offset"),
		fault("block used after it was freed", "are in no block", func(g *guest) []byte {
			return join(
				i64(8),
				call(f(g, "alloc")),
				teeLocal(place0),
				call(f(g, "free")),
				local(place0),
				call(f(g, "load_u8")),
				drop,
			)
		}, "alloc", "free", "load_u8"),
		fault("eight bytes at the end of a block", "are in no block", func(g *guest) []byte {
			return join(i64(8), call(f(g, "alloc")), i64(1), []byte{0x7c}, call(f(g, "load_u64")), drop)
		}, "alloc", "load_u64"),
		fault("store in front of a block", "are in no block", func(g *guest) []byte {
			return join(i64(8), call(f(g, "alloc")), i64(1), []byte{0x7d}, i32(1), call(f(g, "store_u8")))
		}, "alloc", "store_u8"),
		fault(
			"store at 2^64-1",
			"are in no block",
			func(g *guest) []byte { return join(i64(-1), i64(1), call(f(g, "store_u64"))) },
			"store_u64",
		),
		fault("answer that is longer than its block", "are in no block", func(g *guest) []byte {
			return join(i64(8), call(f(g, "alloc")), i64(9), call(f(g, "output_set")))
		}, "alloc", "output_set"),
		fault("answer whose length wraps around", "are in no block", func(g *guest) []byte {
			return join(i64(8), call(f(g, "alloc")), i64(-1), call(f(g, "output_set")))
		}, "alloc", "output_set"),
		accepted("answer that was freed", func(g *guest) []byte {
			return join(
				g.passing(`{}`, place0),
				local(place0),
				i64(2),
				call(f(g, "output_set")),
				local(place0),
				call(f(g, "free")),
			)
		}, "alloc", "store_u8", "output_set", "free"),
		fault("input written to, and answered with", "answer", func(g *guest) []byte {
			return join(
				call(f(g, "input_offset")),
				teeLocal(place0),
				i32('x'),
				call(f(g, "store_u8")),
				local(place0),
				i64(1),
				call(f(g, "output_set")),
			)
		}, "input_offset", "store_u8", "output_set"),
		accepted("input read where there is none", func(g *guest) []byte {
			return join(
				i64(-1),
				call(f(g, "input_load_u8")),
				drop,
				i64(-8),
				call(f(g, "input_load_u64")),
				drop,
				i64(1<<62),
				call(f(g, "input_load_u64")),
				drop,
			)
		}, "input_load_u8", "input_load_u64"),
		fault(
			"error in no block",
			"no block begins",
			func(g *guest) []byte { return join(i64(77), call(f(g, "error_set"))) },
			"error_set",
		),
		fault(
			"name of a variable in no block",
			"no block begins",
			func(g *guest) []byte { return join(i64(1<<40), call(f(g, "var_get")), drop) },
			"var_get",
		),
		fault("name of a variable that is not UTF-8", "not valid UTF-8", func(g *guest) []byte {
			return join(g.passing("\xff\xfe", place0), local(place0), call(f(g, "var_get")), drop)
		}, "alloc", "store_u8", "var_get"),
		fault("name of a variable of 1 KB", "at most", func(g *guest) []byte {
			return join(i64(1024), call(f(g, "alloc")), call(f(g, "var_get")), drop)
		}, "alloc", "var_get"),
		accepted("variable of zeros", func(g *guest) []byte {
			return join(
				g.passing("k", place0),
				local(place0),
				i64(1000),
				call(f(g, "alloc")),
				call(f(g, "var_set")),
				g.passing(
					"k",
					place0,
				),
				local(place0),
				call(f(g, "var_get")),
				call(f(g, "length")),
				i64(1000),
				[]byte{0x52},
				when(unreachable),
			)
		}, "alloc", "store_u8", "var_set", "var_get", "length"),
		fault("variables of 2 MB of zeros", "a hook may write 4194304 bytes", func(g *guest) []byte {
			return forever(g.passing("k", place0), local(place0), i64(2<<20), call(f(g, "alloc")), call(f(g, "var_set")))
		}, "alloc", "store_u8", "var_set"),
		fault("request that is not granted", "denied", func(g *guest) []byte {
			return join(
				g.passing(`{"url":"http://169.254.169.254/"}`, place0),
				local(place0),
				i64(0),
				call(f(g, "http_request")),
				drop,
			)
		}, "alloc", "store_u8", "http_request"),
		fault("everything reset, then its blocks used", "are in no block", func(g *guest) []byte {
			return join(
				i64(8),
				call(f(g, "alloc")),
				setLocal(place0),
				call(f(g, "reset")),
				local(place0),
				call(f(g, "load_u8")),
				drop,
			)
		}, "alloc", "reset", "load_u8"),
		{Name: "hook that is an import of Extism's", Module: func() []byte {
			g := newGuest()
			return g.export("before_agent", g.extism("http_status_code")).bytes()
		}, Want: Harmless},
		refused("start function that is an import of Extism's", func() []byte {
			g := newGuest()
			g.startAt = leb(g.extism("reset"))
			return g.pluginHook(contract.HookBeforeAgent).bytes()
		}, "has the import reset as its start function"),
		{Name: "_initialize that is an import of Extism's", Module: func() []byte {
			g := newGuest()
			g.export("_initialize", g.extism("reset"))
			return g.pluginHook(contract.HookBeforeAgent).bytes()
		}, Want: Harmless},
		timed(refused("__wasm_call_ctors loops", func() []byte {
			g := newGuest()
			g.extism("reset")
			g.export("__wasm_call_ctors", g.function("", "", forever()))
			return g.pluginHook(contract.HookBeforeAgent).bytes()
		}, "ran longer than 60ms")),
		timed(refused("hs_init loops", func() []byte {
			g := newGuest()
			g.extism("reset")
			g.export("hs_init", g.function("ii", "", forever()))
			return g.pluginHook(contract.HookBeforeAgent).bytes()
		}, "ran longer than 60ms")),
		refused("hook of a native module in a plug-in", func() []byte {
			g := newGuest()
			g.extism("reset")
			return g.hook(contract.HookBeforeAgent).bytes()
		}, "before_agent: want () -> i32, got (i32) -> i32"),
		refused("function of Extism's of another type", func() []byte {
			g := newGuest()
			g.use(extismEnv, "alloc", "i", "i")
			return g.pluginHook(contract.HookBeforeAgent).bytes()
		}, "want (i64) -> i64"),
		refused("function that Extism does not have", func() []byte {
			g := newGuest()
			g.use(extismEnv, "exec", "I", "I")
			return g.pluginHook(contract.HookBeforeAgent).bytes()
		}, "extism:host/env.exec"),
		fault("argument of a host call that is not JSON", "", func(g *guest) []byte {
			return join(i64(100), call(f(g, "alloc")), call(g.names[extismUser+".emit"]), call(f(g, "error_set")), i32(1), leave)
		}, "alloc", "error_set"),
	}
	// The host calls of the ABI are in another module of imports.
	all[len(all)-1].Module = func() []byte {
		g := newGuest()
		alloc, failed, emit := g.extism("alloc"), g.extism("error_set"), g.use(extismUser, "emit", "I", "I")
		return g.pluginHook(contract.HookBeforeAgent, i64(100), call(alloc), call(emit), call(failed), i32(1), leave).bytes()
	}
	all[len(all)-1].Hook = "" // the module itself reports the failure
	return append(all, costlyPlugins()...)
}

// costlyPlugins returns cases of plug-ins whose calls are much work for the host and little for the
// guest.
func costlyPlugins() []Case {
	f := (*guest).extismOf
	endlessly := func(name string, code func(g *guest) []byte, names ...string) Case {
		c := endless(name, plugin(code, names...))
		c.Limits.HostCalls = 1 << 30
		return c
	}
	const large = 30 << 20 // the limit of blocks is 32 MiB
	all := []Case{
		endlessly(
			"blocks of 30 MB, each freed",
			func(g *guest) []byte { return forever(i64(large), call(f(g, "alloc")), call(f(g, "free"))) },
			"alloc",
			"free",
		),
		endlessly("blocks of 30 MB, and everything reset", func(g *guest) []byte {
			return forever(i64(large), call(f(g, "alloc")), drop, call(f(g, "reset")))
		}, "alloc", "reset"),
		endlessly("bytes from 60,000 blocks in turn", func(g *guest) []byte {
			// Blocks of one byte are 32 bytes apart.
			one := join(i64(1), call(f(g, "alloc")), teeLocal(place0))
			first := n1 - 1
			return join(one, []byte{0xa7}, setLocal(first), count(n0-1, 60_000, one, drop),
				forever(local(first), []byte{0xad}, setLocal(place1), loop(local(place1), call(f(g, "load_u8")), drop,
					local(place1), i64(32*7919), []byte{0x7c}, teeLocal(place1), local(place0), []byte{0x54}, branchIf(0))))
		}, "alloc", "load_u8"),
		endlessly(
			"texts of 7 MB logged",
			func(g *guest) []byte { return forever(i64(7<<20), call(f(g, "alloc")), call(f(g, "log_info"))) },
			"alloc",
			"log_info",
		),
	}
	text := `"` + strings.Repeat("x", 900_000) + `"`
	configured := endlessly("configuration of 900 KB read repeatedly", func(g *guest) []byte {
		return join(g.passing("b", place0), forever(local(place0), call(f(g, "config_get")), call(f(g, "free"))))
	}, "alloc", "store_u8", "config_get", "free")
	configured.Config = fmt.Sprintf(`{"a":%s,"b":%s}`, text, text)
	written := endlessly("configuration read, and each copy changed", func(g *guest) []byte {
		return join(
			g.passing("b", place0),
			forever(
				local(place0),
				call(f(g, "config_get")),
				teeLocal(place1),
				i32(1),
				call(f(g, "store_u8")),
				local(place1),
				call(f(g, "free")),
			),
		)
	}, "alloc", "store_u8", "config_get", "free")
	written.Config = configured.Config
	return append(all, configured, written)
}
