package gateway

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent/pump"
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
	g        *Gateway
	route    *Route
	endpoint endpoint
	w        http.ResponseWriter
	r        *http.Request
	request  wire.Request
	model    string
	direct   bool // no module can change the answer

	failed *wire.Error // what ended the chain, if the gateway did
	answer wire.Answer // the upstream's answer, if it is not streamed
	refusal

	mu      sync.Mutex // guards the fields below, and writing to the client
	stream  wire.Stream
	weaver  *weave.Weaver
	header  http.Header // of the upstream's answer
	began   bool        // the client has got the header
	written error       // the first failure to write to the client
}

// A refusal is an answer of the upstream that the client gets unchanged: an error, or a count of tokens.
type refusal struct {
	response *http.Response
	body     []byte
	err      *abi.Error // for the chain
}

// run runs the chain around the upstream, and responds. It returns an error if it wrote nothing.
func (x *exchange) run(ctx context.Context) *wire.Error {
	call := x.request.Call()
	x.runHost = newRunHost(ctx, x.route.Name, x.g.o.OnEvent)
	ctx, reservation, err := x.g.o.Loader.Reserve(ctx, module.PlacedIn(x.route.Chain.Entries()), 1)
	if err != nil {
		return wire.Errorf(wire.CodeBusy, "no memory for the route's modules: %v", err)
	}
	defer reservation.Release()
	run, err := x.route.Chain.Open(ctx, x.Where(), x.runHost, local.New())
	if err != nil {
		return x.failure(err)
	}
	defer run.Close()
	defer run.Observe(context.WithoutCancel(ctx))
	x.direct = isDirect(run)
	run.Settled = true // nobody can answer a question: a gate that asks denies
	x.queue = run.Events
	x.announce(abi.Event{Type: abi.EventRunStarted, Agent: x.route.Name, Model: x.model})
	list := message.NewList(message.NewRevisions(), call.Messages)
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
		Delivered: x.delivered,
		Allow:     x.allow,
	}
	if call.Stream && !x.endpoint.count {
		x.restart()
		model.Out = x.leave
	}
	res, _, err := run.CallModel(ctx, model)
	if err == nil {
		err = x.finish(ctx, run, list, res)
	}
	return x.end(run, res, err)
}

