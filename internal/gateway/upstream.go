package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// send sends a body to the upstream of a route, with the headers of the client's request. plain asks for
// an answer without compression. The caller closes the response.
func (g *Gateway) send(
	ctx context.Context,
	r *http.Request,
	route *Route,
	body []byte,
	plain bool,
) (*http.Response, *wire.Error) {
	u := *route.Upstream.URL
	u.Path = strings.TrimSuffix(u.Path, "/") + r.URL.Path
	u.RawQuery = r.URL.RawQuery
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, wire.Errorf(wire.CodeUpstream, "%v", err)
	}
	passHeaders(req.Header, r.Header)
	if _, known := req.Header["User-Agent"]; !known {
		req.Header["User-Agent"] = nil // otherwise net/http adds its own
	}
	if plain {
		req.Header.Del("Accept-Encoding")
	}
	g.credentials(req, &route.Upstream)
	res, err := g.o.Client.Do(req)
	if err != nil {
		if with, ok := errors.AsType[*url.Error](err); ok {
			err = with.Err // the URL has the client's query
		}
		g.o.Logger.Warn("upstream", "route", route.Name, "error", err)
		return nil, wire.Errorf(wire.CodeUpstream, "the upstream %s cannot be reached", u.Host)
	}
	return res, nil
}

// credentials replaces the client's credentials with those of the upstream. Without them the client's
// pass, unless they are a key of the gateway.
func (g *Gateway) credentials(req *http.Request, u *Upstream) {
	if u.Key == "" && len(g.o.Keys) == 0 {
		return
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie"} {
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
func (g *Gateway) forward(
	ctx context.Context,
	w http.ResponseWriter,
	r *http.Request,
	route *Route,
	body []byte,
	model string,
) *wire.Error {
	if route.Model != "" && route.Model != model {
		body = withModel(body, route.Model)
	}
	res, err := g.send(ctx, r, route, body, false)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return unexpected(res) // the client would send its next request elsewhere
	}
	relay(w, res)
	return nil
}

// relay copies a response of the upstream to the client, each part as soon as it arrives. If the
// response is cut, so is the client's.
func relay(w http.ResponseWriter, res *http.Response) {
	passHeaders(w.Header(), res.Header)
	if res.ContentLength >= 0 {
		w.Header().Set("Content-Length", res.Header.Get("Content-Length"))
	}
	w.WriteHeader(res.StatusCode)
	control := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := res.Body.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			_ = control.Flush()
		}
		switch {
		case err == io.EOF:
			return
		case err != nil:
			panic(http.ErrAbortHandler)
		}
	}
}
