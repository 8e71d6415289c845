package gateway

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/safetext"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/gateway/budget"
	"github.com/agent-runner/agent-runner/internal/gateway/price"
	"github.com/agent-runner/agent-runner/internal/gateway/usage"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A record collects the data about one request that the log, metrics, spans and budgets need.
type record struct {
	g        *Gateway
	r        *http.Request
	id       string // of the run
	endpoint endpoint
	route    *Route // nil if no route has the request
	key      string // name of the client's key
	model    string // as the client named it

	began   time.Time
	reading time.Duration // time for reading the request
	client  *clientWriter
	waited  atomic.Int64 // nanoseconds of waiting for the upstream or an approver

	reserved  *budget.Reservation
	hasBudget bool   // the key has a budget in tokens or money
	maxOutput int64  // the most tokens that one answer can have
	limited   string // outcomeBudget, outcomeRate or outcomeTimeout, if that limit rejects the request
	asked     bool   // the upstream was called
	endSpan   func(tracing.Outcome)

	mu         sync.Mutex
	outcome    string // "ok", another outcome, or the code of an error
	failure    string
	finish     string // the finish reason of the run
	entries    []abi.EntryStats
	denied     []string // entries that denied calls
	tokens     usage.Tokens
	estimated  bool // the upstream did not report all tokens
	cost       price.Amount
	paid       budget.Amount // the amount that is charged to the key's budget
	unpriced   bool          // a model has no price
	cacheBreak int64
}

// The outcomes of requests that are not codes of errors.
const (
	outcomeOK       = "ok"
	outcomePanic    = "panic"           // a defect of the gateway
	outcomeUpstream = "upstream_error"  // the upstream answered with an error, which the client got
	outcomeCanceled = "canceled"        // the client disconnected
	outcomeBudget   = "budget"          // the key has spent its budget
	outcomeRate     = "rate"            // the key has sent too many requests in a minute
	outcomeTimeout  = "request_timeout" // the body of the request did not arrive in time
)

// An End describes a request that has ended.
type End struct {
	Run     string
	Outcome string // "ok", another outcome, or the code of an error
	Took    time.Duration
	Tokens  usage.Tokens // estimated if the upstream did not report them
	Entries []abi.EntryStats
	Denied  int  // number of denied tool calls
	Count   bool // the request counted tokens
}

// newRecord begins the record of a request.
func (g *Gateway) newRecord(w http.ResponseWriter, r *http.Request, e endpoint) *record {
	g.o.Metrics.begin()
	now := time.Now()
	return &record{g: g, r: r, id: "run_" + rand.Text(), endpoint: e, began: now,
		client: &clientWriter{ResponseWriter: w, began: now}}
}

// fail records the error with which the request ended.
func (c *record) fail(err *wire.Error) {
	if c.limited == "" && c.r.Context().Err() != nil {
		c.canceled()
		return
	}
	c.ended(cmp.Or(c.limited, string(err.Code)), err.Message)
}

// passed records that the client got an error of the upstream.
func (c *record) passed(status int) {
	c.ended(outcomeUpstream, "the upstream answered "+strconv.Itoa(status))
}

// canceled records that the client disconnected.
func (c *record) canceled() { c.ended(outcomeCanceled, "") }

func (c *record) ended(outcome, failure string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outcome, c.failure = outcome, failure
}

// start begins the span of the request, which continues the client's trace.
func (c *record) start(ctx context.Context) context.Context {
	t := c.g.o.Tracer
	if t == nil {
		return ctx
	}
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(c.r.Header))
	ctx, c.endSpan = t.Start(ctx, tracing.Operation{
		Kind: tracing.OperationRequest, Run: abi.Run{ID: c.id, Agent: c.route.Name}, Model: c.model})
	return ctx
}

// allow counts the request against the rate limit of its key.
func (c *record) allow(k *Key) *wire.Error {
	if c.g.o.Ledger == nil || k == nil {
		return nil
	}
	err := c.g.o.Ledger.Allow(k.Name, k.Limits)
	if fast, ok := errors.AsType[*budget.RateError](err); ok {
		c.limited = outcomeRate
		return &wire.Error{Code: wire.CodeBusy, Message: fast.Error(), RetryAfter: fast.RetryAfter}
	}
	return nil
}

// reserve reserves the estimated usage of the request in its key's budget. It returns an error if the budget is
// spent, or if the usage cannot be estimated and the key has a budget.
func (c *record) reserve(k *Key, q *head) *wire.Error {
	c.maxOutput = q.maxOutput
	if c.g.o.Ledger == nil || k == nil {
		return nil
	}
	c.hasBudget = k.Limits.Tokens > 0 || k.Limits.Cost > 0
	if c.hasBudget && !c.endpoint.count {
		if name := unestimated(q.request); name != "" {
			err := wire.Errorf(
				wire.CodeInvalid,
				"the key %s has a budget, and the gateway cannot know the tokens that %s uses: "+
					"send the messages and files in the request itself, and wait for the answer",
				k.Name,
				name,
			)
			err.Param = name
			return err
		}
	}
	model := cmp.Or(c.route.Model, c.model)
	p := c.g.o.Prices.Find(model)
	if k.Limits.Cost > 0 && p == nil {
		c.limited = outcomeBudget
		return wire.Errorf(wire.CodeDenied,
			"the key %s has a budget in money, and the gateway has no price of the model %.100q", k.Name, model)
	}
	var estimate budget.Amount
	if !c.endpoint.count {
		t := usage.Tokens{Input: tokensOf(len(q.request.Text)), Output: q.maxOutput}
		estimate.Tokens = t.Total()
		if p != nil {
			estimate.Cost = p.Of(&t)
		}
	}
	var err error
	c.reserved, err = c.g.o.Ledger.Begin(k.Name, k.Limits, estimate)
	if err != nil { // not 429: clients would repeat the request until the next period
		c.limited = outcomeBudget
		return wire.Errorf(wire.CodeDenied, "%v", err)
	}
	return nil
}

