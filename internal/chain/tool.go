package chain

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/exchange"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A ToolCall describes a tool call for the chain to make.
type ToolCall struct {
	Call  abi.Call // the call, whose arguments are a JSON object
	Tool  abi.Tool
	State *message.List
	// Run calls the tool itself, inside all rings and after the gates. It is not called for a tool
	// that an entry added. If it returns an *abi.Interrupt, the run pauses, and Run is called again
	// with the answer as resume. out receives chunks of the result while the tool runs. It is nil
	// if they are not needed before the result.
	Run func(ctx context.Context, call abi.Call, resume *abi.Resume, out pipe.Sink) (*abi.Result, error)
	// Out receives the chunks that leave the outermost ring during the call. It is nil if the call
	// is not streamed. Out does not receive a result that did not arrive in chunks.
	Out pipe.Sink
	// Anew, if not nil, means that the tool itself resumes a call that was running when its process
	// ended. The host then repeats such a call even if the tool is not idempotent. It calls Anew
	// before a new call.
	Anew func()
	// Mark, if not nil, is called before the call of a tool that an entry added, with ended set to
	// false, and after the call, with ended set to true. It is not called for other tools, since
	// Run itself observes their start and end.
	Mark func(ended bool)
}

// mark calls Mark if Mark is not nil.
func (c *ToolCall) mark(ended bool) {
	if c.Mark != nil {
		c.Mark(ended)
	}
}

// A ToolOutcome is the outcome of one tool call.
type ToolOutcome struct {
	Call   abi.Call    // the call as it was executed
	Result *abi.Result // an error result if the call failed
	Source string      // "tool", "host", or the name of the entry that answered or denied
	Labels []string    // labels of the result; if nil, the labels that follow from the source

	held   *local.Hold
	memory *account.Meter // memory of the call and its result; nil if memory is not counted
}

// Release uncounts the memory of the call and its result. A caller that keeps the result must count
// its memory before.
func (o *ToolOutcome) Release() {
	if o.memory != nil {
		o.memory.Release()
	}
}

// CallTool makes a tool call through all rings and gates. The error ends or pauses the run.
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
	x := &exchange.Exchange[abi.Call, abi.CallPatch, abi.Result]{
		Run: r.Run, Kind: k, Delivered: delivered.Load, CallID: call.Call.ID, Tool: call.Call.Name,
		Before: contract.HookBeforeTool, Wrap: contract.HookWrapToolCall, After: contract.HookAfterTool,
		Core: k.core,
	}
	x.Held.Of = r.Account
	rep, h, err := x.Call(ctx, call.Call, out)
	if err != nil {
		x.Held.Release()
		return ToolOutcome{}, err
	}
	o := ToolOutcome{Call: call.Call, Result: rep.Res, Source: rep.Source, Labels: rep.Labels, held: h, memory: &x.Held}
	if o.Call.Arguments = k.executed; k.executed != call.Call.Arguments {
		o.Call.OriginalArguments = call.Call.Arguments
	}
	if rep.Err != nil {
		o.Result = abi.ErrorResult(rep.Err.Error())
	}
	return o, nil
}

var _ exchange.Kind[abi.Call, abi.CallPatch, abi.Result] = (*toolKind)(nil)

type toolKind struct {
	run      *Run
	call     *ToolCall
	executed string // arguments with which the tool was last called
}

// Applies implements [exchange.Kind].
func (k *toolKind) Applies(m *hook.Member, q abi.Call) bool { return m.InToolCall(q.Name) }

