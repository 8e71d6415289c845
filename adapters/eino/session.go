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

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/schema"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/module"
)

// A session holds the state of a chain in one run of an Eino agent. Eino does not notify middlewares
// of a failed run. Each hook therefore opens and closes the chain, and a session holds only plain
// values between hooks.
type session struct {
	m     *middleware
	tools []abi.Tool // tools of the run, after before_agent
	talk  *conversation

	attaching sync.Mutex

	mu       sync.Mutex
	attached bool
	run      string
	step     int
	usage    abi.Usage
	locals   *local.Values
	open     bool                      // a step is in progress, or was when the run paused
	written  bool                      // Eino has the result of this step's before_model_rewrite_state
	records  map[string]*record.Record // the records of this step's phases and of interrupted tool calls
	carried  map[string]*record.Record // records of the interrupted pass that this one continues
	streams  int64
	active   []string
	respond  *abi.Message    // before_agent's message, in place of the first model response
	settled  *schema.Message // the last message, if it differs from the streamed one
}

func newSession(m *middleware) *session {
	return &session{
		m:       m,
		run:     "run_" + rand.Text(),
		talk:    newConversation(),
		locals:  local.New(),
		records: map[string]*record.Record{},
	}
}

// saved is the part of a session that a checkpoint stores.
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

// A checkpoint stores a session in Eino's checkpoints. Eino encodes it only when it writes a
// checkpoint.
type checkpoint struct {
	session *session
	saved   saved
}

func init() {
	schema.RegisterName[*checkpoint]("agent_runner_eino_checkpoint")
	schema.RegisterName[*abi.Pending]("agent_runner_eino_pending") // the info of an interrupt
}

// MarshalJSON encodes the current state of the session. A decoded checkpoint has no session; for
// it, MarshalJSON encodes the saved state.
func (c *checkpoint) MarshalJSON() ([]byte, error) {
	s := c.session
	if s == nil {
		return json.Marshal(c.saved)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(saved{s.run, s.open, s.written, s.step, s.usage, s.locals, s.records, s.streams})
}

// UnmarshalJSON decodes the output of MarshalJSON.
func (c *checkpoint) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &c.saved) }

// GobEncode calls MarshalJSON. Eino uses both encodings, one inside the other.
func (c *checkpoint) GobEncode() ([]byte, error) { return c.MarshalJSON() }

// GobDecode calls UnmarshalJSON.
func (c *checkpoint) GobDecode(b []byte) error { return c.UnmarshalJSON(b) }

// attach registers the session for the run's checkpoints. In a resumed run, it first restores the
// session from the checkpoint. After a successful call, further calls do nothing.
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
	if c, is := value.(*checkpoint); ok && is {
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
	if err := adk.SetRunLocalValue(ctx, key, &checkpoint{session: s}); err != nil {
		return err
	}
	s.attached = true
	return nil
}

// The phases of a step. The phase of a tool call is "tool/" followed by the call's ID.
const (
	phaseRound  = "after_tools"
	phaseBefore = "before"
	phaseModel  = "model"
	phaseAfter  = "after"
)

// begin starts a step, or continues an interrupted one. It reports whether Eino's state contains
// the result of before_model_rewrite_state.
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

// rewritten records that Eino has the result of before_model_rewrite_state.
func (s *session) rewritten() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written = true
}

// end marks the step as complete, so that the next call of begin starts another one.
func (s *session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = false
}

// record returns the record of a phase: the record of the interrupted pass, or a new one.
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

// in opens the chain for one call by Eino and calls the function do with it. It then passes the
// recorded events to the chain's observers and closes the chain.
func (s *session) in(ctx context.Context, do func(ctx context.Context, run *chain.Run) error) error {
	ctx, reservation, err := s.m.loader.Reserve(ctx, module.PlacedIn(s.m.chain.Entries()), 1)
	if err != nil {
		return err
	}
	defer reservation.Release()
	run, err := s.m.chain.Open(ctx, s.Where(), &eventHost{s, ctx}, s.locals)
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

// phase calls [session.in] with a record of the phase, so that an interrupted phase can be repeated
// without repeating its effects. It converts interrupts to Eino's. If the phase was interrupted and
// the caller has not answered the interrupt, phase interrupts again without calling do.
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
		if err := record.Answer(map[string]json.RawMessage{pending[0].ID: answer}, ""); err != nil {
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

// truth returns messages with the chain's final message in place of the last message, which Eino
// assembled from the stream. If the two messages are equal, it returns messages unchanged.
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

// activate stores the names of the active tools and returns the tools' descriptions for the model.
// It fails if a name belongs to no tool of the run.
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

// tool returns the tool with the given name, and whether it may be called now. A name that
// before_agent did not list belongs to a tool of the Eino agent.
func (s *session) tool(name string) (t abi.Tool, active bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t = abi.Tool{Name: name, Owner: ownerEino}
	if i := slices.IndexFunc(s.tools, func(t abi.Tool) bool { return t.Name == name }); i >= 0 {
		t = s.tools[i]
	}
	return t, s.active == nil || slices.Contains(s.active, name)
}

// spend adds the tokens of a model call to the run's usage.
func (s *session) spend(u abi.Usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usage.PromptTokens += u.PromptTokens
	s.usage.CompletionTokens += u.CompletionTokens
	s.usage.TotalTokens += u.TotalTokens
}

// answered returns before_agent's message, which replaces the first model response, on the first
// call. It returns nil on further calls, or if there is no such message.
func (s *session) answered() *abi.Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.respond
	s.respond = nil
	return m
}

// Where returns the run's ID, step and token usage, and the current time.
func (s *session) Where() abi.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	return abi.Run{ID: s.run, Agent: "eino", Step: s.step, Usage: s.usage, NowMS: time.Now().UnixMilli()}
}

// Send adds the run's ID, step and time to an event, passes it to OnEvent, if set, and returns it.
func (s *session) Send(e abi.Event) abi.Event { return s.send(context.Background(), e) }

func (s *session) send(ctx context.Context, e abi.Event) abi.Event {
	at := s.Where()
	e.Run, e.Step, e.TimeMS = at.ID, at.Step, at.NowMS
	if s.m.onEvent != nil {
		s.m.onEvent(ctx, e)
	}
	return e
}

// eventHost implements the chain's host during one call by Eino.
type eventHost struct {
	s   *session
	ctx context.Context
}

// Where returns the run's position and its remaining time.
func (t *eventHost) Where() abi.Run {
	at := t.s.Where()
	if deadline, ok := t.ctx.Deadline(); ok {
		at.DeadlineMS = max(1, time.Until(deadline).Milliseconds())
	}
	return at
}

// NewID returns an id for a message or an interrupt.
func (t *eventHost) NewID() string { return "msg_" + rand.Text() }

// Send sends an event as the session does, with the context of Eino's call.
func (t *eventHost) Send(e abi.Event) abi.Event { return t.s.send(t.ctx, e) }
