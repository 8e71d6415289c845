package module

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/javascript"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox/child"
	"github.com/agent-runner/agent-runner/internal/testcache"
	"github.com/agent-runner/agent-runner/internal/wasm"
)

func TestMain(m *testing.M) {
	if child.IsChild() {
		os.Exit(child.Main(javascript.Job())) //nolint:forbidigo // this is a main
	}
	goleak.VerifyTestMain(m)
}

const modules = "../../testdata/modules"

// newLoader returns a loader that shares machine code with other tests.
func newLoader(t *testing.T) *Loader {
	t.Helper()
	return newLoaderWith(t, &LoaderOptions{})
}

// newLoaderWith returns a loader with the given options that shares machine code with other tests.
// It sets opts.CacheDir.
func newLoaderWith(t *testing.T, opts *LoaderOptions) *Loader {
	t.Helper()
	opts.CacheDir = testcache.Modules()
	l, err := NewLoader(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close(context.Background())) })
	return l
}

func load(t *testing.T, name string, limits policy.Limits) *Module {
	t.Helper()
	m, err := newLoader(t).Load(t.Context(), filepath.Join(modules, name), limits)
	require.NoError(t, err)
	t.Cleanup(m.Close)
	return m
}

// everyHook returns the named module with an export for each hook. The module's before_agent is the
// function of all hooks that the module lacks.
func everyHook(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(modules, name))
	require.NoError(t, err)
	m, err := wasm.Decode(b, wasm.DefaultLimits())
	require.NoError(t, err)
	exported := func(h abi.Hook) int {
		return slices.IndexFunc(m.Exports, func(e wasm.Export) bool { return e.Name == string(h) })
	}
	for _, h := range calledHooks() {
		if exported(h) < 0 {
			e := m.Exports[exported(contract.HookBeforeAgent)]
			e.Name = string(h)
			m.Exports = append(m.Exports, e)
			b = m.Encode()
		}
	}
	return b
}

// answering returns says.wasm with an export for each hook. The argument describe is the answer of
// describe. The argument answer is the answer of all other hooks, or {} if it is empty. The
// argument returns is their result: 0 for success or 1 for failure.
func answering(t *testing.T, describe, answer string, returns int) []byte {
	t.Helper()
	b := everyHook(t, "says.wasm")
	if answer == "" {
		answer = "{}"
	}
	for _, r := range []struct{ letter, text string }{{"D", describe}, {"H", answer}} {
		region := bytes.Repeat([]byte(r.letter), 4096)
		require.Equal(t, 1, bytes.Count(b, region))
		require.LessOrEqual(t, len(r.text), len(region))
		b = bytes.Replace(b, region, append([]byte(r.text), bytes.Repeat([]byte(" "), len(region)-len(r.text))...), 1)
	}
	return bytes.Replace(b, []byte("RETURN:0"), fmt.Appendf(nil, "RETURN:%d", returns), 1)
}

func loadBytes(t *testing.T, b []byte, limits policy.Limits) (*Module, error) {
	t.Helper()
	m, err := newLoader(t).LoadBytes(t.Context(), "says.wasm", b, limits)
	if err == nil {
		t.Cleanup(m.Close)
	}
	return m, err
}

func configure(t *testing.T, m *Module, config string) *Middleware {
	t.Helper()
	mw, err := Configure(t.Context(), m, "guard", json.RawMessage(config), policy.Grants{})
	require.NoError(t, err)
	t.Cleanup(mw.Close)
	return mw
}

// A fakeHost implements hook.Host and records a run's events.
type fakeHost struct {
	mu     sync.Mutex
	now    int64
	events []abi.Event
}

func (h *fakeHost) Where() abi.Run {
	h.mu.Lock()
	defer h.mu.Unlock()
	return abi.Run{ID: "run-1", Agent: "helper", Step: 1, MaxSteps: 20, NowMS: h.now}
}

func (h *fakeHost) tick(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now += d.Milliseconds()
}

func (h *fakeHost) Send(e abi.Event) abi.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	return e
}

// customs returns the name and data of each custom event.
func (h *fakeHost) customs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, e := range h.events {
		if e.Type == abi.EventCustom {
			out = append(out, e.Name+" "+string(e.Data))
		}
	}
	return out
}

func (h *fakeHost) logs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, e := range h.events {
		if e.Type == abi.EventLog {
			out = append(out, e.Level+" "+e.Text)
		}
	}
	return out
}

func (h *fakeHost) faults() []abi.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []abi.Event
	for _, e := range h.events {
		if e.Type == abi.EventFault {
			out = append(out, e)
		}
	}
	return out
}

// A testRun is a run of a chain of one or more entries.
type testRun struct {
	*chain.Run
	host *fakeHost
}

func openRun(t *testing.T, entries ...hook.Entry) *testRun {
	t.Helper()
	c, err := chain.New(entries...)
	require.NoError(t, err)
	host := &fakeHost{now: 1_767_225_600_000}
	r, err := c.Open(t.Context(), abi.Run{ID: "run-1"}, host, local.New())
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return &testRun{r, host}
}

func open(t *testing.T, mw *Middleware) *testRun {
	t.Helper()
	return openRun(t, hook.Entry{Name: "guard", Middleware: mw, Read: mw.Grants().Read})
}

func conversation(texts ...string) *message.List {
	var messages []abi.Message
	for i, text := range texts {
		m := abi.User(text)
		m.ID = fmt.Sprintf("m%d", i)
		messages = append(messages, m)
	}
	return message.NewList(message.NewRevisions(), messages)
}

// beforeAgent calls before_agent with the instruction "as it was" and two messages.
func (r *testRun) beforeAgent(t *testing.T) (chain.Start, error) {
	t.Helper()
	return r.BeforeAgent(t.Context(),
		chain.Start{Instruction: "as it was", Messages: conversation("hello", "how are you?")})
}

// callTool makes a tool call with the arguments {"n":1} through the chain. The argument tool
// implements the call.
func (r *testRun) callTool(
	ctx context.Context,
	tool func(ctx context.Context, call abi.Call) (*abi.Result, error),
) (chain.ToolOutcome, error) {
	return r.CallTool(ctx, chain.ToolCall{
		Call:  abi.Call{ID: "c1", Name: "t", Arguments: `{"n":1}`},
		Tool:  abi.Tool{Name: "t", Owner: "host"},
		State: conversation("hello"),
		Run: func(ctx context.Context, call abi.Call, _ *abi.Resume, _ pipe.Sink) (*abi.Result, error) {
			return tool(ctx, call)
		},
	})
}
