package gateway

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/agent-runner/agent-runner/internal/agentfile"
)

// loginHeader names the account of a ChatGPT login. Codex sends it with the login's token in Authorization.
const loginHeader = "Chatgpt-Account-Id"

// LoginURL returns the address, without /responses, of a route's requests with a ChatGPT login. OpenAI does not
// serve them at the address of requests with API keys. It returns nil if the route's upstream is not OpenAI's
// Responses API, or has a key of its own.
func LoginURL(r *agentfile.GatewayRoute) *url.URL {
	if r.Protocol != agentfile.ProtocolResponses || r.UpstreamProtocol != r.Protocol ||
		r.Upstream != agentfile.OpenAI || r.APIKeyEnv != "" {
		return nil
	}
	return &url.URL{Scheme: "https", Host: "chatgpt.com", Path: "/backend-api/codex"}
}

// address returns the address of the upstream for a request of a client. Requests with a login go to the login's
// address if the credentials of clients pass.
func (g *Gateway) address(u *Upstream, r *http.Request) url.URL {
	at, path := *u.URL, r.URL.Path
	switch {
	case u.Target != nil:
		path = u.Target.Path
	case u.Login != nil && u.Key == "" && len(g.o.Keys) == 0 && r.Header.Get(loginHeader) != "":
		at, path = *u.Login, strings.TrimPrefix(path, "/v1")
	}
	if u.Target == nil {
		at.RawQuery = r.URL.RawQuery
	}
	at.Path = strings.TrimSuffix(at.Path, "/") + path
	return at
}
