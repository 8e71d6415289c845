package chain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
)

// maxOwn is how many calls of Model and Tool one hook may make together.
const maxOwn = 64

// A Nester is a Host whose middlewares may make calls of their own. Its
// methods are called from several goroutines at once, while hooks run.
type Nester interface {
	// OwnModel is the model call that a middleware's own begins with: the model
	// and parameters of the agent, an empty list of messages, the run's state,
	// Generate and Allow.
	OwnModel() ModelCall
	// OwnTool is a call of one of the agent's tools: Tool, State and Run. The error is
	// an *abi.Error of code not_found if there is no such tool, and denied if it
	// is not active.
	OwnTool(name string) (ToolCall, error)
	// CountTool counts a call of a tool before it is made, once over all passes.
	// The error is an *abi.Error of code limit, or ends the run.
	CountTool(name string) error
	// Room takes what the hooks within a call of that import come to use, and
	// gives it back by release. It must not wait: the middleware that calls holds
	// what others may wait for. The error is an *abi.Error, unavailable or limit.
	Room(ctx context.Context, of Own) (release func(), err error)
}

// An Own is a kind of call that middlewares make of their own.
type Own string

// The kinds, by the names of their imports.
const (
	OwnModel Own = "model"
	OwnTool  Own = "tool"
)

// A frame is a call that a middleware made of its own, and that others are
// made within.
type frame struct {
	by *member
	of Own
}

// Model makes a model call of the middleware's own: to summarise, to judge. req
// has the messages to ask with, all of them, and tools that the model is told
// of; its model and parameters are the agent's unless req says otherwise.
//
// The call passes the hooks of operators' rings, but not those of the
// middleware itself. It is not streamed, and no part of the conversation. The
// error is an *abi.Error, or an ending.
func (c *Call) Model(ctx context.Context, req abi.RequestPatch) (*abi.Response, error) {
	var res *abi.Response
	err := c.own(ctx, OwnModel, func(host Nester) (err error) {
		call := host.OwnModel()
		call.Out, call.Delivered = nil, func() bool { return false }
		if err := c.ownRequest(&call, &req); err != nil {
			return ending.AsError(err, abi.CodeInvalid)
		}
		if call.Allow != nil {
			if err := call.Allow(&call.Request); err != nil {
				return &abi.Error{Code: abi.CodeDenied, Message: "model: " + err.Error()}
			}
		}
		id, err := c.identify(OwnModel, req)
		if err != nil {
			return err
		}
		c.member.ownModel.Add(1)
		res, err = c.callModel(ctx, host, id, call)
		return err
	})
	return res, err
}

// ownRequest makes a request of what a middleware asks for.
func (c *Call) ownRequest(call *ModelCall, req *abi.RequestPatch) (err error) {
	q := &call.Request
	switch {
	case !req.Messages.Whole || len(req.Messages.Replace) == 0:
		return errors.New("model: messages must be an array of at least one message")
	case !req.Tools.IsZero() && !req.Tools.Whole:
		return errors.New("model: tools must be an array: all that the model is told of")
	}
	if q.Messages, err = message.Edit(q.Messages, &req.Messages, c.member.Name, c.run.newID); err != nil {
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
			return fmt.Errorf("tools: %q stands twice", t.Name)
		}
		t.Owner = c.member.Name
		q.Tools = append(q.Tools, t)
	}
	if req.Model != "" {
		q.Model = req.Model
	}
	q.Params = toolset.MergeParams(q.Params, req.Params)
	return nil
}

