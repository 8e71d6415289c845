package chain

import (
	"context"
	"fmt"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/chunk"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/message"
	"github.com/agent-runner/agent-runner/internal/chain/record"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/chunks"
)

// A ModelRequest is one model call as the chain hands it on.
type ModelRequest struct {
	Messages *message.List // the request's: the instruction, then the state's
	Tools    []abi.Tool
	Model    string
	Params   abi.Params
	Stream   bool
}

// A ModelCall is everything about one model call.
type ModelCall struct {
	Request ModelRequest
	State   *message.List
	// Generate asks the model itself: inside all rings, where retries and
	// fallback models are.
	Generate func(ctx context.Context, req ModelRequest, out chunk.Sink) (*abi.Response, error)
	// Out takes what leaves the outermost ring, if the call is streamed.
	Out chunk.Sink
	// Delivered reports whether Out was given content.
	Delivered func() bool
	// Allow refuses a model or parameters that modules may not choose; nil
	// allows all.
	Allow func(req *ModelRequest) error
}

// CallModel makes a model call through all rings. source is "model" or the
// entry that answered. The error is an ending, or an *abi.Error if the call
// failed.
func (r *Run) CallModel(ctx context.Context, call ModelCall) (res *abi.Response, source string, err error) {
	x := &exchange[ModelRequest, abi.RequestPatch, abi.Response]{
		run: r, kind: &modelKind{r, &call}, delivered: call.Delivered,
		before: abi.HookBeforeModel, wrap: abi.HookWrapModel, after: abi.HookAfterModel,
		core: func(ctx context.Context, q ModelRequest, out chunk.Sink) (reply[abi.Response], error) {
			key := r.record.NextKey(sourceModel + r.scope)
			if known, v, ok := record.LoadAs[abi.Response](r.record, key); ok {
				return recordedReply(known, v, sourceModel), nil
			}
			q.Stream = out != nil
			res, err := call.Generate(ctx, q, out)
			if err == nil {
				if full := r.record.ReserveAnswer("the model's answer", res); full != nil {
					err = full
				}
			}
			if err == nil {
				r.record.Save(key, res, record.Verdict{})
				if err := r.keepAnswer(ctx); err != nil {
					return reply[abi.Response]{}, err
				}
				return reply[abi.Response]{res: res, source: sourceModel}, nil
			}
			refused, ok := failedBy[abi.Response](err)
			switch {
			case ok:
				return refused, nil
			case ending.Is(err):
				return reply[abi.Response]{}, err
			case ending.FromContext(ctx) != nil:
				return reply[abi.Response]{}, ending.FromContext(ctx)
			default:
				failed := ending.AsError(err, abi.CodeModel)
				r.record.Save(key, nil, record.Verdict{Failed: failed}) // its end as well: hooks have seen it
				return reply[abi.Response]{err: failed, source: sourceModel}, r.keepAnswer(ctx)
			}
		},
	}
	x.held.Of = r.account
	defer x.held.Release()
	rep, _, err := x.call(ctx, call.Request, call.Out)
	if err == nil && rep.err != nil {
		err = rep.err
	}
	return rep.res, rep.source, err
}

var _ kind[ModelRequest, abi.RequestPatch, abi.Response] = (*modelKind)(nil)

type modelKind struct {
	run  *Run
	call *ModelCall
}

func (k *modelKind) open(m *member, h abi.Hook, q ModelRequest) (*Call, abi.Request) {
	c := k.run.call(m, h, k.call.State, q.Messages)
	c.delivered = k.call.Delivered
	return c, abi.Request{Messages: c.view(abi.ListRequest), Tools: q.Tools, Model: q.Model, Params: q.Params, Stream: q.Stream}
}

func (k *modelKind) callBefore(ctx context.Context, m *member, q ModelRequest) (ModelRequest, *abi.Response, record.Verdict, error) {
	c, request := k.open(m, abi.HookBeforeModel, q)
	var out abi.BeforeModelAnswer
	v, err := k.run.invoke(ctx, c, &abi.BeforeModelInput{Request: request}, &out, func() (err error) {
		if err := message.CheckResponse(out.Response, m.Name, nil); err != nil {
			return err
		}
		q, err = k.patch(q, out.Request, m)
		return err
	})
	if !v.OK() {
		return q, nil, v, err
	}
	return q, out.Response, v, err
}

func (k *modelKind) callWrap(ctx context.Context, m *member, q ModelRequest, w *wrapping[ModelRequest, abi.RequestPatch, abi.Response]) (*abi.Response, record.Verdict, error) {
	c, request := k.open(m, abi.HookWrapModel, q)
	w.serve(c)
	c.hand = w.tell.send
	var out abi.WrapModelAnswer
	v, err := k.run.invoke(ctx, c, &abi.WrapModelInput{Request: request}, &out, func() error {
		if out.Response == nil {
			out.Response = w.said(&abi.Response{Message: abi.Message{Role: abi.RoleAssistant}})
		}
		if err := w.hold(c); err != nil {
			return err
		}
		return message.CheckResponse(out.Response, m.Name, w.lastGood.res)
	})
	return out.Response, v, err
}

// end is a response as the end of a stream.
func (k *modelKind) end(res *abi.Response) *abi.StreamEnd {
	out := *res
	return &abi.StreamEnd{Response: &out}
}

func (k *modelKind) callAfter(ctx context.Context, m *member, q ModelRequest, rep reply[abi.Response]) (reply[abi.Response], *ModelRequest, record.Verdict, error) {
	c, request := k.open(m, abi.HookAfterModel, q)
	in := &abi.AfterModelInput{Request: request, Error: rep.err, Source: rep.source}
	if rep.res != nil {
		res := *rep.res
		in.Response = &res
	}
	var out abi.AfterModelAnswer
	var again *ModelRequest
	v, err := k.run.invoke(ctx, c, in, &out, func() error {
		if out.Response != nil && out.Error != nil {
			return fmt.Errorf("answers with a response and an error; want one of them")
		}
		if err := message.CheckResponse(out.Response, m.Name, rep.res); err != nil {
			return err
		}
		if out.Again != nil {
			patched, err := k.patch(q, out.Again.Request, m)
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
		rep = reply[abi.Response]{err: ending.CleanError(out.Error), source: m.Name}
	case out.Response != nil:
		if rep.res == nil || !k.same(out.Response, rep.res) {
			rep.source = m.Name
		}
		rep.res, rep.err = out.Response, nil
	}
	return rep, again, v, err
}

// patch applies a module's patch of a request, for this call only.
func (k *modelKind) patch(q ModelRequest, p abi.RequestPatch, m *member) (ModelRequest, error) {
	if p.IsZero() {
		return q, nil
	}
	next := q
	var err error
	if next.Messages, err = message.Edit(q.Messages, &p.Messages, m.Name, k.run.newID); err != nil {
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

func (k *modelKind) chunks(_ ModelRequest, res *abi.Response) []abi.Chunk {
	return res.Message.Chunks()
}

func (k *modelKind) assemble(res *abi.Response, pieces []abi.Chunk) *abi.Response {
	var a chunks.Assembly
	a.Add(pieces...)
	out := *res
	out.Message = a.Message(res.Message)
	return &out
}

// Says reports whether chunks that were delivered say what a message says.
func Says(delivered []abi.Chunk, m *abi.Message) bool {
	var a chunks.Assembly
	a.Add(delivered...)
	return a.Says(m.Chunks())
}
