package routes

import "net/http"

// private lists the headers of requests that upstreams do not receive: keys of this server, and
// headers in which browsers, tracers and proxies identify the client. A client cannot send its own
// credentials for an upstream, because they would be in the same headers as the key of this server.
var private = []string{
	"Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Origin", "Referer",
	"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto",
	"X-Real-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "X-Request-Id", "Traceparent", "Tracestate", "Baggage",
}

// foreign lists the headers of responses that a browser would apply to this server. A tenant's
// upstream must not set them.
var foreign = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Public-Key-Pins", "Alt-Svc",
	"Www-Authenticate", "Refresh", "Location", "Link", "Service-Worker-Allowed", "Nel", "Report-To",
	"Reporting-Endpoints", "Content-Security-Policy", "Content-Security-Policy-Report-Only", "X-Frame-Options",
	"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Allow-Headers",
	"Access-Control-Allow-Methods", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
	"Cross-Origin-Resource-Policy", "Timing-Allow-Origin", "Sourcemap", "X-Sourcemap",
}

// owned lists the headers of responses that this server sets itself.
var owned = []string{"X-Request-Id", "X-Content-Type-Options", "Referrer-Policy"}

// A response is the response to a request through a route. It removes the headers in foreign, and
// keeps this server's values of the headers in owned.
type response struct {
	http.ResponseWriter
	begun bool
	own   http.Header // this server's values of the headers in owned
}

// newResponse returns a response that writes to w. It keeps the headers in owned that w already
// has.
func newResponse(w http.ResponseWriter) *response {
	out := &response{ResponseWriter: w, own: http.Header{}}
	for _, name := range owned {
		if v, ok := w.Header()[name]; ok {
			out.own[name] = v
		}
	}
	return out
}

// WriteHeader implements [http.ResponseWriter].
func (r *response) WriteHeader(status int) {
	if !r.begun {
		r.begun = true
		h := r.Header()
		for _, name := range foreign {
			h.Del(name)
		}
		for name, v := range r.own {
			h[name] = v
		}
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
