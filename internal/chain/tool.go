package chain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/chunk"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/chunks"
)

// A ToolCall is everything about one call of a tool.
type ToolCall struct {
	Call  abi.Call // with arguments that parse
	Tool  abi.Tool
	State *message.List
	// Run calls the tool itself: inside all rings, after the gates. It is
	// not called for tools that an entry owns. An *abi.Interrupt pauses the
	// run; resume is then what it was answered with. out takes what the tool says
	// while it runs; nil if nobody wants it before the result.
	Run func(ctx context.Context, call abi.Call, resume *abi.Resume, out chunk.Sink) (*abi.Result, error)
	// Out takes what leaves the outermost ring while the call is made, if it is
	// streamed. A result that came as a whole is not among it.
	Out chunk.Sink
	// Anew, if there is one, says that the tool goes on by itself with a call that had
	// begun when its process ended: such a call is made again, whether the tool is
	// idempotent or not. Anew is called before one that begins.
	Anew func()
	// Mark, if there is one, is told that a tool which an entry owns is
	// called, and then that it came to its end: what Run sees of the others.
	Mark func(ended bool)
}

func (c *ToolCall) mark(ended bool) {
	if c.Mark != nil {
		c.Mark(ended)
	}
}

// A ToolOutcome is what came of one call of a tool.
type ToolOutcome struct {
	Call   abi.Call    // as it was executed
	Result *abi.Result // an error result where the call failed
	Source string      // "tool", "host", or the entry that answered or denied

	held   *local.Hold
	memory *account.Meter // nil: nothing is counted
}

// Release returns what was counted of the call. Whoever keeps the result counts it first.
func (o *ToolOutcome) Release() {
	if o.memory != nil {
		o.memory.Release()
	}
}

// CallTool makes a tool call through all rings and gates. The error is an
// ending.
func (r *Run) CallTool(ctx context.Context, call ToolCall) (ToolOutcome, error) {
	k := &toolKind{run: r, call: &call, executed: call.Call.Arguments}
	var delivered atomic.Bool
	out := call.Out
	if out != nil {
		out = func(ctx context.Context, chunks []abi.Chunk, final bool) error {
			if len(chunks) > 0 {
				delivered.Store(true)
			}
			return call.Out(ctx, chunks, final)
		}
	}
	x := &exchange[abi.Call, abi.CallPatch, abi.Result]{
		run: r, kind: k, delivered: delivered.Load, callID: call.Call.ID,
		before: abi.HookBeforeTool, wrap: abi.HookWrapToolCall, after: abi.HookAfterTool,
		core: k.core,
	}
	x.held.Of = r.account
	rep, h, err := x.call(ctx, call.Call, out)
	if err != nil {
		x.held.Release()
		return ToolOutcome{}, err
	}
	o := ToolOutcome{Call: call.Call, Result: rep.res, Source: rep.source, held: h, memory: &x.held}
	if o.Call.Arguments = k.executed; k.executed != call.Call.Arguments {
		o.Call.OriginalArguments = call.Call.Arguments
	}
	if rep.err != nil {
		o.Result = abi.ErrorResult(rep.err.Error())
	}
	return o, nil
}

var _ kind[abi.Call, abi.CallPatch, abi.Result] = (*toolKind)(nil)

type toolKind struct {
	run      *Run
	call     *ToolCall
	executed string // the arguments of the last execution
}

// core judges the exact arguments at every gate, then runs the tool.
func (k *toolKind) core(ctx context.Context, q abi.Call, out chunk.Sink) (reply[abi.Result], error) {
	args, err := toolset.ParseArguments(q.Arguments)
	k.executed = args
	if err != nil {
		return reply[abi.Result]{res: toolset.BadArguments(q.Name, q.Arguments, err), source: sourceHost}, nil
	}
	q.Arguments = args
	for {
		judged, err := k.run.gate(ctx, k.call, q)
		switch {
		case err != nil:
			return reply[abi.Result]{}, err
		case judged.denied != nil:
			return reply[abi.Result]{res: judged.denied, source: judged.by}, nil
		}
		if judged.edited == nil {
			break
		}
		q.Arguments, k.executed = *judged.edited, *judged.edited
		k.run.record.Approve(q, k.call.Tool.Owner)
	}
	if owner := k.run.find(k.call.Tool.Owner); owner != nil {
		return k.callTool(ctx, owner, q, out)
	}
	return k.runTool(ctx, q, out)
}

