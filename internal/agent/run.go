package agent

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agent/delivery"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A run is the execution of one run of an agent. A journal stores its state. A resumed run
// initializes the other fields again.
type run struct {
	root     *Agent // the agent that the run started with; its limits apply
	agent    *Agent // the current agent
	parent   *run   // the run that called this one as a tool; nil for an outermost run
	depth    int    // number of runs that enclose this one
	chain    *chain.Run
	events   *delivery.Queue
	client   client
	wrong    error        // error in the input, which ends the run
	err      *Error       // why the run failed; set before run_finished is sent
	paused   *PausedError // the interrupts for which the run waits; set before run_paused is sent
	journal  *journal.Options
	thread   *journal.ThreadStart // the thread that the run continues; nil for none
	endUser  journal.EndUser      // the end user for whom the run is
	recorder *recorder            // records the run for the journal; nil without a journal
	crashed  bool                 // the previous process ended without ending or pausing the run
	canceled bool                 // the run was resumed only to cancel it
	lost     error                // why the run cannot continue in this process; set before the queue of events is closed
	memory   memory

	out   sync.Mutex // held while an event is numbered and sent
	mu    sync.Mutex // guards the parts of the state that parallel calls use
	state runlog.State
	ids   map[string]bool // ids of the input messages

	admitted map[*Agent]*Admission
	within   context.Context  // context of the next phase, if it changes
	past     []abi.EntryStats // statistics of agents that transferred the run to another
	parallel int              // maximum number of concurrent tool calls
	// room is Room of the current agent's [Admission]; it may be nil.
	room     func(context.Context, hook.Own) (release func(), err error)
	stepOpen bool
	repaired int64 // the last revision of the messages that repair has examined
	system   *message.List
	asked    *message.List // the last request, before modules changed it
	flat     message.Flat  // cache of the messages of the last model request
	revs     *message.Revisions
	choice   abi.JSON                 // the tool_choice of the next model call with tools; nil for none
	check    func(text string) string // Check of [Requested]; it may be nil
	traced   tracing.Outcome          // outcome for the trace of the run
}

func newRun(a *Agent, in Input) *run {
	id := in.RunID
	if id == "" {
		id = journal.NewRunID()
	}
	a, wrong := a.given(in.Chain)
	if n := message.CountCalls(in.Messages); n > message.MaxAllCalls {
		wrong = &abi.Error{
			Code:    abi.CodeInvalid,
			Message: fmt.Sprintf("input: %d tool calls; at most %d are allowed", n, message.MaxAllCalls),
		}
		in.Messages = nil // otherwise the end of the run would add a result for each call
	}
	if wrong == nil {
		wrong = checkInput(in.Messages)
	}
	r := &run{
		root:    a,
		agent:   a,
		journal: a.Journal,
		endUser: in.EndUser,
		wrong:   wrong,
		events:  delivery.NewQueue(),
		ids:     make(map[string]bool, len(in.Messages)),
		revs:    message.NewRevisions(),
	}
	r.state = runlog.State{
		ID:       id,
		Agent:    a.Name,
		Parent:   in.Parent,
		Metadata: in.Metadata,
		With:     a.with,
		Phase:    runlog.PhaseStart,
		Locals:   local.New(),
		Record:   record.New(),
		Request:  in.RequestDigest,
	}
	if in.Thread != nil && wrong == nil {
		r.thread = in.Thread
		r.state.Base, r.state.Unchanged = in.Thread.Messages, in.Thread.Messages
	}
	r.takeRequest()
	r.equip(a)
	r.state.Messages = message.NewList(r.revs, r.adopt(in.Messages))
	return r
}

// checkInput returns an error if a message of the caller contains invalid raw JSON.
func checkInput(messages []abi.Message) error {
	for i := range messages {
		if err := message.CheckJSON(&messages[i]); err != nil {
			return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("input: messages[%d]: %v", i, err)}
		}
	}
	return nil
}

