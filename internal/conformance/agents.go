package conformance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/golden/wire"
)

// A builder builds a case's agents, which share the case's model and tools.
type builder struct {
	host   *Host
	tools  []wire.Tool
	model  *scripted.Model
	player *player
	values durable
}

// agent builds the agent that a describes, under the given name. It appends the entries in more to
// the agent's own.
func (b *builder) agent(ctx context.Context, name string, a *wire.Agent, more ...hook.Entry) (*agent.Agent, error) {
	list := a.Middlewares
	if list == nil && a.Agents == nil && b.host.Default != nil {
		list = []wire.Middleware{*b.host.Default}
	}
	entries, err := b.entries(ctx, list)
	if err != nil {
		return nil, err
	}
	ch, err := chain.New(append(entries, more...)...)
	if err != nil {
		return nil, err
	}
	tools, others := b.player.tools(b.tools), []*agent.Agent(nil)
	for _, name := range slices.Sorted(maps.Keys(a.Agents)) {
		other, err := b.agent(ctx, name, a.Agents[name])
		if err != nil {
			return nil, err
		}
		if a.Agents[name].Transfer {
			others = append(others, other)
			continue
		}
		tools = append(tools, agent.Tool(other, nil))
	}
	limits, maxSteps := limitsOf(a.Limits)
	built, err := agent.New(
		&agent.Options{
			Name:           name,
			Model:          around(a, b.model),
			ModelName:      "scripted",
			Instruction:    a.Instruction,
			Tools:          tools,
			ReturnDirectly: a.ReturnDirectly,
			Chain: ch.With(
				hook.Options{ContinueOnError: a.ContinueOnError, ContinueOnResponse: a.ContinueOnResponse, Values: &b.values},
			),
			MaxSteps: maxSteps,
			Limits:   limits,
			Timeout:  time.Duration(a.TimeoutMS) * time.Millisecond,
			NoStream: a.NoStream,
			Journal:  journalOf(a.Limits),

			KeepOrphanResults: a.KeepOrphanResults,
		},
	)
	if err == nil && others != nil {
		err = built.AllowTransfer(others...)
	}
	if err != nil || a.Given == nil {
		return built, err
	}
	return b.given(ctx, built, a.Given)
}

// journalOf returns a journal that stores nothing, or nil if l does not limit the size of the
// journal.
func journalOf(l *wire.Limits) *journal.Options {
	if l == nil || l.JournalBytes == 0 {
		return nil
	}
	return &journal.Options{Journal: emptyJournal{}}
}

// An emptyJournal accepts runs and stores nothing.
type emptyJournal struct{ journal.Journal }

func (emptyJournal) Create(context.Context, *journal.Creation) error { return nil }
func (emptyJournal) Commit(context.Context, *journal.Commit) error   { return nil }
func (emptyJournal) Renew(context.Context, string, int64, time.Duration) (bool, error) {
	return false, nil
}

// given returns a with the listed middlewares added for its runs.
func (b *builder) given(ctx context.Context, a *agent.Agent, list []wire.Middleware) (*agent.Agent, error) {
	entries, err := b.entries(ctx, list)
	if err != nil {
		return nil, err
	}
	c, err := chain.New(entries...)
	if err != nil {
		return nil, err
	}
	return a.With(c)
}

func limitsOf(l *wire.Limits) (limits agent.Limits, maxSteps int) {
	if l == nil {
		return agent.Limits{}, 0
	}
	return agent.Limits{
		ModelCalls:   l.ModelCalls,
		ToolCalls:    l.ToolCalls,
		Tools:        l.Tools,
		JournalBytes: l.JournalBytes,
		OnLimit:      agent.OnLimit(l.OnLimit),
		OnToolLimit:  agent.OnLimit(l.OnToolLimit),
	}, l.MaxSteps
}

// around wraps m in the retries and fallbacks of agent a. Retries have no delay.
func around(a *wire.Agent, m model.Model) model.Model {
	if a.Retries > 0 {
		m = model.WithRetry(
			m,
			&model.RetryOptions{MaxRetries: a.Retries, Sleep: func(context.Context, time.Duration) error { return nil }},
		)
	}
	if len(a.Fallbacks) == 0 {
		return m
	}
	choices := []model.Choice{{Model: m}}
	for _, name := range a.Fallbacks {
		choices = append(choices, model.Choice{Model: m, Name: name})
	}
	return model.WithFallback(choices, nil)
}

// replies converts a case's replies for the scripted model.
func replies(list []wire.Reply) []scripted.Reply {
	var out []scripted.Reply
	for _, r := range list {
		reply := scripted.Reply{
			Chunks: r.Chunks, Size: r.Size, Hang: r.Hang, Delay: time.Duration(r.DelayMS) * time.Millisecond,
		}
		if r.Message != nil {
			reply.Response = &abi.Response{Message: *r.Message, FinishReason: r.FinishReason, Usage: r.Usage}
		}
		if e := r.Error; e != nil {
			reply.Err = &model.Error{
				Code: e.Code, Message: e.Message, Status: e.Status, Retryable: e.Retryable,
				RetryAfter: time.Duration(e.RetryAfterMS) * time.Millisecond,
			}
		}
		out = append(out, reply)
	}
	return out
}

// lookAtState returns a middleware that stores the run's final messages in *messages.
func lookAtState(messages *[]abi.Message) *inproc.Middleware {
	return &inproc.Middleware{
		AfterAgent: func(_ context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			*messages = c.List(abi.ListState).All()
			return nil, nil
		},
	}
}

// entries returns the listed middlewares as entries of a chain. The default ring is the tenant's.
func (b *builder) entries(ctx context.Context, list []wire.Middleware) ([]hook.Entry, error) {
	var out []hook.Entry
	for _, m := range list {
		e := hook.Entry{
			Name:    m.Name,
			Ring:    hook.Tenant,
			OnFault: hook.OnFault(m.OnFault),
			Read:    hook.Read(m.Read),
			Hooks:   m.Hooks,
		}
		if m.When != nil {
			e.When = hook.When(*m.When)
		}
		switch m.Ring {
		case "", "tenant":
		case "outer":
			e.Ring = hook.Outer
		case "inner":
			e.Ring = hook.Inner
		default:
			return nil, fmt.Errorf("no ring %q", m.Ring)
		}
		var err error
		if e.Middleware, err = b.host.Middleware(ctx, &m); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}
