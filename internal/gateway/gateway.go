// Package gateway puts chains of middlewares in front of model APIs. Clients send it the same requests as to the API,
// in the protocol of the API. It sends each request, as changed by the modules, to the upstream of a route, and
// returns the answer.
//
// A [Gateway] is an http.Handler. Package wire has the protocols, package weave decides which
// parts of a streamed answer a client gets. Gates decide on the tool calls of an answer before the client
// gets them.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/account"
	"github.com/agent-runner/agent-runner/internal/chain"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/gateway/approver"
	"github.com/agent-runner/agent-runner/internal/gateway/budget"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
	"github.com/agent-runner/agent-runner/internal/gateway/weave"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
	"github.com/agent-runner/agent-runner/internal/module"
)

// The defaults of options.
const (
	DefaultMaxBody     = 32 << 20
	DefaultMaxRequests = 256
	DefaultTimeout     = 10 * time.Minute

	DefaultReserveTimeout = 5 * time.Second

	maxReadTime = time.Minute // for the body of a request
)

// pingInterval is the default of Options.keepAlive. Proxies close connections that are silent for about a
// minute.
const pingInterval = 10 * time.Second

// Options configure a gateway. They are copied.
type Options struct {
	// Routes has the routes in order of precedence. A request takes the first route with its protocol
	// and its model.
	Routes []Route
	// Loader reserves the memory of the routes' modules. It is required if a route has a chain.
	Loader *module.Loader
	// Client sends the requests to upstreams. It must not follow redirects, which are errors for the
	// gateway, and must not decompress answers. The default is [NewClient].
	Client *http.Client
	// Keys, if not empty, are the keys of clients. A request without one of them is rejected, and the
	// key is not sent to the upstream. Without keys, clients' credentials pass to upstreams that have
	// no key of their own.
	Keys []Key
	// Ledger, if not nil, counts what the keys use, and limits it. Several gateways can share it.
	Ledger *budget.Ledger
	// Prices, if not nil, has the prices of models.
	Prices *price.Table
	// Metrics, if not nil, count requests. Several gateways can share them.
	Metrics *Metrics
	// Tracer, if not nil, records a span for each request and for each call of an upstream. Spans of hooks go to the
	// tracer of the route's chain.
	Tracer tracing.Tracer
	// TraceUpstream sends the headers that connect traces (traceparent, tracestate, baggage) to
	// upstreams, too.
	TraceUpstream bool
	// Approver, if not nil, decides on the calls for which gates ask. Several gateways can share it.
	Approver *approver.Approver
	// OnEvent, if not nil, receives the events of each request's run: decisions, faults, logs. It is
	// called concurrently.
	OnEvent func(abi.Event)
	// OnEnd, if not nil, is called when a request for which there is a route has ended. It is called
	// concurrently.
	OnEnd  func(*End)
	Logger *slog.Logger // the default discards
	// Hidden lists the names of entries that clients see as "operator", without the text of their
	// faults.
	Hidden []string
	// Work, if not nil, calls fn, which parses a body of the given number of bytes. It can wait before the call, or
	// return an error without calling fn.
	Work func(ctx context.Context, bytes int, fn func() error) error

	// Memory, if not nil, limits the memory of the requests in progress: bodies, events that wait for modules, and
	// what modules read. Several gateways can share it. If the context of a request has an account, that account is
	// used instead.
	Memory      *account.Account
	MaxBody     int64         // limits the body of a request, in bytes; the default is DefaultMaxBody
	MaxRequests int           // limits concurrent requests, one of several keys to half; default DefaultMaxRequests
	MaxHeld     int           // limits the part of an answer that waits for modules, in bytes; default weave.MaxHeld
	MaxChanges  int           // limits the recorded changes of prompts, in each of two lists; default DefaultMaxChanges
	Timeout     time.Duration // limits a request and its answer; the default is DefaultTimeout

	// ReserveTimeout limits the time for which a request waits for the memory of its modules. The
	// default is DefaultReserveTimeout.
	ReserveTimeout time.Duration

	keepAlive time.Duration // the time between two pings while an approver decides
}

// A Key is a key of a client.
type Key struct {
	Name   string
	Secret string // the key as the client sends it
	Limits budget.Limits
}

