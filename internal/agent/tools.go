package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/pump"
	"github.com/agent-runner/agent-runner/internal/agent/runlog"
	"github.com/agent-runner/agent-runner/internal/agent/safetool"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/suggest"
	"github.com/agent-runner/agent-runner/internal/toolcall"
)

// callTools executes the calls of the last message in parallel, and appends their results to the
// messages in the order of the calls. If a call pauses the run, it appends no results.
func (r *run) callTools(ctx context.Context) (runlog.Phase, error) {
	s := &r.state
	if s.Calls == nil {
		calls := r.round()
		if err := r.allot(calls); err != nil {
			return "", err
		}
		s.Calls = calls
		last, _ := s.Messages.Last()
		s.Rounds = append(s.Rounds, last.ID)
		if r.recorder != nil {
			r.recorder.round()
		}
	}
	err := r.runCalls(ctx)
	var interrupted *ending.InterruptedError
	if errors.As(err, &interrupted) {
		return "", err
	}
	r.recordResults()
	return runlog.PhaseRound, err
}

// recordResults appends the results of the calls in order, and then the other messages of modules,
// because models require all results before other messages.
func (r *run) recordResults() {
	s := &r.state
	var trailing []abi.Message
	for i := range s.Calls {
		c := &s.Calls[i]
		if c.Result == nil {
			continue
		}
		for _, m := range c.Messages {
			m.ID = r.NewID()
			if m.ToolCallID == c.Call.ID {
				s.Messages = s.Messages.Append(m)
				continue
			}
			trailing = append(trailing, m)
		}
	}
	s.Messages = s.Messages.Append(trailing...)
}

// round returns a state for each tool call of the last message.
func (r *run) round() []runlog.CallState {
	s := &r.state
	last, _ := s.Messages.Last()
	var out []runlog.CallState
	for _, c := range last.ToolCalls {
		call := abi.Call{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments}
		if t, ok := runlog.ToolOf(s, call.Name); ok {
			call.Owner, call.Idempotent = t.Owner, t.Idempotent
		}
		out = append(out, runlog.CallState{Call: call})
	}
	return out
}

// endRound runs after_tools and ends the step. It returns the next phase, or the error that ends
// the run: an [*answer] if a tool returns directly, or an error if the model called tools beyond a
// limit.
func (r *run) endRound(ctx context.Context) (runlog.Phase, error) {
	s := &r.state
	calls := make([]abi.Call, len(s.Calls))
	for i := range s.Calls {
		calls[i] = s.Calls[i].Call
	}
	messages, err := r.chain.AfterTools(ctx, s.Messages, calls)
	if err != nil {
		return "", err
	}
	s.Messages = messages
	if final, ok := r.returnsDirectly(); ok {
		return "", &answer{abi.RunReturnDirectly, final}
	}
	if s.CalledPastLimit {
		return "", s.LastLimit
	}
	r.endStep()
	if r.transferTo() != nil {
		return runlog.PhaseTurn, nil // a separate phase, so that a resumed run does not end the step twice
	}
	return runlog.PhaseStep, nil
}

// returnsDirectly returns the message with the result of the last successful call of a tool in
// ReturnDirectly. It reports false if there is none.
func (r *run) returnsDirectly() (abi.Message, bool) {
	for _, c := range slices.Backward(r.state.Calls) {
		if c.Result.IsError || !slices.Contains(r.state.ReturnDirectly, c.Call.Name) {
			continue
		}
		for i := r.state.Messages.Len() - 1; i >= 0; i-- {
			if m := r.state.Messages.At(i); m.ToolCallID == c.Call.ID {
				return m, true
			}
		}
	}
	return abi.Message{}, false
}