// callModel makes the call, unless an earlier pass has.
func (c *Call) callModel(ctx context.Context, host Nester, id string, call ModelCall) (*abi.Response, error) {
	rec, key := c.run.record, "own/"+id
	var known abi.Response
	if v, ok, err := rec.Load(key, &known); ok && err == nil {
		rep := recordedReply(&known, v, sourceModel)
		if rep.err != nil {
			return nil, rep.err
		}
		return rep.res, nil
	}
	release, err := host.Room(ctx, OwnModel)
	if err != nil {
		return nil, err
	}
	defer release()
	r := c.within(OwnModel, id)
	ctx, h := local.WithHold(ctx)
	res, _, err := r.CallModel(ctx, call)
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

// Tool calls one of the agent's tools, through all rings and gates but the
// hooks of the middleware itself. arguments are a JSON object; "" counts as {}.
// What becomes of the call is its result, an error result where it failed or
// was denied: what a model would be told. The call is no part of the
// conversation. The error is an *abi.Error, or an ending.
func (c *Call) Tool(ctx context.Context, name, arguments string) (*abi.Result, error) {
	var res *abi.Result
	err := c.own(ctx, OwnTool, func(host Nester) error {
		call, err := host.OwnTool(name)
		if err != nil {
			return err
		}
		if arguments, err = toolset.ParseArguments(arguments); err != nil {
			return &abi.Error{Code: abi.CodeInvalid, Message: fmt.Sprintf("tool: the arguments of %s are not valid: %v", name, err)}
		}
		id, err := c.identify(OwnTool, abi.ToolRequest{Name: name, Arguments: arguments})
		if err != nil {
			return err
		}
		by := &abi.By{Entry: c.member.Name, Hook: c.Hook}
		if c.tool != nil {
			by.Call = c.tool.ID
		}
		call.Call = abi.Call{ID: "own_" + id, Name: name, Arguments: arguments, Owner: call.Tool.Owner, Idempotent: call.Tool.Idempotent, By: by}
		c.member.ownTool.Add(1)
		res, err = c.callTool(ctx, host, id, call)
		return err
	})
	return res, err
}

// callTool makes the call, unless an earlier pass has, and tells of it.
func (c *Call) callTool(ctx context.Context, host Nester, id string, call ToolCall) (*abi.Result, error) {
	key := "own/" + id
	var known abi.Result
	switch v, ok, err := c.run.record.Load(key, &known); {
	case !ok || err != nil:
	case v.Failed != nil:
		return nil, v.Failed // it was beyond a limit
	case v.OK():
		return &known, nil
	}
	release, err := host.Room(ctx, OwnTool)
	if err != nil {
		return nil, err
	}
	defer release()
	r := c.within(OwnTool, id)
	if !r.record.HasNested(key) {
		if err := host.CountTool(call.Call.Name); err != nil {
			if beyond := (*abi.Error)(nil); !ending.Is(err) && errors.As(err, &beyond) {
				_, h := local.WithHold(ctx)
				r.settleOwn(key, nil, record.Verdict{Failed: beyond}, h) // it is refused, and told of, once
			}
			return nil, err
		}
	}
	r.tellOnce(r.record, key, 1, abi.Event{Type: abi.EventToolCall, Call: &call.Call})
	r.record.OpenNested(key, &call.Call)
	ctx, h := local.WithHold(ctx)
	o, err := r.CallTool(ctx, call)
	defer func() { o.Release() }()
	var paused *ending.InterruptedError
	switch {
	case errors.As(err, &paused):
		return nil, err // it is made again, and told of once
	case err != nil:
		o = ToolOutcome{Call: call.Call, Result: cutOff(&call.Call), Source: sourceHost}
	default:
		r.settleOwn(key, o.Result, record.Verdict{}, h)
	}
	r.tellOnce(r.record, key, 2, abi.Event{Type: abi.EventToolResult, Call: &o.Call, Result: o.Result, Source: o.Source})
	if err != nil {
		return nil, err
	}
	res := *o.Result
	return &res, nil
}

func cutOff(call *abi.Call) *abi.Result {
	return abi.ErrorResult(fmt.Sprintf("The call of %s was cut off when the run ended. Whether it had an effect is not known.", call.Name))
}

// EndOwn tells of the end of calls of middlewares' own that paused the run, where
// the run ends before they are made again. record is that of the phase it ends in.
func (r *Run) EndOwn(record *record.Record) {
	opened := record.OpenNestedCalls()
	for _, key := range slices.Sorted(maps.Keys(opened)) {
		call := opened[key]
		r.tellOnce(record, key, 2, abi.Event{Type: abi.EventToolResult, Call: call, Result: cutOff(call), Source: sourceHost})
	}
}

// own does what both kinds of calls have in common. An ending that fn meets is
// that of the hook.
func (c *Call) own(ctx context.Context, of Own, fn func(Nester) error) error {
	host, ok := c.run.host.(Nester)
	c.mu.Lock()
	c.owns++
	n := c.owns
	c.mu.Unlock()
	switch {
	case c.Hook == abi.HookObserve || translates(c.Hook):
		return denied("%s is not for %s, which changes nothing of the run", of, c.Hook)
	case !ok:
		return &abi.Error{Code: abi.CodeUnavailable, Message: fmt.Sprintf("%s is not available: there is no agent around this chain", of)}
	case len(c.run.path) >= abi.MaxNested:
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("calls of model and tool lie within one another %d deep; that is the most there may be", abi.MaxNested)}
	case n > maxOwn:
		return &abi.Error{Code: abi.CodeLimit, Message: fmt.Sprintf("a hook may call model and tool %d times", maxOwn)}
	}
	if err := c.run.mayHold(string(of)); err != nil {
		return err
	}
	return c.waitFor(func() error { return fn(host) })
}

