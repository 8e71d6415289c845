package eino

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"
)

// A session is a chain in one run of an Eino agent. Eino does not tell its
// middlewares when a run has failed, so nothing is held from hook to hook but
// plain values: each hook opens the chain, and closes it.
type session struct {
	m     *Middleware
	tools []abi.Tool // that before_agent left
	talk  *conversation

	attaching sync.Mutex

	mu       sync.Mutex
	attached bool
	run      string
	step     int
	usage    abi.Usage
	locals   *local.Values
	open     bool                      // a step is under way, or was when the run paused
	written  bool                      // Eino has what before_model_rewrite_state of this step left
	records  map[string]*record.Record // of this step's phases, and of tool calls that were interrupted
	carried  map[string]*record.Record // of the pass before, which this one goes on from
	streams  int64
	active   []string
	respond  *abi.Message    // before_agent's answer, instead of the model's first
	settled  *schema.Message // the last message, where it differs from what was streamed
}

func newSession(m *Middleware) *session {
	return &session{m: m, run: "run_" + rand.Text(), talk: newConversation(), locals: local.New(), records: map[string]*record.Record{}}
}

// saved is what of a session survives a checkpoint.
type saved struct {
	Run     string                    `json:"run"`
	Open    bool                      `json:"open"`
	Written bool                      `json:"written"`
	Step    int                       `json:"step"`
	Usage   abi.Usage                 `json:"usage"`
	Locals  *local.Values             `json:"locals"`
	Records map[string]*record.Record `json:"records"`
	Streams int64                     `json:"streams"`
}

// A Checkpoint is how a run's session lies in Eino's checkpoints. It is
// encoded only when one is made.
type Checkpoint struct {
	session *session
	saved   saved
}

func init() {
	schema.RegisterName[*Checkpoint]("agent_runner_eino_checkpoint")
	schema.RegisterName[*abi.Pending]("agent_runner_eino_pending") // the info of an interrupt
}

// MarshalJSON writes the session as it is now.
func (c *Checkpoint) MarshalJSON() ([]byte, error) {
	s := c.session
	if s == nil {
		return json.Marshal(c.saved)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(saved{s.run, s.open, s.written, s.step, s.usage, s.locals, s.records, s.streams})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (c *Checkpoint) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &c.saved) }

// GobEncode is MarshalJSON: Eino uses either, one within the other.
func (c *Checkpoint) GobEncode() ([]byte, error) { return c.MarshalJSON() }

// GobDecode is UnmarshalJSON.
func (c *Checkpoint) GobDecode(b []byte) error { return c.UnmarshalJSON(b) }

// attach binds the session to the run's checkpoints, or takes over what a
// resumed run's checkpoint holds.
func (s *session) attach(ctx context.Context) error {
	s.attaching.Lock()
	defer s.attaching.Unlock()
	if s.attached {
		return nil
	}
	key := "agent-runner/" + s.m.name
	value, ok, err := adk.GetRunLocalValue(ctx, key)
	if err != nil {
		return err
	}
	if c, is := value.(*Checkpoint); ok && is {
		s.mu.Lock()
		s.run, s.step, s.usage, s.streams, s.respond = c.saved.Run, c.saved.Step, c.saved.Usage, c.saved.Streams, nil
		s.open, s.written = c.saved.Open, c.saved.Written
		if c.saved.Locals != nil {
			s.locals = c.saved.Locals
		}
		if c.saved.Records != nil {
			s.records = c.saved.Records
		}
		s.mu.Unlock()
	}
	if err := adk.SetRunLocalValue(ctx, key, &Checkpoint{session: s}); err != nil {
		return err
	}
	s.attached = true
	return nil
}

// The phases of a step; a tool call's is its id.
const (
	phaseRound  = "after_tools"
	phaseBefore = "before"
	phaseModel  = "model"
	phaseAfter  = "after"
)

// begin begins a step, or another pass through one that was interrupted. It
// says whether Eino's state has what before_model_rewrite_state left.
func (s *session) begin() (written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.carried = map[string]*record.Record{}
	for _, name := range []string{phaseRound, phaseBefore, phaseModel, phaseAfter} {
		if r := s.records[name]; r != nil && s.open {
			s.carried[name] = r
		}
		delete(s.records, name)
	}
	if !s.open {
		s.step++
		s.open, s.written = true, false
	}
	return s.written
}

// rewritten notes that Eino takes over what before_model_rewrite_state left.
func (s *session) rewritten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
}

// end ends a step.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
}

// record is that of a phase: the one of the pass before, or a new one.
func (s *session) record(name string) *record.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.carried[name]
	delete(s.carried, name)
	if old := s.records[name]; r == nil && old != nil && len(old.Pending()) > 0 {
		r = old
	}
	if r == nil {
		r = record.New()
	}
	s.records[name] = r
	return r
}

