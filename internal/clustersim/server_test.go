package clustersim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/hints"
	"github.com/agent-runner/agent-runner/internal/overload"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/blocks"
	"github.com/agent-runner/agent-runner/internal/server/cluster"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/server/quarantine"
	"github.com/agent-runner/agent-runner/internal/server/runs"
	"github.com/agent-runner/agent-runner/internal/store"
)

// steps is the number of steps of a run: each but the last one calls the tool.
const steps = 4

// A server is a simulated server.
type server struct {
	*machine
	name     string
	node     string // the machine's name
	link     *link
	store    store.Store
	overload *overload.Manager
	guard    *quarantine.Service
	runs     *runs.Service
	members  *cluster.Members
	history  *history
	poisons  *poisons
	think    time.Duration // see newSimulation
	cutBus   func(bool)

	stop     context.CancelFunc
	draining chan struct{}
	tasks    sync.WaitGroup
}

// start starts a server with a name that no other server of the simulation has had. reports has the
// crash reports of earlier servers of the machine.
func (c *simulation) start(name, node string, reports map[string]string) *server {
	bus, cutBus := c.network.Join()
	s := &server{
		machine:  newMachine(),
		name:     name,
		node:     node,
		overload: overload.New(overload.Options{Logger: slog.New(slog.DiscardHandler)}),
		history:  c.history,
		poisons:  c.poisons,
		think:    c.think,
		cutBus:   cutBus,
		draining: make(chan struct{}),
	}
	s.link = &link{DB: c.db, machine: s.machine, mutate: c.mutate}
	var err error
	if s.store, err = store.New(context.Background(), s.link, nil); err != nil {
		panic(err) // the test has no server yet that could cause it
	}
	log := slog.New(slog.DiscardHandler)
	list := blocks.NewList(s.store, bus, log)
	s.guard = quarantine.New(&quarantine.Options{
		Store:      s.store,
		Overload:   s.overload,
		Logger:     log,
		Owner:      name,
		Node:       node,
		InProgress: func(tenant, run string) bool { return s.runs.InProgress(tenant, run) },
		Count:      func() int { return s.runs.Count() },
		Waiting:    func() { s.runs.Waiting() },
		Gone:       func(owner string) bool { return c.gone(owner, node) },
		Reports:    reports,
	})
	s.runs = runs.New(&runs.Options{
		Store:     s.store,
		Agents:    source{s},
		Admission: admission.New(4, time.Now, s.draining),
		Overload:  s.overload,
		Blocks:    list,
		Logger:    log,
		Now:       s.now,
		Timeouts:  httpapi.DefaultTimeouts(),
		Owner:     name,
		Judge:     s.guard.Judge,
		Draining:  s.draining,
		Hints:     bus,
		Servers:   func() []string { return s.members.Executing() },
		Go:        s.spawn,
	})
	s.members = newMembers(s, bus, log)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.guard.Begin(ctx)
	for _, watch := range []func(context.Context){
		list.Watch, s.guard.Watch, s.runs.TakeOver, s.runs.WatchCancels, s.runs.WatchQueues, s.runs.Broadcast,
		s.members.Watch,
	} {
		s.tasks.Go(func() { watch(ctx) })
	}
	return s
}

// spawn runs fn on a goroutine that the server's end waits for.
func (s *server) spawn(fn func()) { s.tasks.Go(fn) }

func newMembers(s *server, bus hints.Bus, log *slog.Logger) *cluster.Members {
	return cluster.New(&cluster.Options{
		Bus:    bus,
		Logger: log,
		Now:    s.now,
		End:    s.store.EndSilent,
		Claim:  func(context.Context) { s.runs.Waiting() },
		Self:   func() cluster.Member { return cluster.Member{Owner: s.name, Node: s.node, Runs: s.runs.Count()} },
	})
}

// crash kills the server. It reports false if the server was dead.
func (s *server) crash() bool {
	s.cutBus(true)
	return s.kill()
}

// end kills the server, and waits until its goroutines have ended.
func (s *server) end() {
	s.crash()
	close(s.draining)
	s.stop()
	s.tasks.Wait()
}

// errRejecting is the error of a server that accepts no runs.
var errRejecting = errors.New("the server accepts no runs")

// begin starts a run of a tenant. It fails with errRejecting if the server accepts no runs.
func (s *server) begin(tenant, run string) error {
	if s.overload.Rejecting() {
		return errRejecting
	}
	t := s.store.Tenant(tenant)
	caller := &httpapi.Caller{Tenant: t, Key: &store.Key{Tenant: tenant}}
	_, err := s.runs.Begin(context.Background(), caller, agents.Ref{AgentRef: store.AgentRef{Name: "agent"}},
		agent.Input{RunID: run, Messages: []abi.Message{abi.User(run)}}, runs.Client{})
	return err
}

// A source has the only agent of the simulation.
type source struct{ server *server }

// Open implements [runs.AgentSource].
func (a source) Open(_ context.Context, t *store.Tenant, _ agents.Spec) (*agents.Handle, error) {
	built, err := agent.New(&agent.Options{
		Name:  "agent",
		Model: simulatedModel(a),
		Tools: []tool.Tool{tool.Func(
			abi.Tool{Name: "charge", Parameters: abi.JSON(`{"type":"object"}`)}, a.server.charge)},
		Journal: &journal.Options{
			Journal: &witness{t.Journal(), a.server, a.server.history},
			Tenant:  t.ID(),
			Owner:   a.server.name,
			Drain:   a.server.draining,
			Spec:    json.RawMessage(`{"agent":"agent","version":1}`),
		},
	})
	if err != nil {
		return nil, err
	}
	return &agents.Handle{Agent: built, Release: func() {}}, nil
}

// Ready implements [runs.AgentSource].
func (source) Ready([]journal.Pin) bool { return true }

// charge is a tool whose calls must not be repeated.
func (s *server) charge(ctx context.Context, call abi.Call) (*abi.Result, error) {
	if err := s.work(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	s.history.called(call.Arguments)
	if err := s.work(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	return &abi.Result{Content: abi.Text("charged")}, nil
}

// A simulatedModel calls the tool in each step but the last one. It takes one to four times the server's
// think. In a poison run, it ends the server after a second.
type simulatedModel struct{ server *server }

// Generate implements [model.Model].
func (m simulatedModel) Generate(
	ctx context.Context,
	r *model.Request,
	_ func(abi.Chunk) error,
) (*abi.Response, error) {
	run, step := r.Messages[0].Content.String(), 1
	for i := range r.Messages {
		if r.Messages[i].Role == abi.RoleAssistant {
			step++
		}
	}
	if p := m.server.poisons.of(run); p != nil {
		if err := m.server.work(ctx, time.Second); err != nil {
			return nil, err
		}
		p.end(m.server)
		return nil, errKilled
	}
	call := fmt.Sprintf(`{"run":%q,"step":%d}`, run, step)
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(call))
	if err := m.server.work(ctx, m.server.think*time.Duration(1000+sum.Sum32()%3000)/1000); err != nil {
		return nil, err
	}
	if step == steps {
		return &abi.Response{
			Message:      abi.Message{Role: abi.RoleAssistant, Content: abi.Text("done")},
			FinishReason: abi.FinishStop,
		}, nil
	}
	return &abi.Response{
		Message: abi.Message{
			Role: abi.RoleAssistant,
			ToolCalls: []abi.ToolCall{{
				ID: fmt.Sprint("call_", step), Type: "function", Function: abi.FunctionCall{Name: "charge", Arguments: call},
			}},
		},
		FinishReason: abi.FinishToolCalls,
	}, nil
}
