package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"

	"github.com/agent-runner/agent-runner/internal/gateway/translate"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A Target is an endpoint whose protocol is not the clients'.
type Target struct {
	Protocol wire.Protocol
	Path     string      // of the endpoint
	Header   http.Header // of each request
	// MaxCompletionTokens is as in [translate.Pair].
	MaxCompletionTokens bool
}

// targetHeader returns the header of a request to a Target. It takes the key, the headers that connect
// spans, and the client's name from the header of the client's request.
func (u *Upstream) targetHeader(client http.Header) http.Header {
	h := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	for _, name := range append([]string{"User-Agent"}, traceHeaders...) {
		if values := client[name]; len(values) > 0 {
			h[name] = values
		}
	}
	for name, values := range u.Target.Header {
		h[name] = values
	}
	switch key := clientKey(client); {
	case key == "":
	case u.KeyHeader == anthropicKey:
		h.Set(anthropicKey, key)
	default:
		h.Set("Authorization", "Bearer "+key)
	}
	return h
}

// ask sends a body in the clients' protocol to the upstream of the record's route, and returns a call whose response
// is in that protocol. It counts the memory that translation needs in held. The caller closes the call.
func (c *record) ask(ctx context.Context, body []byte, model string, held *memory) (*modelCall, *wire.Error) {
	t := c.route.Upstream.Target
	if t == nil {
		return c.send(ctx, body, model, held)
	}
	pair := translate.Pair{Client: c.endpoint.protocol, Upstream: t.Protocol, MaxCompletionTokens: t.MaxCompletionTokens}
	q, err := asError(pair.Request(body))
	if err != nil {
		return nil, err
	}
	if _, full := asError(0, held.charge(bodyCopies*len(q.Body))); full != nil {
		return nil, full
	}
	call, err := c.send(ctx, q.Body, model, held)
	if err != nil {
		return nil, err
	}
	res, err := c.translated(pair, q, call.Response, held) //nolint:bodyclose // the caller closes the call
	if err != nil {
		call.close()
		return nil, err
	}
	call.Response = res
	return call, nil
}

// translated returns the client's response for a response of the upstream.
func (c *record) translated(
	pair translate.Pair,
	q *translate.Request,
	res *http.Response,
	held *memory,
) (*http.Response, *wire.Error) {
	out := &http.Response{Status: res.Status, StatusCode: res.StatusCode, Header: http.Header{}, ContentLength: -1}
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry"} {
		if values := res.Header[name]; len(values) > 0 {
			out.Header[name] = values
		}
	}
	isStream := isEventStream(res)
	switch {
	case res.StatusCode != http.StatusOK && !isRefusal(res.StatusCode):
		return nil, unexpected(res)
	case res.StatusCode == http.StatusOK && isStream != q.Stream:
		return nil, wire.Errorf(wire.CodeUpstream,
			"the upstream streamed an answer that was to be whole, or the other way round")
	case res.StatusCode == http.StatusOK && isStream:
		out.Header.Set("Content-Type", eventStream+"; charset=utf-8")
		out.Body = pair.Stream(res.Body, q, c.g.maxHeld(), held.charge)
		return out, nil
	}
	body, err := c.translatedBody(pair, q, res, held)
	if err != nil {
		return nil, err
	}
	out.Body, out.ContentLength = wholeBody{bytes.NewReader(body), res.Body}, int64(len(body))
	out.Header.Set("Content-Type", "application/json")
	out.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return out, nil
}

// A wholeBody is a translated body. Closing it closes the upstream's body.
type wholeBody struct {
	io.Reader
	io.Closer
}

// translatedBody returns the client's body for an answer that is not streamed, or for an error.
func (c *record) translatedBody(
	pair translate.Pair,
	q *translate.Request,
	res *http.Response,
	held *memory,
) ([]byte, *wire.Error) {
	limit := c.g.maxHeld()
	if res.StatusCode != http.StatusOK {
		limit = min(limit, maxRefusal)
	}
	body, err := io.ReadAll(io.LimitReader(held.counted(res.Body), int64(limit)+1))
	if known, ok := errors.AsType[*wire.Error](err); ok {
		return nil, known
	}
	switch {
	case err != nil:
		return nil, wire.Errorf(wire.CodeUpstream, "the upstream's answer was cut")
	case len(body) > limit:
		return nil, wire.Errorf(wire.CodeUpstream, "the upstream's answer has more than %d bytes", limit)
	case res.StatusCode != http.StatusOK:
		return pair.Error(res.StatusCode, body), nil
	}
	return asError(pair.Answer(body, q))
}
