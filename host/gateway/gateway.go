// Package gateway puts middlewares in front of model APIs: programs that use OpenAI's chat completions
// or Responses API, or Anthropic's Messages API, send their requests to a [Gateway], which passes
// them through the modules of a route, to the API, and the answers back.
//
//	f, err := gateway.LoadFile("gateway.yaml")
//	g, err := gateway.New(ctx, h, f, nil)
//	defer g.Close()
//	err = http.ListenAndServe("127.0.0.1:8010", g)
//
// [Gateway.Replace] changes routes and modules while requests are served.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/gateway"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/chat"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/messages"
	"github.com/agent-runner/agent-runner/internal/gateway/wire/responses"
)

// A File describes the routes of a gateway in YAML; docs/gateway.schema.json is its schema.
type File = agentfile.Gateway

// LoadFile reads a gateway.yaml. Errors have positions in the file.
func LoadFile(path string) (*File, error) { return agentfile.LoadGateway(path) }

// Options configure a gateway. They are copied.
type Options struct {
	// Modules has the options for the modules of all routes: network, values, environment. If nil,
	// modules reach public addresses only, and secrets and keys come from the process's environment.
	Modules *host.FileOptions
	// OnEvent, if not nil, receives the events of each request's run: decisions, faults, logs. It is
	// called concurrently, and the request waits for it.
	OnEvent func(abi.Event)
	Logger  *slog.Logger // the default discards
}

// A Gateway is an http.Handler for clients of model APIs. It is safe for concurrent use.
type Gateway struct {
	host   *host.Host
	o      Options
	memory *account.Account // what requests in progress hold

	mu      sync.RWMutex
	current *generation    // nil once the gateway is closed
	closing sync.WaitGroup // earlier generations
}

// A generation is a gateway with the chains of one file.
type generation struct {
	handler *gateway.Gateway
	chains  []*host.Chain
	serving sync.WaitGroup
}

// close closes the chains once no request uses them.
func (g *generation) close() {
	g.serving.Wait()
	for _, c := range g.chains {
		c.Close()
	}
}

// New returns a gateway with the routes of a file, whose modules h loads. The caller must close it.
func New(ctx context.Context, h *host.Host, f *File, o *Options) (*Gateway, error) {
	g := &Gateway{host: h, memory: account.New(account.LevelProcess, "gateway", account.Process(), 0)}
	if o != nil {
		g.o = *o
	}
	if g.o.Modules == nil {
		g.o.Modules = &host.FileOptions{}
	}
	var err error
	if g.current, err = g.load(ctx, f); err != nil {
		return nil, err
	}
	g.limitMemory(f)
	return g, nil
}

// limitMemory sets the limit of what requests in progress hold.
func (g *Gateway) limitMemory(f *File) {
	g.memory.SetLimit(cmp.Or(int64(f.MaxMemory), account.Process().Limit()/processPart))
}

// processPart is the divisor of the process's limit, half of its memory, that yields the default limit.
const processPart = 4

// Replace loads the routes and modules of a file, and then serves new requests with them. Requests in
// progress end with those that they began with. If loading fails, nothing changes.
func (g *Gateway) Replace(ctx context.Context, f *File) error {
	next, err := g.load(ctx, f)
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	last := g.current
	if last == nil {
		next.close()
		return errors.New("the gateway is closed")
	}
	g.current = next
	g.limitMemory(f)
	g.closing.Go(last.close)
	return nil
}

// Close releases the modules once no request uses them. The gateway serves no further requests.
func (g *Gateway) Close() {
	g.mu.Lock()
	last := g.current
	g.current = nil
	g.mu.Unlock()
	if last != nil {
		last.close()
	}
	g.closing.Wait()
}

// ServeHTTP serves one request of a client.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.RLock()
	now := g.current
	if now != nil {
		now.serving.Add(1)
	}
	g.mu.RUnlock()
	if now == nil {
		http.Error(w, "the gateway is closed", http.StatusServiceUnavailable)
		return
	}
	defer now.serving.Done()
	now.handler.ServeHTTP(w, r)
}

