package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
)

// A builder builds a case's agents, which share the case's model and tools.
type builder struct {
	c           *Case
	suite       *Suite
	middlewares Middlewares
	model       *scripted.Model
	player      *player
	values      durable
}

// agent builds the agent of a file. The middlewares in more follow those of the file.
func (b *builder) agent(ctx context.Context, name string, file *agentFile, more ...hook.Entry) (*agent.Agent, error) {
	entries, err := b.entries(ctx, file)
	if err != nil {
		return nil, err
	}
	ch, err := chain.New(append(entries, more...)...)
	if err != nil {
		return nil, err
	}
	tools, others := b.c.tools(b.player), []*agent.Agent(nil)
	for _, name := range slices.Sorted(maps.Keys(file.Agents)) {
		a, err := b.agent(ctx, name, file.Agents[name])
		if err != nil {
			return nil, err
		}
		if file.Agents[name].Transfer {
			others = append(others, a)
			continue
		}
		tools = append(tools, agent.Tool(a, nil))
	}
	a, err := agent.New(
		&agent.Options{
			Name:           name,
			Model:          file.Model.around(b.model),
			ModelName:      "scripted",
			Instruction:    file.Instruction,
			Tools:          tools,
			ReturnDirectly: file.ReturnDirectly,
			Chain: ch.With(
				hook.Options{ContinueOnError: file.ContinueOnError, ContinueOnResponse: file.ContinueOnResponse, Values: &b.values},
			),
			MaxSteps: file.Limits.MaxSteps,
			Limits:   file.Limits.calls(),
			Timeout:  file.Timeout,
			NoStream: file.Stream != nil && !*file.Stream,
		},
	)
	if err == nil && others != nil {
		err = a.AllowTransfer(others...)
	}
	if err != nil || file.Given == nil {
		return a, err
	}
	return b.given(ctx, a, file.Given)
}

// given returns the agent with the additional middlewares of its run.
func (b *builder) given(ctx context.Context, a *agent.Agent, file []entryFile) (*agent.Agent, error) {
	entries, err := b.entries(ctx, &agentFile{Middlewares: file})
	if err != nil {
		return nil, err
	}
	c, err := chain.New(entries...)
	if err != nil {
		return nil, err
	}
	return a.With(c)
}

// around wraps m in the file's retries, which do not wait, and its fallbacks.
func (f *modelFile) around(m model.Model) model.Model {
	if f.Retries > 0 {
		m = model.WithRetry(
			m,
			&model.RetryOptions{MaxRetries: f.Retries, Sleep: func(context.Context, time.Duration) error { return nil }},
		)
	}
	if len(f.Fallbacks) == 0 {
		return m
	}
	choices := []model.Choice{{Model: m}}
	for _, other := range f.Fallbacks {
		choices = append(choices, model.Choice{Model: m, Name: other.Name})
	}
	return model.WithFallback(choices, nil)
}

// lookAtState returns a middleware that copies the final messages of the run.
func lookAtState(messages *[]abi.Message) *inproc.Middleware {
	return &inproc.Middleware{
		AfterAgent: func(_ context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			*messages = c.List(abi.ListState).All()
			return nil, nil
		},
	}
}

// entries returns the entries of agent.yaml. If it lists neither middlewares nor agents, there is
// one entry for each module.
func (b *builder) entries(ctx context.Context, file *agentFile) ([]hook.Entry, error) {
	if file.Middlewares == nil && file.Agents == nil {
		for _, name := range sortedKeys(b.c.Modules) {
			file.Middlewares = append(file.Middlewares, entryFile{Module: name + ".go"})
		}
		if file.Middlewares == nil && b.suite.Default != "" {
			file.Middlewares = []entryFile{{Module: b.suite.Default}}
		}
	}
	var out []hook.Entry
	for _, f := range file.Middlewares {
		e, err := b.entry(ctx, f)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func (b *builder) entry(ctx context.Context, f entryFile) (hook.Entry, error) {
	stem, kind, _ := strings.Cut(f.Module, ".")
	e := hook.Entry{Name: f.Name, Ring: hook.Tenant, OnFault: hook.OnFault(f.OnFault), Read: hook.Read(f.Read)}
	if e.Name == "" {
		e.Name = stem
	}
	switch f.Ring {
	case "", "tenant":
	case "outer":
		e.Ring = hook.Outer
	case "inner":
		e.Ring = hook.Inner
	default:
		return e, fmt.Errorf("no ring %q", f.Ring)
	}
	config, err := abijson.Marshal(f.Config)
	if err != nil {
		return e, err
	}
	if f.Config == nil {
		config = nil
	}
	if kind != "go" {
		e.Middleware, err = b.middlewares.Wasm(ctx, e.Name, f.Module, config, f.Grants)
		return e, err
	}
	hooks, ok := b.suite.Hooks[b.c.Name+"/"+stem]
	if !ok {
		return e, fmt.Errorf("the case has no module %q", f.Module)
	}
	for _, h := range hooks {
		e.Hooks = append(e.Hooks, abi.Hook(h))
	}
	use, err := abijson.Marshal(map[string]any{"use": b.c.Name + "/" + stem, "config": json.RawMessage(orNull(config))})
	if err != nil {
		return e, err
	}
	e.Middleware, err = b.middlewares.Go(ctx, e.Name, use, f.Grants)
	return e, err
}

func orNull(b []byte) []byte {
	if b == nil {
		return []byte("null")
	}
	return b
}
