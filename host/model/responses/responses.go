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

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
	wire "github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
	"github.com/agent-runner/agent-runner/internal/modelapi"
)

// defaultMaxEvent is the default of the options' MaxEvent.
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

// New returns a client for an endpoint, by default https://api.openai.com/v1. It sends the key as a
// bearer token. It fails if the options are invalid. It does not connect. The options are copied; nil
// means the defaults.
func New(o *model.ClientOptions) (model.Client, error) {
	if o == nil {
		o = &model.ClientOptions{}
	}
	opts := *o
	if opts.MaxEvent == 0 {
		opts.MaxEvent = defaultMaxEvent
	}
	e, err := modelapi.New(opts, api)
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
