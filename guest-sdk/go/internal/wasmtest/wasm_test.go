package wasmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// guestBinary returns the module that is built from testdata/guest. It builds the module once.
var guestBinary = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "guest.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, "./testdata/guest")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, &buildError{string(text), err}
	}
	return os.ReadFile(out)
})

type buildError struct {
	text string
	err  error
}

func (e *buildError) Error() string { return e.err.Error() + "\n" + e.text }

// A wasmHost is a minimal host. It implements the imports that testdata/guest uses, as
// abi/README.md documents them.
type wasmHost struct {
	t       testing.TB
	module  api.Module
	stderr  bytes.Buffer
	pending []byte
	output  []byte

	messages []abi.Message
	pulls    [][2]int32
	changed  map[int64]int32 // replies to the import "changed", by revision
	counters map[string]int64
	emitted  []string
	logged   []string
	patches  []string
	next     func(n int) (any, *abi.Error)
}

func (h *wasmHost) bytes(ptr, n uint32) []byte {
	b, ok := h.module.Memory().Read(ptr, n)
	require.True(h.t, ok, "%d bytes at %d lie in memory", n, ptr)
	return slices.Clone(b)
}

// reply encodes v, or failed if that is not nil, as the pending reply. It returns the reply's size
// in bytes, which is negative for an error.
func (h *wasmHost) reply(v any, failed *abi.Error) int32 {
	if failed != nil {
		v = failed
	}
	b, err := abijson.Marshal(v)
	require.NoError(h.t, err)
	h.pending = b
	if failed != nil {
		return -int32(len(b))
	}
	return int32(len(b))
}

func (h *wasmHost) imports() map[string]any {
	return map[string]any{
		"read": func(_ context.Context, ptr, capacity uint32) int32 {
			b := h.pending[:min(len(h.pending), int(capacity))]
			require.True(h.t, h.module.Memory().Write(ptr, b))
			return int32(len(b))
		},
		"write": func(_ context.Context, ptr, n uint32) { h.output = h.bytes(ptr, n) },
		"next": func(_ context.Context, ptr, n uint32) int32 {
			h.patches = append(h.patches, string(h.bytes(ptr, n)))
			return h.reply(h.next(len(h.patches)))
		},
		"messages": func(_ context.Context, list, from, to int32) int32 {
			if list != abi.ListState {
				return h.reply(nil, &abi.Error{Code: abi.CodeInvalid, Message: "no such list"})
			}
			h.pulls = append(h.pulls, [2]int32{from, to})
			return h.reply(h.messages[from:to], nil)
		},
		"changed": func(_ context.Context, _ int32, revision int64) int32 { return h.changed[revision] },
		"local_add": func(_ context.Context, ptr, n uint32, delta int64) int32 {
			key := string(h.bytes(ptr, n))
			h.counters[key] += delta
			return h.reply(h.counters[key], nil)
		},
		"emit": func(_ context.Context, ptr, n uint32) int32 {
			h.emitted = append(h.emitted, string(h.bytes(ptr, n)))
			return 0
		},
		"log": func(_ context.Context, level, ptr, n uint32) {
			h.logged = append(h.logged, strconv.Itoa(int(level))+" "+string(h.bytes(ptr, n)))
		},
	}
}

// call calls an exported hook with an input. It returns the hook's status and output, or an error
// if the guest traps.
func (h *wasmHost) call(hook abi.Hook, input any) (status int32, output string, err error) {
	b, err := abijson.Marshal(input)
	require.NoError(h.t, err)
	h.pending, h.output = b, nil
	results, err := h.module.ExportedFunction(string(hook)).Call(context.Background(), uint64(len(b)))
	if err != nil {
		return 0, "", err
	}
	return api.DecodeI32(results[0]), string(h.output), nil
}

// wasmGuests compiles the guest once. It returns the compiled guest and a function that starts an
// instance of it. All instances share one host, which each start resets.
func wasmGuests(t testing.TB, config wazero.RuntimeConfig) (wazero.CompiledModule, func() *wasmHost) {
	t.Helper()
	binary, err := guestBinary()
	require.NoError(t, err)
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, config)
	t.Cleanup(func() { require.NoError(t, runtime.Close(ctx)) })
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	compiled, err := runtime.CompileModule(ctx, binary)
	require.NoError(t, err)
	h := &wasmHost{}
	builder := runtime.NewHostModuleBuilder(contract.ImportModule)
	for name, fn := range h.imports() {
		builder.NewFunctionBuilder().WithFunc(fn).Export(name)
	}
	_, err = builder.Instantiate(ctx)
	require.NoError(t, err)
	return compiled, func() *wasmHost {
		*h = wasmHost{t: t, changed: map[int64]int32{}, counters: map[string]int64{}}
		config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize").WithStderr(&h.stderr)
		module, err := runtime.InstantiateModule(ctx, compiled, config)
		require.NoError(t, err, h.stderr.String())
		h.module = module
		return h
	}
}

