// Package scripted provides a model with scripted replies, for tests and for conversations
// with a known outcome.
package scripted

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

// A Reply is the model's behavior for one request. The model calls Do, waits for Delay, sends the
// chunks to the sink, and returns the response or the error. A reply with chunks and an error is an
// answer that breaks off.
type Reply struct {
	Response *abi.Response
	Err      error // usually a *model.Error

	// Chunks are sent to the sink. The default is the chunks of the response's message,
	// split into pieces of at most Size characters, or not split if Size is 0.
	Chunks []abi.Chunk
	Size   int

	Delay time.Duration // after Do, before the chunks
	Hang  bool          // after the chunks, block until the request's context is done
	// Do, if not nil, is called first. If it returns an error, the request fails with that error.
	// Tests use Do to block or to inspect a request.
	Do func(ctx context.Context, req *model.Request) error
}

// Text returns a reply with an assistant message whose content is text.
func Text(text string) Reply { return Message(abi.Assistant(text)) }

// Calls returns a reply with tool calls.
func Calls(calls ...abi.ToolCall) Reply {
	return Message(abi.Message{Role: abi.RoleAssistant, ToolCalls: calls})
}

// Message returns a reply with a message. The finish reason is [abi.FinishToolCalls] if the message
// has tool calls, or else [abi.FinishStop].
func Message(m abi.Message) Reply {
	finish := abi.FinishStop
	if len(m.ToolCalls) > 0 {
		finish = abi.FinishToolCalls
	}
	return Reply{Response: &abi.Response{Message: m, FinishReason: finish}}
}

// A Model gives scripted replies and records requests. Each request consumes the next reply.
// It is safe for concurrent use.
type Model struct {
	reply func(n int, req *model.Request) Reply

	mu       sync.Mutex
	requests []model.Request
}

// New returns a model that gives the replies in order, one per request, and fails if there
// are no more.
func New(replies ...Reply) *Model {
	return Func(func(n int, _ *model.Request) Reply {
		if n < len(replies) {
			return replies[n]
		}
		return Reply{Err: model.Errorf(
			abi.CodeModel,
			"the script has %d replies, and this is request %d; add a reply, or find out why the agent calls the model again",
			len(replies),
			n+1,
		)}
	})
}

// Func returns a model with the replies of fn. n is the number of the request, starting at
// 0. Calls of fn may be concurrent.
func Func(fn func(n int, req *model.Request) Reply) *Model { return &Model{reply: fn} }

// Requests returns copies of the requests so far, in order of arrival.
func (m *Model) Requests() []model.Request {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.requests)
}

// Generate implements [model.Model].
func (m *Model) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	m.mu.Lock()
	n := len(m.requests)
	m.requests = append(m.requests, model.Request{
		Model:    req.Model,
		Messages: slices.Clone(req.Messages),
		Tools:    slices.Clone(req.Tools),
		Params:   maps.Clone(req.Params),
	})
	m.mu.Unlock()

	r := m.reply(n, req)
	if r.Do != nil {
		if err := r.Do(ctx, req); err != nil {
			return nil, err
		}
	}
	if err := wait(ctx, r.Delay); err != nil {
		return nil, err
	}
	if sink != nil {
		for _, c := range r.chunks() {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err := sink(c); err != nil {
				return nil, err
			}
		}
	}
	if r.Hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if r.Err != nil {
		return nil, r.Err
	}
	if r.Response == nil {
		return nil, model.Errorf(abi.CodeModel, "reply %d of the script has neither a response nor an error", n+1)
	}
	res := *r.Response
	res.Message.ToolCalls = slices.Clone(res.Message.ToolCalls)
	return &res, nil
}

// wait waits for d. It returns the error of ctx if ctx is done first.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *Reply) chunks() []abi.Chunk {
	if r.Chunks != nil || r.Response == nil {
		return r.Chunks
	}
	whole := r.Response.Message.Chunks()
	if r.Size <= 0 {
		return whole
	}
	var out []abi.Chunk
	for _, c := range whole {
		out = append(out, split(c, r.Size)...)
	}
	return out
}

// split splits a chunk into pieces of at most n characters.
func split(c abi.Chunk, n int) []abi.Chunk {
	text := &c.Text
	if c.Kind == abi.ChunkToolCall {
		text = &c.Arguments
	}
	var out []abi.Chunk
	for rest := *text; ; {
		size := 0
		for i := 0; i < n && size < len(rest); i++ {
			_, w := utf8.DecodeRuneInString(rest[size:])
			size += w
		}
		*text, rest = rest[:size], rest[size:]
		out = append(out, c)
		if rest == "" {
			return out
		}
		c.ID, c.Name = "", ""
	}
}
