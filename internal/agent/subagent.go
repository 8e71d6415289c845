package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/modelfailure"
)

// MaxDepth is the maximum nesting depth of runs that are tools of other runs.
const MaxDepth = 8

// ToolOptions describe an agent as a tool.
type ToolOptions struct {
	Name        string // the default is the agent's name
	Description string // the sub-agent's purpose, for the model
	// Parameters is a JSON Schema of the arguments, which become the sub-agent's user message. By
	// default, the only argument is the string "request", which is the message.
	Parameters json.RawMessage
	// Forward lists the types of the sub-agent's events that the caller of the outer run receives
	// as child events. The default is all types except chunks. The events pass the sub-agent's own
	// chain, but not the chain of the outer run.
	Forward []abi.EventType
}

// Tool returns a tool that runs agent a. Each call is a run with its own chain, run-local values,
// steps and limits, and with the caller's metadata. The usage of the run also counts as usage of
// the outer run. The run is canceled when the call's context is done; Options.ToolTimeout does not
// apply. The run's answer is the call's result. If the run has no answer, the call returns an error
// result.
//
// If the run waits for answers, the outer run waits too. The IDs of the run's interrupts begin with
// the call's ID and a slash there. From the second run of the call on, "#" and the number of the
// run precede the slash.
//
// A journal stores the run together with the outer run. After a crash both are resumed, and their
// completed calls are not repeated. The run is not stored if a middleware's own call started it.
// After a crash, such a call has an unknown outcome and is not repeated.
func Tool(a *Agent, o *ToolOptions) tool.Tool {
	if o == nil {
		o = &ToolOptions{}
	}
	t := &agentTool{agent: a, forward: o.Forward, plain: len(o.Parameters) == 0,
		declaration: abi.Tool{Name: o.Name, Description: o.Description, Parameters: o.Parameters}}
	if t.declaration.Name == "" {
		t.declaration.Name = a.Name
	}
	if t.plain {
		t.declaration.Parameters = json.RawMessage(
			`{"type":"object","properties":{"request":{"type":"string","description":"What is to be done, with all that is needed for it."}},"required":["request"]}`,
		)
	}
	return t
}

// An agentTool is a tool that runs an agent for each call.
type agentTool struct {
	agent       *Agent
	declaration abi.Tool
	plain       bool // the only argument is the string "request"
	forward     []abi.EventType
}

func (t *agentTool) Declaration() abi.Tool { return t.declaration }

// A caller is a run that calls a tool, and the call. The tool receives it in the context.
type caller struct {
	run  *run
	call *runlog.CallState // state of the call; nil if a middleware made it
}

type callerKey struct{}

func withCaller(ctx context.Context, r *run, c *runlog.CallState) context.Context {
	return context.WithValue(ctx, callerKey{}, &caller{r, c})
}

// Call runs the agent. If an earlier pass or process has started a run for the call, Call resumes
// the run or returns its recorded result.
func (t *agentTool) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	from, _ := ctx.Value(callerKey{}).(*caller)
	if from == nil {
		from = &caller{}
	}
	if res, ok, err := from.ended(t.agent); ok {
		res = labelledBy(from.call.Child, call.Name, res)
		from.setChild(nil)
		return res, err
	}
	r, err := t.begin(ctx, from, call)
	if err != nil {
		return nil, err
	}
	var last abi.Event
	var ended error
	for e, err := range stream(ctx, r) {
		last, ended = e.Event, err
		switch {
		case r.recorder != nil && from.run != nil: // the inner journal forwards its events with their changes
			from.run.recorder.AwaitCaller(ctx)
		case from.run != nil:
			from.run.childEvent(&call, e.Event, t.forward)
		}
	}
	var paused *PausedError
	if errors.As(ended, &paused) {
		return nil, from.wait(t.agent, paused)
	}
	from.setChild(nil)
	res, err := result(t.agent, &last, ended)
	return labelledBy(&r.state, call.Name, res), err
}

