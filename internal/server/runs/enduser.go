package runs

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/modelfailure"
	"github.com/agent-runner/agent-runner/internal/server/agents"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// allow fails if the caller has the token of an end user that does not allow the run to start. It
// sets the end user and the metadata of the run to those of the token, because modules and tools may
// trust the metadata. Other callers may start any run of their tenant. A repeated call has no effect.
func (r *Service) allow(
	ctx context.Context,
	c *httpapi.Caller,
	ref *agents.Ref,
	in *agent.Input,
	client *Client,
) error {
	k := c.Token
	if k == nil || in.EndUser != (journal.EndUser{}) {
		return nil
	}
	if err := c.RequireAgent(&ref.AgentRef); err != nil {
		return err
	}
	thread := ""
	if client.Turn != nil {
		thread = client.Turn.Thread
	}
	switch {
	case k.Thread != "" && thread == "":
		return httpapi.NewProblem(api.CodeForbidden, "the token is only for runs of its thread; send thread: %s", k.Thread)
	case thread != "":
		if _, err := c.Thread(ctx, thread); err != nil {
			return err
		}
	}
	if len(in.Metadata) > 0 {
		return httpapi.NewProblem(api.CodeForbidden, "a run of a token has the metadata of the token; send none")
	}
	if err := c.RequireInput(in.Messages, thread != ""); err != nil {
		return err
	}
	if k.Metadata != nil {
		if err := json.Unmarshal(k.Metadata, &in.Metadata); err != nil {
			return err
		}
	}
	in.EndUser = c.EndUser()
	return nil
}

// allowAnswers fails if the caller has the token of an end user that does not allow the caller to
// answer the interrupts of a run. Any token may send the results of its own client's tools, in runs
// that a token started.
func allowAnswers(c *httpapi.Caller, info *journal.RunInfo, answers map[string]json.RawMessage) error {
	if c.Token == nil || c.Token.Answers {
		return nil
	}
	for id := range answers {
		own := func(p abi.Pending) bool { return p.ID == id && toolcall.IsClient(p) }
		if info.Token == "" || !slices.ContainsFunc(info.Pending, own) {
			return httpapi.NewProblem(api.CodeForbidden, "the token does not allow to answer interrupt %.80q", id)
		}
	}
	return nil
}

// forCaller returns the fields of a run that the caller may see. The end user of a token does not see the
// version, rollout, costs, fuel, faults, denials, modules, metadata and size of the journal. Unless the
// token may answer interrupts, the end user sees only those of client tools.
func forCaller(c *httpapi.Caller, shown *api.Run) *api.Run {
	if c.Token == nil {
		return shown
	}
	return &api.Run{
		ID:           shown.ID,
		Agent:        shown.Agent,
		Title:        shown.Title,
		Thread:       shown.Thread,
		Subject:      shown.Subject,
		Status:       shown.Status,
		FinishReason: shown.FinishReason,
		Step:         shown.Step,
		Usage:        shown.Usage,
		TookMS:       shown.TookMS,
		LastEvent:    shown.LastEvent,
		Created:      shown.Created,
		Updated:      shown.Updated,
		Interrupts: slices.DeleteFunc(shown.Interrupts, func(i api.Interrupt) bool {
			return !i.Client && !c.Token.Answers
		}),
	}
}

// userEvents are the types of events that end users see.
var userEvents = []abi.EventType{
	abi.EventRunStarted, abi.EventChunk, abi.EventMessage, abi.EventToolCall, abi.EventToolResult,
	abi.EventRunPaused, abi.EventRunResumed, abi.EventRunFinished,
}

// userEvent returns the JSON of an event for end users, or nil if they must not see the event. It
// omits statistics of modules, models, labels, and questions for others.
func userEvent(l *Event, answers bool) []byte {
	if l.data == nil || !slices.Contains(userEvents, l.Type) {
		return nil
	}
	var e abi.Event
	if _, err := abijson.Decode(l.data, &e); err != nil || e.Call != nil && e.Call.By != nil { // a module's own call
		return nil
	}
	b, err := abijson.Marshal(viewOf(&e, answers))
	if err != nil {
		return nil
	}
	return b
}

