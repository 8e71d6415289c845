package module

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/extism"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

func loadPlugin(t *testing.T, name string, limits policy.Limits) *Module {
	t.Helper()
	m, err := newLoader(t).Load(t.Context(), filepath.Join(plugins, name), limits)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

// TestExtismHostCalls checks the replies to the host calls of the ABI that an Extism plug-in makes.
func TestExtismHostCalls(t *testing.T) {
	t.Parallel()
	m := loadPlugin(t, "caller.wasm", policy.Limits{})
	require.Equal(t, "extism", m.Info().Transport)
	for name, tc := range map[string]struct {
		config string
		want   []string // expected replies
	}{
		"messages": {`{"call1":"e","arg1":{"list":0,"from":1},"call2":"e","arg2":{"from":-5,"to":1},"call3":"e","arg3":{"list":7}}`, []string{
			`[{"id":"m1","role":"user","content":"how are you?"}]`, `[{"id":"m0","role":"user","content":"hello"}]`,
			`{"error":{"code":"invalid","message":"before_agent has no list 7 of messages"}}`}},
		"changed": {`{"call1":"f","arg1":{"list":0,"revision":0},"call2":"f","arg2":{"list":0}}`, []string{
			`0`, `{"error":{"code":"invalid","message":"the argument has no revision"}}`}},
		"local values": {`{"call1":"g","arg1":{"key":"k"},"call2":"h","arg2":{"key":"k","value":{"n":[1]}},"call3":"g","arg3":{"key":"k"},"call4":"h","arg4":{"key":"k","value":2,"version":9},"call5":"i","arg5":{"key":"k"},"call6":"g","arg6":{"key":"k"},"call7":"j","arg7":{"key":"n","delta":5},"call8":"j","arg8":{"key":"n"}}`, []string{
			`{}`, `{"version":1}`, `{"value":{"n":[1]},"version":1}`, `{"error":{"code":"conflict","message":"run-local key k has version 1, not 9","retryable":true}}`, `{}`, `{}`, `5`, `6`}},
		"config":   {`{"call1":"l"}`, []string{`{"call1":"l"}`}},
		"no next":  {`{"call1":"a"}`, []string{`{"error":{"code":"denied","message":"next is for wrap_model and wrap_tool_call, not for before_agent"}}`}},
		"no model": {`{"call1":"m","arg1":{}}`, []string{`{"error":{"code":"denied","message":"model is not granted to this entry; add grants: [model] in agent.yaml"}}`}},
		"no tool":  {`{"call1":"n","arg1":{"name":"t"}}`, []string{`{"error":{"code":"denied","message":"tool:t is not granted to this entry; add grants: [tool:t] in agent.yaml"}}`}},
		"no http":  {`{"call1":"o","arg1":{}}`, []string{`{"error":{"code":"denied","message":"http:HOST is not granted to this entry; add grants: [http:HOST] in agent.yaml"}}`}},
		"no store": {`{"call1":"p","arg1":{"key":"k"},"call2":"q","arg2":{"key":"k","value":1},"call3":"r","arg3":{"key":"k"},"call4":"s","arg4":{"key":"k"}}`, []string{
			`{"error":{"code":"denied","message":"store is not granted to this entry; add grants: [store] in agent.yaml"}}`, `{"error":{"code":"denied","message":"store is not granted to this entry; add grants: [store] in agent.yaml"}}`,
			`{"error":{"code":"denied","message":"store is not granted to this entry; add grants: [store] in agent.yaml"}}`, `{"error":{"code":"denied","message":"store is not granted to this entry; add grants: [store] in agent.yaml"}}`}},
		"no JSON":  {`{"call1":"g","arg1":"key"}`, []string{`{"error":{"code":"invalid","message":"the argument: want a JSON value, got 'k' (at byte 0)"}}`}},
		"no stage": {`{"call1":"b","call2":"c","call3":"d","arg3":{}}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := open(t, configure(t, m, tc.config))
			_, err := r.beforeAgent(t)
			require.NoError(t, err)
			var want []string
			for _, reply := range tc.want {
				want = append(want, "info "+reply)
			}
			if want != nil {
				require.Equal(t, want, r.host.logs())
				return
			}
			require.Len(t, r.host.logs(), 3)
			for _, reply := range r.host.logs() {
				require.Contains(t, reply, `{"error":{"code":"denied"`)
			}
		})
	}
	r := open(
		t,
		configure(
			t,
			m,
			`{"call1":"k","arg1":{"name":"seen","data":{"n":1}},"call2":"k","arg2":{"nam":"x"},"answer":{"instruction":"mine"}}`,
		),
	)
	s, err := r.beforeAgent(t)
	require.NoError(t, err)
	require.Equal(t, "mine", s.Instruction)
	require.Equal(t, []string{`seen {"n":1}`}, r.host.customs())
	require.Contains(t, r.host.logs()[1], `"code":"invalid"`)
}

// TestExtismWraps checks a plug-in's calls of next, with and without a patch.
func TestExtismWraps(t *testing.T) {
	t.Parallel()
	// The plug-in's gate_tool makes no decision, which would deny the call, so it is renamed.
	b := bytes.Replace(readPlugin(t, "caller.wasm"), []byte("\x09gate_tool"), []byte("\x09gate_none"), 1)
	m, err := newLoader(t).LoadBytes(t.Context(), "caller.wasm", b, policy.Limits{})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	run := func(
		config string, tool func(context.Context, abi.Call) (*abi.Result, error),
	) (*testRun, chain.ToolOutcome, error) {
		r := open(t, configure(t, m, config))
		out, err := r.callTool(t.Context(), tool)
		return r, out, err
	}
	echo := func(_ context.Context, c abi.Call) (*abi.Result, error) { return abi.TextResult(c.Arguments), nil }

	// The plug-in's other hooks also call next, which fails in those hooks.
	r, out, err := run(`{"call1":"a","arg1":{"arguments":"{\"n\":2}"}}`, echo)
	require.NoError(t, err)
	require.Equal(t, `{"n":2}`, out.Result.Content.String())
	require.Contains(t, r.host.logs(), `info {"result":{"content":"{\"n\":2}"}}`)

	_, out, err = run(`{"call1":"a"}`,
		func(context.Context, abi.Call) (*abi.Result, error) { return nil, fmt.Errorf("no luck") })
	require.NoError(t, err)
	require.Contains(t, out.Result.Content.String(), "no luck")
	require.True(t, out.Result.IsError)
}

// TestExtismFails checks the ways in which a plug-in can report a failure.
func TestExtismFails(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	code := func(p *program, n uint64) {
		p.do(opConst, 0, 0, 9, n)
		p.do(opEnd, 9, 0, 0)
	}
	for name, tc := range map[string]struct {
		fn   func(p *program)
		want abi.Error
	}{
		"text":       {func(p *program) { p.block(1, "no credit"); p.do(opErrorSet, 1, 0, 0); code(p, 1) }, abi.Error{Code: abi.CodeInternal, Message: "no credit"}},
		"text and 0": {func(p *program) { p.block(1, "no credit"); p.do(opErrorSet, 1, 0, 0) }, abi.Error{Code: abi.CodeInternal, Message: "no credit"}},
		"freed": {func(p *program) {
			p.block(1, "no credit")
			p.do(opErrorSet, 1, 0, 0)
			p.do(opFree, 1, 0, 0)
			code(p, 1)
		}, abi.Error{Code: abi.CodeInternal, Message: "no credit"}},
		"another number": {func(p *program) { p.block(1, "no credit"); p.do(opErrorSet, 1, 0, 0); code(p, 77) }, abi.Error{Code: abi.CodeInternal, Message: "no credit"}},
		"no text":        {func(p *program) { code(p, ^uint64(0)) }, abi.Error{Code: abi.CodeInternal, Message: "returned -1 without setting an error"}},
		"not UTF-8":      {func(p *program) { p.block(1, "no\xff"); p.do(opErrorSet, 1, 0, 0); code(p, 1) }, abi.Error{Code: abi.CodeInternal, Message: "no\ufffd"}},
		"object": {func(p *program) {
			p.block(1, `{"code":"limit","message":"no credit","retryable":true}`)
			p.do(opErrorSet, 1, 0, 0)
			code(p, 1)
		}, abi.Error{Code: abi.CodeLimit, Message: "no credit", Retryable: true}},
		"object, output": {func(p *program) {
			p.block(1, `{"code":"limit","message":"no credit"}`)
			p.do(opConst, 0, 0, 2, 38)
			p.do(opOutputSet, 1, 2, 0)
			code(p, 1)
		}, abi.Error{Code: abi.CodeLimit, Message: "no credit"}},
		"another object": {func(p *program) { p.block(1, `{"reason":"x"}`); p.do(opErrorSet, 1, 0, 0); code(p, 1) }, abi.Error{Code: abi.CodeInternal, Message: `{"reason":"x"}`}},
		"output, no JSON": {func(p *program) {
			p.block(1, `text`)
			p.do(opConst, 0, 0, 2, 4)
			p.do(opOutputSet, 1, 2, 0)
			code(p, 1)
		}, abi.Error{Code: abi.CodeInternal, Message: "returned 1 without setting an error"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := runProgram(t, l, policy.Limits{}, policy.Grants{}, tc.fn)
			var fault *ending.FaultError
			require.NotErrorAs(t, err, &fault)
			var failed *abi.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tc.want, *failed)
		})
	}

	_, err := runProgram(t, l, policy.Limits{}, policy.Grants{},
		func(p *program) { p.block(1, "out of order"); p.do(opErrorSet, 1, 0, 0); p.do(opTrap, 0, 0, 0) })
	var fault *ending.FaultError
	require.ErrorAs(t, err, &fault)
	require.Equal(t, []string{"error_set: out of order"}, fault.Stderr, "what a panic says")
}

// TestExtismConfig checks that a plug-in can read its configuration. As in Extism, this includes
// the time in which its image is built.
func TestExtismConfig(t *testing.T) {
	t.Parallel()
	m := loadPlugin(t, "building.wasm", policy.Limits{})
	for config, want := range map[string]string{
		`{"greeting":"hello"}`:  "hello,hello",
		`{"greeting":7.50}`:     "7.50,7.50",
		`{"greeting":[1,2]}`:    "[1,2],[1,2]",
		`{"greeting":null}`:     ",",
		`{"greeting":"\u00e4"}`: "ä,ä",
		`{}`:                    ",",
		`[]`:                    ",",
	} {
		mw := configure(t, m, config)
		for range 2 { // in clean instances
			s, err := open(t, mw).beforeAgent(t)
			require.NoError(t, err)
			require.Equal(t, want, s.Instruction, config)
		}
	}
}

// TestExtismVariables checks that variables belong to the entry and the run, and that a fault
// discards the variables that were set in the same call.
func TestExtismVariables(t *testing.T) {
	t.Parallel()
	m := loadPlugin(t, "puppet.wasm", policy.Limits{})
	mw := func(fn func(p *program)) *Middleware {
		return configure(t, m, fmt.Sprintf(`{"program":%q}`, hex.EncodeToString([]byte(assemble(fn)))))
	}
	count := func(p *program) { // outputs the variable, which grows by one byte per call
		p.block(1, "a")
		p.do(opVarGet, 1, 0, 2)
		p.do(opLength, 2, 0, 3)
		p.do(opAdd, 3, 0, 3, 1)
		p.do(opAlloc, 3, 0, 4)
		p.block(1, "a")
		p.do(opVarSet, 1, 4, 0)
		p.block(5, `{"instruction":"0"}`)
		p.do(opAdd, 3, 0, 3, '0')
		p.do(opStore8, 5, 3, 0, 16)
		p.do(opConst, 0, 0, 6, 19)
		p.do(opOutputSet, 5, 6, 0)
	}
	counting := mw(count)
	entries := func(mws ...*Middleware) (out []hook.Entry) {
		for i, mw := range mws {
			out = append(out, hook.Entry{Name: fmt.Sprint("e", i), Middleware: mw, OnFault: hook.Skip})
		}
		return out
	}
	for range 2 { // two runs
		r := openRun(t, entries(counting)...)
		for want := 1; want <= 3; want++ {
			s, err := r.beforeAgent(t)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(want), s.Instruction)
		}
	}
	r := openRun(t, entries(mw(func(p *program) { count(p); p.do(opTrap, 0, 0, 0) }), counting)...)
	for range 2 {
		_, err := r.beforeAgent(t)
		require.NoError(t, err)
	}
	require.Len(t, r.host.faults(), 2, "an entry that sets a variable and traps")
	s, err := r.beforeAgent(t)
	require.NoError(t, err)
	require.Equal(t, "3", s.Instruction, "another entry's")

	fault := func(want string, fn func(p *program)) {
		t.Helper()
		_, err := runProgram(t, newLoader(t), policy.Limits{Limits: sandbox.Limits{HookTime: time.Minute}}, policy.Grants{},
			fn)
		var f *ending.FaultError
		require.ErrorAs(t, err, &f)
		require.ErrorContains(t, f.Cause, want)
	}
	fault("var_set: limit: ", func(p *program) {
		p.do(opConst, 0, 0, 2, 5<<20)
		p.do(opAlloc, 2, 0, 3)
		p.block(1, "a")
		p.do(opVarSet, 1, 3, 0)
	})
}

// TestExtismReplay checks that a plug-in's fault is recorded and can be replayed.
func TestExtismReplay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newLoaderWith(t, &LoaderOptions{FaultDir: dir})
	for _, fn := range []func(p *program){
		func(p *program) {
			p.block(1, "a")
			p.do(opVarGet, 1, 0, 2)
			p.block(1, "a")
			p.block(2, "x")
			p.do(opVarSet, 1, 2, 0)
			p.block(1, "why")
			p.do(opErrorSet, 1, 0, 0)
			p.do(opTrap, 0, 0, 0)
		},
		func(p *program) { p.do(opLoad8, 0, 0, 1) },
		func(p *program) { p.block(1, `{"url":"https://example.com/"}`); p.do(opHTTPRequest, 1, 0, 2) },
	} {
		_, err := runProgram(t, l, policy.Limits{}, policy.Grants{}, fn)
		require.Error(t, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.zip"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	for _, file := range files {
		b, err := replay.Read(file)
		require.NoError(t, err)
		replay, err := l.Replay(t.Context(), b)
		require.NoError(t, err)
		require.True(t, replay.Same, "%q", replay.Differences)
	}
}

// TestExtismInfo checks the hooks and imports that Info lists for a plug-in.
func TestExtismInfo(t *testing.T) {
	t.Parallel()
	info := loadPlugin(t, "puppet.wasm", policy.Limits{}).Info()
	require.Equal(t, []abi.Hook{contract.HookBeforeAgent}, info.Hooks)
	for _, p := range info.Imports {
		require.Equal(t, extism.EnvModule, p.Module)
		require.NotEmpty(t, p.Does, p.Name)
	}
	require.Contains(t, info.Imports, Power{
		Module: extism.EnvModule,
		Name:   "http_request",
		Type:   "(i64, i64) -> i64",
		Does:   "send HTTP requests",
		Grant:  "http:HOST",
	})
	require.Contains(t, info.Imports,
		Power{Module: extism.EnvModule, Name: "var_set", Type: "(i64, i64) -> ()", Does: "store run-local values"})
	info = loadPlugin(t, "caller.wasm", policy.Limits{}).Info()
	require.Contains(t, info.Imports, Power{
		Module: extism.UserModule,
		Name:   "tool",
		Type:   "(i64) -> i64",
		Does:   "call tools of the agent",
		Grant:  "tool:NAME",
	})
}

// TestExtismSpelling checks the warning about a misspelled hook.
func TestExtismSpelling(t *testing.T) {
	t.Parallel()
	b := bytes.Replace(readPlugin(t, "caller.wasm"), []byte("\x0aafter_tool"), []byte("\x0aAfterTool_"), 1)
	m, err := newLoader(t).LoadBytes(t.Context(), "caller.wasm", b, policy.Limits{})
	require.NoError(t, err)
	defer m.Close()
	require.Equal(t, []string{`exports "AfterTool_", which is not a hook and is never called; did you mean after_tool?`},
		m.Info().Warnings)
}

// TestExtismMemory checks that the worst case of an entry includes the memory of the plug-in's
// blocks.
func TestExtismMemory(t *testing.T) {
	t.Parallel()
	mw := configure(t, loadPlugin(t, "puppet.wasm", policy.Limits{}), "")
	require.Equal(t, mw.image.WorstCase()+32<<20, mw.worstCase())
	mw = configure(t, loadPlugin(t, "puppet.wasm", policy.Limits{Limits: sandbox.Limits{MemoryBytes: 1 << 20}}), "")
	require.Equal(t, mw.image.WorstCase()+1<<20, mw.worstCase())
}

// loadOnly loads the plug-in caller.wasm with hook as its only hook.
func loadOnly(t *testing.T, l *Loader, hook abi.Hook) *Module {
	t.Helper()
	b := readPlugin(t, "caller.wasm")
	for _, h := range calledHooks() {
		if h != hook {
			name := append([]byte{byte(len(h))}, h...)
			b = bytes.Replace(b, name, bytes.Replace(name, []byte("_"), []byte("-"), 1), 1)
			b = bytes.Replace(b, []byte("\x07observe"), []byte("\x07absorbe"), 1)
		}
	}
	m, err := l.LoadBytes(t.Context(), "caller.wasm", b, policy.Limits{})
	require.NoError(t, err)
	t.Cleanup(m.Close)
	require.Equal(t, []abi.Hook{hook}, m.Info().Hooks)
	return m
}

// TestExtismStreams checks that a plug-in can read one stream and send another.
func TestExtismStreams(t *testing.T) {
	t.Parallel()
	r := open(
		t,
		configure(t, loadOnly(t, newLoader(t), contract.HookWrapModel),
			`{"call1":"b","call2":"c","call3":"d","arg3":{"chunks":[{"kind":"text","text":"mine"}]},"call4":"c","call5":"c"}`),
	)
	received, res, err := streams(t.Context(), r, func() {}, "theirs")
	require.NoError(t, err)
	require.Equal(t, []string{"mine"}, received)
	require.Equal(t, "mine", res.Message.Content.String())
	logs := r.host.logs()
	require.Len(t, logs, 5)
	require.Equal(t, "info {}", logs[0])
	require.Contains(t, logs[1], `"text":"theirs"`)
	require.Equal(t, "info {}", logs[2])
	require.Contains(t, logs[3], `{"end":{"response":{"message":{"role":"assistant","content":"theirs"}`)
	require.Equal(t, "info {}", logs[4])
}

// TestExtismStore checks the replies to a plug-in's host calls for durable values.
func TestExtismStore(t *testing.T) {
	t.Parallel()
	config := `{"call1":"p","arg1":{"key":"k"},"call2":"q","arg2":{"key":"k","value":1,"ttl":60},"call3":"q","arg3":{"key":"k","ttl":-1},"call4":"r","arg4":{"key":"k"},"call5":"s","arg5":{"key":"k"}}`
	mw, err := Configure(t.Context(), loadPlugin(t, "caller.wasm", policy.Limits{}), "guard", []byte(config),
		policy.Grants{Store: true})
	require.NoError(t, err)
	t.Cleanup(mw.Close)
	c, err := chain.New(hook.Entry{Name: "guard", Middleware: mw})
	require.NoError(t, err)
	v, host := &values{}, &fakeHost{}
	r, err := c.With(hook.Options{Values: v, Tenant: "t"}).Open(t.Context(), abi.Run{ID: "run-1"}, host, local.New())
	require.NoError(t, err)
	defer r.Close()
	_, err = (&testRun{r, host}).beforeAgent(t)
	require.NoError(t, err)
	var replies []string
	for _, line := range host.logs() {
		if text, ok := strings.CutPrefix(line, "info "); ok {
			replies = append(replies, text)
		}
	}
	require.Equal(t, []string{`{"value":7,"version":3}`, `{"version":4}`,
		`{"error":{"code":"invalid","message":"store_set: a time to live of -1 seconds; want 0 for none, or more"}}`,
		`{"error":{"code":"unavailable","message":"the store of durable values is not available","retryable":true}}`,
		`{"error":{"code":"limit","message":"no more"}}`}, replies)
	require.Equal(t, []string{"get t/guard/k", "set t/guard/k"}, v.asked)
}

// TestExtismOwnCalls checks the arguments of a plug-in's host calls "tool" and "model", and that
// the plug-in receives the recorded replies.
func TestExtismOwnCalls(t *testing.T) {
	t.Parallel()
	mw := configure(t, loadPlugin(t, "caller.wasm", policy.Limits{}),
		`{"call1":"n","arg1":{"name":"echo"},"call2":"m","arg2":{"messages":[]}}`)
	s := &session{mw: mw, entry: "guard", run: "run-7", stats: abi.EntryStats{Hooks: map[abi.Hook]int64{}}}
	defer s.Close()
	inv, err := s.replay(
		t.Context(),
		&replay.Recording{Hook: contract.HookBeforeAgent, Input: replay.Blob("{}"), Calls: []replay.HostCall{
			{
				Name:  "tool",
				Bytes: []replay.Blob{replay.Blob(`{"name":"echo"}`)},
				Reply: replay.Blob(`{"result":{"content":"hi"}}`),
			},
			{
				Name:  "model",
				Bytes: []replay.Blob{replay.Blob(`{"messages":[]}`)},
				Error: &abi.Error{Code: abi.CodeModel, Message: "no"},
			},
		}},
	)
	require.NoError(t, err)
	require.Equal(t, 2, inv.Replay.Calls)
	require.Equal(t, []string{`{"result":{"content":"hi"}}`, `{"error":{"code":"model","message":"no"}}`}, inv.Recent)
}

// TestExtismStart checks that a language's runtime is initialized as in Extism. Unlike in Extism,
// limits apply to the initialization.
func TestExtismStart(t *testing.T) {
	t.Parallel()
	l := newLoader(t)
	b := readPlugin(t, "starting.wasm")
	m, err := l.LoadBytes(t.Context(), "haskell.wasm", b, policy.Limits{})
	require.NoError(t, err)
	defer m.Close()
	_, err = open(t, configure(t, m, "")).beforeAgent(t)
	require.NoError(t, err, "hs_init was called, with zeros, and not the constructors")

	limits := policy.Limits{Limits: sandbox.Limits{HookTime: 100 * time.Millisecond}}
	b = bytes.Replace(b, []byte("\x07hs_init"), []byte("\x07hs_exit"), 1)
	_, err = l.LoadBytes(t.Context(), "c.wasm", b, limits)
	require.ErrorContains(t, err, "c.wasm: __wasm_call_ctors: ran longer than 100ms")

	b = bytes.Replace(b, []byte("\x11__wasm_call_ctors"), []byte("\x11__wasm_call_none_"), 1)
	m, err = l.LoadBytes(t.Context(), "none.wasm", b, limits)
	require.NoError(t, err)
	defer m.Close()
	_, err = open(t, configure(t, m, "")).beforeAgent(t)
	require.ErrorContains(t, err, "returned 7 without setting an error")
}

// FuzzExtismProgram checks that no program causes an internal fault, and that every fault is
// attributed to the plug-in.
func FuzzExtismProgram(f *testing.F) {
	l, err := NewLoader(f.Context(), nil)
	require.NoError(f, err)
	defer l.Close(context.Background())
	m, err := l.LoadBytes(f.Context(), "puppet.wasm", readPlugin(f, "puppet.wasm"),
		policy.Limits{HostCalls: 100, Limits: sandbox.Limits{Fuel: 1_000_000, MemoryBytes: 1 << 20}})
	require.NoError(f, err)
	defer m.Close()
	f.Add([]byte(assemble(func(p *program) { p.block(1, "a"); p.do(opVarGet, 1, 0, 2); p.show(2) })))
	f.Add([]byte(assemble(func(p *program) {
		p.block(1, "a")
		p.do(opOutputSet, 1, 1, 0)
		p.do(opFree, 1, 0, 0)
		p.do(opBack, 0, 0, 0, 3)
	})))
	f.Fuzz(func(t *testing.T, b []byte) {
		text := hex.EncodeToString(b[:min(len(b), 50_000)])
		mw, err := Configure(t.Context(), m, "guard", fmt.Appendf(nil, `{"program":%q}`, text), policy.Grants{})
		require.NoError(t, err)
		defer mw.Close()
		_, err = open(t, mw).beforeAgent(t)
		var fault *ending.FaultError
		var failed *abi.Error
		switch {
		case errors.As(err, &fault):
			var guest *sandbox.FaultError
			require.False(t, errors.As(err, &guest) && guest.Kind == sandbox.FaultInternal, "%v", err)
			require.True(t, isOwn(fault.Cause), "%v", err)
		case err != nil:
			require.ErrorAs(t, err, &failed)
		}
	})
}
