package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/chain/tracing"
	"github.com/agent-runner/agent-runner/internal/gateway/usage"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A modelCall is a call of an upstream with its response.
type modelCall struct {
	*http.Response
	record *record
	model  string
	asked  int           // bytes of the request
	usage  *usage.Reader // nil if the response is no answer of the model
	ended  bool          // the body was read to its end
	added  bool          // the gateway asked for the chunk with the usage
	end    func(tracing.Outcome)
}

// send sends a body to the upstream of the record's route, with the headers of the client's request. It counts the
// memory for what it reads ahead of the answer in held. The caller closes the call.
func (c *record) send(ctx context.Context, body []byte, model string, held *memory) (*modelCall, *wire.Error) {
	call := &modelCall{record: c, model: model, asked: len(body), end: func(tracing.Outcome) {}}
	if t := c.g.o.Tracer; t != nil {
		ctx, call.end = t.Start(ctx, tracing.Operation{
			Kind: tracing.OperationModel, Run: abi.Run{ID: c.id, Agent: c.route.Name, Step: 1}, Model: model})
	}
	c.asked = true
	if c.hasBudget && c.endpoint.path == chatPath && c.route.Upstream.Target == nil {
		body, call.added = withUsageChunk(body)
	}
	req, err := c.upstreamRequest(ctx, body)
	if err == nil {
		start := time.Now()
		call.Response, err = c.g.o.Client.Do(req) //nolint:bodyclose // the caller closes the call
		c.waited.Add(int64(time.Since(start)))
	}
	if err != nil {
		if ctx.Err() != nil && !c.endpoint.count { // the upstream may have begun
			c.spend(model, &usage.Tokens{Input: tokensOf(len(body))}, true)
		}
		if with, ok := errors.AsType[*url.Error](err); ok {
			err = with.Err // the URL has the client's query
		}
		call.end(tracing.Outcome{Err: err})
		c.g.o.Logger.Warn("upstream", "route", c.route.Name, "error", err)
		at := c.g.address(&c.route.Upstream, c.r)
		return nil, wire.Errorf(wire.CodeUpstream, "the upstream %s cannot be reached", at.Host)
	}
	if call.StatusCode == http.StatusOK && !c.endpoint.count {
		call.usage = usage.NewReader(isEventStream(call.Response))
	}
	call.Body = &callBody{call.Body, call}
	if call.added && call.usage != nil && isEventStream(call.Response) {
		call.Body, call.ContentLength = removeUsage(call.Body, held), -1
	}
	return call, nil
}

// traceHeaders connect the spans of a client and a server.
var traceHeaders = []string{"Traceparent", "Tracestate", "Baggage"}

func (c *record) upstreamRequest(ctx context.Context, body []byte) (*http.Request, error) {
	to := &c.route.Upstream
	u, header := c.g.address(to, c.r), c.r.Header
	if to.Target != nil {
		header = to.targetHeader(c.r.Header)
	}
	req, err := http.NewRequestWithContext(ctx, c.r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	passHeaders(req.Header, header)
	if _, known := req.Header["User-Agent"]; !known {
		req.Header["User-Agent"] = nil // otherwise net/http adds its own
	}
	req.Header.Del("Accept-Encoding") // modules, and the count of tokens, need the text
	if !c.g.o.TraceUpstream {
		for _, name := range traceHeaders {
			req.Header.Del(name)
		}
	} else if c.g.o.Tracer != nil {
		propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(req.Header))
	}
	c.g.credentials(req, to)
	return req, nil
}

// close closes the response, and counts its tokens.
func (m *modelCall) close() {
	_ = m.Body.Close()
	out := tracing.Outcome{}
	switch u := m.usage; {
	case m.StatusCode >= http.StatusBadRequest:
		out.Err = &abi.Error{Code: abi.CodeModel, Status: m.StatusCode}
	case u == nil: // a count of tokens
	case u.Known && (m.ended || u.Final):
		m.record.spend(m.model, &u.Tokens, false)
		out.Usage = abiUsage(&u.Tokens)
	default:
		tokens := u.Tokens
		if !u.Known {
			tokens.Input, tokens.Output = tokensOf(m.asked), tokensOf(int(u.Bytes))
		}
		if u.Events > 0 { // most events have one token
			tokens.Output = max(u.Tokens.Output, u.Events)
		}
		m.record.spend(m.model, &tokens, true)
		out.Usage = abiUsage(&tokens)
	}
	m.end(out)
}

func abiUsage(t *usage.Tokens) *abi.Usage {
	return &abi.Usage{PromptTokens: t.Total() - t.Output, CompletionTokens: t.Output, TotalTokens: t.Total()}
}

// A callBody is the body of an upstream's response. It records how much is read, and how long that takes.
type callBody struct {
	io.ReadCloser
	call *modelCall
}

// Read implements [io.Reader].
func (b *callBody) Read(p []byte) (int, error) {
	start := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.call.record.waited.Add(int64(time.Since(start)))
	if b.call.usage != nil {
		_, _ = b.call.usage.Write(p[:n])
	}
	b.call.ended = b.call.ended || errors.Is(err, io.EOF)
	return n, err
}

// credentials replaces the client's credentials with the route's key. If the route has none, the client's credentials
// are sent, unless the gateway has keys: then they contain one of these keys, and are removed.
func (g *Gateway) credentials(req *http.Request, u *Upstream) {
	if u.Key == "" && len(g.o.Keys) == 0 {
		return
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", loginHeader} {
		req.Header.Del(name)
	}
	switch {
	case u.Key == "":
	case u.KeyHeader == "" || u.KeyHeader == "Authorization":
		req.Header.Set("Authorization", "Bearer "+u.Key)
	default:
		req.Header.Set(u.KeyHeader, u.Key)
	}
}

// forward passes a request and its answer without changes, except for the model that the route sets.
func (c *record) forward(ctx context.Context, body []byte, held *memory) *wire.Error {
	model := c.model
	if c.route.Model != "" && c.route.Model != model {
		model = c.route.Model
		body = withModel(body, model)
	}
	call, err := c.ask(ctx, body, model, held)
	if err != nil {
		return err
	}
	defer call.close()
	switch {
	case isRefusal(call.StatusCode):
		c.passed(call.StatusCode)
	case call.StatusCode != http.StatusOK:
		return unexpected(call.Response)
	}
	c.relay(call.Response)
	return nil
}

// relay copies a response of the upstream to the client, each part as soon as it arrives. If the
// response is cut, so is the client's.
func (c *record) relay(res *http.Response) {
	w := c.client
	passHeaders(w.Header(), res.Header)
	if res.ContentLength >= 0 {
		w.Header().Set("Content-Length", res.Header.Get("Content-Length"))
	}
	w.WriteHeader(res.StatusCode)
	buf := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				c.canceled()
				return
			}
			_ = w.FlushError()
		}
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil:
			c.fail(wire.Errorf(wire.CodeUpstream, "the upstream's answer was cut"))
			panic(http.ErrAbortHandler)
		}
	}
}
