package agent

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/agent/pump"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/attempts"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
)

// callModel makes the step's model call and appends the response to the messages.
func (r *run) callModel(ctx context.Context) (runlog.Phase, error) {
	s := &r.state
	if s.Messages.Len() == 0 {
		return "", &abi.Error{Code: abi.CodeInvalid, Message: "there are no messages to ask the model with"}
	}
	tools := runlog.ActiveTools(s)
	if s.LastLimit != nil {
		tools = nil
	}
	s.Offered = toolNames(tools)
	m := r.model()
	if len(tools) > 0 && r.choice != nil {
		m.Params = maps.Clone(m.Params)
		if m.Params == nil {
			m.Params = abi.Params{}
		}
		m.Params[paramChoice] = r.choice
	}
	call := chain.ModelCall{
		Request: chain.ModelRequest{Messages: r.request(), Tools: tools, Model: m.Name,
			Params: m.Params, Stream: !r.agent.NoStream && !r.delivered()},
		State:     s.Messages,
		Generate:  r.generate,
		Delivered: r.delivered,
		Allow:     r.allow,
	}
	if call.Request.Stream { // do not send chunks again that the caller received before a pause
		call.Out = r.deliver
	}
	res, source, err := r.chain.CallModel(ctx, call)
	if err != nil {
		return "", failedBy(source, err)
	}
	if len(tools) > 0 {
		r.choice = nil
	}
	answer := res.Message
	s.Finish = res.FinishReason
	answer.ToolCalls = r.uniqueIDs(answer.ToolCalls)
	if answer.ID == "" {
		answer.ID = r.NewID()
	}
	s.Messages = s.Messages.Append(answer)
	return runlog.PhaseDecide, nil
}

// model returns the model and the parameters of the current agent's calls.
func (r *run) model() runlog.Model {
	if m := r.state.Model; m != nil {
		return *m
	}
	return runlog.Model{Name: r.agent.ModelName, Params: r.params()}
}

// request returns the messages of a model request: the instruction and the conversation. In the
// last call before a limit, the last message tells the model to answer now.
func (r *run) request() *message.List {
	s := &r.state
	if r.system == nil && s.Instruction != "" {
		system := abi.System(s.Instruction)
		message.SetLabels(&system, message.JoinLabels(s.InstructionLabels))
		r.system = message.NewList(r.revs, []abi.Message{system})
	}
	request := s.Messages.Prefixed(r.asked, r.system)
	r.asked = request
	if s.LastLimit != nil {
		m := lastCall(s.LastLimit)
		m.ID = r.NewID()
		request = request.Append(m)
	}
	return request
}

// allow returns an error if modules chose a model or a parameter that the agent forbids.
func (r *run) allow(req *chain.ModelRequest) error {
	a := r.agent
	if a.CheckParam != nil {
		params := r.params()
		for _, name := range slices.Sorted(maps.Keys(req.Params)) {
			if own, ok := params[name]; ok && bytes.Equal(own, req.Params[name]) {
				continue
			}
			if err := a.CheckParam(name); err != nil {
				return err
			}
		}
	}
	switch {
	case req.Model == a.ModelName:
		return nil
	case a.Models != nil && !slices.Contains(a.Models, req.Model):
		return fmt.Errorf("model %q is not one of this agent's: %s",
			req.Model, strings.Join(append([]string{a.ModelName}, a.Models...), ", "))
	case a.AllowModel != nil && !a.AllowModel(req.Model):
		return fmt.Errorf("model %q is not one that this agent may ask", req.Model)
	}
	return nil
}

// generate makes the run's own model call inside all rings, and records which tools the call
// offers. It repairs the messages of the request where modules changed them.
func (r *run) generate(ctx context.Context, q chain.ModelRequest, out pipe.Sink) (*abi.Response, error) {
	r.state.Offered = toolNames(q.Tools)
	q.Messages = r.repairRequest(q.Messages)
	return r.ask(ctx, q, out)
}

// ask calls the model for the run or for a module. It counts the call and its usage.
func (r *run) ask(ctx context.Context, q chain.ModelRequest, out pipe.Sink) (*abi.Response, error) {
	if q.Messages.Len() == 0 {
		return nil, &abi.Error{Code: abi.CodeInvalid, Message: "there are no messages to ask the model with"}
	}
	if err := r.countModelCall(); err != nil {
		return nil, err
	}
	req := &model.Request{Model: q.Model, Messages: r.flat.All(q.Messages), Tools: q.Tools, Params: q.Params}
	ctx, end := r.trace(ctx, tracing.Operation{Kind: tracing.OperationModel, Model: q.Model})
	answering := q.Model
	res, err := r.stream(context.WithValue(ctx, attempts.Key{}, r.attempts(&answering)), req, out)
	end(modelOutcome(res, err))
	if err != nil {
		return nil, modelError(err)
	}
	r.addUsage(answering, res.Usage)
	if err := message.CheckJSON(&res.Message); err != nil {
		return nil, &abi.Error{Code: abi.CodeModel, Message: "the message of the model's client: " + err.Error()}
	}
	res.Message = message.Unlabelled(res.Message)
	res.Message.Role, res.Message.Origin, res.Message.ID = abi.RoleAssistant, abi.OriginModel, r.NewID()
	return res, nil
}

