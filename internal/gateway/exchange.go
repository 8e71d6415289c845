package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/local"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/gateway/weave"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/module"
)

// An exchange is one request with modules: a run of the route's chain with one model call.
type exchange struct {
	*runHost
	body    []byte // of the request
	request wire.Request
	sent    []byte // the body of the last request to the upstream, in the client's protocol
	direct  bool   // whether no module can change the answer

	answer  wire.Answer // the upstream's answer, if it is not streamed
	refused *refusal    // the upstream's response, if it is no answer
	reply   reply
}

// errNoMemory ends the wait for the memory of modules.
var errNoMemory = errors.New("the requests in progress use all of it; try again later")

// reserve waits for the memory that the route's modules may use. It returns a context for the chain,
// and a function that releases the memory.
func (x *exchange) reserve(ctx context.Context) (_ context.Context, release func(), _ error) {
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(x.g.o.ReserveTimeout, func() { cancel(errNoMemory) })
	ctx, reservation, err := x.g.o.Loader.Reserve(ctx, module.PlacedIn(x.route.Chain.Entries()), 1)
	if err != nil {
		timer.Stop()
		cancel(nil)
		return ctx, nil, err
	}
	release = func() { cancel(nil); reservation.Release() }
	if !timer.Stop() {
		release()
		return ctx, nil, context.Cause(ctx)
	}
	return ctx, release, nil
}

// run runs the chain around the upstream, and responds. It returns an error if it wrote nothing.
func (x *exchange) run(ctx context.Context) *wire.Error {
	call := x.request.Call()
	ctx, release, err := x.reserve(ctx)
	if err != nil {
		return wire.Errorf(wire.CodeBusy, "no memory for the route's modules: %v", err)
	}
	defer release()
	run, err := x.route.Chain.Open(ctx, x.Where(), x.runHost, local.New())
	if err != nil {
		return x.failure(err)
	}
	defer run.Close()
	defer run.Observe(context.WithoutCancel(ctx))
	x.direct = isDirect(run)
	run.Settled = true // without an approver, nobody can answer a question: a gate that asks denies
	if x.g.o.Approver != nil {
		run.Approve = x.approve
	}
	x.queue = run.Events
	x.announce(abi.Event{Type: abi.EventRunStarted, Agent: x.route.Name, Model: x.model})
	messages := slices.Clone(call.Messages)
	message.AdoptLabels(messages)
	labelParts(messages)
	list := message.NewList(message.NewRevisions(), messages)
	model := chain.ModelCall{
		Request: chain.ModelRequest{
			Messages: list,
			Tools:    call.Tools,
			Model:    call.Model,
			Params:   call.Params,
			Stream:   call.Stream,
		},
		State:     list,
		Generate:  x.generate,
		Delivered: x.reply.delivered,
		Allow:     x.allow,
	}
	if call.Stream && !x.endpoint.count {
		x.restart()
		model.Out = x.leave
	}
	res, _, err := run.CallModel(ctx, model)
	if err == nil {
		plain := *res
		plain.Message = message.Unlabelled(res.Message)
		err = x.finish(ctx, run, list, &plain)
	}
	return x.end(run, res, err)
}

// end reports the end of the run, and responds to a request whose chain failed.
func (x *exchange) end(run *chain.Run, res *abi.Response, err error) *wire.Error {
	x.reportCacheBreak()
	e := abi.Event{Type: abi.EventRunFinished, FinishReason: abi.RunStop, Entries: run.Stats()}
	if res != nil {
		e.Usage = res.Usage
	}
	if err == nil || errors.Is(err, errCounted) {
		x.announce(e)
		if err != nil {
			x.reply.pass(x.refused)
		}
		return nil
	}
	failed := x.g.conceal(err, x.failure(err))
	e.FinishReason, e.Error = abi.RunError, &abi.Error{Code: runCodes[failed.Code], Message: failed.Message}
	if stopped, ok := errors.AsType[*ending.StoppedError](err); ok {
		e.FinishReason, e.StoppedBy, e.Hook, e.Reason = abi.RunStopped, stopped.Entry, stopped.Hook, stopped.Reason
	}
	x.announce(e)
	x.fail(failed)
	switch begun := x.reply.hasBegun(); {
	case begun:
		x.reply.fail(failed)
	case x.refused.endsWith(err):
		x.passed(x.refused.status)
		x.reply.pass(x.refused)
	default:
		return failed
	}
	return nil
}

