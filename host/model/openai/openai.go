// Package openai is a client for endpoints with the OpenAI chat completions API, based on
// go-openai.
//
// go-openai sends the request (address, key, headers) and reads the stream's lines. The
// package does not use its structs, because they drop unknown fields and zero values.
// Instead, it writes the request body itself (request.go). The client's transport
// (transport.go) inserts the body, enforces timeouts and limits, handles failures, and
// converts the response, a stream of events or one document, to a stream with one event per
// line (events.go). The same code parses events with a part of a message or a whole one
// (answer.go, calls.go). Failures in any of the usual forms become a *model.Error
// (problem.go).
package openai

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	"github.com/agent-runner/agent-runner/internal/redact"
)

// defaultBaseURL is the default of Options.BaseURL.
const defaultBaseURL = "https://api.openai.com/v1"

// Options configure a [Client]. The zero value selects OpenAI's endpoint, without a key.
type Options struct {
	// BaseURL is the endpoint's URL without /chat/completions. The default is OpenAI's,
	// https://api.openai.com/v1. The URL's query is sent with each request.
	BaseURL string
	// APIKey, if not empty, is sent as a bearer token. It does not appear in errors.
	APIKey string
	// Headers are sent with each request. Their values do not appear in errors.
	Headers map[string]string
	// HTTPClient sends the requests. By default, the client creates its own. Redirects are
	// never followed.
	HTTPClient *http.Client

	// ConnectTimeout is the connection timeout of the client's own HTTP client. The default is 10
	// seconds.
	ConnectTimeout time.Duration
	// FirstByteTimeout is the timeout for the first byte of the answer. The default is 5 minutes,
	// since an answer that is not streamed starts when it is complete.
	FirstByteTimeout time.Duration
	// IdleTimeout is the maximum pause within an answer. The default is 2 minutes. Keep-alive
	// comments end a pause. Time in a sink does not count.
	IdleTimeout time.Duration

	// MaxAnswer is the maximum size of an answer after decompression, in bytes. The default
	// is 32 MiB.
	MaxAnswer int64
	// MaxEvent is the maximum size of one event of a stream, in bytes. The default is 4 MiB.
	MaxEvent int
}

// Defaults of Options.
const (
	defaultConnectTimeout   = 10 * time.Second
	defaultFirstByteTimeout = 5 * time.Minute
	defaultIdleTimeout      = 2 * time.Minute
	defaultMaxAnswer        = 32 << 20
	defaultMaxEvent         = 4 << 20
)

func (o Options) withDefaults() (Options, error) {
	if o.BaseURL == "" {
		o.BaseURL = defaultBaseURL
	}
	if o.ConnectTimeout == 0 {
		o.ConnectTimeout = defaultConnectTimeout
	}
	if o.FirstByteTimeout == 0 {
		o.FirstByteTimeout = defaultFirstByteTimeout
	}
	if o.IdleTimeout == 0 {
		o.IdleTimeout = defaultIdleTimeout
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = defaultMaxAnswer
	}
	if o.MaxEvent == 0 {
		o.MaxEvent = defaultMaxEvent
	}
	if o.ConnectTimeout < 0 || o.FirstByteTimeout < 0 || o.IdleTimeout < 0 || o.MaxAnswer < 0 || o.MaxEvent < 0 {
		return o, errors.New("openai: timeouts and limits cannot be negative")
	}
	o.Headers = maps.Clone(o.Headers)
	return o, nil
}

// A Client is a [model.Model] that calls one endpoint.
type Client struct {
	opts    Options
	base    string // the base URL without query, for go-openai
	shown   string // the endpoint's URL as shown in errors
	query   string
	http    *http.Client
	own     bool // http is the client's own
	secrets []*redact.Secret

	noStreamOptions atomic.Bool // the endpoint rejected stream_options
	shortReasoning  atomic.Bool // the endpoint names the field "reasoning", not "reasoning_content"
}

// New returns a client for an endpoint. It fails if the options are invalid. It does not
// connect. The options are copied; nil means the defaults.
func New(o *Options) (*Client, error) {
	if o == nil {
		o = &Options{}
	}
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(opts.BaseURL))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The parse error contains the URL, which may contain a password.
		return nil, errors.New(
			"openai: the base URL is not an address like https://api.openai.com/v1; check --base-url or OPENAI_BASE_URL",
		)
	}
	c := &Client{opts: opts, query: u.RawQuery, secrets: secrets(opts, u)}
	u.RawQuery, u.Fragment = "", ""
	c.base = strings.TrimRight(u.String(), "/")
	u.User = nil
	c.shown = strings.TrimRight(u.String(), "/")
	for name, value := range opts.Headers {
		if strings.ContainsAny(name+value, "\r\n\x00") {
			return nil, fmt.Errorf("openai: header %q holds a line break", name)
		}
	}
	if strings.ContainsAny(opts.APIKey, "\r\n\x00") {
		return nil, errors.New("openai: the API key holds a line break; check OPENAI_API_KEY")
	}
	c.http, c.own = httpClient(opts)
	return c, nil
}

// Close closes idle connections if the client has its own HTTP client. It does not affect
// active requests.
func (c *Client) Close() {
	if c.own {
		c.http.CloseIdleConnections()
	}
}

// Generate implements [model.Model].
func (c *Client) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	_, given := req.Params["stream_options"]
	options := sink != nil && !given && !c.noStreamOptions.Load()
	res, err := c.generate(ctx, req, sink, options)
	if options && errors.Is(err, errStreamOptions) {
		c.noStreamOptions.Store(true)
		res, err = c.generate(ctx, req, sink, false)
	}
	return res, c.failure(err)
}

// generate sends one HTTP request, with stream_options if options is set.
func (c *Client) generate(
	ctx context.Context,
	req *model.Request,
	sink func(abi.Chunk) error,
	options bool,
) (*abi.Response, error) {
	body, err := c.body(req, sink != nil, options)
	if err != nil {
		return nil, err
	}
	call := newCall(ctx, c, body, sink != nil, req.Model)
	defer call.close()
	if err := call.hold(int64(len(body))); err != nil {
		return nil, err
	}

	config := openai.DefaultConfig(c.opts.APIKey)
	config.BaseURL = c.base
	config.HTTPClient = call
	// The call inserts the body. go-openai sees an empty request, so that its checks of models
	// and parameters do not apply.
	stream, err := openai.NewClientWithConfig(config).CreateChatCompletionStream(call.ctx, openai.ChatCompletionRequest{})
	if err != nil {
		return nil, call.failure(err)
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
			return nil, call.failure(err)
		}
		if err := a.event(raw); err != nil {
			return nil, err
		}
		if a.finish != "" {
			call.shortenIdle()
		}
	}
}