// core asks the gates about the exact arguments and then runs the tool. If the arguments are
// invalid or the call is denied, it returns an error result.
func (k *toolKind) core(ctx context.Context, q abi.Call, out pipe.Sink) (exchange.Reply[abi.Result], error) {
	args, err := toolset.ParseArguments(q.Arguments)
	k.executed = args
	if err != nil {
		return exchange.Reply[abi.Result]{
			Res:    toolset.BadArguments(q.Name, q.Arguments, err),
			Source: exchange.SourceHost,
		}, nil
	}
	q.Arguments = args
	for {
		judged, err := k.run.gate(ctx, k.call, q)
		switch {
		case err != nil:
			return exchange.Reply[abi.Result]{}, err
		case judged.denied != nil:
			return exchange.Reply[abi.Result]{Res: judged.denied, Source: judged.by}, nil
		}
		if judged.edit == nil {
			break
		}
		q.Arguments, k.executed = *judged.edit.Approval.Arguments, *judged.edit.Approval.Arguments
		k.run.Record.Approve(q, k.call.Tool.Owner, judged.edit)
	}
	if owner := k.run.find(k.call.Tool.Owner); owner != nil {
		return k.callTool(ctx, owner, q, out)
	}
	return k.runTool(ctx, q, out)
}

// runTool runs one of the agent's own tools, or returns the outcome that an earlier pass recorded.
func (k *toolKind) runTool(ctx context.Context, q abi.Call, sink pipe.Sink) (exchange.Reply[abi.Result], error) {
	rec := k.run.Record
	key := rec.NextKey(exchange.SourceTool, q.ID)
	if known, v, ok := record.LoadAs[abi.Result](rec, key); ok {
		return labelled(exchange.Recorded(known, v, exchange.SourceTool)), nil
	}
	resume, waits := rec.Resume(key)
	if waits != nil {
		return exchange.Reply[abi.Result]{}, &ending.InterruptedError{Pending: *waits}
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
		err = k.run.PersistOwed(ctx)
	} else {
		err = k.run.Persist(ctx, k.call.Anew == nil) // with Anew, the tool's own run persists its effects
	}
	if err != nil {
		return exchange.Reply[abi.Result]{}, err
	}
	toolOut := toolSink{to: sink, call: q}
	res, err := k.call.Run(record.WithKey(ctx, key), q, resume, toolOut.sink())
	if ending := ending.FromContext(ctx); ending != nil {
		return exchange.Reply[abi.Result]{}, ending
	}
	if ending := toolOut.ending.Load(); ending != nil {
		return exchange.Reply[abi.Result]{}, *ending
	}
	if refused, ok := exchange.FailedBy[abi.Result](err); ok {
		rec.Save(key, nil, record.Verdict{Failed: refused.Err})
		return refused, k.run.Persist(ctx, false)
	}
	if err == nil {
		if full := rec.ReserveAnswer("the result of "+q.Name, res); full != nil {
			err = full
		}
	}
	out := exchange.Reply[abi.Result]{Res: res, Source: exchange.SourceTool}
	interrupt, asks := errors.AsType[*abi.Interrupt](err)
	switch {
	case asks && k.run.Settled:
		out.Res, out.Err = nil, &abi.Error{
			Code: abi.CodeTool,
			Message: "it asks for an answer, which cannot be requested here: " +
				safetext.Clip(interrupt.Reason, ending.MaxReason),
		}
		rec.Save(key, nil, record.Verdict{Failed: out.Err})
	case asks:
		rec.SetBegun(key, false) // the interrupted call had no effect, and the call after the answer is a new one
		if err := k.run.Pause(key, abi.Pending{Reason: interrupt.Reason, Payload: interrupt.Payload, Call: &q}); ending.Is(
			err,
		) {
			return exchange.Reply[abi.Result]{}, err
		} else {
			out.Res, out.Err = nil, ending.AsError(err, abi.CodeLimit)
		}
		rec.Save(key, nil, record.Verdict{Failed: out.Err})
	case err != nil:
		out.Res, out.Err = nil, ending.AsError(err, abi.CodeTool)
		rec.Save(key, nil, record.Verdict{Failed: out.Err})
	default:
		rec.Save(key, res, record.Verdict{})
	}
	return labelled(out), k.run.Persist(ctx, false)
}

