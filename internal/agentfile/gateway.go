package agentfile

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A Gateway is a parsed gateway.yaml, which describes the routes of a gateway.
type Gateway struct {
	Listen      string          `json:"listen,omitempty" jsonschema:"The address to listen on. Default: 127.0.0.1:8010."`
	Metrics     string          `json:"metrics,omitempty" jsonschema:"The address on which to serve GET /metrics for Prometheus, such as 127.0.0.1:9090. It needs no key. Default: none."`
	Keys        []ClientKey     `json:"keys,omitempty" jsonschema:"The keys that clients must send. Default: none, and clients' own credentials pass to the upstreams. An address other than loopback needs keys."`
	MaxRequests int             `json:"max_requests,omitempty" jsonschema:"The number of concurrent requests. Default: 256."`
	Timeout     Duration        `json:"timeout,omitempty" jsonschema:"The duration of a request with its answer. Default: 10m, at most 24h."`
	MaxMemory   Bytes           `json:"max_memory,omitempty" jsonschema:"The memory that requests in progress hold: bodies, and answers that wait for modules. Default: an eighth of the process's memory."`
	Prices      Path            `json:"prices,omitempty" jsonschema:"A file with the prices of models: YAML, or LiteLLM's JSON file of models. Default: none."`
	UsageFile   Path            `json:"usage_file,omitempty" jsonschema:"The file that keeps what keys have used, so that a restart does not reset budgets. Default: none."`
	Approver    GatewayApprover `json:"approver,omitzero" jsonschema:"An HTTP endpoint that decides on the calls for which a gate asks. Default: none, and such calls are denied."`
	Trace       bool            `json:"trace_upstream,omitempty" jsonschema:"Whether upstreams get the headers that connect traces. Default: false."`
	Routes      []GatewayRoute  `json:"routes,omitempty" jsonschema:"The routes. The first one with the request's protocol and model gets the request."`

	file *File // records the positions of keys
}

// A ClientKey is a key with which clients authenticate.
type ClientKey struct {
	Name     string    `json:"name" jsonschema:"The client's name."`
	Env      string    `json:"env" jsonschema:"The environment variable with the key, of at least 16 bytes."`
	Requests int       `json:"requests_per_minute,omitempty" jsonschema:"How many requests the key can send in a minute. Default: any number."`
	Budget   KeyBudget `json:"budget,omitzero" jsonschema:"What the key can use in a period. Default: any amount."`
}

// A KeyBudget limits the usage of a key in a period. Zero fields mean no limit.
type KeyBudget struct {
	Tokens int64   `json:"tokens,omitempty" jsonschema:"Tokens of all kinds."`
	Cost   float64 `json:"cost,omitempty" jsonschema:"Money, in the currency of the price file."`
	Per    period  `json:"per,omitempty" jsonschema:"The period, in UTC: hour, day, week or month. Default: month."`
}

type period string

var periods = []string{"hour", "day", "week", "month"}

// UnmarshalText reads the name of a period.
func (p *period) UnmarshalText(b []byte) error {
	return oneOf((*string)(p), string(b), "period", periods)
}

// A GatewayApprover is an HTTP endpoint that decides on tool calls.
type GatewayApprover struct {
	URL     URL      `json:"url,omitempty" jsonschema:"The address of the endpoint."`
	KeyEnv  string   `json:"key_env,omitempty" jsonschema:"The environment variable with the key that the endpoint gets as a bearer token. Default: none."`
	Timeout Duration `json:"timeout,omitempty" jsonschema:"The time in which the endpoint must decide. Default: 60s, at most 1h."`
}

// A GatewayRoute is one route of a gateway.
type GatewayRoute struct {
	Name             string   `json:"name,omitempty" jsonschema:"The route's name, which modules read as the agent's. Default: the protocol's name."`
	Protocol         protocol `json:"protocol" jsonschema:"The protocol of clients: chat (OpenAI's chat completions), responses (OpenAI's Responses API) or messages (Anthropic's Messages API)."`
	Models           []string `json:"models,omitempty" jsonschema:"The models of the route: names, or patterns with * and ?. Default: all."`
	Upstream         URL      `json:"upstream,omitempty" jsonschema:"The address of the upstream's API, without /v1. Default: https://api.openai.com, for the protocol messages https://api.anthropic.com."`
	UpstreamProtocol protocol `json:"upstream_protocol,omitempty" jsonschema:"The protocol of the upstream. With another one than the clients', requests and answers are translated. Default: the clients' protocol."`
	APIKeyEnv        string   `json:"api_key_env,omitempty" jsonschema:"The environment variable with the upstream's key. Default: clients send their own credentials."`
	Model            string   `json:"model,omitempty" jsonschema:"The model to ask the upstream for. Default: the request's."`
	Hold             bool     `json:"hold,omitempty" jsonschema:"Whether to hold streamed answers until after_model has run, which can then change them. Default: false."`

	Secrets     []secret     `json:"secrets,omitempty" jsonschema:"As in agent.yaml."`
	Middlewares []Middleware `json:"middlewares,omitempty" jsonschema:"As in agent.yaml. Without modules, requests and answers pass unchanged."`
	Rings       Rings        `json:"rings,omitzero" jsonschema:"As in agent.yaml."`

	chain *File
}