// labelledBy returns res, the result of a sub-agent, with labels: those of the sub-agent's
// instruction and messages, of the tools that it called, and of its own tool, which is called name.
// s is the state of the sub-agent's run.
func labelledBy(s *runlog.State, name string, res *abi.Result) *abi.Result {
	if res == nil {
		return nil
	}
	labels := []string{message.ToolLabel(name)}
	for used := range s.ToolCalls {
		labels = append(labels, message.ToolLabel(used[strings.LastIndexByte(used, '/')+1:]))
	}
	labels = message.JoinLabels(labels, s.InstructionLabels)
	for i := range s.Messages.Len() {
		m := s.Messages.At(i)
		labels = message.JoinLabels(labels, message.Labels(&m))
	}
	res.Labels = labels
	return res
}

// begin returns the run of a call: the run that the call has started before, or a new one. It
// returns an error if runs would be nested more than MaxDepth deep, if the arguments are invalid,
// or if the earlier run cannot be resumed.
func (t *agentTool) begin(ctx context.Context, from *caller, call abi.Call) (*run, error) {
	depth := 1
	if from.run != nil {
		depth = from.run.depth + 1
	}
	if depth > MaxDepth {
		return nil, &abi.Error{
			Code:    abi.CodeLimit,
			Message: fmt.Sprintf("agent %q is not run: runs can be nested %d deep", t.agent.Name, MaxDepth),
		}
	}
	r, err := from.again(ctx, t.agent)
	if err != nil {
		return nil, err
	}
	if r == nil {
		text, err := t.request(call.Arguments)
		if err != nil {
			return nil, err
		}
		from.count()
		r = newRun(t.agent, from.input(call, text))
	}
	r.parent, r.depth = from.run, depth
	from.journalInside(r, &call, t.forward)
	return r, nil
}

// request returns the user message of the run: the argument "request" or, if the tool has its own
// parameters, all arguments as JSON. It returns an error if "request" is missing or empty.
func (t *agentTool) request(arguments string) (string, error) {
	if !t.plain {
		return arguments, nil
	}
	var in struct {
		Request string `json:"request"`
	}
	if err := json.Unmarshal([]byte(arguments), &in); err != nil || in.Request == "" {
		return "", &abi.Error{Code: abi.CodeInvalid, Message: `want {"request": "what is to be done"}`}
	}
	return in.Request, nil
}

// count adds 1 to the number of runs of the call, which is part of the next run's ID. The number is
// stored together with the run.
func (c *caller) count() {
	if c.call != nil {
		c.call.Runs++
	}
}

// input returns the input of the call's run.
func (c *caller) input(call abi.Call, text string) Input {
	in := Input{Messages: []abi.Message{abi.User(text)}}
	in.Messages[0].Labels = []string{abi.OriginModel} // the caller's model wrote it
	if call.By != nil {
		in.Messages[0].Labels = []string{message.EntryLabel(call.By.Entry)}
	}
	if c.run != nil {
		w := c.run.Where()
		in.RunID = fmt.Sprintf("%s.%d.%s", w.ID, w.Step, idPart(call.ID))
		in.Parent, in.Metadata = w.ID, w.Metadata
	}
	if c.call != nil && c.call.Runs > 1 {
		in.RunID += fmt.Sprintf(".%d", c.call.Runs)
	}
	return in
}

// idPart returns a call's ID as a safe part of a run's ID, of at most 40 bytes. The model may have
// chosen the call's ID. If the ID is cut or changed, the part ends with "." and 16 hexadecimal
// digits of the ID's SHA-256, so that different IDs have different parts.
func idPart(id string) string {
	const limit, digits = 40, 16
	clean := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, id)
	if clean == id && len(id) <= limit {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return clean[:min(len(clean), limit-digits-1)] + "." + hex.EncodeToString(sum[:digits/2])
}