// in opens the chain for one call of Eino's.
func (s *session) in(ctx context.Context, do func(ctx context.Context, run *chain.Run) error) error {
	ctx, admission, err := s.m.chain.Reserve(ctx, 1)
	if err != nil {
		return err
	}
	defer admission.Release()
	run, err := s.m.chain.Open(ctx, s.run, &told{s, ctx}, s.locals)
	if err != nil {
		return err
	}
	defer run.Close()
	s.mu.Lock()
	run.Streams().Store(s.streams)
	s.mu.Unlock()
	err = do(ctx, run)
	run.Observe(ctx)
	s.mu.Lock()
	s.streams = max(s.streams, run.Streams().Load())
	s.mu.Unlock()
	return err
}

// phase is in with a record, so that a phase that was interrupted can be gone
// through again without doing anything twice. An interrupt becomes Eino's.
func (s *session) phase(ctx context.Context, name string, do func(ctx context.Context, run *chain.Run) error) error {
	record := s.record(name)
	if pending := record.Pending(); len(pending) > 0 {
		answer, err := resumeAnswer(ctx)
		switch {
		case err != nil:
			return err
		case answer == nil:
			return compose.Interrupt(ctx, &pending[0])
		}
		if err := record.Answer(map[string]json.RawMessage{pending[0].ID: answer}); err != nil {
			return err
		}
	}
	err := s.in(ctx, func(ctx context.Context, run *chain.Run) error {
		run.Begin(record)
		return do(ctx, run)
	})
	var interrupted *ending.InterruptedError
	if errors.As(err, &interrupted) {
		return compose.Interrupt(ctx, &interrupted.Pending)
	}
	return err
}

// truth puts the message that the chain came to in the place of one that was
// put together from what had been streamed, if they differ.
func (s *session) truth(messages []*schema.Message) []*schema.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.settled == nil || len(messages) == 0 {
		return messages
	}
	messages = slices.Clone(messages)
	messages[len(messages)-1] = s.settled
	s.settled = nil
	return messages
}

// activate returns what the model is told of: the tools that are active.
func (s *session) activate(infos []*schema.ToolInfo, active []string) ([]*schema.ToolInfo, error) {
	s.mu.Lock()
	s.active = active
	s.mu.Unlock()
	if slices.Equal(names(infos), active) {
		return infos, nil
	}
	var out []*schema.ToolInfo
	for _, name := range active {
		if i := slices.IndexFunc(infos, func(t *schema.ToolInfo) bool { return t.Name == name }); i >= 0 {
			out = append(out, infos[i])
			continue
		}
		i := slices.IndexFunc(s.tools, func(t abi.Tool) bool { return t.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("agent-runner: there is no tool %q to activate", name)
		}
		info, err := toolInfo(s.tools[i])
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	return out, nil
}

// tool finds a tool of the run, and whether it may be called now.
func (s *session) tool(name string) (t abi.Tool, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = abi.Tool{Name: name, Owner: ownerEino}
	if i := slices.IndexFunc(s.tools, func(t abi.Tool) bool { return t.Name == name }); i >= 0 {
		t = s.tools[i]
	}
	return t, s.active == nil || slices.Contains(s.active, name)
}

// spend adds what a model call used.
func (s *session) spend(u abi.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.PromptTokens += u.PromptTokens
	s.usage.CompletionTokens += u.CompletionTokens
	s.usage.TotalTokens += u.TotalTokens
}

// answered is what before_agent answered instead of the model, once.
func (s *session) answered() *abi.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.respond
	s.respond = nil
	return m
}

// Where says where in the run it is.
func (s *session) Where() abi.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return abi.Run{ID: s.run, Agent: "eino", Step: s.step, Usage: s.usage, NowMS: time.Now().UnixMilli()}
}

// Send sends an event to whom the middleware was told to.
func (s *session) Send(e abi.Event) abi.Event { return s.send(context.Background(), e) }

func (s *session) send(ctx context.Context, e abi.Event) abi.Event {
	at := s.Where()
	e.Run, e.Step, e.TimeMS = at.ID, at.Step, at.NowMS
	if s.m.onEvent != nil {
		s.m.onEvent(ctx, e)
	}
	return e
}

// told is the chain's host while one call of Eino's lasts.
type told struct {
	s   *session
	ctx context.Context
}

// Where says where in the run it is, and how much time is left.
func (t *told) Where() abi.Run {
	at := t.s.Where()
	if deadline, ok := t.ctx.Deadline(); ok {
		at.DeadlineMS = max(1, time.Until(deadline).Milliseconds())
	}
	return at
}

// NewID returns an id for a message, or for an interrupt.
func (t *told) NewID() string { return "msg_" + rand.Text() }

// Send sends an event.
func (t *told) Send(e abi.Event) abi.Event { return t.s.send(t.ctx, e) }
