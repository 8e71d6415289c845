package module

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// runScript runs a script whose before_agent has the given body. It returns the JSON of the body's
// value.
func runScript(t *testing.T, l *Loader, body string) string {
	t.Helper()
	m := loadScript(
		t,
		l,
		"export default { async beforeAgent(input, ctx) { return { instruction: JSON.stringify(await (async () => {"+body+"})()) } } }",
		policy.Limits{},
	)
	r := open(t, configure(t, m, `{"a":[1,{"b":2}]}`))
	s, err := r.beforeAgent(t)
	require.NoError(t, err)
	return s.Instruction
}

// TestScriptContext checks the objects that a hook can use, one per case.
func TestScriptContext(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	for name, tc := range map[string]struct{ body, want string }{
		"entry and run":       {`return [ctx.entry, ctx.run.id, ctx.hook, input.run.agent, ctx.config.a[1].b]`, `["guard","run-1","before_agent","helper",2]`},
		"run is a member":     {`input.run.agent = "b"; return [ctx.run === input.run, ctx.run.agent, Object.keys(input).includes("run"), { ...input }.run.id, JSON.parse(JSON.stringify(input)).run.agent]`, `[true,"b",true,"run-1","b"]`},
		"run is replaced":     {`input.run = { id: "mine" }; const { run } = input; return [run, ctx.run.id]`, `[{"id":"mine"},"mine"]`},
		"a frozen input":      {`Object.freeze(input); return [input.run.id, { ...input }.run.id]`, `["run-1","run-1"]`},
		"messages":            {`const m = input.messages; return [m.length, m.at(0).content, m.at(-1).content, m.at(2), m.slice(1).length, [...m].map((x) => x.content)]`, `[2,"hello","how are you?",null,1,["hello","how are you?"]]`},
		"the last":            {`return [input.messages.findLast((m) => m.role === "user").content, input.messages.findLastIndex((m) => m.role === "tool")]`, `["how are you?",-1]`},
		"messages are frozen": {`try { input.messages.at(0).content = "x" } catch (e) { return e.name }`, `"TypeError"`},
		"local values":        {`return [ctx.local.get("a"), ctx.local.set("a", { b: [1] }), ctx.local.get("a"), ctx.local.read("a"), ctx.local.add("n", 2), ctx.local.add("n"), ctx.local.delete("a"), ctx.local.get("a")]`, `[null,1,{"b":[1]},{"value":{"b":[1]},"version":1},2,3,null,null]`},
		"a conflict":          {`ctx.local.set("a", 1); try { ctx.local.set("a", 2, { version: 7 }) } catch (e) { return [e instanceof HookError, e.name, e.code] }`, `[true,"HookError","conflict"]`},
		"no next":             {`try { ctx.next() } catch (e) { return e.code }`, `"denied"`},
		"not granted":         {`try { ctx.model({}) } catch (e) { return [e.code, e.message] }`, `["denied","model is not granted to this entry; add grants: [model] in agent.yaml"]`},
		"a bad number":        {`try { ctx.local.add("n", NaN) } catch (e) { return e.message }`, `"delta is NaN; want a whole number"`},
		"clock":               {`return [Date.now(), new Date().getTimezoneOffset(), new Date().toISOString()]`, `[1767225600000,0,"2026-01-01T00:00:00.000Z"]`},
		"promises":            {`const [a, b] = await Promise.all([Promise.resolve(1), (async () => { await null; return 2 })()]); return a + b`, `3`},
		"nothing outside":     {`return ["fetch", "process", "require", "setTimeout", "XMLHttpRequest", "Deno", "std", "os", "WebAssembly"].filter((n) => globalThis[n] !== undefined)`, `[]`},
		"no file":             {`try { await import(["/etc", "passwd"].join("/")) } catch (e) { return "refused" }`, `"refused"`},
		"large numbers":       {`return [9007199254740991, 1e21, 0.1]`, `[9007199254740991,1e+21,0.1]`},
		"text":                {`return "ä€😀\u0000\ud800".length`, `6`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, runScript(t, l, tc.body))
		})
	}
	require.Equal(t, runScript(t, l, "return [Math.random(), Math.random()]"),
		runScript(t, l, "return [Math.random(), Math.random()]"), "the run determines it")
	var draws []float64
	require.NoError(t, json.Unmarshal([]byte(runScript(t, l, "return [Math.random(), Math.random()]")), &draws))
	require.NotEqual(t, draws[0], draws[1])
	require.Less(t, draws[0], 1.0)
}

