package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/host/tool"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
)

// MaxDepth is how deeply runs may stand in one another: a run that is a tool of
// a run, and so on.
const MaxDepth = 8

// ToolOptions say how an agent looks as a tool.
type ToolOptions struct {
	Name        string // the agent's when empty
	Description string // what it is for: the model chooses by it
	// Parameters are a JSON Schema of the arguments, which the agent then gets as
	// its user's message, as they are. Empty: one text, request, which is the message.
	Parameters json.RawMessage
	// Forward are the events of the agent's run that the caller of the run
	// around it gets too, as child events; nil: all but chunks. Whatever is
	// forwarded has passed the agent's own chain, and not that of the run around it.
	Forward []abi.EventType
}

// Tool makes an agent a tool of another. A call of it is a run of its own: with
// its own chain, run-local values, steps and limits, its parent set, and the
// caller's metadata. What it uses counts as the parent's as well, it ends when
// the call's context does, and Options.ToolTimeout does not bound it. Its answer
// is the call's result; a run that comes to none is an error result.
//
// Where it waits for an answer, so does the run around it: under the
// interrupts' ids, with the call's id and a slash before them; of a second run of the
// call, the id, #2 and a slash.
//
// A journal keeps it with the run around it, which goes on elsewhere after a crash:
// this one then goes on too, where it was, and does nothing twice. It is not so
// where a middleware calls the agent of its own: nobody knows then what came of a
// call that had begun, and it is not made again.
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
		t.declaration.Parameters = json.RawMessage(`{"type":"object","properties":{"request":{"type":"string","description":"What is to be done, with all that is needed for it."}},"required":["request"]}`)
	}
	return t
}

// An agentTool is an agent as a tool.
type agentTool struct {
	agent       *Agent
	declaration abi.Tool
	plain       bool // the arguments are one text
	forward     []abi.EventType
}

func (t *agentTool) Declaration() abi.Tool { return t.declaration }

// A caller is the run in which a tool is called.
type caller struct {
	run  *run
	call *runlog.CallState // nil where it is no call of the conversation
}

type callerKey struct{}

func withCaller(ctx context.Context, r *run, c *runlog.CallState) context.Context {
	return context.WithValue(ctx, callerKey{}, &caller{r, c})
}

// Call runs the agent, or goes on with a run of it that was waiting.
func (t *agentTool) Call(ctx context.Context, call abi.Call) (*abi.Result, error) {
	from, _ := ctx.Value(callerKey{}).(*caller)
	if from == nil {
		from = &caller{}
	}
	if res, ok, err := from.ended(t.agent); ok {
		from.keep(nil)
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
		case r.recorder != nil && from.run != nil: // they are told of together with what they tell of
			from.run.recorder.AwaitCaller(ctx)
		case from.run != nil:
			from.run.childEvent(&call, e.Event, t.forward)
		}
	}
	var paused *PausedError
	if errors.As(ended, &paused) {
		return nil, from.wait(t.agent, paused)
	}
	from.keep(nil)
	return result(t.agent, &last, ended)
}

// begin is the run of a call.
func (t *agentTool) begin(ctx context.Context, from *caller, call abi.Call) (*run, error) {
	depth := 1
	if from.run != nil {
		depth = from.run.depth + 1
	}
	if depth > MaxDepth {
		return nil, &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("agent %q is not run: runs may stand %d deep in one another", t.agent.Name, MaxDepth)}
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
	from.keptInside(r, &call, t.forward)
	return r, nil
}

// request is what the agent is asked.
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

// count counts a run that the call makes: no two of them have the same id. That is
// kept together with the run.
func (c *caller) count() {
	if c.call != nil {
		c.call.Runs++
	}
}

// input is what a run begins with that a call makes.
func (c *caller) input(call abi.Call, text string) Input {
	in := Input{Messages: []abi.Message{abi.User(text)}}
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

// idPart is a call's id as a part of a run's: the model may have chosen it.
func idPart(id string) string {
	const most = 40
	clean := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			return c
		}
		return '_'
	}, id)
	return clean[:min(len(clean), most)]
}

// wait pauses the run of the call as well.
func (c *caller) wait(a *Agent, paused *PausedError) error {
	if c.call == nil {
		return &abi.Error{Code: abi.CodeTool, Message: fmt.Sprintf("agent %q waits for an answer, and nobody can be asked where it was called: %s", a.Name, paused)}
	}
	c.keep(paused.State)
	return &abi.Interrupt{Reason: fmt.Sprintf("agent %s: %s", a.Name, paused)}
}

// keep notes the state of a run that waits, with the call that made it.
func (c *caller) keep(child *runlog.State) {
	if c.call == nil || c.call.Child == child {
		return
	}
	if child == nil {
		c.call.Journaled = nil
	}
	c.run.keepChild(c.call, child)
}

// result is what a run's end is to the model that made it.
func result(a *Agent, last *abi.Event, ended error) (*abi.Result, error) {
	extra, err := abijson.Marshal(map[string]any{"run": last.Run, "agent": a.Name, "finish_reason": last.FinishReason})
	if err != nil {
		return nil, err
	}
	switch {
	case ended != nil:
		why, ok := model.EndedBy(last) // whoever is shown the result is not shown the endpoint
		if !ok {
			why = ended.Error()
		}
		res := abi.ErrorResult(fmt.Sprintf("Agent %s came to no answer: %s", a.Name, why))
		res.Extra = extra
		return res, nil
	case last.Message == nil || last.Message.Content.IsNull():
		res := abi.ErrorResult(fmt.Sprintf("Agent %s ended without an answer (%s).", a.Name, last.FinishReason))
		res.Extra = extra
		return res, nil
	}
	return &abi.Result{Content: last.Message.Content, Extra: extra}, nil
}

// childEvent tells the caller of what happened in a run that a call made. The
// run's observers are not told: the child has its own.
func (r *run) childEvent(call *abi.Call, e abi.Event, forward []abi.EventType) {
	typ, inner := e.Type, e
	if e.Type == abi.EventChild {
		typ, inner = e.Event.Type, *e.Event // as deep as it may have been
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

// addUsage counts what a model call used, in this run and those around it.
func (r *run) addUsage(u *abi.Usage) {
	for ; r != nil; r = r.parent {
		r.mu.Lock()
		r.state.Usage.Add(u)
		r.mu.Unlock()
	}
}

// keepChild notes the state of a run that waits with the call that made it.
func (r *run) keepChild(c *runlog.CallState, child *runlog.State) {
	r.keepCall(r.indexOf(c), func() { c.Child = child })
}