// A Route defines the upstream of the requests for some models, and the modules that process them.
type Route struct {
	Name     string   // the agent's name for modules
	Models   []string // names, or patterns with * and ?, of the models; none matches every model
	Upstream Upstream
	Model    string       // the model in the request to the upstream; the default is the request's
	Chain    *chain.Chain // the middlewares; nil if requests and answers pass unchanged
	// AllowModel, if not nil, reports whether modules may ask the upstream for a model.
	AllowModel func(model string) bool
	// Hold delays streamed answers until after_model has run, which can then change them.
	Hold bool
}

// An Upstream is a model API.
type Upstream struct {
	Protocol wire.Protocol // of clients, and of the upstream unless it has a Target
	Path     string        // the path of the protocol's endpoint, such as /v1/messages
	URL      *url.URL      // the API's address, without the path of the endpoint
	Key      string        // the gateway's key; empty if clients send theirs
	// KeyHeader is the header of the key. In Authorization, the default, the key is a bearer token.
	KeyHeader string
	// Target is the endpoint that answers, if its protocol differs from Protocol, and otherwise nil.
	Target *Target
	// Login, if not nil, is the address for requests with a ChatGPT login. It replaces the address and the /v1 of the
	// path. It has an effect only if clients' credentials are sent to the upstream.
	Login *url.URL
}

// A Gateway is a handler of requests to model APIs. It is safe for concurrent use.
type Gateway struct {
	o       Options
	slots   *budget.Slots
	changes *changeLog
}

// New returns a gateway. The error names the route that is not valid.
func New(o Options) (*Gateway, error) {
	for i := range o.Routes {
		r := &o.Routes[i]
		for _, m := range r.Models {
			if _, err := path.Match(m, ""); err != nil {
				return nil, fmt.Errorf("route %q: the model pattern %q is not valid: %w", r.Name, m, err)
			}
		}
		switch {
		case r.Upstream.URL == nil || r.Upstream.Protocol == nil:
			return nil, fmt.Errorf("route %q has no upstream with a protocol and a URL", r.Name)
		case r.Chain != nil && o.Loader == nil:
			return nil, fmt.Errorf("route %q has modules, and the gateway has no loader", r.Name)
		}
	}
	if o.Client == nil {
		o.Client = NewClient()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.MaxRequests == 0 {
		o.MaxRequests = DefaultMaxRequests
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.keepAlive == 0 {
		o.keepAlive = pingInterval
	}
	if o.MaxChanges == 0 {
		o.MaxChanges = DefaultMaxChanges
	}
	if o.ReserveTimeout == 0 {
		o.ReserveTimeout = DefaultReserveTimeout
	}
	slots := budget.NewSlots(o.MaxRequests, len(o.Keys) > 1)
	return &Gateway{o: o, slots: slots, changes: newChangeLog(o.MaxChanges)}, nil
}

// NewClient returns a client for upstreams: no redirects, no decompression, and enough idle
// connections for many requests to one upstream.
func NewClient() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableCompression = true
	t.MaxIdleConnsPerHost = 256
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// ServeHTTP serves one request.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer func() { // a defect must not end the process, and with it other clients' requests
		if v := recover(); v != nil {
			if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
				g.o.Logger.Error("request failed", "path", r.URL.Path, "panic", v)
			}
			panic(http.ErrAbortHandler)
		}
	}()
	switch {
	case strings.EqualFold(r.Header.Get("Upgrade"), "websocket"):
		// Codex falls back to HTTP at once after this status, and not after others.
		http.Error(w, "the gateway does not speak WebSocket; use HTTP", http.StatusUpgradeRequired)
	case r.Header.Get("Origin") != "" && len(g.o.Keys) == 0:
		// A web page must not use the gateway of the machine on which it is shown.
		http.Error(w, "the gateway serves web pages only if it has keys", http.StatusForbidden)
	case r.URL.Path == "/" && (r.Method == http.MethodHead || r.Method == http.MethodGet):
		w.WriteHeader(http.StatusOK)
	case r.URL.Path == "/v1/models" && r.Method == http.MethodGet:
		g.models(w, r)
	default:
		e, ok := g.endpointOf(r)
		if !ok {
			http.Error(w, fmt.Sprintf("the gateway has no %s %s; it has POST %s", r.Method, r.URL.Path,
				strings.Join(g.paths(), ", ")), http.StatusNotFound)
			return
		}
		g.serve(w, r, e)
	}
}

// serve serves a request to an endpoint of a protocol.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, e endpoint) {
	c := g.newRecord(w, r, e)
	c.outcome = outcomePanic
	defer c.close()
	err := g.admit(c)
	switch {
	case err != nil:
		c.fail(err)
		// A client that is gone, or whose request was canceled, gets no answer. A body that does not arrive
		// in time also cancels the request.
		if r.Context().Err() == nil || c.reading == 0 {
			refuse(c.client, e.protocol, err)
		}
	case c.outcome == outcomePanic:
		c.ended(outcomeOK, "")
	}
}