// end responds to a request whose chain failed, and reports the end of the run.
func (x *exchange) end(run *chain.Run, res *abi.Response, err error) *wire.Error {
	e := abi.Event{Type: abi.EventRunFinished, FinishReason: abi.RunStop, Entries: run.Stats()}
	if res != nil {
		e.Usage = res.Usage
	}
	if err == nil {
		x.announce(e)
		return nil
	}
	failed := x.failure(err)
	e.FinishReason, e.Error = abi.RunError, &abi.Error{Code: abi.CodeInternal, Message: failed.Message}
	if stopped, ok := errors.AsType[*ending.StoppedError](err); ok {
		e.FinishReason, e.StoppedBy, e.Hook, e.Reason = abi.RunStopped, stopped.Entry, stopped.Hook, stopped.Reason
	}
	if x.isRefusal(err) {
		x.announce(e)
		x.relay()
		return nil
	}
	x.announce(e)
	if !x.hasBegun() {
		return failed
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.write(x.stream.Error(nil, failed))
	return nil
}

// failure returns the error that ended the chain, for the client.
func (x *exchange) failure(err error) *wire.Error {
	if x.failed != nil {
		return x.failed
	}
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return known
	}
	if stopped, ok := errors.AsType[*ending.StoppedError](err); ok {
		return wire.Errorf(wire.CodeDenied, "%s", stopped.Error())
	}
	if fault, ok := errors.AsType[*ending.FaultError](err); ok {
		return wire.Errorf(wire.CodeModule, "the module %s", fault.Error())
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

// fail ends the chain with an error of the gateway.
func (x *exchange) fail(err *wire.Error) error {
	x.failed = err
	return &ending.AbortedError{Cause: err}
}

// allow rejects models that the route does not have.
func (x *exchange) allow(q *chain.ModelRequest) error {
	if q.Model != x.model && !x.route.has(q.Model) {
		return wire.Errorf(wire.CodeModule, "the route %q does not have the model %.100q", x.route.Name, q.Model)
	}
	return nil
}

// generate sends the request of the chain to the upstream.
func (x *exchange) generate(ctx context.Context, q chain.ModelRequest, out pipe.Sink) (*abi.Response, error) {
	next := &wire.Call{Messages: q.Messages.All(), Tools: q.Tools, Model: q.Model, Params: q.Params}
	next.Stream = x.request.Call().Stream
	if x.route.Model != "" && next.Model == x.model {
		next.Model = x.route.Model
	}
	body, failed := asError(x.request.Encode(next))
	if failed != nil {
		return nil, x.fail(failed)
	}
	if out != nil && !x.restart() {
		return nil, x.fail(wire.Errorf(wire.CodeModule,
			"a module called the model again after the answer had begun; set hold: true for the route"))
	}
	res, failed := x.g.send(ctx, x.r, x.route, body, true)
	if failed != nil {
		return nil, x.unreachable(ctx, failed)
	}
	defer func() { _ = res.Body.Close() }()
	x.mu.Lock()
	x.header = res.Header
	x.mu.Unlock()
	switch {
	case res.StatusCode >= http.StatusBadRequest || x.endpoint.count && res.StatusCode == http.StatusOK:
		return nil, x.refuse(res)
	case res.StatusCode != http.StatusOK:
		// A client would follow a redirect past the modules, and takes other answers for the model's.
		return nil, x.fail(unexpected(res))
	case out == nil:
		return x.whole(res)
	case !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"):
		return nil, x.fail(wire.Errorf(wire.CodeUpstream, "the upstream did not stream its answer"))
	}
	return pump.Run(ctx, out, true, "the upstream",
		func(_ context.Context, put func(abi.Chunk) error) (*abi.Response, error) {
			return x.receive(res.Body, put)
		})
}

// unreachable returns the error of an upstream that could not be reached, which after_model sees.
func (x *exchange) unreachable(ctx context.Context, failed *wire.Error) error {
	if ended := ending.FromContext(ctx); ended != nil {
		return ended
	}
	x.refusal = refusal{}
	return &abi.Error{Code: abi.CodeModel, Message: failed.Message, Retryable: true}
}

// maxRefusal limits the body of an error of the upstream, in bytes.
const maxRefusal = 4 << 20

// refuse keeps an answer of the upstream that is no answer of the model. Modules see an error; a count
// of tokens ends the chain.
func (x *exchange) refuse(res *http.Response) error {
	x.mu.Lock()
	x.header = nil // it belongs to this answer only
	x.mu.Unlock()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxRefusal+1))
	switch {
	case err != nil:
		return &abi.Error{Code: abi.CodeModel, Message: "the upstream's answer was cut", Status: res.StatusCode}
	case len(body) > maxRefusal:
		return x.fail(
			wire.Errorf(wire.CodeUpstream, "the upstream answered %s with more than %d bytes", res.Status, maxRefusal),
		)
	}
	if x.endpoint.count && res.StatusCode == http.StatusOK {
		x.refusal = refusal{response: res, body: body}
		return x.fail(wire.Errorf(wire.CodeUpstream, "tokens were counted"))
	}
	failed := &abi.Error{Code: abi.CodeModel, Status: res.StatusCode, Message: "the upstream answered " + res.Status,
		Retryable: res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 500}
	x.refusal = refusal{response: res, body: body, err: failed}
	return failed
}

// unexpected returns the error for an answer that is neither one of the model nor an error.
func unexpected(res *http.Response) *wire.Error {
	return wire.Errorf(wire.CodeUpstream, "the upstream answered %s, which the gateway does not pass on", res.Status)
}

// isRefusal reports whether err is what the upstream answered, unchanged by modules.
func (x *exchange) isRefusal(err error) bool {
	if x.response == nil || x.hasBegun() {
		return false
	}
	if x.err == nil {
		return x.failed != nil
	}
	failed, ok := errors.AsType[*abi.Error](err)
	return ok && failed.Message == x.err.Message && failed.Status == x.err.Status
}

// relay responds with the upstream's refusal.
func (x *exchange) relay() {
	passHeaders(x.w.Header(), x.response.Header)
	x.w.WriteHeader(x.response.StatusCode)
	_, _ = x.w.Write(x.body)
}

// whole reads an answer that is not streamed.
func (x *exchange) whole(res *http.Response) (*abi.Response, error) {
	limit := int64(x.g.maxHeld())
	body, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return nil, &abi.Error{Code: abi.CodeModel, Message: "the upstream's answer was cut", Retryable: true}
	case int64(len(body)) > limit:
		return nil, x.fail(wire.Errorf(wire.CodeUpstream, "the upstream's answer has more than %d bytes", limit))
	}
	answer, failed := asError(x.endpoint.protocol.ParseAnswer(body))
	if failed != nil {
		return nil, x.fail(failed)
	}
	x.answer = answer
	return answer.Response(), nil
}

