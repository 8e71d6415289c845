package module

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/sandbox/verify"
)

// writeScript writes a script to a temporary file.
func writeScript(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// loadScript loads a script named guard.ts.
func loadScript(t *testing.T, l *Loader, text string, limits policy.Limits) *Module {
	t.Helper()
	m, err := l.Load(t.Context(), writeScript(t, "guard.ts", text), limits)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

// beforeAgentScript returns a script with a before_agent hook.
func beforeAgentScript(body string) string {
	return "export default {\n  beforeAgent(input, ctx) {\n" + body + "\n  },\n};\n"
}

func TestScript(t *testing.T) {
	t.Parallel()
	m := loadScript(t, newLoader(t), `
import { defineMiddleware, allow, deny } from "@agent-runner/middleware";

interface Config { deny: string[] }

export default defineMiddleware<Config>({
  name: "guard", version: "1.2.0", description: "Denies tools.",
  configSchema: { type: "object", properties: { deny: { type: "array", items: { type: "string" } } } },

  gateTool(input, ctx) {
    console.log("asked about", input.call.name, { n: 1 });
    return ctx.config.deny.includes(input.call.name) ? deny(input.call.name + " is not allowed here") : allow();
  },
});
`, policy.Limits{})
	info := m.Info()
	require.Equal(t, "javascript", info.Transport)
	require.Equal(t, "guard", info.Description.Name)
	require.Equal(t, []abi.Hook{contract.HookGateTool}, info.Hooks)
	require.Equal(t, contract.MessagesLazy, info.Description.Messages)

	r := open(t, configure(t, m, `{"deny":["t"]}`))
	called := false
	out, err := r.callTool(t.Context(),
		func(context.Context, abi.Call) (*abi.Result, error) { called = true; return abi.TextResult("x"), nil })
	require.NoError(t, err)
	require.False(t, called)
	require.Contains(t, out.Result.Content.String(), "t is not allowed here")
	require.Equal(t, []string{`info asked about t {"n":1}`}, r.host.logs())

	_, err = Configure(t.Context(), m, "guard", []byte(`{"deny":"t"}`), policy.Grants{})
	require.ErrorContains(t, err, "config: deny: is of type string")
}

// TestScriptFaults checks that the limits and the reports of faults apply to scripts as they do to
// other modules.
func TestScriptFaults(t *testing.T) {
	longtest.Skip(t)
	t.Parallel()
	l := newLoader(t)
	patient := policy.Limits{Limits: sandbox.Limits{HookTime: time.Minute}}
	// With limited fuel, the hook always ends at the same position.
	shortLimit := policy.Limits{Limits: sandbox.Limits{HookTime: time.Minute, Fuel: 50_000_000}}
	const usedUp = "used more than its 50000000 fuel"
	for name, tc := range map[string]struct {
		body, want string
		limits     policy.Limits
	}{
		"loop":                     {"for (;;) Math.abs(1);", usedUp + " (guard.ts:3:15)", shortLimit},
		"empty loop":               {"for (;;);", usedUp, shortLimit},
		"loop of promises":         {"const f = () => Promise.resolve().then(f); f();", usedUp, shortLimit},
		"loop that catches":        {"for (;;) try { null.x } catch {}", usedUp, shortLimit},
		"loop in a getter":         {"const e = new TypeError('x'); Object.defineProperty(e, 'message', { get() { for (;;); } }); throw e;", usedUp, shortLimit},
		"loop in toString":         {"ctx.emit({ toJSON() { for (;;); } }, 1);", usedUp, shortLimit},
		"loop in toJSON":           {"return { toJSON() { for (;;); } };", usedUp, shortLimit},
		"goes on after it is over": {"const f = async () => { for (;;); }; return f().catch(() => ({}));", usedUp, shortLimit},
		"loop in then":             {"return { then() { for (;;); } };", usedUp, shortLimit},
		"regular expression":       {"/^(a+)+$/.test('a'.repeat(40) + 'b');", usedUp, shortLimit},
		"large number":             {"let n = 3n; for (;;) n *= n;", usedUp, shortLimit},
		"sort":                     {"const a = Array.from({ length: 1e6 }, (_, i) => -i); for (;;) a.sort((x, y) => x - y);", usedUp, shortLimit},
		"fill":                     {"const a = new Uint8Array(1e6); for (;;) a.fill(1);", usedUp, shortLimit},
		"leak":                     {"const a = []; for (;;) a.push(new Array(1000).fill(a));", "out of memory (guard.ts:3:", patient},
		"leak of a string":         {"let s = 'x'; for (;;) s += s + 'y';", "(guard.ts:3:", patient},
		"leak that catches":        {"const a = []; for (;;) try { a.push(new Uint8Array(1e6)); } catch { break } for (;;) a.push({});", "out of memory", patient},
		"recursion":                {"const f = () => f() + 1; f();", "Maximum call stack size exceeded (guard.ts:3:", patient},
		"recursion of JSON":        {"let a = []; for (let i = 0; i < 1e5; i++) a = [a]; return { a };", "Maximum call stack size exceeded", patient},
		"recursion of a parser":    {"JSON.parse('['.repeat(1e5));", "stack", patient},
		"throws":                   {"null.x;", "TypeError: cannot read property 'x' of null (guard.ts:3:1)", patient},
		"throws in a promise":      {"return (async () => { await 1; null.x; })();", "TypeError: cannot read property 'x' of null (guard.ts:3:", patient},
		"reference":                {"nothing();", "ReferenceError: nothing is not defined (guard.ts:3:1)", patient},
		"never":                    {"return new Promise(() => {});", "TypeError: the promise of beforeAgent never settles", patient},
		"thenable":                 {"return { then() {} };", "never settles", patient},
		"a number":                 {"return 1;", "TypeError: beforeAgent returned a number; want an object, or nothing", patient},
		"an array":                 {"return [];", "beforeAgent returned an array", patient},
		"wrong shape":              {"return { instruction: 1 };", "answer: instruction: want a string, got a number", patient},
		"a cycle":                  {"const a = {}; a.a = a; return a;", "TypeError: circular reference", patient},
		"BigInt":                   {"return { instruction: 1n };", "TypeError:", patient},
		"large answer":             {"return { instruction: 'x'.repeat(9e6) };", "more than the limit output_bytes of 8388608", patient},
		"host calls":               {"for (;;) ctx.log.info('x');", "more than the limit host_calls of 10000", patient},
		"message of a getter":      {"const e = new TypeError('x'); Object.defineProperty(e, 'message', { get() { throw e; } }); throw e;", "an error that cannot be read", patient},
		"frozen":                   {"ctx.config.x = 1;", "TypeError:", patient},
		"eval":                     {"return eval('nothing()');", "ReferenceError: nothing is not defined (guard.ts:3", patient},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := loadScript(t, l, beforeAgentScript(tc.body), tc.limits)
			r := openRun(t, hook.Entry{Name: "guard", Middleware: configure(t, m, "")})
			_, err := r.beforeAgent(t)
			var fault *ending.FaultError
			require.ErrorAs(t, err, &fault)
			t.Log(ending.FaultText(fault), "\n"+fault.Stack, "\n"+strings.Join(fault.Stderr, "\n"))
			require.ErrorContains(t, fault.Cause, tc.want)
			require.Equal(t, "guard", fault.Entry)
			require.Equal(t, contract.HookBeforeAgent, fault.Hook)
			require.Equal(t, m.Info().Digest, fault.Digest)

			// The instance was discarded, and another run starts with a clean instance.
			_, err = openRun(t, hook.Entry{Name: "guard", Middleware: configure(t, m, "")}).beforeAgent(t)
			require.ErrorAs(t, err, &fault)
			require.ErrorContains(t, fault.Cause, tc.want)
		})
	}
}