// runTool runs one of the agent's own tools, unless it has run already.
func (k *toolKind) runTool(ctx context.Context, q abi.Call, sink chunk.Sink) (reply[abi.Result], error) {
	rec := k.run.record
	key := rec.NextKey(sourceTool, q.ID)
	if known, v, ok := record.LoadAs[abi.Result](rec, key); ok {
		return recordedReply(known, v, sourceTool), nil
	}
	resume, waits := rec.Resume(key)
	if waits != nil {
		return reply[abi.Result]{}, &ending.InterruptedError{Pending: *waits}
	}
	switch begun := rec.Begun(key); {
	case begun && !q.Idempotent && k.call.Anew == nil:
		return k.unknown(ctx, key, q)
	case !begun && resume == nil && k.call.Anew != nil:
		k.call.Anew()
	}
	rec.SetBegun(key, true)
	var err error
	if q.Idempotent {
		err = k.run.keepOwed(ctx)
	} else {
		err = k.run.keep(ctx, k.call.Anew == nil) // a run of its own keeps what it does itself
	}
	if err != nil {
		return reply[abi.Result]{}, err
	}
	said := saying{to: sink, call: q}
	res, err := k.call.Run(ctx, q, resume, said.sink())
	if ending := ending.FromContext(ctx); ending != nil {
		return reply[abi.Result]{}, ending
	}
	if ending := said.ending.Load(); ending != nil {
		return reply[abi.Result]{}, *ending
	}
	if refused, ok := failedBy[abi.Result](err); ok {
		rec.Save(key, nil, record.Verdict{Failed: refused.err})
		return refused, k.run.keep(ctx, false)
	}
	if err == nil {
		if full := rec.ReserveAnswer("the result of "+q.Name, res); full != nil {
			err = full
		}
	}
	out := reply[abi.Result]{res: res, source: sourceTool}
	interrupt, asks := errors.AsType[*abi.Interrupt](err)
	switch {
	case asks && k.run.settled:
		out.res, out.err = nil, &abi.Error{Code: abi.CodeTool, Message: "it asks, and nobody can be asked here: " + safetext.Clip(interrupt.Reason, ending.MaxReason)}
		rec.Save(key, nil, record.Verdict{Failed: out.err})
	case asks:
		rec.SetBegun(key, false) // the next call of it is the one that counts
		if err := k.run.wait(key, abi.Pending{Reason: interrupt.Reason, Payload: interrupt.Payload, Call: &q}); ending.Is(err) {
			return reply[abi.Result]{}, err
		} else {
			out.res, out.err = nil, ending.AsError(err, abi.CodeLimit)
		}
		rec.Save(key, nil, record.Verdict{Failed: out.err})
	case err != nil:
		out.res, out.err = nil, ending.AsError(err, abi.CodeTool)
		rec.Save(key, nil, record.Verdict{Failed: out.err})
	default:
		rec.Save(key, res, record.Verdict{})
	}
	return out, k.run.keep(ctx, false)
}

// A saying is what a tool says of its result while it runs.
type saying struct {
	to     chunk.Sink
	call   abi.Call
	ending atomic.Pointer[error] // that a hook met which got it: the run's, whatever the tool makes of it
}

// sink takes the pieces, and says which call they are of; nil if nobody wants them.
func (s *saying) sink() chunk.Sink {
	if s.to == nil {
		return nil
	}
	return func(ctx context.Context, chunks []abi.Chunk, final bool) error {
		err := s.to(ctx, chunk.WithCallID(s.call, chunks), final)
		if ending.Is(err) {
			s.ending.CompareAndSwap(nil, &err)
		}
		return err
	}
}

