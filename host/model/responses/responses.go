// Package responses is a client for endpoints with OpenAI's Responses API.
//
// The API does not store answers unless the parameter store is true. Encrypted reasoning and other
// items that the ABI does not know are parts of a message's content with the items' types. The
// client sends them back unchanged. Summaries of reasoning are also in the message's
// ReasoningContent. A conversation can contain messages of other models, whose reasoning the client
// does not send.
//
// Parameters that OpenAI's chat completions have, too, have the same names here: max_tokens,
// tool_choice, parallel_tool_calls, response_format, reasoning_effort, verbosity. Other parameters
// have the API's names, such as reasoning, text and include. The API has no parameters stop and
// seed.
package responses

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	wire "github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
	"github.com/agent-runner/agent-runner/internal/modelapi"
)

// Options configure a client. The zero value selects OpenAI's endpoint, without a key.
type Options struct {
	// BaseURL is the endpoint's URL without /responses. The default is OpenAI's,
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
	// MaxEvent is the maximum size of one event of a stream, in bytes. The default is 16 MiB, since the
	// last event repeats the answer and the request's instructions and tools.
	MaxEvent int
}

// defaultMaxEvent is the default of Options.MaxEvent.
const defaultMaxEvent = 16 << 20

var api = &modelapi.API{
	Package: "responses", Kind: "a Responses API", BaseURL: "https://api.openai.com/v1", Path: "/responses",
	EnvKey: "OPENAI_API_KEY", EnvBaseURL: "OPENAI_BASE_URL",
}

// A client calls one endpoint.
type client struct {
	client *modelapi.Client

	mu    sync.Mutex
	plain map[string]bool // names of models that reject requests for encrypted reasoning
}

// New returns a client for an endpoint. It fails if the options are invalid. It does not
// connect. The options are copied; nil means the defaults.
func New(o *Options) (model.Client, error) {
	if o == nil {
		o = &Options{}
	}
	opts := *o
	if opts.MaxEvent == 0 {
		opts.MaxEvent = defaultMaxEvent
	}
	e, err := modelapi.New(modelapi.Options(opts), api)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	if o.APIKey != "" {
		header.Set("Authorization", "Bearer "+o.APIKey)
	}
	return &client{client: modelapi.NewClient(e, wire.Protocol{}, header), plain: map[string]bool{}}, nil
}

// Close implements [model.Client].
func (c *client) Close() { c.client.Close() }

// include is the parameter that asks for encrypted reasoning. Models without reasoning reject it.
const include = "include"

// Generate implements [model.Model].
func (c *client) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	_, given := req.Params[include]
	if given || string(req.Params["store"]) == "true" || c.isPlain(req.Model) {
		return c.client.Generate(ctx, req, sink)
	}
	with := *req
	with.Params = abi.Params{include: abi.JSON(`["reasoning.encrypted_content"]`)}
	maps.Copy(with.Params, req.Params)
	res, err := c.client.Generate(ctx, &with, sink)
	if modelapi.Rejects(err, "ncrypted content") {
		c.setPlain(req.Model)
		return c.client.Generate(ctx, req, sink)
	}
	return res, err
}

// maxPlain limits the number of names in client.plain.
const maxPlain = 100

func (c *client) isPlain(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.plain[name]
}

func (c *client) setPlain(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.plain) < maxPlain {
		c.plain[name] = true
	}
}