// wait stores the state of the call's paused run, and returns the [*abi.Interrupt] that pauses the
// outer run. A call of a middleware cannot pause the run. For such a call, wait returns an error
// that fails the call.
func (c *caller) wait(a *Agent, paused *PausedError) error {
	if c.call == nil {
		return &abi.Error{
			Code:    abi.CodeTool,
			Message: fmt.Sprintf("agent %q waits for an answer, but its caller cannot ask for one: %s", a.Name, paused),
		}
	}
	c.setChild(paused.State)
	return &abi.Interrupt{Reason: fmt.Sprintf("agent %s: %s", a.Name, paused)}
}

// setChild stores child, the state of the call's waiting run. If child is nil, it removes the
// stored state.
func (c *caller) setChild(child *runlog.State) {
	if c.call == nil || c.call.Child == child {
		return
	}
	if child == nil {
		c.call.Journaled = nil
	}
	c.run.persistChild(c.call, child)
}

// result converts the last event and the error of a run into a tool result. The result is an error
// result if the run failed or has no answer.
func result(a *Agent, last *abi.Event, ended error) (*abi.Result, error) {
	extra, err := abijson.Marshal(map[string]any{"run": last.Run, "agent": a.Name, "finish_reason": last.FinishReason})
	if err != nil {
		return nil, err
	}
	switch {
	case ended != nil:
		why, ok := modelfailure.EndedBy(last) // the text does not contain the model's endpoint
		if !ok {
			why = ended.Error()
		}
		res := abi.ErrorResult(fmt.Sprintf("Agent %s did not produce an answer: %s", a.Name, why))
		res.Extra = extra
		return res, nil
	case last.Message == nil || last.Message.Content.IsNull():
		res := abi.ErrorResult(fmt.Sprintf("Agent %s ended without an answer (%s).", a.Name, last.FinishReason))
		res.Extra = extra
		return res, nil
	}
	return &abi.Result{Content: last.Message.Content, Extra: extra}, nil
}

// childEvent forwards an event of a call's run to the caller of the outer run, if forward has the
// event's type. If forward is nil, it forwards all types except chunks. The observers of the outer
// run do not receive the event, because the inner run has its own observers.
func (r *run) childEvent(call *abi.Call, e abi.Event, forward []abi.EventType) {
	typ, inner := e.Type, e
	if e.Type == abi.EventChild {
		typ, inner = e.Event.Type, *e.Event // the event of a nested run is a child event already
	}
	for _, f := range forward {
		if f == typ {
			r.Send(abi.Event{Type: abi.EventChild, Call: call, Event: &inner})
		}
	}
	if forward == nil && typ != abi.EventChunk {
		r.Send(abi.Event{Type: abi.EventChild, Call: call, Event: &inner})
	}
}

// addUsage adds the usage of a model call to this run and the runs that enclose it.
func (r *run) addUsage(model string, u *abi.Usage) {
	if u == nil {
		return
	}
	for ; r != nil; r = r.parent {
		r.mu.Lock()
		add(&r.state.Usage, u)
		r.state.Models = addModel(r.state.Models, model, u)
		r.mu.Unlock()
	}
}

func add(sum, u *abi.Usage) {
	sum.PromptTokens += u.PromptTokens
	sum.CompletionTokens += u.CompletionTokens
	sum.TotalTokens += u.TotalTokens
}

// addModel adds the usage of a model call to the tokens by model, and returns the map.
func addModel(models map[string]abi.Usage, model string, u *abi.Usage) map[string]abi.Usage {
	if models == nil {
		models = map[string]abi.Usage{}
	}
	_, known := models[model]
	if !known && (len(models) >= journal.MaxModels-1 || len(model) > journal.MaxModelName) {
		model = journal.OtherModels
	}
	sum := models[model]
	add(&sum, u)
	models[model] = sum
	return models
}

// persistChild records the state of the waiting run of call c.
func (r *run) persistChild(c *runlog.CallState, child *runlog.State) {
	r.persistCall(r.indexOf(c), func() { c.Child = child })
}
