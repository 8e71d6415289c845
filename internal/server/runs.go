package server

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/store"
)

// runs are tenants' runs of their agents.
type runs struct {
	server *Server
	store  store.Store
	lives  *lives
	fleet  agentSource
	taking sync.Map     // tenants whose runs are being taken over
	vain   sync.Map     // runs that could not be, with since when it is tried
	handed atomic.Int64 // runs that were handed back
}

func newRuns(s *Server, fleet agentSource) *runs {
	return &runs{server: s, store: s.store, lives: newLives(), fleet: fleet}
}

// An agentSource has the agents of tenants, ready to run.
type agentSource interface {
	// open returns a version of an agent, the newest if that is 0. It is given back by
	// release, when its run is over.
	open(ctx context.Context, t *store.Tenant, spec runSpec) (*opened, error)
}

// An opened is an agent that is ready to run.
type opened struct {
	*agent.Agent
	release func()
	memory  int64 // the tenant's quota; 0: it has none
}

// A Run is one as the API shows it.
type Run struct {
	ID           string      `json:"id"`
	Agent        string      `json:"agent"`
	Version      int64       `json:"version,omitempty" doc:"The agent's version."`
	Title        string      `json:"title,omitempty" doc:"The last user message at the start of the run, truncated."`
	Status       string      `json:"status" enum:"queued,running,paused,finished,quarantined" doc:"A paused run waits for answers to its interrupts. A quarantined run is not resumed: it appears to have crashed its server."`
	FinishReason string      `json:"finish_reason,omitempty"`
	Step         int         `json:"step"`
	Usage        Tokens      `json:"usage"`
	Fuel         int64       `json:"fuel" doc:"Fuel that the modules used."`
	JournalBytes int64       `json:"journal_bytes" doc:"Bytes that the run wrote to the journal."`
	Interrupts   []Interrupt `json:"interrupts,omitempty"`
	Output       string      `json:"output,omitempty" doc:"The text of the answer. Only if the run is requested by its id."`
	Error        string      `json:"error,omitempty" doc:"Why the run has no answer."`
	LastEvent    int64       `json:"last_event" doc:"The number of the run's last event."`
	Modules      []RunModule `json:"modules,omitempty"`
	Created      time.Time   `json:"created"`
	Updated      time.Time   `json:"updated"`
}

// Tokens are those that models read and wrote.
type Tokens struct {
	PromptTokens     int64 `json:"prompt_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	TotalTokens      int64 `json:"total_tokens"`
}

// An Interrupt waits for an answer.
type Interrupt struct {
	ID      string          `json:"id" doc:"The id to answer the interrupt with."`
	Agent   string          `json:"agent,omitempty" doc:"The sub-agent that waits. Empty for the agent itself."`
	Entry   string          `json:"entry,omitempty" doc:"The module that asks. Empty for a tool."`
	Hook    string          `json:"hook,omitempty" doc:"The hook that asks. For gate_tool, the answer is approve, deny, or a decision with other arguments."`
	Reason  string          `json:"reason"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Call    *ToolCall       `json:"call,omitempty" doc:"The tool call in question, with its exact arguments."`
	Client  bool            `json:"client,omitempty" doc:"The tool runs in the client. The answer is the tool's result."`
}

// A ToolCall is one that an interrupt is about.
type ToolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments" doc:"JSON, as the model wrote it."`
}

// showInterrupts are interrupts as their tenant is shown them.
func showInterrupts(list []abi.Pending) (out []Interrupt) {
	for _, p := range list {
		i := Interrupt{ID: p.ID, Agent: p.Agent, Entry: p.Entry, Hook: string(p.Hook), Reason: p.Reason, Payload: p.Payload, Client: tool.ByClientIs(p)}
		if p.Call != nil {
			i.Call = &ToolCall{p.Call.ID, p.Call.Name, p.Call.Arguments}
		}
		out = append(out, i)
	}
	return out
}

// A RunModule is a module that a run began with, and goes on with.
type RunModule struct {
	Entry  string `json:"entry"`
	Digest string `json:"digest,omitempty"`
}

// A runSpec is kept with a run: from it the run's agent is found again.
type runSpec struct {
	Agent   string `json:"agent"`
	Version int64  `json:"version"`         // 0: the newest
	Rings   int64  `json:"rings,omitempty"` // the version of the operator's rings; 0: the newest, -1: there were none
}