// labelled returns rep with the labels of its result as labels of the reply.
func labelled(rep exchange.Reply[abi.Result]) exchange.Reply[abi.Result] {
	if rep.Res != nil && rep.Res.Labels != nil {
		res := *rep.Res
		rep.Labels, res.Labels = res.Labels, nil
		rep.Res = &res
	}
	return rep
}

// A toolSink forwards the chunks that a tool sends while it runs.
type toolSink struct {
	to     pipe.Sink
	call   abi.Call
	ending atomic.Pointer[error] // the first error of the sink that ends or pauses the run; the tool could ignore it
}

// sink returns a sink that sets the call ID of chunks and forwards them to s.to. It returns nil if
// s.to is nil.
func (s *toolSink) sink() pipe.Sink {
	if s.to == nil {
		return nil
	}
	return func(ctx context.Context, chunks []abi.Chunk, final bool) error {
		err := s.to(ctx, exchange.WithCallID(s.call, chunks), final)
		if ending.Is(err) {
			s.ending.CompareAndSwap(nil, &err)
		}
		return err
	}
}

// unknown returns the result of a tool that was running when its process ended and that must not be called again. It
// records the result and sends a log event.
func (k *toolKind) unknown(ctx context.Context, key string, q abi.Call) (exchange.Reply[abi.Result], error) {
	res := abi.ErrorResult(
		fmt.Sprintf(
			"The call of %s had begun when the run was cut off. Whether it had an effect is not known: find that out before you call it again.",
			q.Name,
		),
	)
	res.Extra = json.RawMessage(`{"outcome":"unknown"}`)
	k.run.Recording(func() {
		k.run.Send(abi.Event{Type: abi.EventLog, Level: contract.LogLevel(contract.LogWarn), Call: &q,
			Text: fmt.Sprintf(
				"the call %s of %s had begun when the process of the run ended; whether it had an effect is not known, and it was not called again",
				q.ID,
				q.Name,
			)})
		k.run.Record.Save(key, res, record.Verdict{})
	})
	return exchange.Reply[abi.Result]{Res: res, Source: exchange.SourceHost}, k.run.Persist(ctx, false)
}

// toolCall returns the host's side of a call of hook h for tool call q.
func (r *Run) toolCall(m *hook.Member, h abi.Hook, state *message.List, q abi.Call) *hook.Control {
	c := r.Call(m, h, state)
	c.SetTool(&q, "")
	return c
}

// callTool runs the hook call_tool of owner, the entry that added the tool.
func (k *toolKind) callTool(
	ctx context.Context,
	owner *hook.Member,
	q abi.Call,
	sink pipe.Sink,
) (exchange.Reply[abi.Result], error) {
	c := k.run.toolCall(owner, contract.HookCallTool, k.call.State, q)
	k.call.mark(false)
	t := &exchange.Sender{Sink: sink, OfTool: true, Meter: c.Meter()}
	c.TakeSent(func(ctx context.Context, chunks []abi.Chunk) error {
		return t.Send(ctx, exchange.WithCallID(q, chunks))
	})
	var out abi.CallToolAnswer
	v, err := c.Invoke(ctx, &abi.CallToolInput{Call: q}, &out, func() error {
		if out.Result == nil && t.Sent > 0 {
			out.Result = k.Assemble(&abi.Result{}, t.Collected.Chunks())
			c.Weigh(c.Weight() + int64(t.Bytes)) // the recorded answer includes the sent chunks
		}
		if out.Result == nil {
			return fmt.Errorf("answers without a result")
		}
		return message.CheckResult(out.Result)
	})
	if err != nil {
		return exchange.Reply[abi.Result]{}, err
	}
	k.call.mark(true)
	switch {
	case t.Failed != nil:
		return exchange.Reply[abi.Result]{Err: t.Failed.Err, Source: t.Failed.Entry}, nil
	case v.Failed != nil:
		return exchange.Reply[abi.Result]{Err: v.Failed, Source: exchange.SourceTool}, nil
	case v.Faulted:
		return exchange.Reply[abi.Result]{
			Err:    &abi.Error{Code: abi.CodeTool, Message: fmt.Sprintf("tool %q failed", q.Name)},
			Source: exchange.SourceTool,
		}, nil
	}
	labels := message.JoinLabels([]string{message.ToolLabel(q.Name), message.EntryLabel(owner.Name)})
	return exchange.Reply[abi.Result]{Res: out.Result, Source: exchange.SourceTool, Labels: labels}, nil
}