// runCodes maps the codes of the gateway's errors to those of the event that ends a run.
var runCodes = map[wire.Code]abi.Code{
	wire.CodeUpstream: abi.CodeModel, wire.CodeDenied: abi.CodeDenied, wire.CodeInvalid: abi.CodeInvalid,
	wire.CodeBusy: abi.CodeLimit, wire.CodeTooLarge: abi.CodeLimit, wire.CodeModule: abi.CodeInternal,
}

// failure returns the error that ended the chain, for the client.
func (x *exchange) failure(err error) *wire.Error {
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return known
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return x.g.late()
	}
	if stopped, ok := errors.AsType[*ending.StoppedError](err); ok {
		return wire.Errorf(wire.CodeDenied, "%s", stopped.Error())
	}
	if fault, ok := errors.AsType[*ending.FaultError](err); ok {
		return wire.Errorf(wire.CodeModule, "the module %s", fault.Error())
	}
	if full, ok := errors.AsType[*ending.MemoryError](err); ok {
		return wire.Errorf(wire.CodeBusy, "the modules have no memory left: %s", full.Error())
	}
	if failed, ok := errors.AsType[*abi.Error](err); ok {
		switch failed.Code {
		case abi.CodeDenied:
			return wire.Errorf(wire.CodeDenied, "%s", failed.Error())
		case abi.CodeModel:
			return wire.Errorf(wire.CodeUpstream, "%s", failed.Error())
		}
	}
	return wire.Errorf(wire.CodeModule, "%v", err)
}

// allow rejects models that the route does not have.
func (x *exchange) allow(q *chain.ModelRequest) error {
	if q.Model != x.model && !x.route.has(q.Model) {
		return wire.Errorf(wire.CodeModule, "the route %q does not have the model %.100q", x.route.Name, q.Model)
	}
	return nil
}

// generate sends the request of the chain to the upstream, and returns its answer.
func (x *exchange) generate(ctx context.Context, q chain.ModelRequest, out pipe.Sink) (*abi.Response, error) {
	messages := q.Messages.All()
	for i := range messages {
		messages[i] = message.Unlabelled(messages[i])
	}
	next := &wire.Call{Messages: messages, Tools: q.Tools, Model: q.Model, Params: q.Params}
	next.Stream = x.request.Call().Stream
	if x.endpoint.count {
		next.Params = known(next.Params, x.request.Call().Params)
	}
	if x.route.Model != "" && next.Model == x.model {
		next.Model = x.route.Model
	}
	if allow := x.route.AllowModel; allow != nil && !allow(next.Model) {
		return nil, abort(wire.Errorf(wire.CodeDenied, "the model %.100q is not allowed", next.Model))
	}
	body, err := x.request.Encode(next)
	if err == nil {
		err = x.charge(len(body))
	}
	if err != nil {
		return nil, abort(err)
	}
	if out != nil && !x.restart() {
		return nil, abort(wire.Errorf(wire.CodeModule,
			"a module called the model again after the answer had begun; set hold: true for the route"))
	}
	x.answer, x.refused = nil, nil // from an earlier call of the upstream
	x.reply.answeredBy(nil)
	x.sent = body
	call, failed := x.ask(ctx, body, next.Model, x.memory)
	if failed != nil && failed.Code != wire.CodeUpstream {
		return nil, abort(failed)
	}
	if failed != nil {
		if ended := ending.FromContext(ctx); ended != nil {
			return nil, ended
		}
		return nil, &abi.Error{Code: abi.CodeModel, Message: failed.Message, Retryable: true}
	}
	defer call.close()
	res, err := x.read(ctx, call.Response, out)
	call.ended = call.ended || err == nil // some upstreams keep the connection open
	return res, err
}

// leave passes chunks from the chain to the reply.
func (x *exchange) leave(_ context.Context, chunks []abi.Chunk, _ bool) error {
	if err := x.reply.leave(chunks); err != nil {
		return abort(err)
	}
	return nil
}

// restart begins the streamed answer of another call of the upstream. It returns false if the client has
// received a part of an earlier one.
func (x *exchange) restart() bool {
	return x.reply.restart(x.endpoint.protocol.NewStream(x.model),
		weave.Options{Direct: x.direct, Hold: x.route.Hold, MaxHeld: x.g.o.MaxHeld})
}

// isDirect reports whether no module of the run can change an answer.
func isDirect(run *chain.Run) bool {
	for _, h := range []abi.Hook{
		contract.HookWrapModel, contract.HookOnChunk, contract.HookAfterModel, contract.HookGateTool,
	} {
		if len(run.Inward(h)) > 0 {
			return false
		}
	}
	return true
}