// unknown is the result of a tool that was called by a process which is gone,
// and must not be called twice.
func (k *toolKind) unknown(ctx context.Context, key string, q abi.Call) (reply[abi.Result], error) {
	res := abi.ErrorResult(fmt.Sprintf("The call of %s had begun when the run was cut off. Whether it had an effect is not known: find that out before you call it again.", q.Name))
	res.Extra = json.RawMessage(`{"outcome":"unknown"}`)
	k.run.keeping.RLock()
	k.run.send(abi.Event{Type: abi.EventLog, Level: abi.LogLevel(abi.LogWarn), Call: &q,
		Text: fmt.Sprintf("the call %s of %s had begun when the process of the run ended; whether it had an effect is not known, and it was not called again", q.ID, q.Name)})
	k.run.record.Save(key, res, record.Verdict{})
	k.run.keeping.RUnlock()
	return reply[abi.Result]{res: res, source: sourceHost}, k.run.keep(ctx, false)
}

// toolCall makes the host's side of a hook call that is about a tool call.
func (r *Run) toolCall(m *member, h abi.Hook, state *message.List, q abi.Call) *Call {
	c := r.call(m, h, state)
	c.scope, c.tool = q.ID, &q
	return c
}

// callTool runs a tool in the module that added it.
func (k *toolKind) callTool(ctx context.Context, owner *member, q abi.Call, sink chunk.Sink) (reply[abi.Result], error) {
	c := k.run.toolCall(owner, abi.HookCallTool, k.call.State, q)
	k.call.mark(false)
	t := &telling{sink: sink, ofTool: true, held: &c.held}
	c.hand = func(ctx context.Context, chunks []abi.Chunk) error { return t.send(ctx, chunk.WithCallID(q, chunks)) }
	var out abi.CallToolAnswer
	v, err := k.run.invoke(ctx, c, &abi.CallToolInput{Call: q}, &out, func() error {
		if out.Result == nil && t.sent > 0 {
			out.Result = k.assemble(&abi.Result{}, t.said.Chunks())
			c.weight += int64(t.bytes) // which the call holds no more
		}
		if out.Result == nil {
			return fmt.Errorf("answers without a result")
		}
		return message.CheckResult(out.Result)
	})
	if err != nil {
		return reply[abi.Result]{}, err
	}
	k.call.mark(true)
	switch {
	case t.failed != nil:
		return reply[abi.Result]{err: t.failed.Err, source: t.failed.Entry}, nil
	case v.Failed != nil:
		return reply[abi.Result]{err: v.Failed, source: sourceTool}, nil
	case v.Faulted:
		return reply[abi.Result]{err: &abi.Error{Code: abi.CodeTool, Message: fmt.Sprintf("tool %q failed", q.Name)}, source: sourceTool}, nil
	}
	return reply[abi.Result]{res: out.Result, source: sourceTool}, nil
}

func (k *toolKind) callBefore(ctx context.Context, m *member, q abi.Call) (abi.Call, *abi.Result, record.Verdict, error) {
	c := k.run.toolCall(m, abi.HookBeforeTool, k.call.State, q)
	var out abi.BeforeToolAnswer
	v, err := k.run.invoke(ctx, c, &abi.BeforeToolInput{Call: q, Tool: k.call.Tool, Stream: k.call.Out != nil}, &out, func() error {
		return message.CheckResult(out.Result)
	})
	if !v.OK() || err != nil {
		return q, nil, v, err
	}
	if out.Arguments != nil {
		q.Arguments = *out.Arguments
		k.executed = q.Arguments
	}
	return q, out.Result, v, nil
}

func (k *toolKind) callWrap(ctx context.Context, m *member, q abi.Call, w *wrapping[abi.Call, abi.CallPatch, abi.Result]) (*abi.Result, record.Verdict, error) {
	c := k.run.toolCall(m, abi.HookWrapToolCall, k.call.State, q)
	w.serve(c)
	c.hand = func(ctx context.Context, chunks []abi.Chunk) error {
		return w.tell.send(ctx, chunk.WithCallID(q, chunks))
	}
	var out abi.WrapToolCallAnswer
	v, err := k.run.invoke(ctx, c, &abi.WrapToolCallInput{Call: q, Tool: k.call.Tool, Stream: k.call.Out != nil}, &out, func() error {
		if out.Result == nil {
			out.Result = w.said(&abi.Result{})
		}
		if err := w.hold(c); err != nil {
			return err
		}
		return message.CheckResult(out.Result)
	})
	return out.Result, v, err
}

