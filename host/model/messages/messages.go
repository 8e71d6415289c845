// Package messages is a client for endpoints with Anthropic's Messages API.
//
// Signed thinking and other blocks that the ABI does not know are parts of a message's content with
// the blocks' types. The client sends them back unchanged. The text of thinking is also in the
// message's ReasoningContent. A conversation can contain messages of other models, whose reasoning
// the client does not send. It sends thinking without a signature only to endpoints other than
// https://api.anthropic.com, which rejects it.
//
// Parameters that OpenAI's chat completions have, too, have the same names here: max_tokens, stop,
// tool_choice, parallel_tool_calls, response_format with a JSON Schema, reasoning_effort, user.
// Other parameters have the API's names, such as thinking, top_k and metadata. The API requires
// max_tokens; the default is 8192 tokens in addition to a budget for thinking.
package messages

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/agent-runner/agent-runner/host/model"
	wire "github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/modelapi"
)

var api = &modelapi.API{
	Package: "messages", Kind: "a Messages API", BaseURL: "https://api.anthropic.com", Path: "/v1/messages",
	EnvKey: "ANTHROPIC_API_KEY", EnvBaseURL: "ANTHROPIC_BASE_URL",
}

// version is the version of the API, which each request must name.
const version = "2023-06-01"

// New returns a client for an endpoint, by default https://api.anthropic.com. It sends the key in the
// header X-Api-Key. It fails if the options are invalid. It does not connect. The options are copied;
// nil means the defaults.
func New(o *model.ClientOptions) (model.Client, error) {
	if o == nil {
		o = &model.ClientOptions{}
	}
	e, err := modelapi.New(*o, api)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Anthropic-Version": {version}}
	if o.APIKey != "" {
		header.Set("X-Api-Key", o.APIKey)
	}
	return modelapi.NewClient(e, wire.Protocol{KeepUnsigned: !isAnthropic(e.Base)}, header), nil
}

// isAnthropic reports whether an endpoint is Anthropic's own.
func isAnthropic(base string) bool {
	u, err := url.Parse(base)
	return err == nil && strings.EqualFold(u.Hostname(), "api.anthropic.com")
}
