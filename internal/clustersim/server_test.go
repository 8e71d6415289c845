package clustersim

import (
	"context"
	"encoding/json"
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
	name    string
	link    *link
	store   store.Store
	runs    *runs.Service
	members *cluster.Members
	history *history
	cutBus  func(bool)

	stop     context.CancelFunc
	draining chan struct{}
	work     sync.WaitGroup
}

// start starts a server with a name that no other server of the simulation has had.
func (c *simulation) start(name string) *server {
	bus, cutBus := c.network.Join()
	s := &server{machine: &machine{}, name: name, history: c.history, cutBus: cutBus, draining: make(chan struct{})}
	s.link = &link{DB: c.db, machine: s.machine, mutate: c.mutate}
	var err error
	if s.store, err = store.New(context.Background(), s.link, nil); err != nil {
		panic(err) // the test has no server yet that could cause it
	}
	log := slog.New(slog.DiscardHandler)
	manager := overload.New(overload.Options{Logger: log})
	list := blocks.NewList(s.store, bus, log)
	guard := quarantine.New(&quarantine.Options{
		Store:      s.store,
		Overload:   manager,
		Logger:     log,
		Owner:      name,
		InProgress: func(tenant, run string) bool { return s.runs.InProgress(tenant, run) },
		Count:      func() int { return s.runs.Count() },
		Waiting:    func() { s.runs.Waiting() },
	})
	s.runs = runs.New(&runs.Options{
		Store:     s.store,
		Agents:    source{s},
		Admission: admission.New(4, time.Now, s.draining),
		Overload:  manager,
		Blocks:    list,
		Logger:    log,
		Now:       s.now,
		Timeouts:  httpapi.DefaultTimeouts(),
		Owner:     name,
		Judge:     func(context.Context, *journal.RunInfo) (bool, error) { return true, nil },
		Draining:  s.draining,
		Hints:     bus,
		Servers:   func() []string { return s.members.Executing() },
		Go:        s.spawn,
	})
	s.members = newMembers(s, bus, log)
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	guard.Begin(ctx)
	for _, watch := range []func(context.Context){
		list.Watch, guard.Watch, s.runs.TakeOver, s.runs.WatchCancels, s.runs.WatchQueues, s.runs.Broadcast, s.members.Watch,
	} {
		s.work.Go(func() { watch(ctx) })
	}
	return s
}

// spawn runs fn on a goroutine that the server's end waits for.
func (s *server) spawn(fn func()) { s.work.Go(fn) }

func newMembers(s *server, bus hints.Bus, log *slog.Logger) *cluster.Members {
	return cluster.New(&cluster.Options{
		Bus:    bus,
		Logger: log,
		Now:    s.now,
		End:    s.store.EndSilent,
		Claim:  func(context.Context) { s.runs.Waiting() },
		Self:   func() cluster.Member { return cluster.Member{Owner: s.name, Node: "machine", Runs: s.runs.Count()} },
	})
}

// end kills the server, and waits until its goroutines have ended.
func (s *server) end() {
	s.cutBus(true)
	s.kill()
	close(s.draining)
	s.stop()
	s.work.Wait()
}

// begin starts a run of a tenant.
func (s *server) begin(tenant, run string) error {
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
		Model: simulatedModel{a.server.machine},
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
	if err := s.machine.work(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	s.history.called(call.Arguments)
	if err := s.machine.work(ctx, 200*time.Millisecond); err != nil {
		return nil, err
	}
	return &abi.Result{Content: abi.Text("charged")}, nil
}

// A simulatedModel calls the tool in each step but the last one. It takes one to four seconds.
type simulatedModel struct{ machine *machine }

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
	call := fmt.Sprintf(`{"run":%q,"step":%d}`, run, step)
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(call))
	if err := m.machine.work(ctx, time.Second+time.Duration(sum.Sum32()%3000)*time.Millisecond); err != nil {
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