// TestScriptTime checks that a script that runs out of time reports its position. On a busy machine
// the grace may end before the script calls the import "over". The host then stops the script and
// no position is reported, so the test tries again.
func TestScriptTime(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	m := loadScript(t, l, beforeAgentScript("for (;;) Math.abs(1);"),
		policy.Limits{Limits: sandbox.Limits{HookTime: 500 * time.Millisecond}})
	const tries = 10
	for try := 1; ; try++ {
		_, err := openRun(t, hook.Entry{Name: "guard", Middleware: configure(t, m, "")}).beforeAgent(t)
		var fault *ending.FaultError
		require.ErrorAs(t, err, &fault)
		require.ErrorContains(t, fault.Cause, "ran longer than 5")
		require.Equal(t, "hook_time", fault.Limit)
		if strings.Contains(fault.Cause.Error(), "ran longer than 500ms (guard.ts:3:15)") {
			break
		}
		require.Less(t, try, tries, "it never tells where: %v", fault.Cause)
	}
}

// TestScriptBytes checks that a script can be loaded from the bytes of its source or of its bundle.
// A script from the bytes of its source can import only the built-in package.
func TestScriptBytes(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	m, err := l.LoadBytes(t.Context(), "sub/guard.ts", []byte(`import { deny } from "@agent-runner/middleware";
export default { gateTool: (): unknown => null.x };`), policy.Limits{})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	out, err := open(t, configure(t, m, "")).callTool(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, out.Result.IsError)
	again, err := l.LoadBytes(t.Context(), "guard", BundleOf(m), policy.Limits{})
	require.NoError(t, err)
	t.Cleanup(again.Close)
	require.Equal(t, m.Info().Digest, again.Info().Digest)
	require.Equal(t, m.Info().Hooks, again.Info().Hooks)
	for _, text := range []string{
		`import "./other.ts";`, `import "/etc/hostname";`, `import "left-pad";`, `require("../x.json");`,
	} {
		_, err = l.LoadBytes(t.Context(), "guard.ts", []byte(text), policy.Limits{})
		require.ErrorContains(t, err, "a script that comes without its files can import @agent-runner/middleware alone")
	}
	_, err = l.LoadBytes(t.Context(), "guard.wasm", []byte(`export default {};`), policy.Limits{})
	require.ErrorContains(t, err, "this is not a WebAssembly module")
}

