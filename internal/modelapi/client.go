package modelapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// A Client is a [model.Model] that calls an endpoint with a protocol of package wire.
type Client struct {
	*Endpoint
	protocol wire.Protocol
	header   http.Header // headers of all requests, including the key
}

// NewClient returns a client for an endpoint with the protocol p. header has the headers of all
// requests.
func NewClient(e *Endpoint, p wire.Protocol, header http.Header) *Client {
	return &Client{Endpoint: e, protocol: p, header: header}
}

// Generate implements [model.Model].
func (c *Client) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	res, err := c.generate(ctx, req, sink)
	return res, c.Redacted(err)
}

func (c *Client) generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	body, err := c.protocol.NewRequest(&wire.Call{
		Messages: req.Messages, Tools: req.Tools, Model: req.Model, Params: req.Params, Stream: sink != nil,
	})
	if err != nil {
		return nil, model.Errorf(abi.CodeInvalid, "%w", err)
	}
	call, err := c.NewCall(ctx, body, req.Model)
	if err != nil {
		return nil, err
	}
	defer call.Close()
	r, err := http.NewRequestWithContext(call.Context, http.MethodPost, c.Base+c.api.Path, nil)
	if err != nil {
		return nil, model.Errorf(abi.CodeInvalid, "the request cannot be sent: %w", plain(err))
	}
	r.Header = c.header.Clone()
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	if sink != nil {
		r.Header.Set("Accept", "text/event-stream")
	}
	resp, err := call.Do(r)
	if err != nil {
		return nil, call.Failure(err)
	}
	defer resp.Body.Close()
	a := &answer{call: call, protocol: c.protocol, sink: sink}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return a.stream(resp.Body)
	}
	return a.document(resp.Body)
}

// An answer reads one answer, and sends its chunks to the sink.
type answer struct {
	call     *Call
	protocol wire.Protocol
	sink     func(abi.Chunk) error

	reasoning strings.Builder // reasoning that was sent to the sink
	arguments [maxCalls]int   // number of bytes of each call's arguments that were sent to the sink
}

// maxCalls is the maximum number of tool calls in an answer.
const maxCalls = 1024

// document reads an answer that is not streamed.
func (a *answer) document(r io.Reader) (*abi.Response, error) {
	b, err := io.ReadAll(r)
	switch {
	case err != nil:
		return nil, a.call.Failure(err)
	case !json.Valid(b):
		return nil, a.call.NotJSON(b)
	case isReported(b):
		return nil, a.call.Reported(b)
	}
	parsed, err := a.protocol.ParseAnswer(b)
	if err != nil {
		return nil, a.misunderstood(err)
	}
	res := wire.Full(parsed)
	if err := a.check(res); err != nil {
		return nil, err
	}
	res.Message.ReasoningContent = reasoningOf(res)
	for _, c := range res.Message.Chunks() {
		if err := a.emit(c); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// isReported reports whether b, the body of a response with status 200, is an error object.
func isReported(b []byte) bool {
	var o struct {
		Type  json.RawMessage `json:"type"`
		Error json.RawMessage `json:"error"`
	}
	return json.Unmarshal(b, &o) == nil && (isSet(o.Error) || str(o.Type) == "error")
}

// stream reads a streamed answer.
func (a *answer) stream(r io.Reader) (*abi.Response, error) {
	events := wire.NewEventReader(r, a.call.MaxEvent, nil)
	s := a.protocol.NewStream("")
	for !s.Complete() {
		event, err := events.Next()
		last := errors.Is(err, io.ErrUnexpectedEOF) // some endpoints omit the last empty line
		switch {
		case errors.Is(err, io.EOF):
			return nil, a.call.BrokenOff("a stream without its end")
		case err != nil && !last:
			return nil, a.unread(err)
		}
		if err := a.event(s, event); err != nil {
			return nil, err
		}
		if last && !s.Complete() {
			return nil, a.call.BrokenOff("a stream without its end")
		}
	}
	a.call.Ended()
	return a.end(wire.Full(s))
}

// unread returns the error for a stream whose next event cannot be read because of err.
func (a *answer) unread(err error) error {
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return a.misunderstood(known)
	}
	return a.call.Failure(err)
}

// event decodes one event of a stream, and sends the chunks in it to the sink.
func (a *answer) event(s wire.Stream, event []byte) error {
	items, err := s.Decode(event)
	if err != nil {
		return a.misunderstood(err)
	}
	if failure := s.Failure(); failure != nil {
		return a.call.Reported(failure)
	}
	for i := range items {
		c := &items[i].Chunk
		if c.Text == "" && c.ID == "" && c.Arguments == "" {
			continue
		}
		if c.Index >= maxCalls {
			return a.tooManyCalls()
		}
		if err := a.emit(*c); err != nil {
			return err
		}
	}
	return nil
}

// end checks and returns the response after the last event. Before, it sends the parts of the
// response that arrived without chunks: parts other than text, and complete arguments of calls.
func (a *answer) end(res *abi.Response) (*abi.Response, error) {
	if err := a.check(res); err != nil {
		return nil, err
	}
	m := &res.Message
	m.ReasoningContent = a.reasoning.String()
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		if a.arguments[i] > 0 || c.Function.Arguments == "" {
			continue
		}
		chunk := abi.Chunk{Kind: abi.ChunkToolCall, Index: i, Arguments: c.Function.Arguments}
		if err := a.emit(chunk); err != nil {
			return nil, err
		}
	}
	for _, p := range m.Content.Parts() {
		if p.Type == abi.PartText {
			continue
		}
		if err := a.emit(abi.Chunk{Kind: abi.ChunkPart, Part: &p}); err != nil {
			return nil, err
		}
	}
	return res, nil
}

func (a *answer) emit(c abi.Chunk) error {
	switch c.Kind {
	case abi.ChunkReasoning:
		a.reasoning.WriteString(c.Text)
	case abi.ChunkToolCall:
		a.arguments[c.Index] += len(c.Arguments)
	}
	if a.sink == nil {
		return nil
	}
	return a.sink(c)
}

// check returns an error if res is not a response that the host may pass to modules. It sets the
// content of a message that has neither content nor tool calls to the empty text.
func (a *answer) check(res *abi.Response) error {
	m := &res.Message
	if len(m.ToolCalls) > maxCalls {
		return a.tooManyCalls()
	}
	err := contract.CheckMessage(m)
	if err == nil && m.Content.IsParts() { // opaque parts may be nested too deep
		var b []byte
		if b, err = abijson.Marshal(*m); err == nil {
			err = jsoncodec.Valid(b)
		}
	}
	if err != nil {
		return a.misunderstood(err)
	}
	if m.Content.IsNull() && len(m.ToolCalls) == 0 {
		m.Content = abi.Text("")
	}
	return nil
}

func (a *answer) tooManyCalls() error {
	return model.Errorf(abi.CodeModel, "%s answered with more than %d tool calls", a.call.Shown, maxCalls)
}

// misunderstood returns the error for an answer that could not be decoded because of err.
func (a *answer) misunderstood(err error) error {
	return &model.Error{Code: abi.CodeModel, Retryable: true, Message: a.call.Shown + ": " + a.call.Short(err.Error())}
}

// reasoningOf returns the reasoning text of an answer or, if it has none, the reasoning in its opaque
// parts, separated by blank lines.
func reasoningOf(res *abi.Response) string {
	if res.Message.ReasoningContent != "" {
		return res.Message.ReasoningContent
	}
	var texts []string
	for _, p := range res.Message.Content.Parts() {
		if text := wire.ReasoningText(&p); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n\n")
}