// TestScriptReadsJSON checks that a script receives the same values from the host as from
// JSON.parse.
func TestScriptReadsJSON(t *testing.T) {
	t.Parallel()
	many := make([]string, 70)
	for i := range many {
		many[i] = fmt.Sprintf(`"key %d":[%d]`, i, i)
	}
	texts := []string{
		`null`, `true`, `false`, `""`, `"a"`, `[]`, `{}`, `[[],{},""]`, ` [ 1 , { "a" : [ true , null ] } ] `,
		`0`, `-0`, `7`, `-12`, `0.1`, `-2.5e-3`, `1e21`, `1E+2`, `1e400`, `123456789012345`, `1234567890123456789`,
		`9007199254740993`, `5e-324`,
		`"\"\\\/\b\f\n\r\t"`, `"\u0041\u00e4\u20ac\ud83d\ude00\u0000 and \u000a"`, `"ä€😀"`, `"before\nbetween ä\tafter, which is longer"`,
		`"` + strings.Repeat("seven b", 300) + `\n"`, `"1234567"`, `"12345678"`, `"123456789"`,
		`{"a":1,"b":{"a":2,"b":{"a":3}},"":4,"ä":5,"\u0061\n":6}`,
		`{"2":"c","b":0,"1":"a","__proto__":{"x":1},"constructor":2,"length":3}`,
		`{"a key that is longer than the cache of keys allows":1}`,
		`{` + strings.Join(many, ",") + `}`,
		strings.Repeat(`[`, 50) + strings.Repeat(`]`, 50),
	}
	m := loadScript(t, newLoader(t), `export default { wrapToolCall(_, ctx) {
		const { content, extra } = ctx.next();
		const want = JSON.parse(content), got = extra.value;
		const same = (a, b) => Object.is(a, b) || (a !== null && typeof a === "object" &&
			Object.getPrototypeOf(a) === Object.getPrototypeOf(b) && Object.keys(a).join() === Object.keys(b).join() &&
			Object.keys(a).every((key) => same(a[key], b[key])));
		if (!same(got, want)) throw new Error(content + " is " + JSON.stringify(got));
		return { content: "same" };
	} };`, policy.Limits{})
	r := open(t, configure(t, m, "{}"))
	for range 2 { // the second time, the keys are in the cache
		for _, text := range texts {
			outcome, err := r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
				return &abi.Result{Content: abi.Text(text), Extra: abi.JSON(`{"value":` + text + `}`)}, nil
			})
			require.NoError(t, err)
			require.Equal(t, abi.TextResult("same"), outcome.Result)
		}
	}
}

// TestScriptWritesJSON checks that the host receives the same JSON as JSON.stringify returns,
// except that unpaired surrogates are replaced.
func TestScriptWritesJSON(t *testing.T) {
	t.Parallel()
	require.Equal(t, `"same"`, runScript(t, newLoader(t), `
		class Fields { a = 1; get b() { return 2; } }
		class Own { toJSON() { return ["own"]; } }
		const values = [1, -1, 0, -0, 1.5, 1e21, 1e-7, NaN, Infinity, -Infinity, 2147483648, 9007199254740991, true, false,
			null,
			"", "a\"b\\c\n\t\r\b\f\u0000\u001f\u007f\u2028é€😀", "x".repeat(5000) + "\n", "\n\u0001".repeat(700) + "\"",
			"b" + "c".repeat(300),
			[], {}, [[]], [undefined], [null, () => 1], [1, , 3], { a: undefined, b: 1, c: () => 1 }, { [Symbol("s")]: 1, b: 2 },
			new Fields(), new Own(), { t: new Own() }, new Date(0), new Map([[1, 2]]), new Number(3), new String("s"),
			new Boolean(true),
			Object.create({ inherited: 1 }), Object.create(null), new Proxy([1, 2], {}), new Proxy({ a: 1 }, {}), /r/,
			new Error("e"),
			{ 2: "b", 1: "a", z: 0, "": 5, "ä\n": 6 }, JSON.parse('{"__proto__":1}'),
			Object.defineProperty({ v: 1 }, "hidden", { value: 2 }),
			Array.from({ length: 200 }, (_, i) => ({ i, s: String(i) })), Object.assign([1], { extra: 2 })];
		for (const v of values) {
			ctx.local.set("k", v);
			const want = JSON.stringify(JSON.parse(JSON.stringify(v))), got = JSON.stringify(ctx.local.get("k"));
			if (got !== want) return want + " became " + got;
		}
		ctx.local.set("k", { get x() { ctx.local.set("inner", [1, "z"]); return 1; } });
		if (JSON.stringify([ctx.local.get("k"), ctx.local.get("inner")]) !== '[{"x":1},[1,"z"]]')
			return "a getter with a host call";
		ctx.local.set("k", ["x".repeat(255) + "\ud800".repeat(2), "\ud800", "a\udc00b", "\ud83d\ude00", "\udc00\ud800"]);
		if (ctx.local.get("k").join() !== "x".repeat(255) + "\ufffd\ufffd,\ufffd,a\ufffdb,😀,\ufffd\ufffd")
			return "surrogates";
		let reads = 0;
		const once = { enumerable: true, get() { return ++reads; } };
		for (const v of [Object.defineProperty({}, "a", once), Object.defineProperty([0], 0, once)]) {
			ctx.local.set("k", [v, new Date(0)]);
		}
		if (reads !== 2) return "getters were called " + reads + " times instead of 2";
		const cycle = {};
		cycle.cycle = [cycle];
		for (const bad of [10n, cycle, { get x() { throw new RangeError("mine"); } }, Symbol("x"), () => 1]) {
			let name;
			try { ctx.local.set("k", bad); } catch (e) { name = e.name; }
			if (name !== "TypeError" && name !== "RangeError") return "no error";
		}
		return "same";
	`))
}