// end is a result as the end of a stream.
func (k *toolKind) end(res *abi.Result) *abi.StreamEnd {
	out := *res
	return &abi.StreamEnd{Result: &out}
}

func (k *toolKind) callAfter(ctx context.Context, m *member, q abi.Call, rep reply[abi.Result]) (reply[abi.Result], *abi.Call, record.Verdict, error) {
	c := k.run.toolCall(m, abi.HookAfterTool, k.call.State, q)
	seen := q
	seen.Arguments, seen.OriginalArguments = k.executed, k.call.Call.Arguments
	in := &abi.AfterToolInput{Call: seen, Tool: k.call.Tool, Error: rep.err, Source: rep.source}
	if rep.res != nil {
		res := *rep.res
		in.Result = &res
	}
	var out abi.AfterToolAnswer
	v, err := k.run.invoke(ctx, c, in, &out, func() error {
		if out.Result != nil && out.Error != nil {
			return fmt.Errorf("answers with a result and an error; want one of them")
		}
		return message.CheckResult(out.Result)
	})
	if !v.OK() || err != nil {
		return rep, nil, v, err
	}
	switch {
	case out.Error != nil:
		rep = reply[abi.Result]{err: ending.CleanError(out.Error), source: m.Name}
	case out.Result != nil:
		if rep.res == nil || !k.same(out.Result, rep.res) {
			rep.source = m.Name
		}
		rep.res, rep.err = out.Result, nil
	}
	if out.Again == nil {
		return rep, nil, v, nil
	}
	if out.Again.Arguments != nil {
		q.Arguments = *out.Again.Arguments
	}
	return rep, &q, v, nil
}

func (k *toolKind) patch(q abi.Call, p abi.CallPatch, _ *member) (abi.Call, error) {
	if p.Arguments != nil {
		q.Arguments = *p.Arguments
	}
	return q, nil
}

func (k *toolKind) chunks(q abi.Call, res *abi.Result) []abi.Chunk { return res.Chunks(q.ID) }

func (k *toolKind) assemble(res *abi.Result, pieces []abi.Chunk) *abi.Result {
	var a chunks.Assembly
	a.Add(pieces...)
	out := a.Result(*res)
	return &out
}

// ToolMessages asks tool_messages, from outside in, how to record a result;
// the first answer wins. def is what is recorded without one.
func (r *Run) ToolMessages(ctx context.Context, state *message.List, tool abi.Tool, o ToolOutcome, def abi.Message) ([]abi.Message, error) {
	for _, m := range r.inward(abi.HookToolMessages) {
		c := r.toolCall(m, abi.HookToolMessages, state, o.Call)
		in := &abi.ToolMessagesInput{Call: o.Call, Tool: tool, Result: *o.Result, Default: def}
		var out abi.ToolMessagesAnswer
		v, err := r.invoke(ctx, c, in, &out, func() error { return r.checkToolMessages(out.Messages, o.Call, m.Name) })
		switch {
		case err != nil:
			return nil, err
		case v.Failed != nil:
			r.logFailed(c, v.Failed)
			return []abi.Message{def}, nil
		case v.Faulted:
			return []abi.Message{def}, nil
		case len(out.Messages) > 0:
			return out.Messages, nil
		}
	}
	return []abi.Message{def}, nil
}

func (r *Run) checkToolMessages(messages []abi.Message, call abi.Call, entry string) error {
	answers := 0
	for i := range messages {
		m := &messages[i]
		if err := m.Check(); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		message.Own(m, nil, entry, r.newID)
		if m.Role != abi.RoleTool {
			continue
		}
		if m.ToolCallID != call.ID {
			return fmt.Errorf("messages[%d] answers call %q; this is call %q", i, m.ToolCallID, call.ID)
		}
		m.Name, m.Origin = either(m.Name, call.Name), abi.OriginTool
		answers++
	}
	if messages != nil && answers != 1 {
		return fmt.Errorf("%d of the messages answer the call; exactly one must", answers)
	}
	return nil
}
