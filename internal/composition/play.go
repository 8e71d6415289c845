package composition

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/model/scripted"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/inproc"
	"github.com/agent-runner/agent-runner/internal/composition/puppet"
)

// A stage configures how a composition runs.
type stage struct {
	// puppet returns the middleware of an entry. If nil, puppets run in this process.
	puppet func(*Entry) (hook.Middleware, error)
	// journal stores the run. If nil, the run is not journaled.
	journal *journal.Options
	// parallel is the number of concurrent tool calls. If 0, calls are sequential.
	parallel int
	// client enables the translation of events for a client.
	client bool
}

// seen is the observations of a run.
type seen struct {
	mu     sync.Mutex
	events []abi.Event
	sent   []delivery.Event // events sent to the client; empty without a client
	// observed lists the numbers of the events that an observer received.
	observed []int64
	asked    []string
	ran      []string
	state    []abi.Message
	child    *seen // observations of the kid's runs; nil if the composition has no kid
	pauses   int
	breaks   bool // whether a fault occurs within a stream, where its position is unspecified
	// questions lists the interrupts of the run, each once.
	questions []abi.Pending
	onHook    func() // called at the start of each hook, if not nil
}

// maxPauses is a limit of the number of pauses, above the number of pauses of any run.
const maxPauses = 200

// play runs a composition as on configures the host, approves every interrupt, and returns the
// observations.
func play(ctx context.Context, c *Composition, on *stage) (*seen, error) {
	s := &seen{}
	a, err := s.agent(c, on, rootName)
	if err != nil {
		return nil, err
	}
	if on.client {
		return s, s.runFor(ctx, c, a, "run", func() chain.Encoder { return asPlain{} })
	}
	return s, s.run(ctx, c, a, "run")
}

// run runs the agent once without a client and records the observations in s.
func (s *seen) run(ctx context.Context, c *Composition, a *agent.Agent, id string) error {
	return s.runFor(ctx, c, a, id, func() chain.Encoder { return nil })
}

// runFor runs the agent once, approves every interrupt, and records the observations in s. encoder
// returns an encoder for the run's client, or nil if there is no client.
func (s *seen) runFor(
	ctx context.Context,
	c *Composition,
	a *agent.Agent,
	id string,
	encoder func() chain.Encoder,
) error {
	events := a.RunFor(ctx, agent.Input{Messages: []abi.Message{abi.User(question)}, RunID: id}, encoder())
	waiting, answered := map[string]bool{}, map[string]bool{}
	for {
		var paused *agent.PausedError
		for e, err := range events {
			s.events = append(s.events, e.Event)
			if e.Encoded != nil || e.Event.Type == abi.EventCustom {
				s.sent = append(s.sent, e)
			}
			if err != nil && !errors.As(err, &paused) && e.Event.Type != abi.EventRunFinished {
				return err
			}
		}
		if paused == nil {
			return nil
		}
		if s.pauses++; s.pauses > maxPauses {
			return fmt.Errorf("the run paused %d times", s.pauses)
		}
		for _, q := range paused.Interrupts {
			if answered[q.ID] {
				return fmt.Errorf("the run asks %s, as which it has asked something before", q.ID)
			}
			if !waiting[q.ID] {
				waiting[q.ID] = true
				s.questions = append(s.questions, q)
			}
		}
		answers := approvals(paused.Interrupts, c.some(puppet.Stop, puppet.Fault))
		for id := range answers {
			delete(waiting, id)
			answered[id] = true
		}
		var err error
		if events, err = resume(ctx, a, paused, answers, encoder()); err != nil {
			return err
		}
	}
}

// reset removes the observations of a run, so that s can observe another one.
func (s *seen) reset() {
	s.observed = nil
	s.sent, s.events, s.asked, s.ran, s.state, s.pauses, s.questions = nil, nil, nil, nil, nil, 0, nil
	if s.child != nil {
		s.child.reset()
	}
}

// switchedOff reports whether a circuit breaker opened, which the prediction does not model.
func (s *seen) switchedOff() bool {
	return slices.ContainsFunc(s.events, func(e abi.Event) bool {
		if e.Event != nil { // an event of the sub-agent
			e = *e.Event
		}
		return e.Type == abi.EventFault && e.Stage == string(ending.StageBreaker)
	})
}

// resume resumes a paused run with a state that was encoded as JSON and decoded again.
func resume(
	ctx context.Context,
	a *agent.Agent,
	p *agent.PausedError,
	answers map[string]json.RawMessage,
	enc chain.Encoder,
) (iter.Seq2[delivery.Event, error], error) {
	b, err := json.Marshal(p.State)
	if err != nil {
		return nil, err
	}
	var state runlog.State
	if err := json.Unmarshal(b, &state); err != nil {
		return nil, err
	}
	return a.ResumeFor(ctx, &state, answers, enc)
}

// approvals returns answers that approve all questions if all is true, and only the last question
// otherwise.
func approvals(questions []abi.Pending, all bool) map[string]json.RawMessage {
	if !all {
		questions = questions[len(questions)-1:]
	}
	answers := map[string]json.RawMessage{}
	for _, q := range questions {
		answers[q.ID] = json.RawMessage("true")
	}
	return answers
}

