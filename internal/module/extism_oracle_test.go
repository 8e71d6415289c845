package module

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/extism"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"

	sdk "github.com/extism/go-sdk"
	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// The tests in this file compare the transport with the Extism Go SDK. Both make the same calls of
// the same plug-ins.

// A pluginCall is one call of one export.
type pluginCall struct{ export, input string }

// A pluginOutcome is the outcome of a call.
type pluginOutcome struct {
	Output  string
	Failure string // error text of the plug-in
	Trapped bool
	Vars    map[string]string // variables after the call
	Logs    []string
}

// sdkLogLevel sets the SDK's log level, which is global.
var sdkLogLevel = sync.OnceFunc(func() {
	sdk.SetLogLevel(sdk.LogLevelTrace)
	log.SetOutput(io.Discard) // the SDK logs here before it has a logger
})

// callSDK makes calls of a plug-in in the SDK. It stops after a call that traps.
func callSDK(t *testing.T, wasm []byte, config map[string]string, calls []pluginCall) (out []pluginOutcome) {
	t.Helper()
	sdkLogLevel()
	ctx := t.Context()
	p, err := sdk.NewPlugin(ctx, sdk.Manifest{Wasm: []sdk.Wasm{sdk.WasmData{Data: wasm}}, Config: config,
		Memory: &sdk.ManifestMemory{
			MaxVarBytes:          -1,
			MaxHttpResponseBytes: -1,
		}}, sdk.PluginConfig{EnableWasi: true, RuntimeConfig: wazero.NewRuntimeConfigInterpreter()},
		[]sdk.HostFunction{sdkLocalAdd()})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close(context.WithoutCancel(ctx))) }()
	if config == nil {
		p.Config = map[string]string{}
	}
	for _, c := range calls {
		var o pluginOutcome
		p.SetLogger(func(level sdk.LogLevel, text string) {
			for _, own := range []string{
				"Calling ", "Initializing runtime", "No runtime detected", "WASI runtime", "Reactor module", "Command module",
				"Haskell runtime", "Initialized Haskell", "hs_init function", "_initialize function",
			} {
				if strings.HasPrefix(text, own) {
					return
				}
			}
			level = max(level, sdk.LogLevelDebug) // the host has no trace level
			o.Logs = append(o.Logs, strings.ToLower(level.String())+" "+text)
		})
		_, output, err := p.Call(c.export, []byte(c.input))
		o.Failure = p.GetError()
		o.Trapped = err != nil && err.Error() != o.Failure
		switch {
		case err == nil:
			o.Output = string(output)
		case o.Trapped:
			o.Failure, o.Logs = "", nil
		}
		o.Vars = map[string]string{}
		for name, value := range p.Var {
			o.Vars[name] = string(value)
		}
		if out = append(out, o); o.Trapped {
			break
		}
	}
	return out
}

// sdkLocalAdd implements the host call local_add for the SDK.
func sdkLocalAdd() sdk.HostFunction {
	sum := int64(0)
	i64 := []sdk.ValueType{sdk.ValueTypeI64}
	return sdk.NewHostFunctionWithStack("local_add", func(_ context.Context, p *sdk.CurrentPlugin, stack []uint64) {
		b, err := p.ReadBytes(stack[0])
		var arg struct{ Delta int64 }
		if err == nil {
			err = json.Unmarshal(b, &arg)
		}
		if err == nil {
			sum += arg.Delta
			stack[0], err = p.WriteString(strconv.FormatInt(sum, 10))
		}
		if err != nil {
			panic(err)
		}
	}, i64, i64)
}

// rawModule loads a plug-in without its hooks, so that tests can call its other exports.
func rawModule(t *testing.T, l *Loader, wasm []byte, limits policy.Limits) *Module {
	t.Helper()
	limits, err := policy.WithDefaults(limits)
	require.NoError(t, err)
	image, err := l.sandbox.Load(t.Context(), "plugin.wasm", wasm, limits.Limits)
	require.NoError(t, err)
	limits.Limits = image.Limits()
	m := &Module{
		loader:    l,
		source:    source{name: "plugin.wasm"},
		digest:    image.Digest(),
		limits:    limits,
		image:     image,
		transport: extism.Transport{},
	}
	_, err = m.describe(t.Context())
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

// callHere makes calls of a plug-in in this host. Like callSDK, it stops after a call that traps.
func callHere(
	t *testing.T,
	l *Loader,
	wasm []byte,
	config map[string]string,
	calls []pluginCall,
) (out []pluginOutcome) {
	t.Helper()
	m := rawModule(t, l, wasm, policy.Limits{Limits: sandbox.Limits{HookTime: time.Minute}})
	text, err := json.Marshal(config)
	require.NoError(t, err)
	mw, err := Configure(t.Context(), m, "plugin", text, policy.Grants{})
	require.NoError(t, err)
	defer mw.Close()
	s := &session{mw: mw, entry: "plugin", run: "run-1", stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}
	defer s.Close()
	inHook(t, func(c *hook.Call) {
		for _, call := range calls {
			var o pluginOutcome
			inv := &invoke.Invocation{
				Hook:    abi.Hook(call.export),
				Limits:  &m.limits,
				Call:    c,
				Config:  mw.config,
				Entered: true,
				Now:     1_767_225_600_000_000_000,
				Input:   []byte(call.input),
				Pending: []byte(call.input),
				LogFunc: func(level int32, text string) { o.Logs = append(o.Logs, contract.LogLevel(level)+" "+text) },
			}
			w, err := s.acquire(t.Context(), inv)
			require.NoError(t, err)
			failed, err := m.transport.Call(t.Context(), w.in, inv)
			inv.Report, w.inv = w.in.Report(), nil
			s.release(w, err == nil)
			o.Trapped = err != nil
			switch {
			case err != nil:
				t.Log(call.export, err)
				o.Logs = nil // in this host, a runtime's output is a log line; the SDK drops it
				require.True(t, isOwn(err), "%v", err)
			case failed:
				failure, err := inv.DecodeFailure()
				require.NoError(t, err)
				o.Failure = failure.Message
			default:
				o.Output = string(inv.Output)
			}
			o.Vars = variables(t, c)
			if out = append(out, o); o.Trapped {
				break
			}
		}
	})
	return out
}

// variables returns the values of the plug-in variables that the tests use.
func variables(t *testing.T, c *hook.Call) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"a", "b", "total", "run", "count", "", "number", "bytes"} {
		value, ok, err := c.LocalGet("var/" + name)
		require.NoError(t, err)
		if ok {
			var b replay.Blob
			require.NoError(t, json.Unmarshal(value.Value, &b))
			out[name] = string(b)
		}
	}
	return out
}