// TestScriptReadsInputLater checks that a script can read all of an input after its hook has
// returned.
func TestScriptReadsInputLater(t *testing.T) {
	t.Parallel()
	m := loadScript(t, newLoader(t), `let first;
		export default { wrapToolCall(input, ctx) {
			first ??= input;
			return { content: [first === input, first.run.id, first.tool.name, ctx.run.id].join(" ") };
		} };`, policy.Limits{})
	r := open(t, configure(t, m, "{}"))
	for _, want := range []string{"true run-1 t run-1", "false run-1 t run-1"} {
		outcome, err := r.callTool(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, abi.TextResult(want), outcome.Result)
	}
}

// TestScriptPatches checks the messages that result from each kind of change by a script.
func TestScriptPatches(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	user := `{ role: "user", content: "new" }`
	for name, tc := range map[string]struct {
		patch string
		want  []string
	}{
		"append": {"input.messages.append(" + user + ")", []string{"hello", "how are you?", "new"}},
		"insert": {
			"input.messages.insert(0, " + user + ", " + user + ")", []string{"new", "new", "hello", "how are you?"},
		},
		"set":           {"input.messages.set(-1, " + user + ")", []string{"hello", "new"}},
		"remove":        {"input.messages.remove(0)", []string{"how are you?"}},
		"rewrite":       {"input.messages.rewrite((m, i) => i === 0 ? { ...m, content: m.content + '!' } : undefined)", []string{"hello!", "how are you?"}},
		"rewrite, gone": {"input.messages.rewrite((m, i) => i === 0 ? null : [m, " + user + "])", []string{"how are you?", "new"}},
		"rewrite none":  {"input.messages.rewrite((m) => m)", []string{"hello", "how are you?"}},
		"half a pair":   {`input.messages.set(0, { role: "user", content: "a😀".slice(0, 2) + "\\ud83d" })`, []string{"a\ufffd\\ud83d", "how are you?"}},
		"whole":         {"[" + user + "]", []string{"new"}},
		"as it is":      {"input.messages", []string{"hello", "how are you?"}},
		"undefined":     {"undefined", []string{"hello", "how are you?"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := loadScript(t, l, beforeAgentScript("return { messages: "+tc.patch+" }"), policy.Limits{})
			s, err := open(t, configure(t, m, "")).beforeAgent(t)
			require.NoError(t, err)
			var got []string
			for i := range s.Messages.Len() {
				got = append(got, s.Messages.At(i).Content.String())
			}
			require.Equal(t, tc.want, got)
		})
	}
}

// TestScriptWraps checks that a script can call next twice, edit the result, and catch the error of
// a call.
func TestScriptWraps(t *testing.T) {
	t.Parallel()
	m := loadScript(t, newLoader(t), `
export default {
  async wrapToolCall(input, ctx) {
    const args = JSON.parse(input.call.arguments);
    let result = await ctx.next({ arguments: JSON.stringify({ n: args.n + 1 }) });
    try { await ctx.next({ arguments: '{"n":0}' }) } catch (e) { result = { content: result.content + " " + e.code } }
    ctx.emit("called", { times: ctx.local.add("times", 2) });
    return { result: { ...result, content: result.content + " edited" } };
  },
};`, policy.Limits{})
	r := open(t, configure(t, m, ""))
	out, err := r.callTool(t.Context(), func(_ context.Context, call abi.Call) (*abi.Result, error) {
		if call.Arguments == `{"n":0}` {
			return nil, errors.New("no zeros")
		}
		return abi.TextResult(call.Arguments), nil
	})
	require.NoError(t, err)
	require.Equal(t, `{"n":2} tool edited`, out.Result.Content.String())
	require.Equal(t, []string{`called {"times":2}`}, r.host.customs())
}