// agent builds the agent of a composition, which records its runs in s. The agent's chain begins
// with the middleware that watch returns.
func (s *seen) agent(c *Composition, on *stage, name string) (*agent.Agent, error) {
	entries := []hook.Entry{{Name: "watch", Ring: hook.Outer, Middleware: s.watch()}}
	for i := range c.Entries {
		e := &c.Entries[i]
		var m hook.Middleware = native{e, s.onHook}
		if on.puppet != nil {
			var err error
			if m, err = on.puppet(e); err != nil {
				return nil, err
			}
		}
		entry := hook.Entry{
			Name:       e.Name,
			Ring:       hook.Ring(e.Ring),
			Hooks:      slices.AppendSeq([]abi.Hook{}, maps.Keys(e.Hooks)),
			Middleware: m,
		}
		if e.Skip {
			entry.OnFault = hook.Skip
		}
		entries = append(entries, entry)
	}
	if on.client {
		for _, t := range c.translators() {
			entries = append(entries, t.entry())
		}
	}
	ch, err := chain.New(entries...)
	if err != nil {
		return nil, err
	}
	tools := s.tools()
	if c.Kid != nil {
		s.child = &seen{onHook: s.onHook}
		inside := *on
		inside.journal, inside.client = nil, false
		child, err := s.child.agent(c.Kid, &inside, childName)
		if err != nil {
			return nil, err
		}
		tools = append(
			tools,
			agent.Tool(child, &agent.ToolOptions{Name: childTool, Parameters: json.RawMessage(`{"type":"object"}`)}),
		)
	}
	a, err := agent.New(&agent.Options{
		Name:           name,
		Model:          scripted.Func(func(_ int, q *model.Request) scripted.Reply { return s.reply(c, q) }),
		ModelName:      "scripted",
		Instruction:    instruction,
		Tools:          tools,
		ReturnDirectly: c.Direct,
		MaxSteps:       c.MaxSteps,
		Parallel:       max(1, on.parallel),
		NoStream:       !c.Stream,
		Journal:        on.journal,
		Limits:         c.Limits.limits(),
		Chain:          ch.With(hook.Options{ContinueOnError: c.ContinueOnError, ContinueOnResponse: c.ContinueOnResponse}),
	})
	if err != nil || c.Peer == nil {
		return a, err
	}
	peer, err := s.agent(c.Peer, on, peerName)
	if err != nil {
		return nil, err
	}
	return a, errors.Join(a.AllowTransfer(peer), peer.AllowTransfer(a))
}

func (l Limits) limits() agent.Limits {
	out := agent.Limits{
		ModelCalls:  l.ModelCalls,
		ToolCalls:   l.ToolCalls,
		OnLimit:     agent.OnLimit(l.On),
		OnToolLimit: agent.OnLimit(l.OnTool),
	}
	if l.Plain > 0 {
		out.Tools = map[string]int{plainTool: l.Plain}
	}
	return out
}

// watch returns a middleware that records the observed events and the final messages. The
// middleware also passes the number of the step to the model as a parameter.
func (s *seen) watch() *inproc.Middleware {
	return &inproc.Middleware{
		BeforeModel: func(_ context.Context, c *hook.Call, _ *abi.BeforeModelInput) (*abi.BeforeModelAnswer, error) {
			step := json.RawMessage(strconv.Itoa(c.Where().Step))
			return &abi.BeforeModelAnswer{Request: abi.RequestPatch{Params: abi.Params{"step": step}}}, nil
		},
		AfterAgent: func(_ context.Context, c *hook.Call, _ *abi.AfterAgentInput) (*abi.AfterAgentAnswer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.state = c.List(abi.ListState).All()
			return nil, nil
		},
		Observe: func(_ context.Context, _ *hook.Call, in *abi.ObserveInput) (*abi.ObserveAnswer, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			for i := range in.Events {
				s.observed = append(s.observed, in.Events[i].Seq)
			}
			return nil, nil
		},
	}
}

// reply returns the model's reply to request q, and records q.
func (s *seen) reply(c *Composition, q *model.Request) scripted.Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, len(q.Tools))
	for i := range q.Tools {
		names[i] = q.Tools[i].Name
	}
	s.asked = append(s.asked, asked(names, q.Messages))
	step, err := strconv.Atoi(string(q.Params["step"]))
	if err != nil {
		return scripted.Reply{Err: err}
	}
	r := c.reply(step)
	if r.Fails {
		return scripted.Reply{Err: &model.Error{Code: abi.CodeModel, Message: modelFails}}
	}
	m := abi.Assistant(said(r, len(q.Messages)))
	for i, call := range r.Calls {
		m.ToolCalls = append(m.ToolCalls, abi.NewToolCall(callID(step, i), call.Tool, call.Arguments))
	}
	out := scripted.Message(m)
	out.Size = 2
	return out
}

// tools returns the host's own tools, which record their calls in s.
func (s *seen) tools() []tool.Tool {
	note := func(c abi.Call) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ran = append(s.ran, shownCall(&c))
	}
	function := func(name string, fn func(abi.Call) (*abi.Result, error)) tool.Tool {
		return tool.Func(abi.Tool{Name: name, Idempotent: true}, func(_ context.Context, c abi.Call) (*abi.Result, error) {
			note(c)
			return fn(c)
		})
	}
	return []tool.Tool{
		function(plainTool, func(c abi.Call) (*abi.Result, error) { return abi.TextResult(c.Name + c.Arguments), nil }),
		tool.StreamFunc(
			abi.Tool{Name: piecesTool, Idempotent: true},
			func(_ context.Context, c abi.Call, out *tool.Out) (*abi.Result, error) {
				note(c)
				for piece := range slices.Chunk([]byte(c.Name+c.Arguments), 3) {
					if err := out.Text(string(piece)); err != nil {
						return nil, err
					}
				}
				return nil, nil
			},
		),
		function(failsTool, func(abi.Call) (*abi.Result, error) { return nil, errors.New(toolFails) }),
		function(errorsTool, func(c abi.Call) (*abi.Result, error) { return abi.ErrorResult(c.Name + c.Arguments), nil }),
	}
}
