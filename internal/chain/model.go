package chain

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/exchange"
	"github.com/agent-runner/agent-runner/internal/chain/hook"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A ModelRequest is a model request as it passes through the chain.
type ModelRequest struct {
	Messages *message.List // the request's messages: the instruction, then the state
	Tools    []abi.Tool
	Model    string
	Params   abi.Params
	Stream   bool
}

// A ModelCall describes a model call for the chain to make.
type ModelCall struct {
	Request ModelRequest
	State   *message.List
	// Generate calls the model itself, inside all rings. It includes retries and fallback models.
	Generate func(ctx context.Context, req ModelRequest, out pipe.Sink) (*abi.Response, error)
	// Out receives the chunks that leave the outermost ring; nil if the call is not streamed.
	Out pipe.Sink
	// Delivered reports whether the caller has received content through Out.
	Delivered func() bool
	// Allow returns an error if modules must not choose the request's model or parameters. Nil
	// allows all.
	Allow func(req *ModelRequest) error
}

// CallModel makes a model call through all rings. source is "model", "host", or the name of the
// entry that answered or failed the call. The error is an *abi.Error if the call failed. Any other
// error ends or pauses the run.
func (r *Run) CallModel(ctx context.Context, call ModelCall) (res *abi.Response, source string, err error) {
	x := &exchange.Exchange[ModelRequest, abi.RequestPatch, abi.Response]{
		Run: r.Run, Kind: &modelKind{r, &call}, Delivered: call.Delivered,
		Before: contract.HookBeforeModel, Wrap: contract.HookWrapModel, After: contract.HookAfterModel,
		Core: func(ctx context.Context, q ModelRequest, out pipe.Sink) (exchange.Reply[abi.Response], error) {
			key := r.Record.NextKey(exchange.SourceModel + r.Scope)
			if known, v, ok := record.LoadAs[abi.Response](r.Record, key); ok {
				return exchange.Recorded(known, v, exchange.SourceModel), nil
			}
			q.Stream = out != nil
			res, err := call.Generate(record.WithKey(ctx, key), q, out)
			if err == nil {
				if full := r.Record.ReserveAnswer("the model's answer", res); full != nil {
					err = full
				}
			}
			if err == nil {
				r.Record.Save(key, res, record.Verdict{})
				if err := r.PersistAnswer(ctx); err != nil {
					return exchange.Reply[abi.Response]{}, err
				}
				return exchange.Reply[abi.Response]{Res: res, Source: exchange.SourceModel}, nil
			}
			refused, ok := exchange.FailedBy[abi.Response](err)
			switch {
			case ok:
				return refused, nil
			case ending.Is(err):
				return exchange.Reply[abi.Response]{}, err
			case ending.FromContext(ctx) != nil:
				return exchange.Reply[abi.Response]{}, ending.FromContext(ctx)
			default:
				failed := ending.AsError(err, abi.CodeModel)
				r.Record.Save(key, nil, record.Verdict{Failed: failed}) // record the failure, because hooks have seen it
				return exchange.Reply[abi.Response]{Err: failed, Source: exchange.SourceModel}, r.PersistAnswer(ctx)
			}
		},
	}
	x.Held.Of = r.Account
	defer x.Held.Release()
	rep, _, err := x.Call(ctx, call.Request, call.Out)
	if err == nil && rep.Err != nil {
		err = rep.Err
	}
	if err == nil && rep.Labels != nil {
		labelled := *rep.Res
		message.SetLabels(&labelled.Message, rep.Labels)
		rep.Res = &labelled
	}
	return rep.Res, rep.Source, err
}

var _ exchange.Kind[ModelRequest, abi.RequestPatch, abi.Response] = (*modelKind)(nil)

type modelKind struct {
	run  *Run
	call *ModelCall
}

// Applies implements [exchange.Kind].
func (k *modelKind) Applies(m *hook.Member, q ModelRequest) bool { return m.InModelCall(q.Model) }

// open returns the host's side of a call of hook h, and the request for the hook's input.
func (k *modelKind) open(m *hook.Member, h abi.Hook, q ModelRequest) (*hook.Control, abi.Request) {
	c := k.run.Call(m, h, k.call.State, q.Messages)
	c.SetDelivered(k.call.Delivered)
	return c, abi.Request{
		Messages: c.View(abi.ListRequest),
		Tools:    array(q.Tools),
		Model:    q.Model,
		Params:   q.Params,
		Stream:   q.Stream,
	}
}

func (k *modelKind) Before(
	ctx context.Context,
	m *hook.Member,
	q ModelRequest,
) (ModelRequest, *abi.Response, record.Verdict, error) {
	c, request := k.open(m, contract.HookBeforeModel, q)
	var out abi.BeforeModelAnswer
	v, err := c.Invoke(ctx, &abi.BeforeModelInput{Request: request}, &out, func() (err error) {
		if err := message.CheckResponse(out.Response, m.Name, nil); err != nil {
			return err
		}
		q, err = k.Patch(q, out.Request, m)
		return err
	})
	if !v.OK() {
		return q, nil, v, err
	}
	return q, out.Response, v, err
}

