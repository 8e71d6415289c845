// Package gateway puts middlewares in front of model APIs. Programs that use OpenAI's chat
// completions or Responses API, or Anthropic's Messages API, send their requests to a [Gateway]. The
// gateway passes requests through the modules of a route to the API, and answers back through the
// modules.
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
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/agentfile"
	"github.com/agent-runner/agent-runner/internal/gateway"
	"github.com/agent-runner/agent-runner/internal/gateway/approver"
	"github.com/agent-runner/agent-runner/internal/gateway/budget"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
)

// A File describes the routes of a gateway in YAML; docs/gateway.schema.json is its schema.
type File = agentfile.Gateway

// LoadFile reads a gateway.yaml. Errors have positions in the file.
func LoadFile(path string) (*File, error) { return agentfile.LoadGateway(path) }

// Options configure a gateway. They are copied.
type Options struct {
	// Modules holds the options for the modules of all routes: network, values and environment. If it
	// is nil, modules reach only public addresses, and secrets and keys come from the process's
	// environment.
	Modules *host.FileOptions
	// OnEvent, if not nil, receives the events of each request's run: decisions, faults, logs. It is
	// called concurrently, and the request waits for it.
	OnEvent func(abi.Event)
	// Metrics, if not nil, registers the metrics of the gateway. Each gateway needs a registry of its
	// own.
	Metrics prometheus.Registerer
	Logger  *slog.Logger // the default discards
}

// A Gateway is an http.Handler for clients of model APIs. It is safe for concurrent use.
type Gateway struct {
	host    *host.Host
	o       Options
	memory  *account.Account // memory of the requests in progress
	metrics *gateway.Metrics // nil if Options.Metrics is nil
	ledger  *budget.Ledger
	sums    string // the path of the ledger's file

	mu      sync.RWMutex
	current *generation    // nil once the gateway is closed
	closing sync.WaitGroup // waits for the requests of earlier generations
}

// A generation is a gateway with the loaded modules of one version of the file.
type generation struct {
	handler  *gateway.Gateway
	chains   []*host.Chain
	approver *approver.Approver // nil if the file has none
	serving  sync.WaitGroup
}

// close closes the chains once no request uses them.
func (g *generation) close() {
	g.serving.Wait()
	for _, c := range g.chains {
		c.Close()
	}
	if g.approver != nil {
		g.approver.Close()
	}
}

// New returns a gateway with the routes of a file. h loads the file's modules. If o is nil, all options
// have their defaults. New fails if a module, the usage file or the prices cannot be loaded, or if an
// environment variable with a key is not set. The caller must close the gateway.
func New(ctx context.Context, h *host.Host, f *File, o *Options) (*Gateway, error) {
	g := &Gateway{host: h, memory: account.New(account.LevelProcess, "gateway", account.Process(), 0)}
	if o != nil {
		g.o = *o
	}
	if g.o.Modules == nil {
		g.o.Modules = &host.FileOptions{}
	}
	if g.o.Logger == nil {
		g.o.Logger = slog.New(slog.DiscardHandler)
	}
	var err error
	if g.o.Metrics != nil {
		if g.metrics, err = gateway.NewMetrics(g.o.Metrics, g.memory); err != nil {
			return nil, err
		}
	}
	g.sums = string(f.UsageFile)
	if g.ledger, err = budget.Open(g.sums, g.o.Logger); err != nil {
		return nil, f.ErrorAt("usage_file", err)
	}
	if g.current, err = g.load(ctx, f); err != nil {
		_ = g.ledger.Close()
		return nil, err
	}
	g.limitMemory(f)
	return g, nil
}

// limitMemory sets the limit on the memory of the requests in progress.
func (g *Gateway) limitMemory(f *File) {
	g.memory.SetLimit(cmp.Or(int64(f.MaxMemory), account.Process().Limit()/processPart))
}

// processPart is the divisor of the process's memory limit that yields the default of File.MaxMemory.
const processPart = 4