// load loads the chains of a file's routes.
func (g *Gateway) load(ctx context.Context, f *File) (*generation, error) {
	next := &generation{}
	o := gateway.Options{Loader: g.host.Loader(), OnEvent: g.o.OnEvent, Logger: g.o.Logger, Memory: g.memory,
		MaxRequests: f.MaxRequests, Timeout: time.Duration(f.Timeout), Keys: map[string]string{}}
	for i, k := range f.Keys {
		value := g.getenv(k.Env)
		if value == "" {
			return nil, f.ErrorAt(fmt.Sprintf("keys[%d].env", i),
				fmt.Errorf("the environment variable %s, the key of %s, is not set", k.Env, k.Name))
		}
		o.Keys[k.Name] = value
	}
	for i := range f.Routes {
		if r := &f.Routes[i]; len(f.Keys) > 0 && r.APIKeyEnv == "" && g.o.Logger != nil {
			g.o.Logger.Warn(
				"the upstream gets no credentials: clients send a key of the gateway, and the route has no api_key_env",
				"route",
				r.Name,
			)
		}
		route, chain, err := g.route(ctx, f, i)
		if err != nil {
			next.close()
			return nil, err
		}
		if chain != nil {
			next.chains = append(next.chains, chain)
			route.Chain = chain.Chain
		}
		o.Routes = append(o.Routes, route)
	}
	var err error
	if next.handler, err = gateway.New(o); err != nil {
		next.close()
		return nil, err
	}
	return next, nil
}

// route returns route i of a file, and its chain if it has modules.
func (g *Gateway) route(ctx context.Context, f *File, i int) (gateway.Route, *host.Chain, error) {
	r := &f.Routes[i]
	u, err := url.Parse(string(r.Upstream))
	if err != nil {
		return gateway.Route{}, nil, f.ErrorAt(fmt.Sprintf("routes[%d].upstream", i), err)
	}
	up := upstreams[string(r.Protocol)]
	up.URL = u
	if r.APIKeyEnv != "" {
		if up.Key = g.getenv(r.APIKeyEnv); up.Key == "" {
			return gateway.Route{}, nil, f.ErrorAt(fmt.Sprintf("routes[%d].api_key_env", i),
				fmt.Errorf("the environment variable %s, the key of the upstream, is not set", r.APIKeyEnv))
		}
	}
	out := gateway.Route{Name: r.Name, Models: r.Models, Upstream: up, Model: r.Model, Hold: r.Hold}
	if len(r.Middlewares)+len(r.Rings.Outer)+len(r.Rings.Inner) == 0 {
		return out, nil, nil
	}
	chain, err := g.host.NewChainFromFile(ctx, r.Chain(), g.o.Modules)
	if err == nil {
		g.warn(r, chain)
	}
	return out, chain, err
}

// warn logs the modules of a route that the gateway never calls.
func (g *Gateway) warn(r *agentfile.GatewayRoute, c *host.Chain) {
	if g.o.Logger == nil {
		return
	}
	for _, e := range c.Chain.Entries() {
		has := e.Middleware.Describe().Hooks
		if !slices.ContainsFunc(has, gateway.Calls) {
			g.o.Logger.Warn("the gateway calls none of the module's hooks", "route", r.Name, "module", e.Name, "hooks", has)
		}
	}
}

func (g *Gateway) getenv(name string) string {
	if g.o.Modules.Getenv != nil {
		return g.o.Modules.Getenv(name)
	}
	return os.Getenv(name)
}

// upstreams are the protocols of routes, by name.
var upstreams = map[string]gateway.Upstream{
	agentfile.ProtocolChat:      {Protocol: chat.Protocol{}, Path: "/v1/chat/completions"},
	agentfile.ProtocolResponses: {Protocol: responses.Protocol{}, Path: "/v1/responses"},
	agentfile.ProtocolMessages:  {Protocol: messages.Protocol{}, Path: "/v1/messages", KeyHeader: "X-Api-Key"},
}