func (k *modelKind) Wrap(
	ctx context.Context,
	m *hook.Member,
	q ModelRequest,
	w *exchange.Wrapping[ModelRequest, abi.RequestPatch, abi.Response],
) (*abi.Response, record.Verdict, error) {
	c, request := k.open(m, contract.HookWrapModel, q)
	w.Serve(c)
	c.TakeSent(w.Send)
	var out abi.WrapModelAnswer
	v, err := c.Invoke(ctx, &abi.WrapModelInput{Request: request}, &out, func() error {
		if out.Response == nil {
			out.Response = w.SentAnswer(&abi.Response{Message: abi.Message{Role: abi.RoleAssistant}})
		}
		if err := w.Hold(c); err != nil {
			return err
		}
		return message.CheckResponse(out.Response, m.Name, w.LastGood())
	})
	return out.Response, v, err
}

// labels returns the labels of a reply, or the labels that follow from its source if it has none.
func (k *modelKind) labels(rep exchange.Reply[abi.Response]) []string {
	if rep.Labels != nil {
		return rep.Labels
	}
	return message.SourceLabels(rep.Source, "")
}

// Labelled implements [exchange.Kind].
func (k *modelKind) Labelled(res *abi.Response, labels []string) *abi.Response {
	out := *res
	out.Message.Labels = labels
	return &out
}

// End returns the end of a stream whose result is res.
func (k *modelKind) End(res *abi.Response) *contract.StreamEnd {
	out := *res
	return &contract.StreamEnd{Response: &out}
}

func (k *modelKind) After(
	ctx context.Context,
	m *hook.Member,
	q ModelRequest,
	rep exchange.Reply[abi.Response],
) (exchange.Reply[abi.Response], *ModelRequest, record.Verdict, error) {
	c, request := k.open(m, contract.HookAfterModel, q)
	in := &abi.AfterModelInput{Request: request, Error: rep.Err, Source: rep.Source}
	if in.Response = rep.Res; rep.Res != nil && m.ReadsLabels() {
		in.Response = k.Labelled(rep.Res, k.labels(rep))
	}
	var out abi.AfterModelAnswer
	var again *ModelRequest
	v, err := c.Invoke(ctx, in, &out, func() error {
		if out.Response != nil && out.Error != nil {
			return fmt.Errorf("returned a response and an error; want one of them")
		}
		if err := message.CheckResponse(out.Response, m.Name, rep.Res); err != nil {
			return err
		}
		if out.Again != nil {
			patched, err := k.Patch(q, out.Again.Request, m)
			if err != nil {
				return err
			}
			again = &patched
		}
		return nil
	})
	if !v.OK() || err != nil {
		return rep, nil, v, err
	}
	switch {
	case out.Error != nil:
		rep = exchange.Reply[abi.Response]{Err: ending.CleanError(out.Error), Source: m.Name}
	case out.Response != nil:
		if rep.Res == nil || !k.Same(out.Response, rep.Res) {
			rep.Source = m.Name
		}
		rep.Res, rep.Err = out.Response, nil
	}
	return rep, again, v, err
}

// Patch applies a hook's patch to the request of this call only. It returns an error if the patch
// is invalid, or if Allow rejects the patched request.
func (k *modelKind) Patch(q ModelRequest, p abi.RequestPatch, m *hook.Member) (ModelRequest, error) {
	if p.IsZero() {
		return q, nil
	}
	next := q
	var err error
	by := &message.Editor{Entry: m.Name, NewID: k.run.NewID}
	if next.Messages, err = message.Edit(q.Messages, &p.Messages, by); err != nil {
		return q, err
	}
	if !p.Tools.IsZero() {
		if next.Tools, err = toolset.EditAdvertised(q.Tools, k.call.Request.Tools, &p.Tools); err != nil {
			return q, err
		}
	}
	if p.Model != "" {
		next.Model = p.Model
	}
	next.Params = toolset.MergeParams(q.Params, p.Params)
	if k.call.Allow != nil {
		if err := k.call.Allow(&next); err != nil {
			return q, fmt.Errorf("request: %w", err)
		}
	}
	return next, nil
}

func (k *modelKind) Chunks(_ ModelRequest, res *abi.Response) []abi.Chunk {
	return res.Message.Chunks()
}

func (k *modelKind) Assemble(res *abi.Response, pieces []abi.Chunk) *abi.Response {
	var a chunkjoin.Assembly
	a.Add(pieces...)
	out := *res
	out.Message = a.Message(res.Message)
	return &out
}

// Says reports whether delivered chunks have the same content as message m.
func Says(delivered []abi.Chunk, m *abi.Message) bool {
	var a chunkjoin.Assembly
	a.Add(delivered...)
	return a.Equal(m.Chunks())
}

// Same reports whether two responses have the same message. It ignores the messages' IDs, origins
// and labels, the finish reasons and the usage.
func (k *modelKind) Same(a, b *abi.Response) bool { return message.Same(&a.Message, &b.Message) }