// Replace loads the routes and modules of a file, and then serves new requests with them. Requests
// in progress continue with the routes and modules with which they began. Replace fails and changes
// nothing if loading fails, the file has another usage_file, or the gateway is closed.
func (g *Gateway) Replace(ctx context.Context, f *File) error {
	if string(f.UsageFile) != g.sums {
		return f.ErrorAt("usage_file", errors.New("usage_file: restart the gateway to change it"))
	}
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

// Close rejects new requests with status 503, waits for the requests in progress, and releases the
// modules.
func (g *Gateway) Close() {
	g.mu.Lock()
	last := g.current
	g.current = nil
	g.mu.Unlock()
	if last != nil {
		last.close()
	}
	g.closing.Wait()
	if last == nil {
		return
	}
	if err := g.ledger.Close(); err != nil {
		g.o.Logger.Error("what keys have used cannot be stored", "error", err)
	}
	g.memory.Close()
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

// load loads the modules of a file's routes, and returns a generation that serves them.
func (g *Gateway) load(ctx context.Context, f *File) (*generation, error) {
	next := &generation{}
	o, err := g.options(f)
	if err != nil {
		return nil, err
	}
	next.approver = o.Approver
	for i := range f.Routes {
		if r := &f.Routes[i]; len(f.Keys) > 0 && r.APIKeyEnv == "" {
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
	if next.handler, err = gateway.New(*o); err != nil {
		next.close()
		return nil, err
	}
	return next, nil
}

// options returns the gateway's options from a file, without the routes.
func (g *Gateway) options(f *File) (*gateway.Options, error) {
	o := &gateway.Options{
		Loader: g.host.Loader(), OnEvent: g.o.OnEvent, Logger: g.o.Logger, Memory: g.memory, Metrics: g.metrics,
		Ledger: g.ledger, Tracer: g.o.Modules.Tracer, TraceUpstream: f.Trace,
		MaxRequests: f.MaxRequests, Timeout: time.Duration(f.Timeout),
	}
	if f.Prices != "" {
		var err error
		if o.Prices, err = price.Load(string(f.Prices)); err != nil {
			return nil, f.ErrorAt("prices", err)
		}
	}
	if f.Approver.URL != "" {
		var err error
		if o.Approver, err = g.approver(f); err != nil {
			return nil, err
		}
	}
	for i := range f.Keys {
		k, at := &f.Keys[i], fmt.Sprintf("keys[%d].env", i)
		secret, err := g.secret(f, at, k.Env, "the key of "+k.Name)
		if err != nil {
			return nil, err
		}
		if len(secret) < minKey {
			return nil, f.ErrorAt(at, fmt.Errorf("the key of %s has fewer than %d bytes, and could be guessed", k.Name, minKey))
		}
		o.Keys = append(o.Keys, gateway.Key{Name: k.Name, Secret: secret, Limits: budget.Limits{
			RequestsPerMinute: k.Requests,
			Tokens:            k.Budget.Tokens,
			Cost:              price.AmountOf(k.Budget.Cost),
			Per:               budget.Period(k.Budget.Per),
		}})
	}
	return o, nil
}

// approver returns a client for the approver that a file names.
func (g *Gateway) approver(f *File) (*approver.Approver, error) {
	o := approver.Options{URL: string(f.Approver.URL), Timeout: time.Duration(f.Approver.Timeout), Shared: len(f.Keys) > 1}
	if f.Approver.KeyEnv != "" {
		var err error
		o.Key, err = g.secret(f, "approver.key_env", f.Approver.KeyEnv, "the key of the approver")
		if err != nil {
			return nil, err
		}
	}
	a, err := approver.New(o)
	if err != nil {
		return nil, f.ErrorAt("approver", err)
	}
	return a, nil
}

// minKey is the minimum length of a client's key, in bytes.
const minKey = 16

// secret returns the value of the environment variable env. If the variable is not set, the error has
// the position of the field at in f, and what describes the variable in the error's text.
func (g *Gateway) secret(f *File, at, env, what string) (string, error) {
	value := g.getenv(env)
	if value == "" {
		return "", f.ErrorAt(at, fmt.Errorf("the environment variable %s, %s, is not set", env, what))
	}
	return value, nil
}

// route returns route i of a file, and the chain of its modules, or nil if it has no modules.
func (g *Gateway) route(ctx context.Context, f *File, i int) (gateway.Route, *host.Chain, error) {
	r := &f.Routes[i]
	up, err := gateway.NewUpstream(r)
	if err != nil {
		return gateway.Route{}, nil, f.ErrorAt(fmt.Sprintf("routes[%d].upstream", i), err)
	}
	if r.APIKeyEnv != "" {
		up.Key, err = g.secret(f, fmt.Sprintf("routes[%d].api_key_env", i), r.APIKeyEnv, "the key of the upstream")
		if err != nil {
			return gateway.Route{}, nil, err
		}
	}
	up.Login = gateway.LoginURL(r)
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

// warn logs a warning for each module of a route with no hook that the gateway calls.
func (g *Gateway) warn(r *agentfile.GatewayRoute, c *host.Chain) {
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
