package gateway

import (
	"net/http"
	"net/url"

	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/chat"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
)

// upstreams are the protocols of routes, by their names in gateway.yaml.
var upstreams = map[string]Upstream{
	agentfile.ProtocolChat:      {Protocol: chat.Protocol{}, Path: chatPath},
	agentfile.ProtocolResponses: {Protocol: responses.Protocol{}, Path: "/v1/responses"},
	agentfile.ProtocolMessages:  {Protocol: messages.Protocol{}, Path: messagesPath, KeyHeader: "X-Api-Key"},
}

// NewUpstream returns the upstream of a route, without its key. It returns an error if the upstream's address is
// malformed.
func NewUpstream(r *agentfile.GatewayRoute) (Upstream, error) {
	u, err := url.Parse(string(r.Upstream))
	if err != nil {
		return Upstream{}, err
	}
	up := upstreams[string(r.Protocol)]
	up.URL = u
	if r.UpstreamProtocol != r.Protocol {
		other := upstreams[string(r.UpstreamProtocol)]
		up.KeyHeader = other.KeyHeader
		up.Target = &Target{Protocol: other.Protocol, Path: other.Path, MaxCompletionTokens: u.Host == "api.openai.com"}
		if r.UpstreamProtocol == agentfile.ProtocolMessages {
			up.Target.Header = http.Header{"Anthropic-Version": {"2023-06-01"}}
		}
	}
	return up, nil
}

// Serves reports whether requests to the path have the given protocol, one of the names in gateway.yaml.
func Serves(protocol, path string) bool {
	at := upstreams[protocol].Path
	return path == at || at == messagesPath && path == messagesPath+countTokens
}

// ModelOf returns the model of a request's body. It returns an error if the body is not a valid JSON object with a
// model.
func ModelOf(body []byte) (string, error) {
	h, err := headOf(body)
	if err != nil {
		return "", err
	}
	return h.model, nil
}
