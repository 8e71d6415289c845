package host_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// calling returns an agent of a host with the given memory. In the given hook, one module makes a
// call of its own: of the tool "echo" or of the model. Another module wraps tools. Each instance
// takes oneInstance bytes, and a call through the wrapper needs a second instance of that module.
func calling(t *testing.T, memory int64, hook abi.Hook, request string, instances int, grants ...string) *host.Agent {
	t.Helper()
	h, err := host.New(t.Context(), &host.Options{MemoryBytes: memory})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	limits := host.Limits{Limits: sandbox.Limits{MemoryBytes: 1 << 20, StackBytes: 1 << 20, HookTime: hookTime}}
	own, err := h.Load(t.Context(), "../testdata/modules/own.wasm", limits)
	require.NoError(t, err)
	limits.Instances = instances
	wrap, err := h.Load(t.Context(), "../testdata/modules/wrap.wasm", limits)
	require.NoError(t, err)
	granted, err := policy.ParseGrants(grants)
	require.NoError(t, err)
	a, err := h.NewAgent(t.Context(), &host.AgentOptions{
		Model: scripted.Func(func(_ int, req *model.Request) scripted.Reply {
			return scripted.Text("answer to " + req.Messages[0].Content.String())
		}),
		Tools: []tool.Tool{tool.Func(abi.Tool{Name: "echo"}, func(_ context.Context, call abi.Call) (*abi.Result, error) {
			if call.Arguments == slow {
				time.Sleep(2 * hookTime)
			}
			return abi.TextResult("echo " + call.Arguments), nil
		})},
		Middlewares: []host.Middleware{
			{Name: "wrap", Module: wrap, Config: json.RawMessage(`{"next":"1"}`), Hooks: []abi.Hook{contract.HookWrapToolCall}},
			{Name: "own", Module: own, Config: json.RawMessage(request), Grants: granted, Hooks: []abi.Hook{hook}},
		},
	})
	require.NoError(t, err)
	t.Cleanup(a.Close)
	return a
}

// hookTime is the time limit of a hook in these tests.
const hookTime = 200 * time.Millisecond

// slow holds arguments with which the tool "echo" takes longer than hookTime.
const slow = `{"slow":true}`

// said runs the agent and returns the reply to the module's call, which the module logs.
func said(t *testing.T, a *host.Agent) string {
	t.Helper()
	text := ""
	for e, err := range a.Run(context.Background(), host.Input{Messages: []abi.Message{abi.User("hi")}}) {
		require.NoError(t, err)
		if e.Type == abi.EventLog {
			text = e.Text
		}
	}
	return text
}

const (
	callEcho = `{"name":"echo","arguments":"{\"q\":1}"}`
	askModel = `{"messages":[{"role":"user","content":"me"}]}`
)