// observe records the denials, the lost cache and the finish reason that an event of the run reports.
func (c *record) observe(e *abi.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch e.Type {
	case abi.EventDecision:
		switch e.Decision.Decision {
		case abi.DecideDeny, abi.DecideStop:
			c.denied = append(c.denied, e.Entry)
		}
	case abi.EventCustom:
		c.cacheBreak += CacheBreakOf(e)
	case abi.EventRunFinished:
		c.finish, c.entries = e.FinishReason, e.Entries
	}
}

// spend adds the tokens t of an answer of model, and their cost. If t is an estimate, at least the maximum output is
// charged to the key's budget, so that a client does not save tokens by disconnecting.
func (c *record) spend(model string, t *usage.Tokens, estimated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tokens.Add(t)
	c.estimated = c.estimated || estimated
	most := *t
	if estimated {
		most.Output = max(most.Output, c.maxOutput)
	}
	c.paid.Tokens += most.Total()
	if p := c.g.o.Prices.Find(model); p != nil {
		c.cost += p.Of(t)
		c.paid.Cost += p.Of(&most)
	} else if c.g.o.Prices != nil && t.Total() > 0 {
		c.unpriced = true
	}
}

// added returns the time that the request spent in the gateway, without the time in which the gateway waited for the
// upstream or the client.
func (c *record) added() time.Duration {
	return max(0, time.Since(c.began)-c.reading-time.Duration(c.waited.Load()+c.client.waited.Load()))
}

// close ends the record of a request whose answer has been sent.
func (c *record) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reserved != nil {
		c.reserved.Settle(c.paid)
	}
	c.g.o.Metrics.end(c)
	if f := c.g.o.OnEnd; f != nil && c.route != nil {
		f(&End{Run: c.id, Outcome: c.outcome, Took: time.Since(c.began), Tokens: c.tokens, Entries: c.entries,
			Denied: len(c.denied), Count: c.endpoint.count})
	}
	if c.endSpan != nil {
		out := tracing.Outcome{FinishReason: c.finish, Usage: abiUsage(&c.tokens)}
		if c.outcome != outcomeOK {
			out.Failed = &abi.Error{Code: abi.Code(c.outcome), Message: c.failure}
		}
		c.endSpan(out)
	}
	c.g.o.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", c.attrs()...)
}

// attrs returns the attributes of the request's line in the log.
func (c *record) attrs() []slog.Attr {
	ms := func(name string, d time.Duration) slog.Attr {
		return slog.Float64(name, float64(d.Microseconds())/1000)
	}
	out := []slog.Attr{slog.String("run", c.id), slog.String("path", c.r.URL.Path), slog.String("outcome", c.outcome)}
	add := func(a slog.Attr) {
		if !a.Value.Equal(slog.StringValue("")) && !a.Value.Equal(slog.Int64Value(0)) {
			out = append(out, a)
		}
	}
	if c.route != nil {
		add(slog.String("route", c.route.Name))
	}
	add(slog.String("model", safetext.Clip(c.model, 100)))
	add(slog.String("key", c.key))
	add(slog.Int("status", c.client.status))
	add(slog.String("finish", c.finish))
	add(slog.Int64("input", c.tokens.Input))
	add(slog.Int64("cache_read", c.tokens.CacheRead))
	add(slog.Int64("cache_write", c.tokens.CacheWrite))
	add(slog.Int64("output", c.tokens.Output))
	if c.estimated {
		out = append(out, slog.Bool("estimated", true))
	}
	if c.g.o.Prices != nil && !c.unpriced {
		out = append(out, slog.String("cost", c.cost.String()))
	}
	add(slog.Int("denied", len(c.denied)))
	add(slog.Int64("cache_break", c.cacheBreak))
	out = append(out, ms("added_ms", c.added()), ms("total_ms", time.Since(c.began)))
	add(slog.String("error", c.failure))
	return out
}

// A clientWriter measures how long the client takes to receive its answer.
type clientWriter struct {
	http.ResponseWriter
	began  time.Time
	first  time.Duration // until the first byte; 0 before it
	status int
	waited atomic.Int64 // nanoseconds
}

// Unwrap returns the writer of the server, for [http.ResponseController].
func (w *clientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements [http.ResponseWriter].
func (w *clientWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (w *clientWriter) Write(b []byte) (int, error) {
	start := time.Now()
	n, err := w.ResponseWriter.Write(b)
	w.waited.Add(int64(time.Since(start)))
	if w.first == 0 {
		w.first = max(1, time.Since(w.began))
	}
	return n, err
}

// FlushError sends what was written.
func (w *clientWriter) FlushError() error {
	start := time.Now()
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.waited.Add(int64(time.Since(start)))
	return err
}
