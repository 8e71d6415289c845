package middleware

import "github.com/agent-runner/agent-runner/abi"

// A ModelStart is a model call before it is made.
type ModelStart struct {
	*Request

	response *abi.Response
}

// Respond answers in the model's place: neither wrappers of this ring nor the
// model are called.
func (s *ModelStart) Respond(response *abi.Response) { s.response = response }

func (m *Module) beforeModel(c *call, in *abi.BeforeModelInput) (abi.Writable, error) {
	start := &ModelStart{Request: c.request(&in.Request)}
	err := each(m, func(h BeforeModelHook) (bool, error) {
		err := h.BeforeModel(c.ctx, start)
		return start.response == nil, err
	})
	if err != nil {
		return nil, err
	}
	out := &abi.BeforeModelAnswer{Response: start.response}
	out.Request, err = start.patch()
	return out, err
}

// A NextModel goes on with a model call: with the request as it was changed,
// or as it came if req is nil. It may be called several times. Errors are
// *abi.Error; if the run ends meanwhile it does not return.
type NextModel func(req *Request) (*abi.Response, error)

func (m *Module) wrapModel(c *call, in *abi.WrapModelInput) (abi.Writable, error) {
	c.ctx.textKind = abi.ChunkText
	o := &onion[Request, abi.Response]{
		call: c, clone: (*Request).clone, copy: cloneResponse, same: sameResponse,
		aside: func(q *Request) *aside { return &q.aside },
		patch: func(q *Request) (abi.Writable, bool, error) {
			patch, err := q.patch()
			return &patch, patch.IsZero(), err
		},
		reply: func(b []byte) (*abi.Response, error) {
			var reply abi.ModelReply
			err := abi.Read(b, &reply)
			return reply.Response, err
		},
		end:    func(e *abi.StreamEnd) *abi.Response { return e.Response },
		chunks: func(r *abi.Response) []abi.Chunk { return r.Message.Chunks() },
		said: func(good *abi.Response, said *abi.Assembly) *abi.Response {
			if good == nil {
				good = &abi.Response{Message: abi.Message{Role: abi.RoleAssistant}}
			}
			out := *good
			out.Message = said.Message(good.Message)
			return &out
		},
	}
	for _, p := range m.parts {
		h, ok := p.value.(WrapModelHook)
		if !ok {
			continue
		}
		o.wrappers = append(o.wrappers, func(req *Request, next func(*Request) (*abi.Response, error)) (*abi.Response, error) {
			return h.WrapModel(c.ctx, req, next)
		})
	}
	response, err := o.run(c.request(&in.Request))
	if err != nil {
		return nil, err
	}
	return &abi.WrapModelAnswer{Response: response}, nil
}

// A ModelEnd is a model call after it was made. Response and Err may be
// changed, one of them being there.
type ModelEnd struct {
	// Request is what was sent. It may be changed for [ModelEnd.Again] only.
	Request *Request
	// Response is the model's answer, nil if the call failed.
	Response *abi.Response
	// Err is why it failed. Setting it makes the call a failed one; setting a
	// Response in its place makes it good.
	Err *abi.Error
	// Source is "model", or the entry that answered.
	Source string

	again *string
}

// Again calls the model once more, with the request as it was changed. At most
// three times a call, and not after a part of the answer was delivered.
func (e *ModelEnd) Again(reason string) { e.again = &reason }

func (m *Module) afterModel(c *call, in *abi.AfterModelInput) (abi.Writable, error) {
	end := &ModelEnd{Request: c.request(&in.Request), Response: cloneResponse(in.Response), Err: cloneError(in.Error), Source: in.Source}
	err := each(m, func(h AfterModelHook) (bool, error) {
		err := h.AfterModel(c.ctx, end)
		return end.again == nil, err
	})
	if err != nil {
		return nil, err
	}
	patch, err := end.Request.patch()
	if err != nil {
		return nil, err
	}
	if end.again != nil {
		return &abi.AfterModelAnswer{Again: &abi.ModelAgain{Request: patch, Reason: *end.again}}, nil
	}
	if !patch.IsZero() {
		return nil, misuse("AfterModel changed the request, which has been sent: call Again, or change it in BeforeModel")
	}
	out := &abi.AfterModelAnswer{}
	out.Response, out.Error, err = outcome(sameResponse, in.Response, end.Response, in.Error, end.Err)
	return out, err
}

// outcome compares a call's reply and error with what was shown.
func outcome[T any](same func(a, b *T) bool, shown, now *T, shownErr, nowErr *abi.Error) (*T, *abi.Error, error) {
	switch {
	case now == nil && nowErr == nil:
		return nil, nil, misuse("an answer or an error must be left of a call")
	case nowErr != nil && !samePlain(nowErr, shownErr):
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