// adopt returns copies of the caller's messages with IDs, origins and labels. It replaces IDs that
// are missing, duplicate or too long, and records the IDs of the input.
func (r *run) adopt(messages []abi.Message) []abi.Message {
	out := make([]abi.Message, len(messages))
	for i, m := range messages {
		if m.ID != "" && !r.ids[m.ID] && len(m.ID) <= contract.MaxName {
			r.ids[m.ID] = true
		} else {
			m.ID = ""
		}
		if m.Origin == "" {
			m.Origin = originOf(m.Role)
		}
		out[i] = m
	}
	message.AdoptLabels(out)
	r.state.Input = slices.Grow(r.state.Input, len(out))
	for i := range out {
		if out[i].ID == "" {
			out[i].ID = r.NewID()
			r.ids[out[i].ID] = true
		}
		r.state.Input = append(r.state.Input, out[i].ID)
	}
	return out
}

// originOf returns the default origin of a caller's message with the given role.
func originOf(role string) string {
	switch role {
	case abi.RoleAssistant:
		return abi.OriginModel
	case abi.RoleTool:
		return abi.OriginTool
	default:
		return abi.OriginUser
	}
}

// NewID implements [hook.Identity].
func (r *run) NewID() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		r.state.LastID++
		if id := "msg_" + strconv.FormatInt(r.state.LastID, 10); !r.ids[id] {
			return id
		}
	}
}

// Where implements [hook.Host].
func (r *run) Where() abi.Run {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.state
	w := abi.Run{ID: s.ID, Agent: s.Agent, Step: s.Step, StepID: s.StepID, MaxSteps: r.limits().MaxSteps,
		Usage: s.Usage, Metadata: s.Metadata, NowMS: now.UnixMilli(), Parent: s.Parent}
	if !s.Deadline.IsZero() {
		w.DeadlineMS = max(1, s.Deadline.Sub(now).Milliseconds())
	}
	return w
}

// Send implements [hook.Host]. Without a journal, it waits while the caller's queue is full.
func (r *run) Send(e abi.Event) abi.Event {
	r.out.Lock()
	defer r.out.Unlock()
	out := delivery.Event{Event: e}
	r.prepare(&out)
	r.queueEvent(&out, false)
	return out.Event
}

// queueEvent delivers an event. With a journal, it commits the event first. A held event reports a
// change of the state that is recorded later, and is committed together with that change.
func (r *run) queueEvent(e *delivery.Event, held bool) {
	r.memory.Hold(e)
	if r.recorder != nil {
		r.recorder.Send(*e, held)
		return
	}
	r.events.Send(e)
}

// Keep implements [hook.Keeper].
func (r *run) Keep(ctx context.Context, safe bool) error {
	if r.recorder == nil {
		return nil
	}
	return r.recorder.Flush(ctx, safe, nil)
}

// emit sends an event to the caller and the observers.
func (r *run) emit(e abi.Event) {
	r.out.Lock()
	defer r.out.Unlock()
	var out delivery.Event
	out.Event = e
	r.prepare(&out)
	r.chain.Note(&out.Event)
	r.queueEvent(&out, reportsState(e.Type))
}

// reportsState reports whether events of type t report a change of the state before the loop records
// the change at the end of the phase.
func reportsState(t abi.EventType) bool {
	switch t {
	case abi.EventStepStarted, abi.EventMessage, abi.EventToolCall, abi.EventToolResult, abi.EventLimit,
		abi.EventTransfer, abi.EventRepair, abi.EventStepFinished:
		return true
	default:
		return false
	}
}

// stamp makes e an event of the run's current step, without labels and with number seq and the
// current time.
func (r *run) stamp(e *abi.Event, seq int64) {
	message.RemoveLabels(e)
	e.Seq, e.Run, e.TimeMS = seq, r.state.ID, time.Now().UnixMilli()
	e.Step, e.StepID = r.state.Step, r.state.StepID
}