// runCalls executes the calls of the round that have no result. A call that has started finishes
// even if another call fails. If the run's memory is full, no further calls are started. runCalls
// returns the first error that ends the run, in the order of the calls. If there is none, it
// returns the last error, in the same order, that pauses the run, or nil.
func (r *run) runCalls(ctx context.Context) error {
	calls := r.state.Calls
	endings := make([]error, len(calls))
	slots := make(chan struct{}, r.parallel)
	var wg sync.WaitGroup
	var full atomic.Bool
	for i := range calls {
		if calls[i].Result != nil {
			continue
		}
		if full.Load() {
			break // there is no memory for the result either
		}
		if !calls[i].Announced {
			r.persistCall(i, func() {
				calls[i].Announced = true
				r.emit(abi.Event{Type: abi.EventToolCall, Call: &calls[i].Call})
			})
		}
		if len(calls) == 1 {
			endings[i] = r.runCall(ctx, &calls[i]) // a new goroutine would first have to grow its stack
			break
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			endings[i] = r.runCall(ctx, &calls[i])
			if _, ok := errors.AsType[*ending.MemoryError](endings[i]); ok {
				full.Store(true)
			}
		})
	}
	wg.Wait()
	var pause error
	for _, err := range endings {
		var interrupted *ending.InterruptedError
		switch {
		case err == nil:
		case errors.As(err, &interrupted):
			pause = err
		default:
			return err
		}
	}
	return pause
}

// runCall executes one call and records its outcome. A call beyond a limit, of an unknown tool or
// with malformed arguments gets an error result, and no hook of tool calls is called.
func (r *run) runCall(ctx context.Context, c *runlog.CallState) error {
	if c.OverLimit != nil {
		return r.record(c, chain.ToolOutcome{Call: c.Call, Result: beyond(c.OverLimit, c.Call.Name), Source: "host"})
	}
	t, ok := runlog.ToolOf(&r.state, c.Call.Name)
	if !ok || !slices.Contains(r.state.Offered, t.Name) {
		return r.record(c, chain.ToolOutcome{Call: c.Call, Result: r.unknownTool(c.Call.Name), Source: "host"})
	}
	args, err := toolset.ParseArguments(c.Call.Arguments)
	if err != nil {
		return r.record(c, chain.ToolOutcome{Call: c.Call, Result: toolset.BadArguments(t.Name, args, err), Source: "host"})
	}
	call := c.Call
	call.Arguments = args
	var streamed atomic.Bool
	outcome, err := r.chain.CallTool(
		ctx,
		chain.ToolCall{Call: call, Tool: t, State: r.state.Messages, Out: r.deliverOf(c, &streamed),
			Run: func(ctx context.Context, call abi.Call, resume *abi.Resume, out pipe.Sink) (*abi.Result, error) {
				c.Started = true
				if resume != nil {
					ctx = toolcall.WithAnswer(ctx, resume.Answer)
				}
				res, err := r.runTool(withCaller(ctx, r, c), call, out)
				c.Ran = context.Cause(ctx) == nil
				return res, err
			},
			Anew: r.restarter(c),
			Mark: func(ended bool) { c.Started, c.Ran = true, ended }},
	)
	c.Streamed = c.Streamed || streamed.Load()
	if err != nil {
		return err
	}
	defer outcome.Release()
	messages, err := r.chain.ToolMessages(ctx, r.state.Messages, t, outcome, toolMessage(outcome))
	if err != nil {
		return err
	}
	return r.record(c, outcome, messages...)
}

// runTool calls one of the agent's tools. The chain calls runTool inside all rings, after the
// gates.
func (r *run) runTool(ctx context.Context, call abi.Call, out pipe.Sink) (*abi.Result, error) {
	t := r.agent.tools[call.Name]
	if t == nil {
		return nil, &abi.Error{Code: abi.CodeNotFound, Message: fmt.Sprintf("tool %q is gone", call.Name)}
	}
	var res *abi.Result
	var err error
	ctx, end := r.trace(ctx, tracing.Operation{Kind: tracing.OperationTool, Call: &call})
	defer func() { end(tracing.Outcome{Err: err, IsError: res != nil && res.IsError}) }()
	if s, ok := t.(*safetool.Tool); ok && s.Streams() && out != nil {
		res, err = pump.Run(
			ctx,
			out,
			false,
			"the tool",
			func(ctx context.Context, put func(abi.Chunk) error) (*abi.Result, error) {
				return s.Stream(ctx, call, toolcall.NewOut(toolcall.Unlimited, toolcall.Unlimited, put))
			},
		)
	} else {
		res, err = t.Call(ctx, call)
	}
	if err == nil && res == nil {
		res = &abi.Result{Content: abi.Text("")}
	}
	if _, inner := t.(*agentTool); !inner && res != nil && res.Labels != nil {
		own := *res
		own.Labels = nil // a tool must not label its results
		res = &own
	}
	return res, err
}

