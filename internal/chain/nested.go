package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/exchange"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A Nester is a Host whose middlewares may call the model and tools for themselves. Its methods are
// called concurrently while hooks run.
type Nester interface {
	// OwnModel returns the start of a middleware's model call: the agent's model and parameters, an
	// empty list of messages, the run's state, Generate and Allow.
	OwnModel() ModelCall
	// OwnTool returns a call of the agent's tool called name, with Tool, State and Run. The error
	// is an [*abi.Error] with the code [abi.CodeNotFound] if the agent does not have the tool, or
	// [abi.CodeDenied] if the tool is not active.
	OwnTool(name string) (ToolCall, error)
	// CountTool counts a tool call before the call is made. A call that a repeated pass makes again
	// counts once. The error is an [*abi.Error] with the code [abi.CodeLimit], or ends the run.
	CountTool(name string) error
	// Room reserves the resources for the hooks of a call that a middleware makes for itself. of is
	// the kind of the call. The caller calls release after the call. Room must not wait, because
	// the middleware holds resources that others may wait for. The error is an [*abi.Error] with
	// the code [abi.CodeUnavailable] or [abi.CodeLimit].
	Room(ctx context.Context, of hook.Own) (release func(), err error)
}

// NestedModel makes a model call for c's middleware; see [hook.Call.Model].
func (r *Run) NestedModel(ctx context.Context, c *hook.Control, req abi.RequestPatch) (*abi.Response, error) {
	host := r.Host.(Nester)
	call := host.OwnModel()
	call.Out, call.Delivered = nil, func() bool { return false }
	if err := r.ownRequest(&call, &req, c.Entry()); err != nil {
		return nil, ending.AsError(err, abi.CodeInvalid)
	}
	if call.Allow != nil {
		if err := call.Allow(&call.Request); err != nil {
			return nil, &abi.Error{Code: abi.CodeDenied, Message: "model: " + err.Error()}
		}
	}
	id, err := c.Identify(hook.OwnModel, req)
	if err != nil {
		return nil, err
	}
	c.CountOwn(hook.OwnModel)
	res, err := r.ownModel(ctx, c, host, id, call)
	if err != nil {
		return nil, err
	}
	shown := *res
	shown.Message = c.Show(&res.Message)
	return &shown, nil
}

// ownRequest applies req, the request of a middleware, to call. It returns an error if req has no
// messages, or if its messages or tools are invalid.
func (r *Run) ownRequest(call *ModelCall, req *abi.RequestPatch, entry string) (err error) {
	q := &call.Request
	switch {
	case !req.Messages.Whole || len(req.Messages.Replace) == 0:
		return errors.New("model: messages must be an array of at least one message")
	case !req.Tools.IsZero() && !req.Tools.Whole:
		return errors.New("model: tools must be an array of all tools for the model")
	}
	by := &message.Editor{Entry: entry, NewID: r.NewID}
	if q.Messages, err = message.Edit(q.Messages, &req.Messages, by); err != nil {
		return err
	}
	if err := toolset.CheckCount(nil, &req.Tools); err != nil {
		return err
	}
	q.Tools, q.Stream = []abi.Tool{}, false
	for _, t := range req.Tools.Replace {
		if err := toolset.Check(&t); err != nil {
			return err
		}
		if toolset.Index(q.Tools, t.Name) >= 0 {
			return fmt.Errorf("tools: %q is duplicated", t.Name)
		}
		t.Owner = entry
		q.Tools = append(q.Tools, t)
	}
	if req.Model != "" {
		q.Model = req.Model
	}
	q.Params = toolset.MergeParams(q.Params, req.Params)
	return nil
}

// ownModel makes a model call for a middleware, or returns the outcome that an earlier pass
// recorded.
func (r *Run) ownModel(
	ctx context.Context,
	c *hook.Control,
	host Nester,
	id string,
	call ModelCall,
) (*abi.Response, error) {
	rec, key := r.Record, "own/"+id
	var known abi.Response
	if v, ok, err := rec.Load(key, &known); ok && err == nil {
		rep := exchange.Recorded(&known, v, exchange.SourceModel)
		if rep.Err != nil {
			return nil, rep.Err
		}
		return rep.Res, nil
	}
	release, err := host.Room(ctx, hook.OwnModel)
	if err != nil {
		return nil, err
	}
	defer release()
	inner := r.within(c, hook.OwnModel, id)
	ctx, h := local.WithHold(ctx)
	res, _, err := inner.CallModel(ctx, call)
	var failed *abi.Error
	switch {
	case err == nil:
		r.settleOwn(key, res, record.Verdict{}, h)
	case !ending.Is(err) && errors.As(err, &failed):
		r.settleOwn(key, nil, record.Verdict{Failed: failed}, h)
		return nil, failed
	}
	return res, err
}