// execute executes the run until it ends, pauses, or cannot continue in this process. It delivers
// the events to r.events, and closes that queue.
func (r *run) execute(ctx context.Context) {
	defer r.events.Close()
	caller := ctx
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r.openMemory(ctx, cancel)
	defer r.closeMemory()
	ctx = account.WithContext(ctx, r.memory.run) // memory of model responses counts as memory of the run
	ctx, closeJournal := r.openJournal(ctx)
	defer closeJournal()
	ctx, refused := r.admit(ctx, r.agent)
	defer r.release()
	if t := r.root.Timeout; t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, t, errTimeout)
		defer cancel()
	}
	if k := r.recorder; k != nil {
		defer context.AfterFunc(ctx, k.Stop)()
	}
	r.state.Deadline, _ = ctx.Deadline()
	ctx, end := r.trace(ctx, tracing.Operation{Kind: tracing.OperationRun, Model: r.agent.ModelName})
	defer func() { end(r.traced) }()
	defer r.client.begin(ctx)()
	err := refused
	if r.wrong != nil {
		err = r.wrong
	}
	if err == nil {
		r.chain, err = r.open(ctx, r.agent)
	}
	if err != nil && r.recorder != nil && r.recorder.Created() {
		r.traced.Err = err
		r.lost = err // another process can resume the run, or this one later
		return
	}
	if err != nil { // no middleware receives events of this run
		r.chain, _ = mustEmpty().Open(ctx, abi.Run{ID: r.state.ID}, r, r.state.Locals)
	}
	defer func() { r.chain.Close() }() // close the current chain, because a transfer replaces the chain
	r.chain.Streams().Store(r.state.Streams)
	if !r.persistBegin(ctx) {
		return
	}
	if r.state.LastSeq == 0 {
		r.emit(abi.Event{Type: abi.EventRunStarted, Agent: r.agent.Name, Model: r.agent.ModelName, Parent: r.state.Parent})
	}
	if err == nil {
		err = r.expired()
	}
	if err == nil && r.state.Phase != runlog.PhaseEnd {
		err = r.loop(ctx)
	}
	if errors.Is(err, journal.ErrReleased) {
		r.lost, r.traced.Err = err, err
		return
	}
	if r.journalFailed() {
		return
	}
	var interrupted *ending.InterruptedError
	if errors.As(err, &interrupted) {
		r.pause(ctx)
		return
	}
	r.finish(caller, ctx, err)
}

// admit waits until agent a may execute its part of the run. It returns the context with which the
// run continues. The error is an [*AdmissionError], or an [*ending.AbortedError] if ctx is done.
func (r *run) admit(ctx context.Context, a *Agent) (context.Context, error) {
	r.parallel, r.room = r.root.Parallel, nil
	if have := r.admitted[a]; have != nil {
		r.parallel, r.room = have.Parallel, have.Room
		return ctx, nil
	}
	if a.Admit == nil {
		return ctx, nil
	}
	within, admission, err := a.Admit(ctx, a.Chain, r.parallel)
	switch {
	case err == nil:
		r.parallel, r.room = admission.Parallel, admission.Room
		if r.admitted == nil {
			r.admitted = map[*Agent]*Admission{}
		}
		r.admitted[a] = admission
		return within, nil
	case ctx.Err() != nil:
		return ctx, &ending.AbortedError{Cause: err}
	default:
		return ctx, &AdmissionError{err}
	}
}

// release releases the run's admissions.
func (r *run) release() {
	for _, a := range r.admitted {
		a.Release()
	}
}

func mustEmpty() *chain.Chain {
	c, _ := chain.New()
	return c
}

// errTimeout is the cause with which the context of a run is canceled after Options.Timeout.
var errTimeout = errors.New("the run's time is up")

// An answer is the error with which a phase ends a run successfully; see [run.loop].
type answer struct {
	reason string
	final  abi.Message
}

// Error implements error. A phase returns an answer as its error to end the loop.
func (a *answer) Error() string { return "finished: " + a.reason }

