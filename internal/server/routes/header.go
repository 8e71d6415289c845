package routes

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/agent-runner/agent-runner/internal/server/httpapi"
)

// private lists the headers of requests that upstreams do not receive: keys of this server, headers
// that only this server interprets, and headers in which browsers, tracers and proxies identify the
// client. A client cannot send its own credentials for an upstream, because they would be in the same
// headers as the key of this server.
var private = []string{
	"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Origin", "Referer",
	"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto",
	"X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Request-Id", "Traceparent", "Tracestate", "Baggage",
	httpapi.TenantHeader, httpapi.ThreadHeader,
}

// passed lists the headers of responses that a tenant's upstream may set: those that describe the
// body, and those that SDKs of model APIs read. Other headers, such as X-Accel-Redirect, could
// control browsers or a proxy in front of this server.
var passed = map[string]bool{
	"Content-Type": true, "Content-Encoding": true, "Content-Length": true, "Date": true, "Request-Id": true,
	"X-Request-Id": true, "Retry-After": true, "Retry-After-Ms": true, "X-Should-Retry": true,
}

// passedPrefixes lists the beginnings of names of further headers like those in passed.
var passedPrefixes = []string{"X-Ratelimit-", "Anthropic-", "Openai-"}

// passes reports whether a tenant's upstream may set the header with the given canonical name.
func passes(name string) bool {
	return passed[name] ||
		slices.ContainsFunc(passedPrefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// A response is the response to a request through a route. It keeps the headers that this server has
// set, and removes others that do not pass.
type response struct {
	http.ResponseWriter
	begun bool
	own   http.Header // the headers that this server has set
}

// newResponse returns a response that writes to w. It keeps the headers that w already has.
func newResponse(w http.ResponseWriter) *response {
	return &response{ResponseWriter: w, own: w.Header().Clone()}
}

// WriteHeader implements [http.ResponseWriter].
func (r *response) WriteHeader(status int) {
	if !r.begun {
		r.begun = true
		h := r.Header()
		maps.DeleteFunc(h, func(name string, _ []string) bool { return !passes(name) })
		maps.Copy(h, r.own)
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write implements [http.ResponseWriter].
func (r *response) Write(b []byte) (int, error) {
	if !r.begun {
		r.WriteHeader(http.StatusOK)
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets [http.ResponseController] find the original writer.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }
