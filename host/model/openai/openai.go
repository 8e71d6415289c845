// Package openai calls any endpoint that speaks the OpenAI chat completions
// API, through go-openai.
//
// go-openai makes the request (address, key, headers) and reads the stream's
// lines; its structs are not used, because they drop what they do not know
// and what is zero. So the body that goes out is written here (request.go)
// and put in place by the client's transport (transport.go), which also sees
// to timeouts, limits and failures, and turns whatever comes back, a stream of
// events or one document, into a stream of one event a line (events.go). Each
// event is read by the same code, a piece of a message like a whole one
// (answer.go, calls.go); failures in any of the usual forms become a
// *model.Error (problem.go).
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

// DefaultBaseURL is where requests go without another base URL.
const DefaultBaseURL = "https://api.openai.com/v1"

// Options configure a [Client]. The zero value is usable with endpoints that
// need no key.
type Options struct {
	// BaseURL is the address up to, not including, /chat/completions;
	// DefaultBaseURL if empty. A query in it goes with each request.
	BaseURL string
	// APIKey is sent as a bearer token, if it is not empty. It does not
	// appear in errors.
	APIKey string
	// Headers are sent with each request. Their values do not appear in errors.
	Headers map[string]string
	// HTTPClient makes the requests; nil stands for one of the client's own.
	// Redirects are never followed.
	HTTPClient *http.Client

	// Connect is the time for the connection, of the client's own HTTP
	// client; 10 seconds if 0.
	Connect time.Duration
	// FirstByte is the time until the answer begins; 5 minutes if 0, since an
	// answer that is not streamed begins when it is complete.
	FirstByte time.Duration
	// Idle is the longest pause in an answer that has begun; 2 minutes if 0.
	// Keep-alive comments count as signs of life. Time in a sink does not.
	Idle time.Duration

	// MaxAnswer is the size of a whole answer in bytes, as it comes out of
	// decompression; 32 MiB if 0.
	MaxAnswer int64
	// MaxEvent is the size of one event of a stream in bytes; 4 MiB if 0.
	MaxEvent int
}

// The values of zero options.
const (
	DefaultConnect   = 10 * time.Second
	DefaultFirstByte = 5 * time.Minute
	DefaultIdle      = 2 * time.Minute
	DefaultMaxAnswer = 32 << 20
	DefaultMaxEvent  = 4 << 20
)

func (o Options) withDefaults() (Options, error) {
	if o.BaseURL == "" {
		o.BaseURL = DefaultBaseURL
	}
	if o.Connect == 0 {
		o.Connect = DefaultConnect
	}
	if o.FirstByte == 0 {
		o.FirstByte = DefaultFirstByte
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	if o.MaxAnswer == 0 {
		o.MaxAnswer = DefaultMaxAnswer
	}
	if o.MaxEvent == 0 {
		o.MaxEvent = DefaultMaxEvent
	}
	if o.Connect < 0 || o.FirstByte < 0 || o.Idle < 0 || o.MaxAnswer < 0 || o.MaxEvent < 0 {
		return o, errors.New("openai: timeouts and limits cannot be negative")
	}
	o.Headers = maps.Clone(o.Headers)
	return o, nil
}

// A Client is a [model.Model] at one endpoint.
type Client struct {
	opts    Options
	base    string // without query, what go-openai is given
	shown   string // what errors call it
	query   string
	http    *http.Client
	own     bool // http is the client's own
	secrets []*redact.Secret

	noStreamOptions atomic.Bool // the endpoint refused stream_options
	saysReasoning   atomic.Bool // the endpoint calls it reasoning, not reasoning_content
}

// New returns a client of an endpoint. It fails if the options make no sense;
// it does not connect.
func New(opts Options) (*Client, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(strings.TrimSpace(opts.BaseURL))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		// The parse error holds the URL, which may hold a password.
		return nil, errors.New("openai: the base URL is not an address like https://api.openai.com/v1; check --base-url or OPENAI_BASE_URL")
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

// Close closes connections that wait for another request, if the client has
// its own HTTP client. Requests that are under way are not touched.
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

// generate makes one HTTP request, with stream_options if options is set.
func (c *Client) generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error, options bool) (*abi.Response, error) {
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
	// The body is the call's; go-openai sees an empty request, which none of
	// its checks of models and their parameters apply to.
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
			// It is complete but for its usage.
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
			call.hurry()
		}
	}
}