// TestOwnCallGrants checks that a module can make the calls in its grants, and no others.
func TestOwnCallGrants(t *testing.T) {
	t.Parallel()
	const all = 1 << 30
	for _, test := range []struct {
		name    string
		hook    abi.Hook
		request string
		grants  []string
		want    string
	}{
		{"tool", contract.HookBeforeAgent, callEcho, []string{"tool:echo"}, `{"result":{"content":"echo {\"q\":1}"}}`},
		{"a tool that takes longer than a hook may", contract.HookBeforeAgent, `{"name":"echo","arguments":"{\"slow\":true}"}`, []string{"tool:echo"}, `{"result":{"content":"echo {\"slow\":true}"}}`},
		{"no grant", contract.HookBeforeAgent, callEcho, nil, `{"code":"denied","message":"tool:echo is not granted to this entry; add grants: [tool:echo] in agent.yaml"}`},
		{"another tool's", contract.HookBeforeAgent, callEcho, []string{"tool:ech", "model"}, `{"code":"denied","message":"tool:echo is not granted to this entry; add grants: [tool:echo] in agent.yaml"}`},
		{"a tool that is not there", contract.HookBeforeAgent, `{"name":"gone"}`, []string{"tool:gone"}, `{"code":"not_found","message":"tool: this agent has no tool \"gone\""}`},
		{"a key of another kind", contract.HookBeforeAgent, `{"name":7}`, []string{"tool:echo"}, `{"code":"invalid","message":"tool: the request: name: want a string, got a number`},
		{"model", contract.HookBeforeModelRewriteState, askModel, []string{"model"}, `{"response":{"message":{"id":"msg_3","role":"assistant","content":"answer to me","origin":"model"},"finish_reason":"stop"}}`},
		{"no model", contract.HookBeforeModelRewriteState, askModel, []string{"tool:echo"}, `{"code":"denied","message":"model is not granted to this entry; add grants: [model] in agent.yaml"}`},
		{"no messages", contract.HookBeforeModelRewriteState, `{"model":"x"}`, []string{"model"}, `{"code":"invalid","message":"model: messages must be an array of at least one message"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := said(t, calling(t, all, test.hook, test.request, 0, test.grants...))
			require.True(t, strings.HasPrefix(got, test.want), got)
		})
	}
}

// TestOwnCallRoom checks that a run reserves memory for its modules' own calls, that a call fails
// at once if memory for it is missing, and that an entry's limit of instances holds.
func TestOwnCallRoom(t *testing.T) {
	t.Parallel()
	const works = `{"result":{"content":"echo {\"q\":1}"}}`
	require.Equal(t, works, said(t, calling(t, 3*oneInstance, contract.HookBeforeAgent, callEcho, 0, "tool:echo")))

	var failed abi.Error
	require.NoError(
		t,
		json.Unmarshal(
			[]byte(said(t, calling(t, 2*oneInstance, contract.HookBeforeAgent, callEcho, 0, "tool:echo"))),
			&failed,
		),
	)
	require.Equal(t, abi.CodeUnavailable, failed.Code)
	require.True(t, failed.Retryable)
	require.Contains(
		t,
		failed.Message,
		"needs up to 4 MiB of memory for its modules; 0 bytes of the 8 MiB that the host may use is free",
	)

	require.NoError(
		t,
		json.Unmarshal(
			[]byte(said(t, calling(t, 9*oneInstance, contract.HookBeforeAgent, callEcho, 1, "tool:echo"))),
			&failed,
		),
	)
	require.Equal(t, abi.CodeLimit, failed.Code)
	require.Contains(t, failed.Message, "raise its limit instances")

	// A tenant's modules are not called for a module's own model call, so the call needs no memory.
	require.Contains(
		t,
		said(t, calling(t, 2*oneInstance, contract.HookBeforeModelRewriteState, askModel, 1, "model")),
		"answer to me",
	)
}

// TestOwnCallsOfManyRuns checks that the modules' own calls succeed in 30 concurrent runs with
// memory for one run.
func TestOwnCallsOfManyRuns(t *testing.T) {
	t.Parallel()
	a := calling(t, 3*oneInstance, contract.HookBeforeAgent, callEcho, 0, "tool:echo")
	replies := make([]string, 30)
	var wg sync.WaitGroup
	for i := range replies {
		wg.Go(func() { replies[i] = said(t, a) })
	}
	wg.Wait()
	for _, reply := range replies {
		require.Equal(t, `{"result":{"content":"echo {\"q\":1}"}}`, reply)
	}
}

// TestChainOfARunReserves checks that a run reserves memory for the modules of its own chain as
// well, and fails if it can never get that memory.
func TestChainOfARunReserves(t *testing.T) {
	t.Parallel()
	h, err := host.New(t.Context(), &host.Options{MemoryBytes: 2 * oneInstance})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close(context.Background())) })
	m, err := h.Load(
		t.Context(),
		"../testdata/modules/own.wasm",
		host.Limits{Limits: sandbox.Limits{MemoryBytes: 1 << 20, StackBytes: 1 << 20}},
	)
	require.NoError(t, err)
	a, err := h.NewAgent(
		t.Context(),
		&host.AgentOptions{
			Model: scripted.New(scripted.Text("done"), scripted.Text("done")),
			Outer: []host.Middleware{{Name: "own", Module: m}},
		},
	)
	require.NoError(t, err)
	t.Cleanup(a.Close)
	for extra, tooLarge := range map[int]bool{1: false, 2: true} {
		o := &host.ChainOptions{}
		for i := range extra {
			o.Middlewares = append(o.Middlewares, host.Middleware{Name: string(rune('a' + i)), Module: m})
		}
		c, err := h.NewChain(t.Context(), o)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		var failed error
		for _, err := range a.Run(t.Context(), host.Input{Messages: []abi.Message{abi.User("hi")}, Chain: c.Chain}) {
			failed = err
		}
		if tooLarge {
			var refused *sandbox.TooLargeError
			require.ErrorAs(t, failed, &refused)
			continue
		}
		require.NoError(t, failed)
	}
}
