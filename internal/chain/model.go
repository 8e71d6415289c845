package chain

import (
	"context"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
)

// A ModelRequest is one model call as the chain hands it on.
type ModelRequest struct {
	Messages *List // the request's: the instruction, then the state's
	Tools    []abi.Tool
	Model    string
	Params   abi.Params
	Stream   bool
}

// A ModelCall is everything about one model call.
type ModelCall struct {
	Request ModelRequest
	State   *List
	// Generate asks the model itself: inside all rings, where retries and
	// fallback models are.
	Generate func(ctx context.Context, req ModelRequest, out Sink) (*abi.Response, error)
	// Out takes what leaves the outermost ring, if the call is streamed.
	Out Sink
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
		core: func(ctx context.Context, q ModelRequest, out Sink) (reply[abi.Response], error) {
			key := r.record.next(sourceModel + r.scope)
			if known, v, ok := doneAs[abi.Response](r.record, key); ok {
				return recordedReply(known, v, sourceModel), nil
			}
			q.Stream = out != nil
			res, err := call.Generate(ctx, q, out)
			if err == nil {
				if full := r.record.reserve("the model's answer", res); full != nil {
					err = full
				}
			}
			if err == nil {
				r.record.keep(key, res, verdict{})
				if err := r.keepAnswer(ctx); err != nil {
					return reply[abi.Response]{}, err
				}
				return reply[abi.Response]{res: res, source: sourceModel}, nil
			}
			refused, ok := failedBy[abi.Response](err)
			switch {
			case ok:
				return refused, nil
			case IsEnding(err):
				return reply[abi.Response]{}, err
			case over(ctx) != nil:
				return reply[abi.Response]{}, over(ctx)
			default:
				failed := AsError(err, abi.CodeModel)
				r.record.keep(key, nil, verdict{failed: failed}) // its end as well: hooks have seen it
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

func (k *modelKind) callBefore(ctx context.Context, m *member, q ModelRequest) (ModelRequest, *abi.Response, verdict, error) {
	c, request := k.open(m, abi.HookBeforeModel, q)
	var out abi.BeforeModelAnswer
	v, err := k.run.invoke(ctx, c, &abi.BeforeModelInput{Request: request}, &out, func() (err error) {
		if err := k.run.checkResponse(out.Response, m.Name, nil); err != nil {
			return err
		}
		q, err = k.patch(q, out.Request, m)
		return err
	})
	if !v.ok() {
		return q, nil, v, err
	}
	return q, out.Response, v, err
}

func (k *modelKind) callWrap(ctx context.Context, m *member, q ModelRequest, w *wrapping[ModelRequest, abi.RequestPatch, abi.Response]) (*abi.Response, verdict, error) {
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
		return k.run.checkResponse(out.Response, m.Name, w.lastGood.res)
	})
	return out.Response, v, err
}

// end is a response as the end of a stream.
func (k *modelKind) end(res *abi.Response) *abi.StreamEnd {
	out := *res
	return &abi.StreamEnd{Response: &out}
}

func (k *modelKind) callAfter(ctx context.Context, m *member, q ModelRequest, rep reply[abi.Response]) (reply[abi.Response], *ModelRequest, verdict, error) {
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
			return faultf("answers with a response and an error; want one of them")
		}
		if err := k.run.checkResponse(out.Response, m.Name, rep.res); err != nil {
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
	if !v.ok() || err != nil {
		return rep, nil, v, err
	}
	switch {
	case out.Error != nil:
		rep = reply[abi.Response]{err: tidy(out.Error), source: m.Name}
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
	if next.Messages, err = k.run.edit(q.Messages, &p.Messages, m.Name); err != nil {
		return q, err
	}
	if !p.Tools.IsZero() {
		if next.Tools, err = patchTold(q.Tools, k.call.Request.Tools, &p.Tools); err != nil {
			return q, err
		}
	}
	if p.Model != "" {
		next.Model = p.Model
	}
	next.Params = mergeParams(q.Params, p.Params)
	if k.call.Allow != nil {
		if err := k.call.Allow(&next); err != nil {
			return q, faultf("request: %w", err)
		}
	}
	return next, nil
}

// patchTold changes which tools the model is told of in one call: only
// active tools of the run can be.
func patchTold(told, active []abi.Tool, p *abi.ToolsPatch) ([]abi.Tool, error) {
	if err := checkToolCount(active, p); err != nil {
		return nil, err
	}
	add := p.Add
	out := slices.DeleteFunc(slices.Clone(told), func(t abi.Tool) bool { return slices.Contains(p.Remove, t.Name) })
	if p.Whole {
		out, add = []abi.Tool{}, p.Replace
	}
	for _, t := range add {
		i := toolIndex(active, t.Name)
		if i < 0 {
			return nil, faultf("request: there is no active tool %q; tools are added in before_agent", t.Name)
		}
		if toolIndex(out, t.Name) >= 0 {
			return nil, faultf("request: tool %q stands twice", t.Name)
		}
		if err := checkTool(&t); err != nil {
			return nil, err
		}
		t.Owner, t.Idempotent = active[i].Owner, active[i].Idempotent
		out = append(out, t)
	}
	return out, nil
}

func (k *modelKind) chunks(_ ModelRequest, res *abi.Response) []abi.Chunk {
	return res.Message.Chunks()
}

func (k *modelKind) assemble(res *abi.Response, chunks []abi.Chunk) *abi.Response {
	var a abi.Assembly
	a.Add(chunks...)
	out := *res
	out.Message = a.Message(res.Message)
	return &out
}

// Says reports whether chunks that were delivered say what a message says.
func Says(delivered []abi.Chunk, m *abi.Message) bool {
	var a abi.Assembly
	a.Add(delivered...)
	return a.Says(m.Chunks())
}