// attempts returns a function that receives the failed attempts of one model call that will be
// repeated. The function emits a model_attempt event for each attempt, and sets *answering to the
// model that is called next.
func (r *run) attempts(answering *string) func(model.Attempt) {
	n := 0
	return func(a model.Attempt) {
		n++
		*answering = cmp.Or(a.Next, *answering)
		failed := ending.AsError(modelError(a.Err), abi.CodeModel)
		r.emit(abi.Event{
			Type:    abi.EventModelAttempt,
			Model:   a.Model,
			Attempt: n,
			Error:   failed,
			Next:    a.Next,
			DelayMS: a.Wait.Milliseconds(),
		})
	}
}

// stream calls the model. If out is not nil, it passes the model's chunks to out.
func (r *run) stream(ctx context.Context, req *model.Request, out pipe.Sink) (*abi.Response, error) {
	if out == nil {
		return r.agent.Model.Generate(ctx, req, nil)
	}
	return pump.Run(
		ctx,
		out,
		true,
		"the model's client",
		func(ctx context.Context, put func(abi.Chunk) error) (*abi.Response, error) {
			return r.agent.Model.Generate(ctx, req, put)
		},
	)
}

// failedBy returns a [*ModelError] for err, the error of a model call. source is the module that
// failed the call, which the error's message then names, or "model", "host" or "". failedBy returns
// err unchanged if it ends or pauses the run, or if it contains no [*abi.Error].
func failedBy(source string, err error) error {
	var failed *abi.Error
	if ending.Is(err) || !errors.As(err, &failed) {
		return err
	}
	e := *failed
	if source != "" && source != "model" && source != "host" {
		e.Message = source + ": " + failed.Error()
	}
	return &ModelError{Source: source, Err: &e}
}

// modelError converts a [*model.Error] to the [*abi.Error] that modules see. It returns other
// errors unchanged.
func modelError(err error) error {
	if e, ok := asModelError(err); ok {
		return &abi.Error{
			Code:         e.Code,
			Message:      e.Message,
			Retryable:    e.Retryable,
			Status:       e.Status,
			RetryAfterMS: e.RetryAfter.Milliseconds(),
		}
	}
	return err
}

// deliver sends the chunks that left the outermost ring to the caller, except empty ones. It waits
// while too many events are pending. It locks the state, because a wrapped call can run
// concurrently with its wrapper.
func (r *run) deliver(ctx context.Context, chunks []abi.Chunk, _ bool) error {
	copied := slices.Clone(chunks) // the caller keeps the chunks
	r.mu.Lock()
	r.state.Streamed = slices.Grow(r.state.Streamed, len(chunks))
	r.mu.Unlock()
	for i := range copied {
		c := &copied[i]
		if c.Kind != abi.ChunkPart && c.Text == "" && c.Kind != abi.ChunkToolCall {
			continue
		}
		r.mu.Lock()
		r.state.Streamed = append(r.state.Streamed, *c)
		c.Seq = int64(len(r.state.Streamed))
		r.mu.Unlock()
		r.emit(abi.Event{Type: abi.EventChunk, Chunk: c})
		if err := r.drain(ctx); err != nil {
			return err
		}
	}
	if r.recorder != nil {
		r.recorder.AwaitCaller(ctx)
	}
	return nil
}

// delivered reports whether the caller has received a part of the current answer.
func (r *run) delivered() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.state.Streamed) > 0
}

func toolNames(tools []abi.Tool) []string {
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Name
	}
	return names
}

// uniqueIDs returns the calls with unique IDs. A call whose ID is missing or occurs earlier in the
// list gets a new ID that no call of the conversation has.
func (r *run) uniqueIDs(calls []abi.ToolCall) []abi.ToolCall {
	seen := map[string]bool{}
	out := slices.Clone(calls)
	for i := range out {
		id := out[i].ID
		if made := id == "" || seen[id]; made {
			for n := i + 1; made; n++ {
				id = "call_" + strconv.Itoa(n)
				made = seen[id] || r.called(id)
			}
		}
		seen[id] = true
		out[i].ID = id
	}
	return out
}

// called reports whether a message of the state has a call with the given id.
func (r *run) called(id string) bool {
	for i := range r.state.Messages.Len() {
		if slices.ContainsFunc(r.state.Messages.At(i).ToolCalls, func(c abi.ToolCall) bool { return c.ID == id }) {
			return true
		}
	}
	return false
}