// TestScriptInChild checks that scripts are bundled in a child process, and that a script that
// crashes the bundler is rejected with an explanation.
func TestScriptInChild(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles many modules")
	}
	t.Parallel()
	l := newLoaderWith(t, &LoaderOptions{CompileChild: &child.Options{MemoryBytes: 256 << 20, Timeout: 5 * time.Minute}})
	m := loadScript(t, l, beforeAgentScript("return { instruction: 'from a child' };"), policy.Limits{})
	s, err := open(t, configure(t, m, "")).beforeAgent(t)
	require.NoError(t, err)
	require.Equal(t, "from a child", s.Instruction)
	for source, want := range map[string]string{
		strings.Repeat("!", 4_000_000) + "1": "the script, or what it imports, is too large or nested too deeply",
		"let x = ;":                          "guard.ts:1:9: Unexpected",
	} {
		var refused *verify.RefusedError
		_, err := l.Load(t.Context(), writeScript(t, "guard.ts", source), policy.Limits{})
		require.ErrorAs(t, err, &refused)
		require.ErrorContains(t, err, want)
		_, err = l.LoadBytes(t.Context(), "guard.ts", []byte(source), policy.Limits{})
		require.ErrorContains(t, err, want)
	}
}

// TestEngineImport checks that a loaded module cannot import the engine's function.
func TestEngineImport(t *testing.T) {
	t.Parallel()
	_, err := newLoader(t).LoadBytes(t.Context(), "engine.wasm", javascript.Engine(), policy.Limits{})
	require.ErrorContains(t, err, "engine.wasm: imports agent_runner_script, which only the engine of scripts may import")
}