// TestScriptStreams checks that a script can read one stream and send another.
func TestScriptStreams(t *testing.T) {
	t.Parallel()
	m := loadScript(t, newLoader(t), `
import { defineMiddleware } from "@agent-runner/middleware";
export default defineMiddleware({
  wrapModel(input, ctx) {
    const stream = ctx.nextStream();
    for (const chunks of stream) {
      ctx.send(chunks.map((c) => (c.kind === "text" ? { ...c, text: c.text.toUpperCase() } : c)));
    }
    ctx.send([{ kind: "text", text: "(" + stream.response.message.content.length + ")" }]);
    if (stream.recv() !== undefined) throw new TypeError("the end comes once");
  },
});`, policy.Limits{})
	received, res, err := streams(t.Context(), open(t, configure(t, m, "")), func() {}, "one ", "two ä")
	require.NoError(t, err)
	require.Equal(t, "ONE TWO Ä(9)", strings.Join(received, ""))
	require.Equal(t, "ONE TWO Ä(9)", res.Message.Content.String())
}

// TestScriptCallsFromAnywhere checks that a script can make host calls in functions that the engine
// calls during another host call, such as getters and toJSON.
func TestScriptCallsFromAnywhere(t *testing.T) {
	t.Parallel()
	m := loadScript(t, newLoader(t), `
const inside = (ctx, text) => { ctx.local.add("calls"); ctx.emit("inside", text); return text; };
export default {
  wrapToolCall(input, ctx) {
    ctx.emit({ toJSON: () => inside(ctx, "name") }, { get data() { return inside(ctx, "data"); } });
    ctx.local.set({ toString: () => inside(ctx, "key") }, { toJSON: () => inside(ctx, "value") });
    console.log({ toJSON: () => ctx.next().content });
    Error.prepareStackTrace = () => inside(ctx, "stack");
    Object.defineProperty(Error.prototype, "message", {
      set() { inside(ctx, "message"); }, get: () => inside(ctx, "message"), configurable: true,
    });
    try { ctx.local.set("x", 1, { version: 7 }); } catch (e) { String(e.message); }
    return { get result() {
      const { content } = ctx.next({ toJSON: () => (inside(ctx, "patch"), { arguments: "{}" }) });
      return { content: content + ctx.local.get("calls") };
    } };
  },
};`, policy.Limits{})
	r := open(t, configure(t, m, ""))
	n := 0
	out, err := r.callTool(t.Context(), func(context.Context, abi.Call) (*abi.Result, error) {
		n++
		return abi.TextResult(fmt.Sprint("call ", n, " ")), nil
	})
	require.NoError(t, err)
	require.Contains(t, out.Result.Content.String(), "call 2 ")
	require.Equal(t, []string{"info \"call 1 \""}, r.host.logs())
	require.Contains(t, r.host.customs(), `inside "key"`)
	require.Contains(t, r.host.customs(), `name {"data":"data"}`)
}

// TestScriptUnawaitedPromises checks that the rejection of a promise that no code awaits is logged.
func TestScriptUnawaitedPromises(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	for body, want := range map[string][]string{
		"(async () => { await 1; null.x; })();":                                                {"warn a promise was rejected, and nothing awaits it: TypeError: cannot read property 'x' of null\n    at <anonymous> (guard.ts:3:"},
		"Promise.reject(new Error('first')); Promise.reject(new Error('second'));":             {"warn a promise was rejected, and nothing awaits it: Error: first\n"},
		"const p = Promise.reject(1); return p.catch(() => {});":                               nil,
		"const p = Promise.reject(1); return Promise.resolve().then(() => p.catch(() => {}));": nil,
	} {
		r := open(t, configure(t, loadScript(t, l, beforeAgentScript(body), policy.Limits{}), ""))
		_, err := r.beforeAgent(t)
		require.NoError(t, err)
		logs := r.host.logs()
		require.Len(t, logs, len(want), body)
		for i := range want {
			require.Contains(t, logs[i], want[i])
		}
	}
}

// TestScriptEndings checks that a script can end and pause runs.
func TestScriptEndings(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	_, err := open(
		t,
		configure(t, loadScript(t, l, beforeAgentScript(`return ctx.stop("enough", "credit");`), policy.Limits{}), ""),
	).beforeAgent(t)
	var stop *ending.StoppedError
	require.ErrorAs(t, err, &stop)
	require.Equal(t, "enough", stop.Reason)
	_, err = open(
		t,
		configure(t, loadScript(t, l, beforeAgentScript(`return ctx.interrupt("may I?", { n: 1 });`), policy.Limits{}), ""),
	).beforeAgent(t)
	var paused *ending.InterruptedError
	require.ErrorAs(t, err, &paused)
}