func (k *toolKind) Before(
	ctx context.Context,
	m *hook.Member,
	q abi.Call,
) (abi.Call, *abi.Result, record.Verdict, error) {
	c := k.run.toolCall(m, contract.HookBeforeTool, k.call.State, q)
	var out abi.BeforeToolAnswer
	v, err := c.Invoke(
		ctx,
		&abi.BeforeToolInput{Call: q, Tool: k.call.Tool, Stream: k.call.Out != nil},
		&out,
		func() error {
			return message.CheckResult(out.Result)
		},
	)
	if !v.OK() || err != nil {
		return q, nil, v, err
	}
	if out.Arguments != nil {
		q.Arguments = *out.Arguments
		k.executed = q.Arguments
	}
	return q, out.Result, v, nil
}

func (k *toolKind) Wrap(
	ctx context.Context,
	m *hook.Member,
	q abi.Call,
	w *exchange.Wrapping[abi.Call, abi.CallPatch, abi.Result],
) (*abi.Result, record.Verdict, error) {
	c := k.run.toolCall(m, contract.HookWrapToolCall, k.call.State, q)
	w.Serve(c)
	c.TakeSent(func(ctx context.Context, chunks []abi.Chunk) error {
		return w.Send(ctx, exchange.WithCallID(q, chunks))
	})
	var out abi.WrapToolCallAnswer
	v, err := c.Invoke(
		ctx,
		&abi.WrapToolCallInput{Call: q, Tool: k.call.Tool, Stream: k.call.Out != nil},
		&out,
		func() error {
			if out.Result == nil {
				out.Result = w.SentAnswer(&abi.Result{})
			}
			if err := w.Hold(c); err != nil {
				return err
			}
			return message.CheckResult(out.Result)
		},
	)
	return out.Result, v, err
}

// labelsOf returns labels or, if labels is nil, the labels that follow from the source of a result.
func labelsOf(labels []string, source, tool string) []string {
	if labels != nil {
		return labels
	}
	return message.SourceLabels(source, tool)
}

// Labelled implements [exchange.Kind].
func (k *toolKind) Labelled(res *abi.Result, labels []string) *abi.Result {
	out := *res
	out.Labels = labels
	return &out
}

// End returns the end of a stream whose result is res.
func (k *toolKind) End(res *abi.Result) *contract.StreamEnd {
	out := *res
	return &contract.StreamEnd{Result: &out}
}

func (k *toolKind) After(
	ctx context.Context,
	m *hook.Member,
	q abi.Call,
	rep exchange.Reply[abi.Result],
) (exchange.Reply[abi.Result], *abi.Call, record.Verdict, error) {
	c := k.run.toolCall(m, contract.HookAfterTool, k.call.State, q)
	seen := q
	seen.Arguments, seen.OriginalArguments = k.executed, k.call.Call.Arguments
	in := &abi.AfterToolInput{Call: seen, Tool: k.call.Tool, Error: rep.Err, Source: rep.Source}
	if in.Result = rep.Res; rep.Res != nil && m.ReadsLabels() {
		in.Result = k.Labelled(rep.Res, labelsOf(rep.Labels, rep.Source, q.Name))
	}
	var out abi.AfterToolAnswer
	v, err := c.Invoke(ctx, in, &out, func() error {
		if out.Result != nil && out.Error != nil {
			return fmt.Errorf("returned a result and an error; want one of them")
		}
		return message.CheckResult(out.Result)
	})
	if !v.OK() || err != nil {
		return rep, nil, v, err
	}
	switch {
	case out.Error != nil:
		rep = exchange.Reply[abi.Result]{Err: ending.CleanError(out.Error), Source: m.Name}
	case out.Result != nil:
		if rep.Res == nil || !k.Same(out.Result, rep.Res) {
			rep.Source = m.Name
		}
		rep.Res, rep.Err = out.Result, nil
	}
	if out.Again == nil {
		return rep, nil, v, nil
	}
	if out.Again.Arguments != nil {
		q.Arguments = *out.Again.Arguments
	}
	return rep, &q, v, nil
}