// admit serves a request, unless it has a wrong key or there are too many requests of its key or of all keys. It
// returns an error if it wrote nothing.
func (g *Gateway) admit(c *record) *wire.Error {
	control := http.NewResponseController(c.client)
	// A client that sends slowly must not keep its slot, nor its connection after a rejection.
	_ = control.SetReadDeadline(time.Now().Add(g.readTimeout()))
	key, refused := g.authenticate(c.r)
	if refused != nil {
		return refused
	}
	if key != nil {
		c.key = key.Name
	}
	if err := c.allow(key); err != nil {
		c.route = g.onlyRoute(c.endpoint.path) // the model is not known yet
		return err
	}
	free, full := g.slots.Take(c.key)
	if full != nil {
		return wire.Errorf(wire.CodeBusy, "the gateway has too many requests: %v; try again later", full)
	}
	defer free()
	ctx, cancel := context.WithTimeout(c.r.Context(), g.o.Timeout)
	defer cancel()
	_ = control.SetWriteDeadline(time.Now().Add(g.o.Timeout + lateTime))
	err := g.answer(ctx, c, key)
	if err != nil && c.limited == "" && ctx.Err() != nil && c.r.Context().Err() == nil {
		return g.late()
	}
	return err
}

// lateTime is the time in which a client gets the error of a request that took too long.
const lateTime = 10 * time.Second

// readTimeout limits the time for which a client sends the body of its request.
func (g *Gateway) readTimeout() time.Duration { return min(maxReadTime, g.o.Timeout) }

// answer forwards a request along its route. It returns an error if it wrote nothing.
func (g *Gateway) answer(ctx context.Context, c *record, key *Key) *wire.Error {
	held := newMemory(cmp.Or(account.FromContext(c.r.Context()), g.o.Memory))
	defer held.release()
	body, err := c.read(held)
	if err != nil {
		return err
	}
	// net/http watches the connection while the request is served. A read deadline would end the watch, and cancel
	// the requests that follow on the connection.
	_ = http.NewResponseController(c.client).SetReadDeadline(time.Time{})
	head, err := headOf(body)
	if err != nil {
		return err
	}
	c.reading, c.model = time.Since(c.began), head.model
	if c.route = g.route(c.endpoint.path, head.model); c.route == nil {
		return &wire.Error{Code: wire.CodeNotFound, Param: "model",
			Message: fmt.Sprintf("no route of the gateway has the model %.100q for %s", head.model, c.endpoint.path)}
	}
	if c.endpoint.count && c.route.Upstream.Target != nil {
		return wire.Errorf(wire.CodeInvalid,
			"the tokens cannot be counted: the upstream of the route %q has another protocol", c.route.Name)
	}
	if err := c.reserve(key, &head); err != nil {
		return err
	}
	ctx = c.start(ctx)
	if c.route.Chain == nil {
		return c.forward(ctx, body, held)
	}
	x := &exchange{runHost: newRunHost(ctx, c, held), body: body, reply: reply{w: c.client}}
	if err := g.work(ctx, len(body), func() (err error) {
		x.request, err = c.endpoint.protocol.ParseRequest(body)
		return err
	}); err != nil {
		return err
	}
	return x.run(ctx)
}

// late returns the error of a request that took too long.
func (g *Gateway) late() *wire.Error {
	return wire.Errorf(wire.CodeUpstream, "the request took longer than %v, the limit of the gateway", g.o.Timeout)
}

// asError returns v, and err converted to a *wire.Error.
func asError[T any](v T, err error) (T, *wire.Error) {
	if err == nil {
		return v, nil
	}
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return v, known
	}
	return v, wire.Errorf(wire.CodeInvalid, "%v", err)
}

// refuse responds with an error in a protocol's form.
func refuse(w http.ResponseWriter, p wire.Protocol, err *wire.Error) {
	status, body := p.Error(err)
	w.Header().Set("Content-Type", "application/json")
	if err.Code == wire.CodeBusy {
		seconds := max(1, (err.RetryAfter+time.Second-1)/time.Second)
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (g *Gateway) maxHeld() int {
	if g.o.MaxHeld > 0 {
		return g.o.MaxHeld
	}
	return weave.MaxHeld
}