// TestScriptIsClean checks that a script's memory, including changes to built-in objects, remains
// until the end of the run. The next run must not see it.
func TestScriptIsClean(t *testing.T) {
	t.Parallel()
	m := loadScript(t, newLoader(t), `
let n = 0;
const kept = new Array(100_000).fill(1);
export default {
  configure(input) { n = input.config.from },
  gateTool(input, ctx) {
    n++;
    const seen = [n, globalThis.left ?? 0, [].left ?? 0, kept[0]].join(" ");
    globalThis.left = 1; Array.prototype.left = 1; kept[0] = 2; JSON.parse = undefined;
    return { decision: "deny", message: seen };
  },
};`, policy.Limits{})
	mw := configure(t, m, `{"from":40}`)
	for range 3 {
		r := open(t, mw)
		for _, want := range []string{"41 0 0 1", "42 1 1 2"} {
			out, err := r.callTool(t.Context(), nil)
			require.NoError(t, err)
			require.Contains(t, out.Result.Content.String(), want)
		}
		r.Close()
	}
}

// TestScriptFuel checks that the fuel of a hook is deterministic.
func TestScriptFuel(t *testing.T) {
	t.Parallel()
	const text = `export default { gateTool(input, ctx) {
  const words = {}; for (const w of "a b c a".split(" ")) words[w] = (words[w] ?? 0) + Math.random();
  return { decision: "deny", message: JSON.stringify([...new Map(Object.entries(words)).keys()].sort()) };
} };`
	fuel := map[int64]bool{}
	for range 2 {
		mw := configure(t, loadScript(t, newLoader(t), text, policy.Limits{}), "")
		for range 2 {
			r := open(t, mw)
			_, err := r.callTool(t.Context(), nil)
			require.NoError(t, err)
			fuel[r.Stats()[0].Fuel] = true
			r.Close()
		}
	}
	require.Len(t, fuel, 1)
}

// TestScriptReplay checks that a script's fault can be replayed from its bundle alone, without the
// sources.
func TestScriptReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles many modules")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		body, place string
		limits      policy.Limits
	}{
		"mistake": {`if (input.messages.at(0).content === "hello") null.x;`, "guard.ts:3:47", policy.Limits{}},
		"time":    {`for (;;) Math.abs(1);`, "guard.ts:3:15", policy.Limits{Limits: sandbox.Limits{HookTime: 500 * time.Millisecond}}},
		"fuel":    {`for (;;) Math.abs(1);`, "guard.ts:3:15", policy.Limits{Limits: sandbox.Limits{HookTime: time.Minute, Fuel: 50_000_000}}},
		"native":  {`const a = new Uint8Array(1e7); a.fill(1); /^(a+)+$/.test('a'.repeat(40) + 'b');`, "", policy.Limits{Limits: sandbox.Limits{HookTime: 500 * time.Millisecond}}},
		// The engine does not call the import "over" in indexOf, so the host stops the script.
		"deaf": {`"a".repeat(4e6).indexOf("a".repeat(2e6) + "b");`, "", policy.Limits{Limits: sandbox.Limits{HookTime: 500 * time.Millisecond}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := replayScript(t, beforeAgentScript(c.body), c.place, c.limits)
			if name == "deaf" {
				require.True(t, b.Call.Stopped)
			}
		})
	}
}

func replayScript(t *testing.T, text, place string, limits policy.Limits) *replay.Bundle {
	t.Helper()
	dir := t.TempDir()
	l := newLoaderWith(t, &LoaderOptions{FaultDir: dir})
	m := loadScript(t, l, text, limits)
	_, err := open(t, configure(t, m, "")).beforeAgent(t)
	require.Error(t, err)
	files, err := filepath.Glob(filepath.Join(dir, "*.fault.zip"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	require.NoError(t, os.Remove(m.Name()))
	b, err := replay.Read(files[0])
	require.NoError(t, err)
	if !b.Call.Stopped { // on a busy machine, the script may be stopped before it reports its position
		require.Contains(t, fmt.Sprint(b.Fault.Cause, b.Fault.Stack), place)
	}
	again, err := newLoader(t).Replay(t.Context(), b)
	require.NoError(t, err)
	require.Empty(t, again.Differences)
	require.True(t, again.Same)
	return b
}