// TestScriptFails checks the errors that a script throws on purpose. The hook then fails without a
// fault.
func TestScriptFails(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	for name, tc := range map[string]struct {
		body string
		want abi.Error
	}{
		"an error":        {"throw new Error('no credit');", abi.Error{Code: abi.CodeInternal, Message: "no credit"}},
		"a class":         {"class Mine extends Error {} throw new Mine('no credit');", abi.Error{Code: abi.CodeInternal, Message: "no credit"}},
		"a string":        {"throw 'no credit';", abi.Error{Code: abi.CodeInternal, Message: "no credit"}},
		"a promise":       {"return Promise.reject(new Error('no credit'));", abi.Error{Code: abi.CodeInternal, Message: "no credit"}},
		"with a code":     {"throw new HookError('no', { code: 'limit', retryable: true });", abi.Error{Code: abi.CodeLimit, Message: "no", Retryable: true}},
		"an unknown code": {"throw new HookError('no', 'EPERM');", abi.Error{Code: abi.CodeInternal, Message: "no"}},
		"a stop":          {"throw ctx.stop('enough');", abi.Error{Code: abi.CodeInternal, Message: "the hook threw the value of ctx.stop or ctx.interrupt; return it instead"}},
		"import":          {"return import('./' + ctx.run.id).then(() => ({}));", abi.Error{Code: abi.CodeInternal, Message: "Module not found in bundle"}},
		"of the host":     {"ctx.next();", abi.Error{Code: abi.CodeDenied, Message: "next"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, configure(t, loadScript(t, l, beforeAgentScript(tc.body), policy.Limits{}), ""))
			_, err := r.beforeAgent(t)
			var fault *ending.FaultError
			require.False(t, errors.As(err, &fault), "%v", err)
			var failed *abi.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tc.want.Code, failed.Code)
			require.Contains(t, failed.Message, tc.want.Message)
			require.Equal(t, tc.want.Retryable, failed.Retryable)
		})
	}
}

// TestScriptRefused checks the errors for scripts that cannot be loaded.
func TestScriptRefused(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	for name, tc := range map[string]struct{ text, want string }{
		"syntax":     {"export default {\n  gateTool() { return ; ) }\n};", "guard.ts:2:25: Unexpected \")\"\n> 2 |   gateTool() { return ; ) }"},
		"no hook":    {"export const x = 1;", "the script has no hook"},
		"nothing":    {"", "the script exports nothing"},
		"misspelt":   {"export default { gateTol() {} };", "there is no gateTol; did you mean gateTool?"},
		"not a hook": {"export default { gateTool: 1 };", "gateTool is a number; want a function"},
		"a function": {"export default () => {};", "export default is a function; want an object with hooks"},
		"throws":     {"const a = 1;\nnull.x;\nexport default { gateTool() {} };", "TypeError: cannot read property 'x' of null (guard.ts:2:1)\n  1 | const a = 1;\n> 2 | null.x;"},
		"loops":      {"for (;;);\nexport default { gateTool() {} };", "used more than its 50000000 fuel"},
		"missing":    {"import './no.ts';\nexport default { gateTool() {} };", "cannot find \"./no.ts\""},
		"of Node":    {"import 'node:fs';\nexport default { gateTool() {} };", "what only Node.js has"},
		"outside":    {"import '/etc/hostname';\nexport default { gateTool() {} };", "is outside of the project"},
		"waits":      {"await 1;\nexport default { gateTool() {} };", "Top-level await"},
		"host call":  {"export default { describe() { console.log('x'); return { hooks: ['gate_tool'] } }, gateTool() {} , configSchema: 1 };", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, err := l.Load(t.Context(), writeScript(t, "guard.ts", tc.text),
				policy.Limits{Limits: sandbox.Limits{HookTime: time.Minute, Fuel: 50_000_000}})
			if tc.want == "" {
				require.NoError(t, err)
				m.Close()
				return
			}
			var refused *verify.RefusedError
			require.ErrorAs(t, err, &refused)
			t.Log(err)
			require.ErrorContains(t, err, tc.want)
		})
	}
}
