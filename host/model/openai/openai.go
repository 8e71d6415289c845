// Package openai is a client for endpoints with the OpenAI chat completions API, based on
// go-openai.
//
// go-openai sends the request (address, key, headers) and reads the stream's lines. The
// package does not use its structs, because they drop unknown fields and zero values.
// Instead, package wire/chat writes the request body. The client's transport
// (transport.go) inserts the body, and converts the response, a stream of events or one
// document, to a stream with one event per line (events.go). The same code parses events with a
// part of a message or a whole one (answer.go, calls.go). Package modelapi enforces timeouts and
// limits, and turns failures in any of the usual forms into a *model.Error.
package openai

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"sync/atomic"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/chat"
	"github.com/agent-runner/agent-runner/internal/modelapi"
)

// api describes the endpoints.
var api = &modelapi.API{
	Package: "openai", Kind: "an OpenAI-compatible API", BaseURL: "https://api.openai.com/v1", Path: "/chat/completions",
	EnvKey: "OPENAI_API_KEY", EnvBaseURL: "OPENAI_BASE_URL",
}

// A client calls one endpoint.
type client struct {
	at *modelapi.Endpoint

	noStreamOptions atomic.Bool // the endpoint rejected stream_options
	shortReasoning  atomic.Bool // the endpoint names the field "reasoning", not "reasoning_content"
}

// New returns a client for an endpoint, by default https://api.openai.com/v1. It sends the key as a
// bearer token. It fails if the options are invalid. It does not connect. The options are copied; nil
// means the defaults.
func New(o *model.ClientOptions) (model.Client, error) {
	if o == nil {
		o = &model.ClientOptions{}
	}
	at, err := modelapi.New(*o, api)
	if err != nil {
		return nil, err
	}
	return &client{at: at}, nil
}

// Close implements [model.Client].
func (c *client) Close() { c.at.Close() }

// Generate implements [model.Model].
func (c *client) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	_, given := req.Params["stream_options"]
	options := sink != nil && !given && !c.noStreamOptions.Load()
	res, err := c.generate(ctx, req, sink, options)
	if options && modelapi.Rejects(err, "stream_options") {
		c.noStreamOptions.Store(true)
		res, err = c.generate(ctx, req, sink, false)
	}
	return res, c.at.Redacted(err)
}

// generate sends one HTTP request, with stream_options if options is set.
func (c *client) generate(
	ctx context.Context,
	req *model.Request,
	sink func(abi.Chunk) error,
	options bool,
) (*abi.Response, error) {
	body, err := c.body(req, sink != nil, options)
	if err != nil {
		return nil, err
	}
	k, err := c.at.NewCall(ctx, body, req.Model)
	if err != nil {
		return nil, err
	}
	defer k.Close()
	call := &call{Call: k, stream: sink != nil}

	config := openai.DefaultConfig(c.at.APIKey)
	config.BaseURL = c.at.Base
	config.HTTPClient = call
	// The call inserts the body. go-openai sees an empty request, so that its checks of models
	// and parameters do not apply.
	stream, err := openai.NewClientWithConfig(config).
		CreateChatCompletionStream(call.Context, openai.ChatCompletionRequest{})
	if err != nil {
		return nil, call.Failure(err)
	}
	defer stream.Close()

	a := answer{client: c, sink: sink, calls: calls{client: c}}
	for {
		raw, err := stream.RecvRaw()
		switch {
		case errors.Is(err, io.EOF):
			return a.end(call.whole)
		case err != nil && a.finish != "":
			// The answer is complete except for the usage.
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return a.end(call.whole)
		case err != nil:
			return nil, call.Failure(err)
		}
		if err := a.event(raw); err != nil {
			return nil, err
		}
		if a.finish != "" {
			call.Ended()
		}
	}
}

// body encodes the body of a request, with the endpoint's name for reasoning.
func (c *client) body(req *model.Request, stream, options bool) ([]byte, error) {
	call := &wire.Call{Messages: req.Messages, Tools: req.Tools, Model: req.Model, Params: req.Params, Stream: stream}
	if options {
		call.Params = maps.Clone(req.Params)
		if call.Params == nil {
			call.Params = abi.Params{}
		}
		call.Params["stream_options"] = abi.JSON(`{"include_usage":true}`)
	}
	if c.shortReasoning.Load() {
		call.Messages = slices.Clone(req.Messages)
		for i := range call.Messages {
			if m := &call.Messages[i]; m.ReasoningContent != "" && !wire.HasForeign(m) {
				m.Unknown = append(slices.Clone(m.Unknown), abi.Field{Name: "reasoning", Value: rawjson.Quote(m.ReasoningContent)})
				m.ReasoningContent = ""
			}
		}
	}
	body, err := chat.Protocol{}.NewRequest(call)
	if err != nil {
		return nil, model.Errorf(abi.CodeInvalid, "%w", err)
	}
	return body, nil
}
