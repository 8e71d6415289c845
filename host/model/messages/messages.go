// Package messages is a client for endpoints with Anthropic's Messages API.
//
// Signed thinking and other blocks that the ABI does not know are parts of a message's content with
// the blocks' types. The client sends them back unchanged. The text of thinking is also in the
// message's ReasoningContent. A conversation can contain messages of other models, whose reasoning
// the client does not send.
//
// Parameters that OpenAI's chat completions have, too, have the same names here: max_tokens, stop,
// tool_choice, parallel_tool_calls, response_format with a JSON Schema, reasoning_effort, user.
// Other parameters have the API's names, such as thinking, top_k and metadata. The API requires
// max_tokens; the default is 8192 tokens in addition to a budget for thinking.
package messages

import (
	"net/http"
	"time"

	"github.com/agent-runner/agent-runner/host/model"
	wire "github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/modelapi"
)

// Options configure a client. The zero value selects Anthropic's endpoint, without a key.
type Options struct {
	// BaseURL is the endpoint's URL without /v1/messages. The default is Anthropic's,
	// https://api.anthropic.com. The URL's query is sent with each request.
	BaseURL string
	// APIKey, if not empty, is sent in the header X-Api-Key. It does not appear in errors.
	APIKey string
	// Headers are sent with each request, such as Anthropic-Beta. Their values do not appear in errors.
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
	// IdleTimeout is the maximum pause within an answer. The default is 2 minutes. Events of type
	// ping end a pause. Time in a sink does not count.
	IdleTimeout time.Duration

	// MaxAnswer is the maximum size of an answer after decompression, in bytes. The default
	// is 32 MiB.
	MaxAnswer int64
	// MaxEvent is the maximum size of one event of a stream, in bytes. The default is 4 MiB.
	MaxEvent int
}

var api = &modelapi.API{
	Package: "messages", Kind: "a Messages API", BaseURL: "https://api.anthropic.com", Path: "/v1/messages",
	EnvKey: "ANTHROPIC_API_KEY", EnvBaseURL: "ANTHROPIC_BASE_URL",
}

// version is the version of the API, which each request must name.
const version = "2023-06-01"

// New returns a client for an endpoint. It fails if the options are invalid. It does not
// connect. The options are copied; nil means the defaults.
func New(o *Options) (model.Client, error) {
	if o == nil {
		o = &Options{}
	}
	e, err := modelapi.New(modelapi.Options(*o), api)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Anthropic-Version": {version}}
	if o.APIKey != "" {
		header.Set("X-Api-Key", o.APIKey)
	}
	return modelapi.NewClient(e, wire.Protocol{}, header), nil
}
