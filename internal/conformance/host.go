package conformance

import (
	"context"
	"sync"

	"github.com/agent-runner/agent-runner/host/agui"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
	"github.com/agent-runner/agent-runner/internal/module"
	"github.com/agent-runner/agent-runner/internal/module/policy"
)

// A Host runs cases with this project's agent loop and chain. It implements [tck.Host]. It is safe
// for concurrent use if Middleware is.
type Host struct {
	// Middleware loads the module of an entry and configures it.
	Middleware func(ctx context.Context, m *wire.Middleware) (hook.Middleware, error)
	// Default, if not nil, is the only entry of an agent that lists neither middlewares nor agents.
	Default *wire.Middleware
}

// Hello reports that the host has all capabilities.
func (h *Host) Hello(context.Context) (*wire.Hello, error) {
	return &wire.Hello{Type: "hello", Protocol: wire.Protocol, Host: "agent-runner", Capabilities: []string{"*"}}, nil
}

// Run runs the case's agent r.Runs times, at least once, and returns what it observed. If the agent
// cannot be built, Run reports the reason in the outcome's Refused.
func (h *Host) Run(ctx context.Context, r *wire.Request) (*wire.Outcome, error) {
	out := &wire.Outcome{}
	b := &builder{
		host:   h,
		tools:  r.Tools,
		model:  scripted.New(replies(r.Model)...),
		player: &player{reported: map[string]chan struct{}{}, turns: map[string]int{}},
	}
	look := hook.Entry{Name: "the-case", Ring: hook.Outer, Middleware: lookAtState(&out.State)}
	a, err := b.agent(ctx, "", r.Agent, look)
	later := a
	if err == nil && r.Resumed != nil {
		later, err = b.agent(ctx, "", r.Resumed, look)
	}
	if err != nil {
		out.Refused = err.Error()
		return out, nil
	}
	for range max(1, r.Runs) {
		if err := b.player.play(ctx, r, a, later, out); err != nil {
			return nil, err
		}
	}
	for _, seen := range b.model.Requests() {
		call := wire.ModelCall{Model: seen.Model, Params: seen.Params, Messages: seen.Messages}
		for _, t := range seen.Tools {
			call.Tools = append(call.Tools, t.Name)
		}
		out.ModelCalls = append(out.ModelCalls, call)
	}
	out.ToolCalls = b.player.calls
	return out, nil
}

// client returns an encoder for an AG-UI client, or nil if the case does not ask for client events.
func client(r *wire.Request) chain.Encoder {
	if !r.Client {
		return nil
	}
	return agui.NewEncoder(agui.Options{})
}

// Modules loads modules by their paths. It loads each path once, and is safe for concurrent use.
type Modules struct {
	Loader *module.Loader

	mu     sync.Mutex
	loaded map[string]*module.Module
}

// Middleware loads the module of an entry and configures it.
func (ms *Modules) Middleware(ctx context.Context, m *wire.Middleware) (hook.Middleware, error) {
	loaded, err := ms.load(ctx, m.Module)
	if err != nil {
		return nil, err
	}
	return Configure(ctx, loaded, m)
}

func (ms *Modules) load(ctx context.Context, path string) (*module.Module, error) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.loaded[path]; m != nil {
		return m, nil
	}
	m, err := ms.Loader.Load(ctx, path, policy.Limits{})
	if err != nil {
		return nil, err
	}
	if ms.loaded == nil {
		ms.loaded = map[string]*module.Module{}
	}
	ms.loaded[path] = m
	return m, nil
}

// Configure configures a loaded module with the name, configuration and grants of m.
func Configure(ctx context.Context, loaded *module.Module, m *wire.Middleware) (hook.Middleware, error) {
	granted, err := policy.ParseGrants(m.Grants)
	if err != nil {
		return nil, err
	}
	return module.Configure(ctx, loaded, m.Name, m.Config, granted)
}
