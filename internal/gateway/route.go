package gateway

import (
	"encoding/json"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An endpoint is a path of the gateway.
type endpoint struct {
	path     string // the path of the protocol's endpoint, such as /v1/messages
	protocol wire.Protocol
	count    bool // counts the tokens of a request, instead of answering it
}

// name returns the path of the endpoint.
func (e endpoint) name() string {
	if e.count {
		return e.path + countTokens
	}
	return e.path
}

// The paths of endpoints. countTokens is appended to messagesPath in the path of requests that count tokens.
const (
	chatPath     = "/v1/chat/completions"
	messagesPath = "/v1/messages"
	countTokens  = "/count_tokens"
)

// endpointOf returns the endpoint to which a request was sent, and whether there is one. There is
// one for each protocol that a route has.
func (g *Gateway) endpointOf(r *http.Request) (endpoint, bool) {
	if r.Method != http.MethodPost {
		return endpoint{}, false
	}
	at, count := strings.CutSuffix(r.URL.Path, countTokens)
	for i := range g.o.Routes {
		if u := &g.o.Routes[i].Upstream; u.Path == at && (!count || at == messagesPath) {
			return endpoint{path: at, protocol: u.Protocol, count: count}, true
		}
	}
	return endpoint{}, false
}

// paths returns the paths of the endpoints.
func (g *Gateway) paths() []string {
	var out []string
	for i := range g.o.Routes {
		if p := g.o.Routes[i].Upstream.Path; !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// route returns the first route of an endpoint that has the model, or nil.
func (g *Gateway) route(endpoint, model string) *Route {
	for i := range g.o.Routes {
		r := &g.o.Routes[i]
		if r.Upstream.Path == endpoint && r.has(model) {
			return r
		}
	}
	return nil
}

// onlyRoute returns the only route of an endpoint, or nil if the endpoint has none or several.
func (g *Gateway) onlyRoute(endpoint string) *Route {
	var only *Route
	for i := range g.o.Routes {
		if r := &g.o.Routes[i]; r.Upstream.Path == endpoint {
			if only != nil {
				return nil
			}
			only = r
		}
	}
	return only
}

// has reports whether the route has the model.
func (r *Route) has(model string) bool { return Match(r.Models, model) }

// Match reports whether one of the patterns matches the model, or there are none. In patterns, * also
// matches slashes, which are part of many models' names.
func Match(patterns []string, model string) bool {
	return len(patterns) == 0 ||
		slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, model) })
}

func matches(pattern, model string) bool {
	plain := strings.NewReplacer("/", "\x00")
	ok, err := path.Match(plain.Replace(pattern), plain.Replace(model))
	return ok && err == nil
}

// listed returns the model if the route names it, and the route's pattern or "" otherwise: names that
// clients choose are not labels of metrics.
func (r *Route) listed(model string) string {
	if slices.Contains(r.Models, model) {
		return model
	}
	for _, pattern := range r.Models {
		if matches(pattern, model) {
			return pattern
		}
	}
	return ""
}

// Calls reports whether the gateway calls the hook h of modules.
func Calls(h abi.Hook) bool {
	switch h {
	case contract.HookBeforeModel, contract.HookWrapModel, contract.HookOnChunk, contract.HookAfterModel,
		contract.HookGateTool, contract.HookObserve:
		return true
	}
	return false
}

// models serves the list of the models that routes name, in OpenAI's format, with the additional fields of
// Anthropic's.
func (g *Gateway) models(w http.ResponseWriter, r *http.Request) {
	if _, err := g.authenticate(r); err != nil {
		refuse(w, g.o.Routes[0].Upstream.Protocol, err)
		return
	}
	type model struct {
		ID          string `json:"id"`
		Object      string `json:"object"`
		Type        string `json:"type"`
		DisplayName string `json:"display_name"`
		Created     int64  `json:"created"`
		CreatedAt   string `json:"created_at"`
		OwnedBy     string `json:"owned_by"`
	}
	list := []model{}
	for _, route := range g.o.Routes {
		for _, name := range route.Models {
			known := slices.ContainsFunc(list, func(m model) bool { return m.ID == name })
			if !known && !strings.ContainsAny(name, `*?[\`) {
				list = append(list, model{name, "model", "model", name, 0, "1970-01-01T00:00:00Z", route.Name})
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"object": "list", "data": list, "has_more": false})
}