func specOf(info *journal.RunInfo) (runSpec, error) {
	var s runSpec
	err := json.Unmarshal(info.Spec, &s)
	return s, err
}

// showRun is a run as its tenant is shown it.
func showRun(info *journal.RunInfo) *Run {
	hide := hiddenIn(info.Modules)
	spec, _ := specOf(info) // a run of the command has another
	r := &Run{ID: info.ID, Agent: info.Agent, Version: spec.Version, Title: info.Title, Status: string(info.Status), FinishReason: info.FinishReason,
		Step: info.Step, Usage: Tokens(info.Usage), JournalBytes: info.JournalBytes, Interrupts: showInterrupts(hide.pending(info.Pending)), LastEvent: info.LastSeq, Created: info.Created.UTC(), Updated: info.Updated.UTC()}
	for _, s := range info.Stats {
		if !hide.has(s.Agent, s.Entry) {
			r.Fuel += s.Fuel
		}
	}
	for _, p := range info.Modules {
		if !hide.entries[p.Entry] {
			m := RunModule{Entry: p.Entry}
			if p.Digest != "" {
				m.Digest = digestPrefix + p.Digest
			}
			r.Modules = append(r.Modules, m)
		}
	}
	return r
}

type (
	runPath struct {
		Run string `path:"run" pattern:"^run_[A-Za-z0-9_-]{1,80}$" doc:"The run's id."`
	}
	runOutput    struct{ Body *Run }
	listRunInput struct {
		Agent  string    `query:"agent" maxLength:"63" doc:"Only runs of this agent."`
		Status string    `query:"status" enum:"running,paused,finished,quarantined" doc:"Only runs with this status."`
		Before time.Time `query:"before" deprecated:"true" doc:"Only runs created before this time. Deprecated: use cursor. Pages skip runs created in the same millisecond as the last run of the previous page."`
		Limit  int       `query:"limit" default:"50" minimum:"1" maximum:"500" doc:"Maximum number of runs. A page of large runs has fewer."`
		CursorInput
	}
	listRunOutput struct {
		Body struct {
			Runs []*Run `json:"runs" nullable:"false"`
			ListOutput
		}
	}
)

func (r *runs) routes(s *Server) {
	const tag = "runs"
	s.raw(Route{ID: "create-run", Method: "POST", Path: "/v1/runs", Scope: RunsWrite, Tag: tag, Status: 202, Body: 8 << 20, Input: true,
		Summary: "Start a run, or resume a paused one",
		About:   "Returns the run immediately, or, with Accept: text/event-stream, a stream of its events. With an Idempotency-Key, repeating the request starts no second run."},
		describeStart, r.start)
	route(s, Route{ID: "list-runs", Method: "GET", Path: "/v1/runs", Scope: RunsRead, Tag: tag, Summary: "List runs, newest first", About: aboutLists}, r.list)
	route(s, Route{ID: "get-run", Method: "GET", Path: "/v1/runs/{run}", Scope: RunsRead, Tag: tag, Control: true, Summary: "Show a run"}, r.get)
	s.raw(Route{ID: "run-events", Method: "GET", Path: "/v1/runs/{run}/events", Scope: RunsRead, Tag: tag, Summary: "Get the events of a run",
		About: "With Accept: text/event-stream, returns a stream of the events after Last-Event-ID until the run ends or pauses. Otherwise returns a page of JSON."},
		describeEvents, r.events)
	route(s, Route{ID: "run-history", Method: "GET", Path: "/v1/runs/{run}/history", Scope: RunsRead, Tag: tag,
		Summary: "Get the history of a run", About: "The run's messages, and for each phase the answers and changes of hooks, the decisions of gates and the results of tools."}, r.history)
	route(s, Route{ID: "run-trace", Method: "GET", Path: "/v1/runs/{run}/trace", Scope: RunsRead, Tag: tag, Summary: "Get the timeline of a run",
		About: "The run's hooks, model calls and tool calls as nested spans, with time, fuel and failures. Available once the run has ended or paused."}, r.trace)
	route(s, Route{ID: "cancel-run", Method: "POST", Path: "/v1/runs/{run}/cancel", Scope: RunsWrite, Tag: tag, Control: true, Status: 202, Summary: "Cancel a run",
		About: "An active run ends within a second, and its modules are notified. Custom events and log lines that are not persisted by then are dropped."}, r.cancel)
	route(s, Route{ID: "delete-run", Method: "DELETE", Path: "/v1/runs/{run}", Scope: RunsWrite, Tag: tag, Summary: "Delete a run that has ended or is paused"}, r.delete)
}

