package eino

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cloudwego/eino/adk"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/schema"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/ending"
	"github.com/agent-runner/agent-runner/internal/chain/pipe"
)

// WrapModel returns a model that calls inner, with before_model, wrap_model, on_chunk and
// after_model around each call.
func (m *middleware) WrapModel(
	_ context.Context,
	inner model.BaseChatModel,
	mc *adk.ModelContext,
) (model.BaseChatModel, error) {
	return &wrappedModel{m, inner}, nil
}

type wrappedModel struct {
	m     *middleware
	inner model.BaseChatModel
}

// Generate makes a call without streaming.
func (w *wrappedModel) Generate(
	ctx context.Context,
	input []*schema.Message,
	opts ...model.Option,
) (*schema.Message, error) {
	return w.call(ctx, input, opts, nil)
}

// Stream makes a streaming call. It returns after the first chunk or at the end of the call, so that
// an error before the first chunk is returned directly.
func (w *wrappedModel) Stream(
	ctx context.Context,
	input []*schema.Message,
	opts ...model.Option,
) (*schema.StreamReader[*schema.Message], error) {
	reader, writer := schema.Pipe[*schema.Message](1)
	began := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	var sent atomic.Bool
	send := func(msg *schema.Message, err error) error {
		if sent.CompareAndSwap(false, true) {
			began <- err
			if err != nil {
				return err
			}
		}
		if writer.Send(msg, err) {
			cancel() // the reader closed the stream
			return context.Canceled
		}
		return nil
	}
	go func() {
		defer cancel()
		defer writer.Close()
		_, err := w.call(ctx, input, opts, send)
		if err != nil {
			_ = send(nil, err)
		} else if sent.CompareAndSwap(false, true) {
			began <- nil
		}
	}()
	if err := <-began; err != nil {
		reader.Close()
		return nil, err
	}
	return reader, nil
}

