package middleware

import (
	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/guest-sdk/go/internal/clone"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chunkjoin"
	"github.com/agent-runner/agent-runner/internal/contract"
)

// A ModelStart is a model call before it is made.
type ModelStart struct {
	*Request

	response *abi.Response
}

// Respond sets the response. The host then calls neither the model nor the wrappers of this ring.
func (s *ModelStart) Respond(response *abi.Response) { s.response = response }

func (*ModelStart) collect(m *Module, _ abi.Hook) any { return collect[BeforeModelHook](m) }

func (*ModelStart) serve(s *served) (answer abijson.Writable, err error) {
	v := hookCallOf[abijson.BeforeModelInput, abijson.BeforeModelAnswer](s)
	defer func() { answer, err = caught(recover(), answer, err) }()
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	start := &ModelStart{Request: v.request(&v.in.Request)}
	for _, h := range hooks[BeforeModelHook](s) {
		if err := h.BeforeModel(v.ctx, start); err != nil {
			return nil, err
		}
		if start.response != nil {
			break
		}
	}
	v.out.Response = start.response
	v.out.Request, err = start.patch()
	return &v.out, err
}

// A NextModel continues a model call with the request req, or unchanged if req is nil. It
// may be called several times. Its errors are of type *abi.Error. It does not return if
// the run ends meanwhile.
type NextModel func(req *Request) (*abi.Response, error)

func (NextModel) collect(m *Module, _ abi.Hook) any { return collect[WrapModelHook](m) }

func (NextModel) serve(s *served) (answer abijson.Writable, err error) {
	v := hookCallOf[abijson.WrapModelInput, abijson.WrapModelAnswer](s)
	defer func() { answer, err = caught(recover(), answer, err) }()
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	v.ctx.textKind = abi.ChunkText
	o := &onion[Request, abi.Response]{
		wrapping: &modelCalls,
		call:     &v.call,
		request:  v.request(&v.in.Request),
		hooks:    s.called,
		count:    len(hooks[WrapModelHook](s)),
	}
	v.out.Response, err = o.run()
	return &v.out, err
}

var modelCalls = wrapping[Request, abi.Response]{
	wrap: func(
		hooks any, i int, ctx *Context, req *Request, next func(*Request) (*abi.Response, error),
	) (*abi.Response, error) {
		return hooks.([]WrapModelHook)[i].WrapModel(ctx, req, next)
	},
	clone:      (*Request).cloneOf,
	copy:       func(to, from *abi.Response) { *to = *clone.Response(from) },
	same:       clone.SameResponse,
	streamArgs: func(q *Request) *streamArgs { return &q.streamArgs },
	patch: func(_, q *Request) (abijson.Writable, bool, error) {
		patch, err := q.patch()
		return (*abijson.RequestPatch)(&patch), patch.IsZero(), err
	},
	reply: func(b []byte) (*abi.Response, error) {
		var reply contract.ModelReply
		err := abijson.Read(b, (*abijson.ModelReply)(&reply))
		return reply.Response, err
	},
	end:    func(e *contract.StreamEnd) *abi.Response { return e.Response },
	chunks: func(_ *Request, r *abi.Response) []abi.Chunk { return r.Message.Chunks() },
	assemble: func(good *abi.Response, assembly *chunkjoin.Assembly) *abi.Response {
		if good == nil {
			good = &abi.Response{Message: abi.Message{Role: abi.RoleAssistant}}
		}
		out := *good
		out.Message = assembly.Message(good.Message)
		return &out
	},
}

// A ModelEnd is a model call after it was made. Either Response or Err is set; the hook
// may change both.
type ModelEnd struct {
	// Request is the request that was sent. Changing it only affects [ModelEnd.Again].
	Request *Request
	// Response is the model's response, or nil if the call failed.
	Response *abi.Response
	// Err is the reason why the call failed. Setting it makes the call fail. Setting
	// Response instead makes it succeed.
	Err *abi.Error
	// Source is "model", or the entry that answered.
	Source string

	again *string
}

// Again makes the host repeat the model call with the request in Request after the hook returns, at
// most three times per call. It is not possible after a part of the response was delivered.
func (e *ModelEnd) Again(reason string) { e.again = &reason }

func (*ModelEnd) collect(m *Module, _ abi.Hook) any { return collect[AfterModelHook](m) }

func (*ModelEnd) serve(s *served) (answer abijson.Writable, err error) {
	v := hookCallOf[abijson.AfterModelInput, abijson.AfterModelAnswer](s)
	defer func() { answer, err = caught(recover(), answer, err) }()
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	in, out := &v.in, &v.out
	end := &ModelEnd{
		Request:  v.request(&in.Request),
		Response: clone.Response(in.Response),
		Err:      cloneError(in.Error),
		Source:   in.Source,
	}
	for _, h := range hooks[AfterModelHook](s) {
		if err := h.AfterModel(v.ctx, end); err != nil {
			return nil, err
		}
		if end.again != nil {
			break
		}
	}
	patch, err := end.Request.patch()
	if err != nil {
		return nil, err
	}
	if end.again != nil {
		out.Again = &abi.ModelAgain{Request: patch, Reason: *end.again}
		return out, nil
	}
	if !patch.IsZero() {
		return nil, misuse("AfterModel changed the request, which has been sent: call Again, or change it in BeforeModel")
	}
	out.Response, out.Error, err = outcome(clone.SameResponse, in.Response, end.Response, in.Error, end.Err)
	return out, err
}

// outcome compares a call's reply and error with those in the input and returns the changes. It
// fails if a hook removed both.
func outcome[T any](same func(a, b *T) bool, shown, now *T, shownErr, nowErr *abi.Error) (*T, *abi.Error, error) {
	switch {
	case now == nil && nowErr == nil:
		return nil, nil, misuse("an answer or an error must be left of a call")
	case nowErr != nil && !clone.SamePlain(nowErr, shownErr):
		return nil, nowErr, nil
	case now != nil && !same(now, shown):
		return now, nil, nil
	default:
		return nil, nil, nil
	}
}

func cloneError(e *abi.Error) *abi.Error {
	if e == nil {
		return nil
	}
	out := *e
	return &out
}