// identify names a call of its own: the same in each pass through the phase,
// whatever else the hook does before it. It tells apart calls of the same that
// one hook makes, in their order.
func (c *Call) identify(of Own, request any) (string, error) {
	b, err := abijson.Marshal(request)
	if err != nil {
		return "", err
	}
	at := digest(c.run.host.Where().StepID + "\n" + c.key + "\n" + string(of) + "\n" + string(b))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.same == nil {
		c.same = map[string]int{}
	}
	c.same[at]++
	return digest(at + strconv.Itoa(c.same[at]))[:16], nil
}

// within is the run as a call of the middleware's own passes it: without the
// hooks that are not called, and with keys of its own in the record.
//
// A tool call passes by its caller's hooks alone: another module that calls
// within it is judged by this one's gates. A model call also passes by those of
// the model calls that it is made within: two modules that judge answers do not
// judge each other's judgements for ever.
func (c *Call) within(of Own, id string) *Run {
	r := *c.run
	r.scope = id
	r.path = append(slices.Clip(c.run.path), frame{c.member, of})
	r.settled = c.run.settled || c.mayInterrupt() != nil || never[c.Hook]
	r.last = c.run.last || c.Hook == abi.HookAfterAgent
	past := map[*member]bool{c.member: true}
	for i := len(r.path) - 1; of == OwnModel && i >= 0 && r.path[i].of == OwnModel; i-- {
		past[r.path[i].by] = true
	}
	r.lists = c.run.without(func(m *member) bool { return past[m] || of == OwnModel && m.Ring == Tenant })
	return &r
}

// never are the hooks that do not pause a run, nor does what they call.
var never = map[abi.Hook]bool{
	abi.HookOnChunk:      true,
	abi.HookToolMessages: true,
	abi.HookAfterAgent:   true,
}

// settleOwn records what came of a call of a middleware's own. Nothing of it is
// called again.
func (r *Run) settleOwn(key string, out any, v record.Verdict, h *local.Hold) {
	r.keeping.RLock()
	defer r.keeping.RUnlock()
	r.record.Force(out) // the call itself was counted before
	r.record.Save(key, out, v)
	r.locals.Release(h)
}

// tellOnce sends event n of a key, unless an earlier pass did.
func (r *Run) tellOnce(record *record.Record, key string, n int, e abi.Event) {
	r.keeping.RLock()
	defer r.keeping.RUnlock()
	if !record.WasReported(key, n) {
		r.send(e)
	}
}
