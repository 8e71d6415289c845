package egress

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
)

// Limits of a request, in addition to those of [Options].
const (
	maxURL           = 8 << 10
	maxHeaders       = 64
	maxRequestHeader = 32 << 10 // bytes of all header lines
)

// A request is a checked request, before secrets are filled in.
type request struct {
	method  string
	url     string // the URL in canonical form, without the fragment
	to      endpoint
	headers []abi.HTTPHeader
	body    string
}

// prepare checks a module's request. The error is an *abi.Error. It does not quote the path and
// query of the URL, the values of headers, or the body.
func prepare(r *abi.HTTPRequest) (*request, error) {
	out := &request{method: r.Method, headers: r.Headers, body: r.Body}
	switch r.Method {
	case "":
		out.method = http.MethodGet
	case http.MethodGet,
		http.MethodHead,
		http.MethodPost,
		http.MethodPut,
		http.MethodPatch,
		http.MethodDelete,
		http.MethodOptions:
	default:
		return nil, failed(abi.CodeInvalid, "method %q; want GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS", short(r.Method))
	}
	if r.TimeoutMS < 0 {
		return nil, failed(abi.CodeInvalid, "timeout_ms is %d; want 0 or more", r.TimeoutMS)
	}
	var err error
	if out.url, out.to, err = checkURL(r.URL); err != nil {
		return nil, err
	}
	if err := checkHeaders(r.Headers); err != nil {
		return nil, err
	}
	if r.BodyBase64 != "" {
		if r.Body != "" {
			return nil, failed(abi.CodeInvalid, "want body or body_base64, not both")
		}
		b, err := base64.StdEncoding.Strict().DecodeString(r.BodyBase64)
		if err != nil {
			return nil, failed(abi.CodeInvalid, "body_base64 is not base64 with padding")
		}
		out.body = string(b)
	}
	return out, nil
}

// checkURL returns a URL in its canonical form, without the fragment, and its endpoint. It rejects
// URLs that clients and servers could interpret differently. The error is an *abi.Error.
func checkURL(s string) (string, endpoint, error) {
	bad := func(why string) (string, endpoint, error) {
		return "", endpoint{}, failed(abi.CodeInvalid, "url: %s", why)
	}
	switch {
	case s == "":
		return bad("there is none")
	case len(s) > maxURL:
		return "", endpoint{}, failed(abi.CodeLimit, "url: %d bytes; at most %d are allowed", len(s), maxURL)
	case strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '\\' || c == utf8.RuneError }):
		return bad("it has a space, a control character or a backslash; escape it as %20 or the like")
	}
	s, _, _ = strings.Cut(s, "#")
	scheme, rest, ok := strings.Cut(s, "://")
	scheme = strings.ToLower(scheme)
	if !ok || scheme != "http" && scheme != "https" {
		return bad("want https://HOST/… or http://HOST/…")
	}
	authority, path := rest, ""
	if at := strings.IndexAny(rest, "/?"); at >= 0 {
		authority, path = rest[:at], rest[at:]
	}
	if strings.Contains(authority, "@") {
		return bad("a user or password before the host is not allowed; set the header authorization")
	}
	if strings.Contains(authority, "{") {
		return bad("the host cannot be a secret")
	}
	host, port, err := splitPort(authority)
	if err != nil {
		return bad(err.Error())
	}
	if host, err = checkHost(host); err != nil {
		return bad(err.Error())
	}
	switch port {
	case "*":
		return bad("the port is not a number")
	case "":
		port = defaultPort(scheme)
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	to := endpoint{scheme: scheme, host: host, port: port}
	s = scheme + "://" + to.String() + path
	u, err := url.Parse(s)
	if err != nil {
		return bad("it is malformed; is a % without two hexadecimal digits?")
	}
	if u.Host != to.String() {
		return bad("the host is ambiguous")
	}
	return s, to, nil
}

func checkHeaders(list []abi.HTTPHeader) error {
	if len(list) > maxHeaders {
		return failed(abi.CodeLimit, "%d headers; at most %d are allowed", len(list), maxHeaders)
	}
	size := 0
	for _, h := range list {
		size += len(h.Name) + len(h.Value)
		switch name := strings.ToLower(h.Name); {
		case size > maxRequestHeader:
			return failed(abi.CodeLimit, "headers of more than %d bytes", maxRequestHeader)
		case !validHeader(h.Name):
			return failed(abi.CodeInvalid, "header %q: not a valid name", short(h.Name))
		case !validValue(h.Value):
			return failed(abi.CodeInvalid, "header %s: its value has a line break or a control character", short(h.Name))
		case forbidden(name):
			return failed(abi.CodeDenied, "header %s is set by the host; remove it", short(h.Name))
		}
	}
	return nil
}

// validHeader reports whether s is a valid header name (a token).
func validHeader(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c <= ' ' || c >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, c)
	})
}

// validValue reports whether s is a valid header value.
func validValue(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}

// own lists headers that control framing and routing. A module must not set them, because a server
// could interpret them differently.
var own = map[string]bool{
	"host": true, "connection": true, "content-length": true, "transfer-encoding": true, "te": true, "trailer": true,
	"upgrade": true, "keep-alive": true, "expect": true, "accept-encoding": true, "http2-settings": true,
	"forwarded": true, "via": true, "x-real-ip": true, "alt-used": true,
}

func forbidden(name string) bool {
	return own[name] || strings.HasPrefix(name, "proxy-") || strings.HasPrefix(name, "sec-") ||
		strings.HasPrefix(name, "x-forwarded-")
}

// redirected returns the request that follows a redirect of r to location. It drops credentials if
// the endpoint changes, and rejects a redirect from https to http.
func (r *request) redirected(status int, location string) (*request, error) {
	base, err := url.Parse(r.url)
	if err != nil {
		return nil, failed(abi.CodeInvalid, "url: it is malformed")
	}
	ref, err := url.Parse(location)
	if err != nil {
		return nil, failed(abi.CodeUnavailable, "%s redirects to an invalid URL", r.to)
	}
	target, to, err := checkURL(base.ResolveReference(ref).String())
	if err != nil {
		return nil, failed(
			abi.CodeDenied,
			"%s redirects to a URL that is not allowed: %s",
			r.to,
			strings.TrimPrefix(err.Error(), "http: "),
		)
	}
	if r.to.scheme == "https" && to.scheme != "https" {
		return nil, failed(abi.CodeDenied, "%s redirects from https to http", r.to)
	}
	next := &request{method: r.method, url: target, to: to, body: r.body}
	drop := func(name string) bool { return false }
	if status == http.StatusSeeOther && r.method != http.MethodHead ||
		(status == http.StatusMovedPermanently || status == http.StatusFound) && r.method == http.MethodPost {
		next.method, next.body = http.MethodGet, ""
		drop = func(name string) bool { return strings.HasPrefix(name, "content-") }
	}
	for _, h := range r.headers {
		name := strings.ToLower(h.Name)
		if drop(name) || to != r.to && (name == "authorization" || name == "cookie" || strings.Contains(h.Value, opening)) {
			continue // don't send credentials to another server
		}
		next.headers = append(next.headers, h)
	}
	return next, nil
}