// loop executes phases until one of them returns an error, which may be an [*answer], or until ctx
// is done. Between phases it also ends the run if the memory is full or the process shuts down. It
// returns a panic as an error.
func (r *run) loop(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &abi.Error{Code: abi.CodeInternal, Message: fmt.Sprintf("the host failed: %v", v)}
		}
	}()
	for {
		if err := r.settle(ctx); err != nil {
			return err
		}
		if cause := context.Cause(ctx); cause != nil {
			return &ending.AbortedError{Cause: cause}
		}
		r.chain.Begin(r.state.Record)
		next, err := r.phase(ctx)
		if err != nil {
			return err
		}
		if r.within != nil {
			ctx, r.within = r.within, nil
		}
		r.state.Phase, r.state.Record = next, record.New()
		r.persistPhase()
		if r.mustRelease() {
			return &journal.Error{Run: r.state.ID, Err: journal.ErrReleased}
		}
		if next == runlog.PhaseModel || next == runlog.PhaseTools || r.chain.Observes() {
			r.observe(ctx) // call the observers before the run waits for the model or tools
		}
	}
}

// phase executes the current phase and returns the next one.
func (r *run) phase(ctx context.Context) (runlog.Phase, error) {
	switch r.state.Phase {
	case runlog.PhaseStart:
		return r.start(ctx)
	case runlog.PhaseStep:
		return r.beginStep(ctx)
	case runlog.PhaseRewrite:
		return r.rewrite(ctx)
	case runlog.PhaseModel:
		return r.callModel(ctx)
	case runlog.PhaseDecide:
		return r.decide(ctx)
	case runlog.PhaseTools:
		return r.callTools(ctx)
	case runlog.PhaseRound:
		return r.endRound(ctx)
	case runlog.PhaseTurn:
		return r.switchAgent(ctx)
	default:
		return "", fmt.Errorf("there is no phase %q", r.state.Phase)
	}
}

// start runs before_agent, and activates all tools that the run then has.
func (r *run) start(ctx context.Context) (runlog.Phase, error) {
	s := &r.state
	m, limits := r.model(), r.limits()
	begun, err := r.chain.BeforeAgent(ctx, chain.Start{
		Instruction: s.Instruction, InstructionLabels: s.InstructionLabels,
		Tools: s.Tools, ReturnDirectly: s.ReturnDirectly, Messages: s.Messages,
		Model: m.Name, Params: m.Params, Limits: limits, MaxSteps: MaxStepsBound,
		Allow: func(model string, params abi.Params) error {
			return r.allow(&chain.ModelRequest{Model: model, Params: params})
		},
	})
	if err != nil {
		return "", err
	}
	if begun.Model != m.Name || !reflect.DeepEqual(begun.Params, m.Params) {
		s.Model = &runlog.Model{Name: begun.Model, Params: begun.Params}
	}
	if !reflect.DeepEqual(begun.Limits, limits) {
		r.mu.Lock()
		s.Limits = &begun.Limits
		r.mu.Unlock()
	}
	s.Instruction, s.ReturnDirectly, s.Respond = begun.Instruction, begun.ReturnDirectly, begun.Respond
	s.InstructionLabels, s.Messages, s.Tools = begun.InstructionLabels, begun.Messages, begun.Tools
	if err := r.checkReturnDirectly(); err != nil {
		return "", err
	}
	s.Active = nil
	for _, t := range s.Tools {
		s.Active = append(s.Active, t.Name)
	}
	return runlog.PhaseStep, nil
}

// checkReturnDirectly returns an error if the agent's ReturnDirectly has an unknown tool. [New]
// cannot check this, because modules may add tools.
func (r *run) checkReturnDirectly() error {
	for _, name := range r.agent.ReturnDirectly {
		if _, ok := runlog.ToolOf(&r.state, name); !ok && r.agent.tools[name] == nil {
			return &abi.Error{Code: abi.CodeInvalid, Message: noReturnDirectly(name, r.state.Tools)}
		}
	}
	return nil
}

func noReturnDirectly(name string, tools []abi.Tool) string {
	if len(tools) == 0 {
		return fmt.Sprintf("return_directly names %q, but the agent has no tools", name)
	}
	return fmt.Sprintf("return_directly names %q, which is no tool of the agent; it has %s",
		name, strings.Join(toolNames(tools), ", "))
}