// NestedTool makes a tool call for c's middleware; see [hook.Call.Tool].
func (r *Run) NestedTool(ctx context.Context, c *hook.Control, name, arguments string) (*abi.Result, error) {
	host := r.Host.(Nester)
	call, err := host.OwnTool(name)
	if err != nil {
		return nil, err
	}
	if arguments, err = toolset.ParseArguments(arguments); err != nil {
		return nil, &abi.Error{
			Code:    abi.CodeInvalid,
			Message: fmt.Sprintf("tool: the arguments of %s are not valid: %v", name, err),
		}
	}
	id, err := c.Identify(hook.OwnTool, contract.ToolRequest{Name: name, Arguments: arguments})
	if err != nil {
		return nil, err
	}
	call.Call = abi.Call{
		ID:         "own_" + id,
		Name:       name,
		Arguments:  arguments,
		Owner:      call.Tool.Owner,
		Idempotent: call.Tool.Idempotent,
		By:         c.By(),
	}
	c.CountOwn(hook.OwnTool)
	res, err := r.ownTool(ctx, c, host, id, call)
	if err == nil && !c.ReadsLabels() {
		res.Labels = nil
	}
	return res, err
}

// ownTool makes a tool call for a middleware and sends the events of its start and end. If an
// earlier pass recorded the outcome, ownTool returns that instead.
func (r *Run) ownTool(
	ctx context.Context,
	c *hook.Control,
	host Nester,
	id string,
	call ToolCall,
) (*abi.Result, error) {
	key := "own/" + id
	var known abi.Result
	switch v, ok, err := r.Record.Load(key, &known); {
	case !ok || err != nil:
	case v.Failed != nil:
		return nil, v.Failed // the call exceeded a limit
	case v.OK():
		return &known, nil
	}
	release, err := host.Room(ctx, hook.OwnTool)
	if err != nil {
		return nil, err
	}
	defer release()
	inner := r.within(c, hook.OwnTool, id)
	if !r.Record.HasNested(key) {
		if err := host.CountTool(call.Call.Name); err != nil {
			if beyond := (*abi.Error)(nil); !ending.Is(err) && errors.As(err, &beyond) {
				_, h := local.WithHold(ctx)
				r.settleOwn(key, nil, record.Verdict{Failed: beyond}, h) // count and report the rejection once
			}
			return nil, err
		}
	}
	r.emitOnce(r.Record, key, 1, abi.Event{Type: abi.EventToolCall, Call: &call.Call})
	r.Record.OpenNested(key, &call.Call)
	ctx, h := local.WithHold(ctx)
	o, err := inner.CallTool(ctx, call)
	defer func() { o.Release() }()
	var paused *ending.InterruptedError
	switch {
	case errors.As(err, &paused):
		return nil, err // the next pass repeats the call and reports its end
	case err != nil:
		o = ToolOutcome{Call: call.Call, Result: cutOff(&call.Call), Source: exchange.SourceHost}
	default:
		res := *o.Result
		res.Labels = labelsOf(o.Labels, o.Source, call.Call.Name)
		o.Result = &res
		r.settleOwn(key, o.Result, record.Verdict{}, h)
	}
	r.emitOnce(r.Record, key, 2, abi.Event{Type: abi.EventToolResult, Call: &o.Call, Result: o.Result, Source: o.Source})
	if err != nil {
		return nil, err
	}
	res := *o.Result
	return &res, nil
}

// cutOff returns the result of a tool call that did not finish before the run ended.
func cutOff(call *abi.Call) *abi.Result {
	return abi.ErrorResult(
		fmt.Sprintf("The call of %s was cut off when the run ended. Whether it had an effect is not known.", call.Name),
	)
}

// EndOwn sends the ends of the middlewares' tool calls that paused the run and were not repeated
// before the run ended. record is the record of the phase in which the run ends.
func (r *Run) EndOwn(record *record.Record) {
	opened := record.OpenNestedCalls()
	for _, key := range slices.Sorted(maps.Keys(opened)) {
		call := opened[key]
		r.emitOnce(record, key, 2,
			abi.Event{Type: abi.EventToolResult, Call: call, Result: cutOff(call), Source: exchange.SourceHost})
	}
}

// within returns the run for a call that c's middleware makes for itself. Its lists have no members
// whose hooks the call skips.
func (r *Run) within(c *hook.Control, of hook.Own, id string) *Run {
	inner := &Run{Run: c.Within(of, id), members: r.members, queue: r.queue}
	inner.Nested = inner
	past := inner.Past()
	inner.Lists = hook.ListsOf(r.members,
		func(m *hook.Member) bool { return !past[m] && (of != hook.OwnModel || m.Ring != hook.Tenant) })
	return inner
}

// settleOwn records out and v as the outcome of the call of key, which a middleware made for
// itself, and releases h, because the hooks of the call will not be called again.
func (r *Run) settleOwn(key string, out any, v record.Verdict, h *local.Hold) {
	r.Recording(func() {
		r.Record.Force(out) // the outcome cannot be rejected, so count it even beyond the limits
		r.Record.Save(key, out, v)
		r.Locals.Release(h)
	})
}

// emitOnce sends event n about the call of key, unless an earlier pass did.
func (r *Run) emitOnce(rec *record.Record, key string, n int, e abi.Event) {
	r.Recording(func() {
		if !rec.WasReported(key, n) {
			r.Send(e)
		}
	})
}