func (k *toolKind) Patch(q abi.Call, p abi.CallPatch, _ *hook.Member) (abi.Call, error) {
	if p.Arguments != nil {
		q.Arguments = *p.Arguments
	}
	return q, nil
}

func (k *toolKind) Chunks(q abi.Call, res *abi.Result) []abi.Chunk {
	return chunkjoin.OfResult(res, q.ID)
}

func (k *toolKind) Assemble(res *abi.Result, pieces []abi.Chunk) *abi.Result {
	var a chunkjoin.Assembly
	a.Add(pieces...)
	out := a.Result(*res)
	return &out
}

// ToolMessages calls tool_messages, from the outside in, and returns the messages of the first hook
// that returns any. They record the result of a call. It returns def if no hook returns messages,
// or if a hook fails or faults before one does.
func (r *Run) ToolMessages(
	ctx context.Context,
	state *message.List,
	tool abi.Tool,
	o ToolOutcome,
	def abi.Message,
) ([]abi.Message, error) {
	for _, m := range r.Inward(contract.HookToolMessages) {
		if !m.InToolCall(tool.Name) {
			continue
		}
		c := r.toolCall(m, contract.HookToolMessages, state, o.Call)
		labels := labelsOf(o.Labels, o.Source, o.Call.Name)
		in := &abi.ToolMessagesInput{Call: o.Call, Tool: tool, Result: *o.Result, Default: m.Show(&def)}
		if m.ReadsLabels() {
			in.Result.Labels = labels
		}
		var out abi.ToolMessagesAnswer
		v, err := c.Invoke(ctx, in, &out, func() error { return r.checkToolMessages(out.Messages, o.Call, m.Name, labels) })
		switch {
		case err != nil:
			return nil, err
		case v.Failed != nil:
			c.LogFailed(v.Failed)
			return []abi.Message{def}, nil
		case v.Faulted:
			return []abi.Message{def}, nil
		case len(out.Messages) > 0:
			return out.Messages, nil
		}
	}
	return []abi.Message{def}, nil
}

// checkToolMessages sets the IDs and origins of messages, and sets labels, the labels of the
// result, as their labels. It returns an error if a message is invalid, or if messages is not nil
// and not exactly one of them answers the call.
func (r *Run) checkToolMessages(messages []abi.Message, call abi.Call, entry string, labels []string) error {
	answers := 0
	for i := range messages {
		m := &messages[i]
		if err := contract.CheckMessage(m); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		if err := message.CheckJSON(m); err != nil {
			return fmt.Errorf("messages[%d]: %w", i, err)
		}
		message.Own(m, labels, entry, r.NewID)
		if m.Role != abi.RoleTool {
			continue
		}
		if m.ToolCallID != call.ID {
			return fmt.Errorf("messages[%d] answers call %q; this is call %q", i, m.ToolCallID, call.ID)
		}
		labels := message.Labels(m)
		m.Name, m.Origin = cmp.Or(m.Name, call.Name), abi.OriginTool
		message.SetLabels(m, labels)
		answers++
	}
	if messages != nil && answers != 1 {
		return fmt.Errorf("%d of the messages answer the call; exactly one must", answers)
	}
	return nil
}

// Same reports whether two results have the same content.
func (k *toolKind) Same(a, b *abi.Result) bool { return message.SameJSON(a, b) }

// Settle marks the writes of a tool call's wrappers for persisting. The caller has recorded the
// outcome of the call, so that the wrappers will not be called again.
func (r *Run) Settle(o *ToolOutcome) {
	r.Locals.Release(o.held)
}