func describeEvents(op *huma.Operation, registry huma.Registry) {
	event := registry.Schema(reflect.TypeFor[map[string]any](), true, "Event")
	op.Parameters = append(op.Parameters,
		&huma.Param{Name: "run", In: "path", Required: true, Schema: &huma.Schema{Type: "string", Pattern: "^run_[A-Za-z0-9_-]{1,80}$"}, Description: "The run's id."},
		&huma.Param{Name: "after", In: "query", Schema: &huma.Schema{Type: "integer"}, Description: "Only events after this number, like Last-Event-ID."},
		&huma.Param{Name: "Last-Event-ID", In: "header", Schema: &huma.Schema{Type: "integer"}, Description: "The number of the last event that the client received."})
	op.Responses["200"] = &huma.Response{Description: "The events", Content: map[string]*huma.MediaType{
		"text/event-stream": {Schema: &huma.Schema{Type: "string", Description: "Each event's id is its number, its event is its type, and its data is JSON."}},
		"application/json": {Schema: &huma.Schema{Type: "object", Properties: map[string]*huma.Schema{
			"events": {Type: "array", Items: event}, "more": {Type: "boolean", Description: "Whether more events follow."}}}},
	}}
	op.Responses["204"] = &huma.Response{Description: "The run has ended, and the client has all its events."}
}

// find returns one of a tenant's runs, also one that has not come to the store yet.
func (r *runs) find(ctx context.Context, t *store.Tenant, id string) (*journal.RunInfo, error) {
	info, err := t.Run(ctx, id)
	if l := r.lives.get(t.ID(), id); errors.Is(err, journal.ErrNoRun) && l != nil {
		// Its modules are those that it will have in the store: what is hidden of them
		// is hidden from the first event on.
		return &journal.RunInfo{ID: id, Tenant: t.ID(), Progress: journal.Progress{Status: "queued"}, Modules: l.pins, Created: time.Now(), Updated: time.Now()}, nil
	}
	return info, err
}

func (r *runs) list(ctx context.Context, c *Caller, in *listRunInput) (*listRunOutput, error) {
	page, err := in.page(listRuns, c.Tenant.ID(), in.Limit)
	if err != nil {
		return nil, err
	}
	if !in.Before.IsZero() {
		if page.After != nil {
			return nil, invalidParameter("before", "before and cursor are mutually exclusive; send only the cursor")
		}
		page.After = &store.Position{Created: in.Before}
	}
	infos, next, err := c.Tenant.Runs(ctx, &store.Filter{Agent: in.Agent, Status: journal.Status(in.Status), Page: page})
	if err != nil {
		return nil, err
	}
	out := &listRunOutput{}
	out.Body.Runs = []*Run{}
	out.Body.setNext(listRuns, c.Tenant.ID(), next)
	for i := range infos {
		out.Body.Runs = append(out.Body.Runs, showRun(&infos[i]))
	}
	return out, nil
}

func (r *runs) get(ctx context.Context, c *Caller, in *runPath) (*runOutput, error) {
	info, err := r.find(ctx, c.Tenant, in.Run)
	if err != nil {
		return nil, err
	}
	shown, err := r.whole(ctx, c.Tenant, info)
	return &runOutput{shown}, err
}

// whole is a run with what it came to.
func (r *runs) whole(ctx context.Context, t *store.Tenant, info *journal.RunInfo) (*Run, error) {
	shown := showRun(info)
	if info.Status == journal.StatusQuarantined {
		e, err := r.store.EvidenceOf(ctx, info.ID)
		if e != nil {
			shown.Error = "quarantined: " + e.Reason + "; cancel the run, or ask the operator to release it"
		}
		return shown, err
	}
	if info.Status != journal.StatusFinished {
		return shown, nil
	}
	last, err := t.RunEvents(ctx, info.ID, info.LastSeq-1, 1)
	if err != nil || len(last) == 0 {
		return shown, err
	}
	hide := hiddenIn(info.Modules)
	e := hide.event(&last[0])
	if e.Message != nil {
		shown.Output = e.Message.Content.String()
	}
	switch {
	case e.Error != nil:
		shown.Error = e.Error.Message
	case e.StoppedBy != "":
		shown.Error = "stopped by " + e.StoppedBy + after(": ", e.Reason)
	case e.FinishReason == abi.RunCanceled:
		shown.Error = e.Reason // of one that could not go on
	}
	shown.Output, shown.Error = string(hide.conceal([]byte(shown.Output))), string(hide.conceal([]byte(shown.Error)))
	return shown, nil
}