// deliverOf returns a sink that sends the chunks of call c's result to the caller. It returns nil
// if the agent does not stream, or if the caller received chunks of the result before a pause.
func (r *run) deliverOf(c *runlog.CallState, streamed *atomic.Bool) pipe.Sink {
	if r.agent.NoStream || c.Streamed {
		return nil
	}
	seq := int64(0)
	return func(ctx context.Context, chunks []abi.Chunk, _ bool) error {
		for _, chunk := range chunks {
			if chunk.Kind != abi.ChunkPart && chunk.Text == "" {
				continue
			}
			seq++
			streamed.Store(true)
			chunk.Seq, chunk.CallID = seq, c.Call.ID
			r.emit(abi.Event{Type: abi.EventChunk, Chunk: &chunk})
			if err := r.drain(ctx); err != nil {
				return err
			}
		}
		if r.recorder != nil {
			r.recorder.AwaitCaller(ctx)
		}
		return nil
	}
}

// record stores the outcome of a call and sends its tool_result event. If the run's memory is full,
// it returns the error that ends the run.
func (r *run) record(c *runlog.CallState, o chain.ToolOutcome, messages ...abi.Message) error {
	if messages == nil {
		messages = []abi.Message{toolMessage(o)}
	}
	if err := r.memory.state.Add(sizeOfOutcome(&o, messages)); err != nil {
		return ending.FromReservation(err)
	}
	r.persistCall(r.indexOf(c), func() {
		c.Result, c.Source, c.Messages = o.Result, o.Source, messages
		r.emit(abi.Event{Type: abi.EventToolResult, Call: &o.Call, Result: o.Result, Source: o.Source})
		r.chain.Settle(&o)
	})
	return nil
}

// sizeOfOutcome returns the approximate size of a call's outcome in the state, in bytes. It counts
// the result's text once, because the messages usually share the text.
func sizeOfOutcome(o *chain.ToolOutcome, messages []abi.Message) int64 {
	var n int64
	for i := range messages {
		n += size.Message(&messages[i])
	}
	return max(n, size.Result(o.Result))
}

// indexOf returns the index of call c in its round, or -1. It compares only addresses, because
// other calls of the round are in progress.
func (r *run) indexOf(c *runlog.CallState) int {
	for i := range r.state.Calls {
		if &r.state.Calls[i] == c {
			return i
		}
	}
	return -1
}

// toolMessage returns the default message that records a call's outcome.
func toolMessage(o chain.ToolOutcome) abi.Message {
	m := abi.ToolMessage(o.Call.ID, o.Call.Name, o.Result.Content)
	m.Extra, m.Origin = o.Result.Extra, abi.OriginTool
	if o.Source != "tool" && o.Source != "host" {
		m.Origin = abi.OriginModule + o.Source
	}
	labels := o.Labels
	if labels == nil {
		labels = message.SourceLabels(o.Source, o.Call.Name)
	}
	message.SetLabels(&m, labels)
	if m.Content.IsNull() {
		m.Content = abi.Text("")
	}
	return m
}

func (r *run) unknownTool(name string) *abi.Result {
	names := r.state.Offered
	text := fmt.Sprintf("There is no tool %q.", name)
	switch near := suggest.Closest(name, names); {
	case len(near) > 0:
		text += fmt.Sprintf(" Did you mean %s?", strings.Join(near, ", "))
	case len(names) == 0:
		text += " There are no tools at all."
	}
	if len(names) > 0 {
		text += " Available tools: " + strings.Join(names, ", ") + "."
	}
	return abi.ErrorResult(text)
}