type protocol string

// The protocols of routes.
const (
	ProtocolChat      = "chat"
	ProtocolResponses = "responses"
	ProtocolMessages  = "messages"
)

var protocols = []string{ProtocolChat, ProtocolResponses, ProtocolMessages}

// OpenAI is the default upstream of a route, unless the upstream's protocol is messages.
const OpenAI = "https://api.openai.com"

// UnmarshalText reads the name of a protocol.
func (p *protocol) UnmarshalText(b []byte) error {
	return oneOf((*string)(p), string(b), "protocol", protocols)
}

// Chain returns an agent file with only the route's name, modules and secrets.
func (r *GatewayRoute) Chain() *File { return r.chain }

// LoadGateway reads a gateway.yaml. It joins relative paths with the file's directory. It returns
// an error if the file is invalid, if a module does not exist, or if a number exceeds its maximum.
// If an error has a position in the file, it is an [*Error].
func LoadGateway(path string) (*Gateway, error) {
	b, err := read(path)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "an agent.yaml", "a gateway.yaml"))
	}
	g, err := ParseGateway(path, b)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	for _, p := range []*Path{&g.Prices, &g.UsageFile} {
		if *p != "" {
			*p = join(dir, *p)
		}
	}
	for i := range g.Routes {
		if err := g.Routes[i].chain.locate(dir, nil); err != nil {
			return nil, err
		}
		if err := CheckBounds(g.Routes[i].chain); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// ParseGateway parses and validates a gateway.yaml. It does not read other files. name is the
// file's name in errors.
func ParseGateway(name string, b []byte) (*Gateway, error) {
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
	f := &File{path: name, lines: strings.Split(string(b), "\n"), marks: map[string]mark{}}
	g := &Gateway{file: f}
	if err := f.decodeInto(b, reflect.ValueOf(g).Elem()); err != nil {
		return nil, err
	}
	return g, g.check(name)
}

// NewGateway returns a gateway with the given routes, which do not come from a file. It sets their
// defaults, and returns an error if a route is invalid.
func NewGateway(routes []GatewayRoute) (*Gateway, error) {
	g := &Gateway{Routes: routes, file: &File{}}
	return g, g.check("the gateway")
}

// minGatewayMemory is the minimum of max_memory, in bytes.
const minGatewayMemory = 1 << 20

// check validates the gateway and sets its defaults. name is the gateway's name in errors.
func (g *Gateway) check(name string) error {
	if len(g.Routes) == 0 {
		return fmt.Errorf("%s: no routes; a gateway needs at least one, such as\nroutes:\n  - protocol: messages", name)
	}
	for i := range g.Routes {
		if err := g.checkRoute(i); err != nil {
			return err
		}
	}
	for i := range g.Keys {
		if err := g.checkKey(i); err != nil {
			return err
		}
	}
	switch {
	case g.MaxRequests < 0 || g.MaxRequests > maxCalls:
		return g.ErrorAt("max_requests", fmt.Errorf("max_requests: want a number from 1 to %d", maxCalls))
	case g.MaxMemory != 0 && g.MaxMemory < minGatewayMemory:
		return g.ErrorAt("max_memory", errors.New("max_memory: want at least 1MiB"))
	case g.Timeout < 0 || g.Timeout > Duration(24*time.Hour):
		return g.ErrorAt("timeout", errors.New("timeout: want a duration above 0, at most 24h"))
	}
	return g.checkOperation()
}

// checkOperation validates the metrics address and the approver.
func (g *Gateway) checkOperation() error {
	if g.Metrics != "" {
		if _, _, err := net.SplitHostPort(g.Metrics); err != nil {
			return g.ErrorAt("metrics", fmt.Errorf("metrics: %q is not an address such as 127.0.0.1:9090", g.Metrics))
		}
	}
	switch a := &g.Approver; {
	case a.URL == "" && (a.KeyEnv != "" || a.Timeout != 0):
		return g.ErrorAt("approver", errors.New("approver: want url, the address of the endpoint"))
	case a.Timeout < 0 || a.Timeout > Duration(time.Hour):
		return g.ErrorAt("approver.timeout", errors.New("timeout: want a duration above 0, at most 1h"))
	}
	return nil
}

// checkKey validates g.Keys[i].
func (g *Gateway) checkKey(i int) error {
	k, at := &g.Keys[i], fmt.Sprintf("keys[%d]", i)
	switch b := &k.Budget; {
	case k.Name == "" || k.Env == "":
		return g.ErrorAt(at, errors.New("a key needs a name and env, the environment variable with the key"))
	case slices.ContainsFunc(g.Keys[:i], func(o ClientKey) bool { return o.Name == k.Name }):
		return g.ErrorAt(at+".name", fmt.Errorf("two keys are named %q; rename one of them", k.Name))
	case k.Requests < 0 || k.Requests > maxCalls:
		return g.ErrorAt(at+".requests_per_minute", fmt.Errorf("requests_per_minute: want a number from 1 to %d", maxCalls))
	case b.Tokens < 0 || !(b.Cost >= 0 && b.Cost <= maxCost):
		return g.ErrorAt(at+".budget", fmt.Errorf("budget: want tokens above 0, or a cost above 0 and at most %v", maxCost))
	case b.Per != "" && b.Tokens == 0 && b.Cost == 0:
		return g.ErrorAt(at+".budget", errors.New("budget: want tokens or cost"))
	case b.Cost > 0 && g.Prices == "":
		return g.ErrorAt(
			at+".budget.cost",
			errors.New("cost: a budget in money needs prices, a file with the prices of models"),
		)
	}
	return nil
}

// maxCost is the maximum of a budget in money, in the currency of the price file.
const maxCost = 1e9

// checkRoute validates g.Routes[i] and sets its defaults.
func (g *Gateway) checkRoute(i int) error {
	r, at := &g.Routes[i], fmt.Sprintf("routes[%d]", i)
	if r.Protocol == "" {
		return g.ErrorAt(at, fmt.Errorf("the route has no protocol; want one of %s", strings.Join(protocols, ", ")))
	}
	for j, m := range r.Models {
		if _, err := path.Match(m, ""); err != nil || m == "" {
			return g.ErrorAt(fmt.Sprintf("%s.models[%d]", at, j), fmt.Errorf("models: %q is not a valid pattern", m))
		}
	}
	if r.Name == "" {
		r.Name = string(r.Protocol)
	}
	if r.UpstreamProtocol == "" {
		r.UpstreamProtocol = r.Protocol
	}
	if r.Upstream == "" {
		r.Upstream = OpenAI
		if r.UpstreamProtocol == ProtocolMessages {
			r.Upstream = "https://api.anthropic.com"
		}
	}
	u, err := url.Parse(string(r.Upstream))
	switch {
	case err != nil || u.Host == "":
		return g.ErrorAt(at+".upstream", fmt.Errorf("upstream: %q is not a URL such as https://api.openai.com", r.Upstream))
	case strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/v1"):
		return g.ErrorAt(at+".upstream", errors.New("upstream: leave out /v1, which the gateway adds"))
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return g.ErrorAt(
			at+".upstream",
			errors.New("upstream: want a URL without a user, a query and a fragment; the key comes from api_key_env"),
		)
	}
	r.chain = &File{path: g.file.path, outer: g.file, prefix: at, Name: r.Name,
		Secrets: r.Secrets, Middlewares: r.Middlewares, Rings: r.Rings}
	return r.chain.check()
}

// ErrorAt adds to err the position of the key at path, such as "routes[0].api_key_env", or of the
// nearest enclosing key.
func (g *Gateway) ErrorAt(path string, err error) error { return ErrorAt(g.file, path, err) }

// Files returns the paths of the gateway's file, its price file and its modules.
func (g *Gateway) Files() []string {
	out := []string{g.file.path}
	if g.Prices != "" {
		out = append(out, string(g.Prices))
	}
	for i := range g.Routes {
		f := g.Routes[i].chain
		for _, list := range [][]Middleware{f.Rings.Outer, f.Middlewares, f.Rings.Inner} {
			for _, m := range list {
				out = append(out, string(m.Module))
			}
		}
	}
	return out
}