// call makes a call through the chain and returns the final message. It streams if send is not nil.
// If the final message of a stream differs from the streamed one, the session stores it for Eino's
// state.
func (w *wrappedModel) call(
	ctx context.Context,
	input []*schema.Message,
	opts []model.Option,
	send func(*schema.Message, error) error,
) (*schema.Message, error) {
	s, err := w.m.session(ctx)
	if err != nil {
		return nil, err
	}
	if respond := s.answered(); respond != nil {
		return w.respond(s, respond, send)
	}
	c := &modelCall{s: s, inner: w.inner, opts: opts, send: send, was: input}
	request, err := c.request(ctx, input)
	if err != nil {
		return nil, err
	}
	var res *abi.Response
	err = s.phase(ctx, phaseModel, func(ctx context.Context, run *chain.Run) error {
		call := chain.ModelCall{
			Request:   request,
			State:     s.talk.current(),
			Generate:  c.generate,
			Delivered: c.delivered.Load,
			Allow:     allow,
		}
		if send != nil {
			call.Out = c.out
		}
		var err error
		res, _, err = run.CallModel(ctx, call)
		var failed *abi.Error
		if errors.As(err, &failed) && c.failed != nil && !ending.Is(err) && failed.Message == c.failed.Error() {
			return c.failed // unchanged, so that Eino's retries recognize it
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c.finish(res)
}

// respond returns before_agent's message in place of a model response. It also sends the message if
// send is not nil.
func (w *wrappedModel) respond(
	s *session,
	m *abi.Message,
	send func(*schema.Message, error) error,
) (*schema.Message, error) {
	out, err := toEino(*m, nil)
	if err == nil && send != nil {
		err = send(out, nil)
	}
	return out, err
}

// A modelCall is one model call through the chain.
type modelCall struct {
	s         *session
	inner     model.BaseChatModel
	opts      []model.Option
	send      func(*schema.Message, error) error
	was       []*schema.Message
	delivered atomic.Bool
	chunks    []abi.Chunk // delivered so far
	message   *schema.Message
	failed    error
	tools     map[string]*schema.ToolInfo
}

func (c *modelCall) request(ctx context.Context, input []*schema.Message) (q chain.ModelRequest, err error) {
	o := model.GetCommonOptions(&model.Options{}, c.opts...)
	q = chain.ModelRequest{Params: abi.Params{}, Stream: c.send != nil}
	if q.Messages, err = c.s.talk.read(input); err != nil {
		return q, err
	}
	if o.Model != nil {
		q.Model = *o.Model
	}
	for name, value := range map[string]any{
		"temperature": o.Temperature, "top_p": o.TopP, "max_tokens": o.MaxTokens, "stop": o.Stop,
	} {
		b, err := json.Marshal(value)
		if err != nil {
			return q, err
		}
		if string(b) != "null" {
			q.Params[name] = b
		}
	}
	c.tools = map[string]*schema.ToolInfo{}
	for _, info := range o.Tools {
		t, _ := c.s.tool(info.Name)
		d, err := declaration(info)
		if err != nil {
			return q, err
		}
		d.Owner = t.Owner
		c.tools[info.Name] = info
		q.Tools = append(q.Tools, d)
	}
	return q, nil
}

// allow rejects parameters for which Eino has no option.
func allow(q *chain.ModelRequest) error {
	for name := range q.Params {
		if !slices.Contains([]string{"temperature", "top_p", "max_tokens", "stop"}, name) {
			return fmt.Errorf("params: %q cannot be set inside Eino; temperature, top_p, max_tokens and stop can", name)
		}
	}
	return nil
}

// options returns the call's options with the changes of modules.
func (c *modelCall) options(q chain.ModelRequest) ([]model.Option, error) {
	opts := slices.Clone(c.opts)
	if q.Model != "" {
		opts = append(opts, model.WithModel(q.Model))
	}
	var o struct {
		Temperature *float32 `json:"temperature"`
		TopP        *float32 `json:"top_p"`
		MaxTokens   *int     `json:"max_tokens"`
		Stop        []string `json:"stop"`
	}
	b, err := json.Marshal(q.Params)
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	if o.Temperature != nil {
		opts = append(opts, model.WithTemperature(*o.Temperature))
	}
	if o.TopP != nil {
		opts = append(opts, model.WithTopP(*o.TopP))
	}
	if o.MaxTokens != nil {
		opts = append(opts, model.WithMaxTokens(*o.MaxTokens))
	}
	if o.Stop != nil {
		opts = append(opts, model.WithStop(o.Stop))
	}
	if len(q.Tools) != len(c.tools) {
		infos := []*schema.ToolInfo{}
		for _, t := range q.Tools {
			infos = append(infos, c.tools[t.Name])
		}
		opts = append(opts, model.WithTools(infos))
	}
	return opts, nil
}

// generate calls Eino's model with the changed request and converts the answer for modules.
func (c *modelCall) generate(ctx context.Context, q chain.ModelRequest, out pipe.Sink) (*abi.Response, error) {
	opts, err := c.options(q)
	if err != nil {
		return nil, err
	}
	messages, err := c.s.talk.convert(q.Messages)
	if err != nil {
		return nil, err
	}
	if out == nil {
		c.message, err = c.inner.Generate(ctx, messages, opts...)
	} else {
		c.message, err = c.stream(ctx, messages, opts, out)
	}
	if err != nil {
		if !ending.Is(err) {
			c.failed = err
		}
		return nil, err
	}
	return c.response(c.message)
}

func (c *modelCall) response(m *schema.Message) (*abi.Response, error) {
	message, err := fromEino(m)
	if err != nil {
		return nil, err
	}
	res := &abi.Response{Message: message}
	if meta := m.ResponseMeta; meta != nil {
		res.FinishReason = meta.FinishReason
		if u := meta.Usage; u != nil {
			res.Usage = &abi.Usage{
				PromptTokens:     int64(u.PromptTokens),
				CompletionTokens: int64(u.CompletionTokens),
				TotalTokens:      int64(u.TotalTokens),
			}
			c.s.spend(*res.Usage)
		}
	}
	return res, nil
}

// stream passes the model's chunks to the chain as they arrive, and returns the message that they
// form.
func (c *modelCall) stream(
	ctx context.Context,
	messages []*schema.Message,
	opts []model.Option,
	out pipe.Sink,
) (*schema.Message, error) {
	reader, err := c.inner.Stream(ctx, messages, opts...)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var all []*schema.Message
	for {
		m, err := reader.Recv()
		switch {
		case errors.Is(err, io.EOF):
			if len(all) == 0 {
				return nil, errors.New("the model's stream was empty")
			}
			if err := out(ctx, nil, true); err != nil {
				return nil, err
			}
			return schema.ConcatMessages(all)
		case err != nil:
			return nil, err
		}
		all = append(all, m)
		if chunks, err := chunksOf(m); err != nil {
			return nil, err
		} else if len(chunks) > 0 {
			if err := out(ctx, chunks, false); err != nil {
				return nil, err
			}
		}
	}
}

// chunksOf returns the chunks in one message of a stream.
func chunksOf(m *schema.Message) ([]abi.Chunk, error) {
	var out []abi.Chunk
	if m.ReasoningContent != "" {
		out = append(out, abi.Chunk{Kind: abi.ChunkReasoning, Text: m.ReasoningContent})
	}
	if m.Content != "" {
		out = append(out, abi.Chunk{Kind: abi.ChunkText, Text: m.Content})
	}
	parts, err := parts(m)
	if err != nil {
		return nil, err
	}
	for i := range parts {
		out = append(out, abi.Chunk{Kind: abi.ChunkPart, Part: &parts[i]})
	}
	for i, t := range m.ToolCalls {
		index := i
		if t.Index != nil {
			index = *t.Index
		}
		out = append(out,
			abi.Chunk{Kind: abi.ChunkToolCall, Index: index, ID: t.ID, Name: t.Function.Name, Arguments: t.Function.Arguments})
	}
	return out, nil
}

// out sends chunks as one message of Eino's stream. It sends nothing if there are no chunks.
func (c *modelCall) out(ctx context.Context, chunks []abi.Chunk, _ bool) error {
	m := &schema.Message{Role: schema.Assistant}
	var text, reasoning strings.Builder
	for i := range chunks {
		switch k := chunks[i]; k.Kind {
		case abi.ChunkText:
			text.WriteString(k.Text)
		case abi.ChunkReasoning:
			reasoning.WriteString(k.Text)
		case abi.ChunkToolCall:
			call := schema.ToolCall{
				Index:    &k.Index,
				ID:       k.ID,
				Function: schema.FunctionCall{Name: k.Name, Arguments: k.Arguments},
			}
			if k.ID != "" {
				call.Type = "function"
			}
			m.ToolCalls = append(m.ToolCalls, call)
		case abi.ChunkPart:
			part, err := partTo[schema.MessageOutputPart](*k.Part, nil)
			if err != nil {
				return err
			}
			m.AssistantGenMultiContent = append(m.AssistantGenMultiContent, part)
		}
	}
	if m.Content, m.ReasoningContent = text.String(), reasoning.String(); len(chunks) == 0 {
		return nil
	}
	c.delivered.Store(true)
	c.chunks = append(c.chunks, chunks...)
	return c.send(m, nil)
}

// finish returns the final message of the call. For a streaming call, it sends the metadata that
// the stream lacks, and stores the message in the session if it differs from the streamed one.
func (c *modelCall) finish(res *abi.Response) (*schema.Message, error) {
	message := c.message
	if message != nil {
		if was, err := fromEino(message); err != nil || !equal(stripped(was), stripped(res.Message)) {
			if message, err = toEino(res.Message, c.message); err != nil {
				return nil, err
			}
		}
	} else {
		var err error
		if message, err = toEino(res.Message, nil); err != nil {
			return nil, err
		}
	}
	if res.FinishReason != "" && (message.ResponseMeta == nil || message.ResponseMeta.FinishReason != res.FinishReason) {
		meta := schema.ResponseMeta{}
		if message.ResponseMeta != nil {
			meta = *message.ResponseMeta
		}
		meta.FinishReason = res.FinishReason
		copied := *message
		copied.ResponseMeta, message = &meta, &copied
	}
	if c.send == nil {
		return message, nil
	}
	if !chain.Says(c.chunks, &res.Message) {
		c.s.mu.Lock()
		c.s.settled = message
		c.s.mu.Unlock()
	}
	return message, c.send(
		&schema.Message{Role: schema.Assistant, ResponseMeta: message.ResponseMeta, Extra: message.Extra},
		nil,
	)
}

// stripped returns m without its ID and its origin, which a chain does not preserve.
func stripped(m abi.Message) abi.Message {
	m.ID, m.Origin = "", ""
	return m
}