// viewOf returns the part of an event of a type in userEvents that end users see.
func viewOf(e *abi.Event, answers bool) *abi.Event {
	shown := &abi.Event{
		Type: e.Type, Seq: e.Seq, Run: e.Run, TimeMS: e.TimeMS, Step: e.Step, StepID: e.StepID, Agent: e.Agent,
		Chunk: e.Chunk, Replaced: e.Replaced, FinishReason: e.FinishReason, Usage: e.Usage, ExpiresMS: e.ExpiresMS,
	}
	if e.Message != nil {
		shown.Message = userMessage(e.Message)
	}
	if e.Call != nil {
		shown.Call = &abi.Call{ID: e.Call.ID, Name: e.Call.Name, Arguments: e.Call.Arguments}
	}
	if e.Result != nil {
		shown.Result = &abi.Result{Content: e.Result.Content, IsError: e.Result.IsError}
	}
	shown.Error = userError(e)
	shown.Interrupts = userInterrupts(e.Interrupts, answers)
	return shown
}

// userInterrupts returns the interrupts that end users see: those for their own client, and all
// others if answers is true.
func userInterrupts(list []abi.Pending, answers bool) (shown []abi.Pending) {
	for _, p := range list {
		if answers || toolcall.IsClient(p) {
			shown = append(shown, p)
		}
	}
	return shown
}

// userError returns an event's error without its message, which may name modules, tools and
// endpoints of the tenant. It returns nil if there is no error.
func userError(e *abi.Event) *abi.Error {
	if e.Error == nil {
		return nil
	}
	text, byModel := modelfailure.EndedBy(e)
	if !byModel {
		text = errorText
	}
	return &abi.Error{Code: e.Error.Code, Message: text, Status: e.Error.Status}
}

// Texts in place of the messages of errors, and of the names of modules that stopped a run.
const (
	errorText   = "the agent failed"
	stoppedText = "the agent stopped the run"
)

// userReason returns the reason of a run's end that end users see.
func userReason(e *abi.Event) string {
	if e.StoppedBy == "" {
		return e.Reason
	}
	return cmp.Or(e.Reason, stoppedText)
}

// ForEndUser returns an encoder that shows the caller's part of a run's events to enc. It returns enc
// if the caller has no token of an end user. Sub-agents and custom events stay, because protocols of
// front ends have them.
func ForEndUser(c *httpapi.Caller, enc chain.Encoder) chain.Encoder {
	if c.Token == nil {
		return enc
	}
	return &userEncoder{enc, c.Token.Answers}
}

type userEncoder struct {
	chain.Encoder
	answers bool
}

// Encode implements [chain.Encoder].
func (u *userEncoder) Encode(e abi.Event) []chain.Encoded {
	if shown := protocolEvent(&e, u.answers); shown != nil {
		return u.Encoder.Encode(*shown)
	}
	return nil
}

// protocolEvent returns the part of an event from which the server makes the events of another
// protocol for an end user. It returns nil if the end user must not see the event.
func protocolEvent(e *abi.Event, answers bool) *abi.Event {
	switch {
	case e.Call != nil && e.Call.By != nil: // a module's own call
		return nil
	case slices.Contains(userEvents, e.Type):
		shown := viewOf(e, answers)
		shown.Reason = userReason(e)
		if e.Message != nil { // chunks of its reasoning are in the stream, too
			shown.Message.ReasoningContent = e.Message.ReasoningContent
		}
		return shown
	}
	shown := &abi.Event{
		Type:   e.Type,
		Seq:    e.Seq,
		Run:    e.Run,
		TimeMS: e.TimeMS,
		Step:   e.Step,
		StepID: e.StepID,
		Agent:  e.Agent,
	}
	switch e.Type {
	case abi.EventStepStarted, abi.EventStepFinished:
	case abi.EventCustom:
		shown.Name, shown.Data = e.Name, e.Data
	case abi.EventTransfer:
		shown.From = e.From
	case abi.EventChild:
		if e.Event == nil {
			return nil
		}
		if shown.Event = protocolEvent(e.Event, answers); shown.Event == nil {
			return nil
		}
		if e.Call != nil {
			shown.Call = &abi.Call{ID: e.Call.ID}
		}
	default:
		return nil
	}
	return shown
}

// userMessage returns a message without the fields that are for modules.
func userMessage(m *abi.Message) *abi.Message {
	return &abi.Message{ID: m.ID, Role: m.Role, Content: m.Content, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID}
}

// UserMessage returns the JSON of a message of a thread for end users. It returns nil for a message
// that they must not see, such as an instruction.
func UserMessage(body json.RawMessage) (json.RawMessage, error) {
	var m abi.Message
	if _, err := abijson.Decode(body, &m); err != nil {
		return nil, err
	}
	if !slices.Contains([]string{abi.RoleUser, abi.RoleAssistant, abi.RoleTool}, m.Role) {
		return nil, nil
	}
	return abijson.Marshal(userMessage(&m))
}