func after(mark, text string) string {
	if text == "" {
		return ""
	}
	return mark + text
}

func (r *runs) cancel(ctx context.Context, c *Caller, in *runPath) (*runOutput, error) {
	if l := r.lives.get(c.Tenant.ID(), in.Run); l != nil {
		l.cancel(errCanceled)
		info, err := r.find(ctx, c.Tenant, in.Run)
		if err != nil {
			return nil, err
		}
		return &runOutput{showRun(info)}, nil
	}
	info, err := c.Tenant.Run(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	now, err := r.store.Now(ctx) // leases are by its clock, whatever ours says
	if err != nil {
		return nil, err
	}
	if info.Status == journal.StatusRunning && info.LeaseExpires.After(now) {
		err = c.Tenant.CancelRun(ctx, in.Run) // whoever runs it looks
	} else {
		err = r.end(ctx, c.Tenant, info)
	}
	if err != nil {
		return nil, err
	}
	if info, err = c.Tenant.Run(ctx, in.Run); err != nil {
		return nil, err
	}
	return &runOutput{showRun(info)}, nil
}

// errCanceled is why a run ends that its tenant cancels.
var errCanceled = errors.New("its tenant canceled it")

func (r *runs) delete(ctx context.Context, c *Caller, in *runPath) (*struct{}, error) {
	return nil, c.Tenant.DeleteRun(ctx, in.Run)
}

// A RunHistory is what a run did.
type RunHistory struct {
	Input    json.RawMessage `json:"input" doc:"The initial messages, in OpenAI's format."`
	Messages json.RawMessage `json:"messages" doc:"The current conversation."`
	Phases   json.RawMessage `json:"phases" doc:"The recorded steps, by phase. Each step has its entry, its kind, its answer, and its changes to the messages."`
	Answered json.RawMessage `json:"answered" doc:"Answers to interrupts."`
}

type historyOutput struct{ Body *RunHistory }

func (r *runs) history(ctx context.Context, c *Caller, in *runPath) (*historyOutput, error) {
	if _, err := c.Tenant.Run(ctx, in.Run); err != nil {
		return nil, err
	}
	kept, err := r.store.Load(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	h, err := agent.ReadHistory(kept)
	if err != nil {
		return nil, err
	}
	hide := hiddenIn(kept.Modules)
	phases := []agent.PhaseDeeds{}
	for _, p := range h.Phases {
		shown := agent.PhaseDeeds{Phase: p.Phase, Step: p.Step, Deeds: []agent.DeedOf{}}
		for _, d := range p.Deeds {
			if d.Entry == "" || !hide.has(kept.Agent, d.Entry) {
				shown.Deeds = append(shown.Deeds, hide.deed(d))
			}
		}
		phases = append(phases, shown)
	}
	out := &RunHistory{}
	for to, v := range map[*json.RawMessage]any{&out.Input: hide.messages(h.Input), &out.Messages: hide.messages(h.State.Messages.All()), &out.Phases: phases, &out.Answered: append([]agent.Answered{}, h.Answered...)} {
		b, err := abi.Marshal(v)
		if err != nil {
			return nil, err
		}
		*to = hide.conceal(b)
	}
	return &historyOutput{out}, nil
}

// deed is what was done as the tenant is shown it.
func (h *hidden) deed(d agent.DeedOf) agent.DeedOf {
	edits := append([]agent.Edit{}, d.Edits...)
	for i := range edits {
		edits[i].Removed, edits[i].Inserted = h.messages(edits[i].Removed), h.messages(edits[i].Inserted)
	}
	if len(edits) > 0 {
		d.Edits = edits
	}
	return d
}