func configured(t testing.TB, h *wasmHost) *wasmHost {
	t.Helper()
	status, output, err := h.call(contract.HookConfigure,
		contract.ConfigureInput{Entry: "guest", Config: []byte(`{"phrase":"hi"}`)})
	require.NoError(t, err, h.stderr.String())
	require.Zero(t, status, output)
	require.Empty(t, output)
	return h
}

var common = abi.Common{Run: abi.Run{ID: "r", Step: 1}, Entry: "guest"}

func TestWasm(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds a module with Go")
	}
	t.Parallel()
	compiled, start := wasmGuests(t, wazero.NewRuntimeConfigInterpreter()) // starts faster than the compiler

	t.Run("exports", func(t *testing.T) {
		for _, hook := range contract.Hooks() {
			fn := compiled.ExportedFunctions()[string(hook)]
			require.NotNil(t, fn, hook)
			require.Equal(t, []api.ValueType{api.ValueTypeI32}, fn.ParamTypes(), hook)
			require.Equal(t, []api.ValueType{api.ValueTypeI32}, fn.ResultTypes(), hook)
		}
	})
	t.Run("imports are what the module uses", func(t *testing.T) {
		var names []string
		for _, fn := range compiled.ImportedFunctions() {
			if module, name, _ := fn.Import(); module == contract.ImportModule {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		require.Equal(t, []string{"changed", "emit", "local_add", "log", "messages", "next", "read", "write"}, names)
	})
	t.Run("describe", func(t *testing.T) {
		status, output, err := start().call(contract.HookDescribe, struct{}{})
		require.NoError(t, err)
		require.Zero(t, status)
		require.JSONEq(t, `{"name":"guest","version":"1.2.3","messages":"lazy",
			"hooks":["configure","before_agent","before_model_rewrite_state","wrap_model","gate_tool"],
			"config_schema":{"type":"object","properties":{"phrase":{"type":"string","description":"what to say"}},"additionalProperties":false}}`, output)
	})
	t.Run("configure refuses", func(t *testing.T) {
		status, output, err := start().call(contract.HookConfigure, contract.ConfigureInput{
			Config: []byte(`{"phrase":"hi","phrases":[]}`),
		})
		require.NoError(t, err)
		require.Equal(t, int32(1), status)
		require.JSONEq(t, `{"code":"invalid","message":"config: unknown key phrases; allowed: phrase"}`, output)
	})
	t.Run("before_agent", func(t *testing.T) {
		h := configured(t, start())
		status, output, err := h.call(contract.HookBeforeAgent,
			abi.BeforeAgentInput{Common: common, Instruction: "<be brief>"})
		require.NoError(t, err)
		require.Zero(t, status)
		require.Equal(t, `{"instruction":"hi, <be brief>"}`, output)
		require.Equal(t, []string{`{"name":"greeted","data":{"with":"hi"}}`}, h.emitted)
	})
	t.Run("an error", func(t *testing.T) {
		status, output, err := configured(t,
			start()).call(contract.HookBeforeAgent, abi.BeforeAgentInput{Common: common, Instruction: "fail"})
		require.NoError(t, err)
		require.Equal(t, int32(1), status)
		require.JSONEq(t, `{"code":"unavailable","message":"asked to fail: no luck","retryable":true}`, output)
	})
	t.Run("a panic", func(t *testing.T) {
		h := configured(t, start())
		_, _, err := h.call(contract.HookBeforeAgent, abi.BeforeAgentInput{Common: common, Instruction: "panic"})
		require.Error(t, err)
		require.Contains(t, h.stderr.String(), "asked to panic")
		require.Contains(t, h.stderr.String(), "main.(*guest).BeforeAgent", "where it was")
	})
	t.Run("the background has turns, as the collector has to", func(t *testing.T) {
		h := configured(t, start())
		ask := func(instruction string) string {
			_, output, err := h.call(contract.HookBeforeAgent, abi.BeforeAgentInput{Common: common, Instruction: instruction})
			require.NoError(t, err)
			return output
		}
		ask("begin")
		require.Equal(t, `{"instruction":"false"}`, ask("ran?"), "a hook that does not wait has no goroutine beside it")
		for range 40 {
			ask("be brief")
		}
		require.Equal(t, `{"instruction":"true"}`, ask("ran?"), "many small hooks")

		h = configured(t, start())
		ask("begin")
		ask(strings.Repeat("be brief ", 60_000))
		require.Equal(t, `{"instruction":"true"}`, ask("ran?"), "a hook that was given much")
	})
	t.Run("lazy messages", func(t *testing.T) { testWasmMessages(t, configured(t, start())) })
	t.Run("wrap_model", func(t *testing.T) { testWasmWrap(t, configured(t, start())) })
	t.Run("stop", func(t *testing.T) {
		h := configured(t, start())
		status, output, err := h.call(contract.HookGateTool,
			abi.GateToolInput{Common: common, Call: abi.Call{Name: "explode"}})
		require.NoError(t, err)
		require.Zero(t, status)
		require.JSONEq(t, `{"stop":{"reason":"no explosions","code":"safety"},"decision":"stop","message":"no explosions"}`,
			output)
		_, output, err = h.call(contract.HookGateTool, abi.GateToolInput{Common: common, Call: abi.Call{Name: "add"}})
		require.NoError(t, err)
		require.JSONEq(t, `{"decision":"allow"}`, output)
	})
}

func testWasmMessages(t *testing.T, h *wasmHost) {
	h.messages = users(3)
	in := abi.BeforeModelRewriteStateInput{Common: common, Messages: abi.List{Revision: 5, Total: 3}}
	step := func() string {
		status, output, err := h.call(contract.HookBeforeModelRewriteState, in)
		require.NoError(t, err, h.stderr.String())
		require.Zero(t, status, output)
		return output
	}
	require.JSONEq(t, `{"messages":{"splice":[{"at":3,"insert":[{"role":"user","content":"hi 1"}]}]}}`, step())
	require.Equal(t, [][2]int32{{2, 3}}, h.pulls, "the last message alone")

	step()
	require.Len(t, h.pulls, 1, "the same revision is not pulled again")

	in.Messages.Revision, in.Messages.Total = 9, 5
	h.changed[5] = 3
	h.messages = users(5)
	require.JSONEq(t, `{"messages":{"splice":[{"at":4,"remove":1,"insert":[{"role":"user","content":"hi 3"}]}]}}`, step())
	require.Equal(t, [2]int32{4, 5}, h.pulls[1])
	require.Equal(t, []string{`1 call 1, last "text 2"`, `1 call 2, last "text 2"`, `1 call 3, last "text 4"`}, h.logged)
	require.Equal(t, int64(3), h.counters["seen"])
}

func testWasmWrap(t *testing.T, h *wasmHost) {
	h.next = func(n int) (any, *abi.Error) {
		if n == 1 {
			return nil, &abi.Error{Code: abi.CodeModel, Message: "overloaded"}
		}
		return contract.ModelReply{Response: &abi.Response{Message: abi.Assistant("ünï")}}, nil
	}
	in := abi.WrapModelInput{Common: common, Request: abi.Request{
		Messages: abi.List{List: 1, Revision: 1, Total: 1}, Tools: []abi.Tool{{Name: "t"}}, Model: "m",
	}}
	status, output, err := h.call(contract.HookWrapModel, in)
	require.NoError(t, err, h.stderr.String())
	require.Zero(t, status)
	require.Equal(t, []string{"", `{"tools":{"remove":["t"]}}`}, h.patches)
	var answer abi.WrapModelAnswer
	require.NoError(t, json.Unmarshal([]byte(output), &answer))
	require.Equal(t, "hi: ünï", answer.Response.Message.Content.String())
}

// BenchmarkWasm measures a hook on a warm instance, including its transport.
func BenchmarkWasm(b *testing.B) {
	_, start := wasmGuests(b, wazero.NewRuntimeConfigCompiler())
	h := configured(b, start())
	h.messages = users(100)
	for name, run := range map[string]func() (int32, string, error){
		"gate": func() (int32, string, error) {
			return h.call(contract.HookGateTool, abi.GateToolInput{
				Common: common, Call: abi.Call{ID: "c", Name: "add", Arguments: `{"a":1}`},
			})
		},
		"state": func() (int32, string, error) {
			return h.call(contract.HookBeforeModelRewriteState, abi.BeforeModelRewriteStateInput{
				Common: common, Messages: abi.List{Revision: 1, Total: 100},
			})
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				status, output, err := run()
				require.NoError(b, err)
				require.Zero(b, status, output)
			}
		})
	}
}

// users returns n messages of a user.
func users(n int) []abi.Message {
	out := make([]abi.Message, n)
	for i := range out {
		out[i] = abi.User(fmt.Sprintf("text %d", i))
	}
	return out
}
