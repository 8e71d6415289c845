package servertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/server"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// TalkingAgent returns the options of an agent whose answer has about the given number of bytes.
func TalkingAgent(bytes int) *agent.Options {
	return &agent.Options{Model: scripted.New(scripted.Text(strings.Repeat("blah ", bytes/5)))}
}

// Agents provides agents that are not in the store to servers that use the same database.
type Agents struct {
	mu   sync.Mutex
	make map[string]func() *agent.Options
}

// NewAgents returns the given agents, by their names. A server calls the function of an agent for each of
// its runs.
func NewAgents(agents map[string]func() *agent.Options) *Agents { return &Agents{make: agents} }

// Set adds or replaces an agent.
func (a *Agents) Set(name string, agent func() *agent.Options) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.make[name] = agent
}

// Source returns the agents as the source of one server's runs.
func (a *Agents) Source(s *server.Server) runs.AgentSource { return &agentSource{a, s} }

type agentSource struct {
	of     *Agents
	server *server.Server
}

// Ready implements [runs.AgentSource].
func (n *agentSource) Ready([]journal.Pin) bool { return true }

// Open implements [runs.AgentSource].
func (n *agentSource) Open(_ context.Context, t *store.Tenant, spec agents.Spec) (*agents.Handle, error) {
	name, version := spec.Agent, spec.Version
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	makes, ok := n.of.make[name]
	if !ok {
		return nil, fmt.Errorf("agent %s: %w", name, store.ErrNoAgent)
	}
	o := makes()
	stored, err := json.Marshal(agents.Spec{Agent: name, Version: max(version, 1)})
	if err != nil {
		return nil, err
	}
	o.Name = name
	o.Journal = &journal.Options{
		Journal:  t.Journal(),
		Tenant:   t.ID(),
		Owner:    fmt.Sprintf("%p", n.server),
		Drain:    server.ServicesOf(n.server).Draining,
		Abort:    server.ServicesOf(n.server).Aborted,
		Spec:     stored,
		LeaseTTL: 2 * time.Second,
	}
	a, err := agent.New(o)
	if err != nil {
		return nil, err
	}
	return &agents.Handle{Agent: a, Release: func() {}}, nil
}

// NewWithAgents returns a fixture whose server has the given agents instead of those in its store, by their
// names.
func NewWithAgents(
	t *testing.T, agents map[string]func() *agent.Options, set ...func(*server.Options),
) (*Fixture, *Agents) {
	t.Helper()
	f := New(t, set...)
	of := NewAgents(agents)
	f.Services.Runs.Agents = of.Source(f.Server)
	return f, of
}

// HelloAgent returns the options of an agent that answers with a greeting.
func HelloAgent() *agent.Options {
	return &agent.Options{Model: scripted.New(scripted.Text("Hello there, how are you?"))}
}

// AskingAgent returns the options of an agent whose tool waits for an answer.
func AskingAgent() *agent.Options {
	return &agent.Options{Model: scripted.New(scripted.Calls(abi.NewToolCall("1", "ask", "{}")), scripted.Text("thanks")),
		Tools: []tool.Tool{tool.ByClient(abi.Tool{Name: "ask"})}}
}

// SlowAgent returns the options of an agent whose tool sends to began when it is called, and runs until
// its run ends or release is closed.
func SlowAgent(began chan<- string, release <-chan struct{}) *agent.Options {
	return &agent.Options{Model: scripted.New(scripted.Calls(abi.NewToolCall("1", "wait", "{}")), scripted.Text("done")),
		Tools: []tool.Tool{
			tool.Idempotent(tool.Func(abi.Tool{Name: "wait"}, func(ctx context.Context, _ abi.Call) (*abi.Result, error) {
				began <- "began"
				select {
				case <-release:
					return abi.TextResult("let go"), nil
				case <-ctx.Done():
					return nil, context.Cause(ctx)
				}
			})),
		}}
}

// CountingAgent returns the options of an agent that answers with the number of messages of the request and
// the text of the last one. If that text contains "fail", the model's call fails.
func CountingAgent() *agent.Options {
	return &agent.Options{Model: scripted.Func(func(_ int, req *model.Request) scripted.Reply {
		last := req.Messages[len(req.Messages)-1].Content.String()
		if strings.Contains(last, "fail") {
			return scripted.Reply{Err: &model.Error{Status: 400, Message: "bad"}}
		}
		return scripted.Text(fmt.Sprintf("%d: %s", len(req.Messages), last))
	})}
}

// GatedReplies returns a model that answers as [CountingAgent] does. If the last message is "wait", it first
// waits for gate. If the message begins with "hang", it never answers.
func GatedReplies(gate <-chan struct{}) func(int, *model.Request) scripted.Reply {
	return func(_ int, req *model.Request) scripted.Reply {
		last := req.Messages[len(req.Messages)-1].Content.String()
		switch {
		case last == "wait":
			<-gate
		case strings.HasPrefix(last, "hang"):
			return scripted.Reply{Hang: true}
		}
		return scripted.Text(fmt.Sprintf("%d: %s", len(req.Messages), last))
	}
}