// inHook calls fn in a hook of a run.
func inHook(t *testing.T, fn func(c *hook.Call)) {
	t.Helper()
	r := openRun(t, hook.Entry{Name: "plugin", Middleware: capture(fn)})
	_, err := r.BeforeAgent(t.Context(), chain.Start{Messages: conversation("hello", "how are you?")})
	require.NoError(t, err)
}

// capture is a middleware that passes its call to a function.
type capture func(c *hook.Call)

func (capture) Describe() hook.Description {
	return hook.Description{Description: abi.Description{Hooks: []abi.Hook{contract.HookBeforeAgent}}}
}

func (fn capture) Open(context.Context, string, string) (hook.Session, error) { return fn, nil }

func (fn capture) Call(_ context.Context, c *hook.Call, _, _ any) error {
	fn(c)
	return nil
}

func (capture) Stats() abi.EntryStats { return abi.EntryStats{} }

func (capture) Close() {}

// sdkPlugin reads a plug-in from the tests of Extism's Go SDK.
func sdkPlugin(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/extism/go-sdk").Output()
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "wasm", name))
	require.NoError(t, err)
	return b
}

// TestExtismSDKPlugins checks that the plug-ins from the tests of Extism's Go SDK behave the same
// in this host and in the SDK.
func TestExtismSDKPlugins(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it compiles many modules")
	}
	t.Parallel()
	l := newLoader(t)
	text := strings.Repeat("the quick brown fox jumps over the lazy dog ", 100)
	for name, tc := range map[string]struct {
		config map[string]string
		calls  []pluginCall
	}{
		"alloc.wasm": {calls: []pluginCall{{"run_test", ""}}},
		"config.wasm": {
			config: map[string]string{"thing": "hello", "other": ""}, calls: []pluginCall{{"run_test", "x"}},
		},
		"count_vowels.wasm": {
			config: map[string]string{"vowels": "aeiouyAEIOUY"},
			calls:  []pluginCall{{"count_vowels", "hello world"}, {"count_vowels", text}, {"count_vowels", ""}},
		},
		"fail.wasm":  {calls: []pluginCall{{"run_test", "x"}, {"run_test", "y"}}},
		"hello.wasm": {calls: []pluginCall{{"run_test", "x"}}},
		"hello_haskell.wasm": {
			config: map[string]string{"greeting": "Howdy"}, calls: []pluginCall{{"testing", "John"}, {"testing", "Zoe"}},
		},
		"http.wasm":         {calls: []pluginCall{{"run_test", "x"}}},
		"http_headers.wasm": {calls: []pluginCall{{"http_get", `{"url":"https://extism.org","method":"GET","headers":{}}`}}},
		"input_offset.wasm": {calls: []pluginCall{{"input_offset_length", "hello world"}, {"input_offset_length", "x"}}},
		"log.wasm":          {calls: []pluginCall{{"run_test", "x"}}},
		"noop.wasm":         {calls: []pluginCall{{"run_test", "x"}}},
		"read_write.wasm":   {config: map[string]string{"path": "/mnt/test.txt"}, calls: []pluginCall{{"try_read", ""}}},
		"replace.wasm":      {calls: []pluginCall{{"run_test", text}, {"run_test", ""}}},
		"sleep.wasm":        {config: map[string]string{"duration": "0"}, calls: []pluginCall{{"run_test", "x"}}},
		"var.wasm":          {calls: []pluginCall{{"run_test", "x"}, {"run_test", "x"}, {"run_test", "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wasm := sdkPlugin(t, name)
			want := callSDK(t, wasm, tc.config, tc.calls)
			require.Equal(t, want, callHere(t, l, wasm, tc.config, tc.calls))
			t.Logf("%+.300v", want)
		})
	}
}