// afterEnd is the time for which events after the end of an answer are awaited.
const afterEnd = 250 * time.Millisecond

// complete reports whether the upstream's answer is complete.
func (x *exchange) complete() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stream.Complete()
}

// receive reads a streamed answer. Its chunks go to put.
func (x *exchange) receive(body io.ReadCloser, put func(abi.Chunk) error) (*abi.Response, error) {
	events := newEventReader(body)
	var last *time.Timer // after the end of the answer, for upstreams that keep the connection open
	for {
		event, err := events.next()
		complete := x.complete()
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF) && complete: // some upstreams omit the last line
			if _, err := x.take(event); err != nil {
				return nil, err
			}
			return visible(x.stream.Response()), nil
		case err != nil && complete:
			return visible(x.stream.Response()), nil
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, &abi.Error{Code: abi.CodeModel, Message: "the upstream's answer was cut", Retryable: true}
		case err != nil:
			if known, ok := errors.AsType[*wire.Error](err); ok {
				return nil, x.fail(known)
			}
			return nil, &abi.Error{Code: abi.CodeModel, Message: "the upstream's answer was cut", Retryable: true}
		}
		chunks, err := x.take(event)
		if err != nil {
			return nil, err
		}
		if last == nil && x.complete() {
			last = time.AfterFunc(afterEnd, func() { _ = body.Close() })
			defer last.Stop()
		}
		for i := range chunks {
			if err := put(chunks[i]); err != nil {
				return nil, err
			}
		}
	}
}

// take gives an event of the upstream to the weaver, and returns its chunks.
func (x *exchange) take(event []byte) ([]abi.Chunk, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	items, failed := asError(x.stream.Decode(event))
	if failed != nil {
		return nil, x.fail(failed)
	}
	out, chunks, err := x.weaver.Receive(nil, items)
	x.write(out)
	if _, failed := asError(0, err); failed != nil {
		return nil, x.fail(failed)
	}
	return chunks, x.written
}

// visible returns an answer without its opaque parts, which streams have no chunks for.
func visible(res *abi.Response) *abi.Response {
	parts := res.Message.Content.Parts()
	if !slices.ContainsFunc(parts, func(p abi.Part) bool { return wire.Opaque(&p) }) {
		return res
	}
	out := *res
	parts = slices.DeleteFunc(slices.Clone(parts), func(p abi.Part) bool { return wire.Opaque(&p) })
	out.Message.Content = abi.Parts(parts...)
	if len(parts) == 0 {
		out.Message.Content = abi.Content{}
	}
	return &out
}

// leave gives chunks that left the chain to the weaver.
func (x *exchange) leave(_ context.Context, chunks []abi.Chunk, _ bool) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.write(x.weaver.Leave(nil, chunks))
	if x.written != nil {
		return &ending.AbortedError{Cause: x.written}
	}
	return nil
}

// restart begins the answer of another call of the upstream. It returns false if the client has got a
// part of an earlier one.
func (x *exchange) restart() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.weaver != nil && x.weaver.Sent() {
		return false
	}
	x.stream = x.endpoint.protocol.NewStream(x.model)
	x.weaver = weave.New(x.stream, weave.Options{Direct: x.direct, Hold: x.route.Hold, MaxHeld: x.g.o.MaxHeld})
	return true
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

func (x *exchange) delivered() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.weaver != nil && x.weaver.Sent()
}

func (x *exchange) hasBegun() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.began
}

// writeTimeout limits the time in which a client reads one part of an answer.
const writeTimeout = time.Minute

// write sends a part of the streamed answer. The caller holds the lock.
func (x *exchange) write(b []byte) {
	if len(b) == 0 || x.written != nil {
		return
	}
	control := http.NewResponseController(x.w)
	if !x.began {
		x.began = true
		x.head("text/event-stream")
		x.w.WriteHeader(http.StatusOK)
	}
	_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, x.written = x.w.Write(b); x.written == nil {
		x.written = control.Flush()
	}
}

// head sets the header of an answer: the upstream's, if it answered.
func (x *exchange) head(contentType string) {
	passHeaders(x.w.Header(), x.header)
	x.w.Header().Del("Content-Encoding")
	x.w.Header().Set("Content-Type", contentType)
	if kind := x.header.Get("Content-Type"); strings.HasPrefix(kind, contentType) {
		x.w.Header().Set("Content-Type", kind)
	}
}