// beginStep counts a step and emits its event, if the limits allow another step. If before_agent
// answered for the model, its message is the step's response.
func (r *run) beginStep(context.Context) (runlog.Phase, error) {
	s := &r.state
	last := s.LastLimit
	if err := r.mayStep(); err != nil {
		return "", err
	}
	r.mu.Lock()
	s.Step++
	s.StepID = "step_" + strconv.Itoa(s.Step)
	s.Streamed = nil
	r.mu.Unlock()
	r.stepOpen = true
	r.emit(abi.Event{Type: abi.EventStepStarted})
	if s.LastLimit != nil && last == nil {
		r.emitLimit(s.LastLimit, actionLast)
	}
	if s.Respond != nil {
		m := *s.Respond // copy the message, because a journal may still be encoding the original
		m.ID = r.NewID()
		s.Messages, s.Respond = s.Messages.Append(m), nil
		s.Offered = toolNames(runlog.ActiveTools(s))
		return runlog.PhaseDecide, nil
	}
	return runlog.PhaseRewrite, nil
}

// rewrite runs before_model_rewrite_state, and repairs the conversation afterwards.
func (r *run) rewrite(ctx context.Context) (runlog.Phase, error) {
	s := &r.state
	d, err := r.chain.BeforeModelRewriteState(ctx, r.draft())
	if err != nil {
		return "", err
	}
	s.Messages, s.Active = d.Messages, d.Active
	r.repair(wentOn)
	return runlog.PhaseModel, nil
}

// draft returns the messages and active tools that the state hooks of a step can change.
func (r *run) draft() chain.Draft {
	s, m := &r.state, r.model()
	return chain.Draft{
		Messages: s.Messages,
		Tools:    s.Tools,
		Active:   s.Active,
		Model:    m.Name,
		Params:   m.Params,
	}
}

// decide runs after_model_rewrite_state. The last message afterwards determines the next phase.
func (r *run) decide(ctx context.Context) (runlog.Phase, error) {
	s := &r.state
	response, _ := s.Messages.Last()
	cut := s.Finish == abi.FinishLength || s.Finish == abi.FinishFilter
	messages, err := r.chain.AfterModelRewriteState(ctx, r.draft())
	if err != nil {
		var paused *ending.InterruptedError
		if !errors.As(err, &paused) {
			r.emitMessage(response.ID) // the hooks did not change the message in the state
		}
		return "", err
	}
	s.Messages = messages
	last, ok := s.Messages.Last()
	if !ok {
		return "", &abi.Error{Code: abi.CodeInvalid, Message: "after_model_rewrite_state left no messages"}
	}
	r.emitMessage(response.ID)
	switch {
	case last.Role != abi.RoleAssistant:
		r.repair(wentOn)
		r.endStep()
		return runlog.PhaseStep, nil
	case len(last.ToolCalls) > 0:
		s.Calls = nil
		return runlog.PhaseTools, nil
	case !cut && r.asksAgain(&last):
		r.endStep()
		return runlog.PhaseStep, nil
	default:
		return "", &answer{abi.RunStop, last}
	}
}

// newFrom returns the index of the first message of this run, which follows the last input message.
// It returns 0 if the conversation has no input message.
func (r *run) newFrom() int {
	for i := r.state.Messages.Len(); i > 0; i-- {
		if r.ids[r.state.Messages.At(i-1).ID] {
			return i
		}
	}
	return 0
}

// emitMessage emits the event of the step's response: the message with the given ID or, if the
// state has no such message, the last message. It emits an event only for a message of an
// assistant.
func (r *run) emitMessage(id string) {
	s := &r.state
	m, _ := s.Messages.Last()
	for i := s.Messages.Len() - 1; i >= 0; i-- {
		if at := s.Messages.At(i); at.ID == id {
			m = at
			break
		}
	}
	if m.Role == abi.RoleAssistant {
		e := abi.Event{Type: abi.EventMessage, Message: &m, Replaced: s.Streamed != nil && !chain.Says(s.Streamed, &m)}
		if s.Finish == abi.FinishLength || s.Finish == abi.FinishFilter {
			e.FinishReason = s.Finish
		}
		r.emit(e)
	}
	s.Streamed, s.Finish = nil, ""
}

// endStep emits step_finished if a step is open.
func (r *run) endStep() {
	if r.stepOpen {
		r.stepOpen = false
		r.emit(abi.Event{Type: abi.EventStepFinished})
	}
}
