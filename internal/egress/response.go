package egress

import (
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
)

// Limits of the response headers that a module sees. The rest is dropped.
const (
	maxLines       = 100
	maxLine        = 8 << 10  // bytes per line
	maxHeaderBytes = 32 << 10 // bytes of all lines
)

// unseen lists response headers that modules do not see: they concern the connection or a browser's
// state.
var unseen = map[string]bool{
	"set-cookie":                true,
	"set-cookie2":               true,
	"alt-svc":                   true,
	"connection":                true,
	"keep-alive":                true,
	"transfer-encoding":         true,
	"te":                        true,
	"trailer":                   true,
	"upgrade":                   true,
	"strict-transport-security": true,
	"report-to":                 true,
	"nel":                       true,
}

// answer reads a response and redacts the request's secrets in everything that the module sees.
func (c *Client) answer(
	ctx context.Context,
	res *http.Response,
	r *request,
	hops int,
	f *filler,
) (*abi.HTTPResponse, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(c.response)+1))
	switch {
	case len(body) > c.response:
		return nil, tooLarge("the response body", c.response)
	case err != nil:
		return nil, c.failure(ctx, r.to, err, f)
	case len(body) > 0 && len(f.used) > 0 && isCoded(res.Header):
		return nil, failed(
			abi.CodeUnavailable,
			"%s answered a request with a secret in content-encoding %s, although none was asked for; the secret cannot be found in it",
			r.to,
			short(res.Header.Get("Content-Encoding")),
		)
	}
	out := &abi.HTTPResponse{Status: res.StatusCode}
	if out.Headers, err = headers(res.Header, f); err != nil {
		return nil, err
	}
	if hops > 0 {
		if out.URL, err = f.redact(r.url); err != nil {
			return nil, err
		}
	}
	text, err := f.redact(string(body))
	if err != nil {
		return nil, err
	}
	if utf8.ValidString(text) {
		out.Body = text
	} else {
		out.BodyBase64 = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return out, nil
}

// isCoded reports whether a body is compressed or otherwise transformed.
func isCoded(h http.Header) bool {
	for _, line := range h.Values("Content-Encoding") {
		for coding := range strings.SplitSeq(line, ",") {
			if coding = strings.TrimSpace(coding); coding != "" && !strings.EqualFold(coding, "identity") {
				return true
			}
		}
	}
	return false
}

// headers returns the response headers that a module sees, sorted by name, with names in lower case and
// secrets in values redacted. It drops the headers in unseen, Proxy-* headers, headers whose name contains
// a secret, lines beyond the limits, and values that are not UTF-8.
func headers(h http.Header, f *filler) ([]abi.HTTPHeader, error) {
	var out []abi.HTTPHeader
	size := 0
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		lower := strings.ToLower(name)
		if unseen[lower] || strings.HasPrefix(lower, "proxy-") || f.isNamed(lower) {
			continue
		}
		for _, value := range h[name] {
			n := len(name) + len(value)
			if n > maxLine || size+n > maxHeaderBytes || len(out) == maxLines || !utf8.ValidString(value) {
				continue
			}
			size += n
			value, err := f.redact(value)
			if err != nil {
				return nil, err
			}
			out = append(out, abi.HTTPHeader{Name: lower, Value: value})
		}
	}
	return out, nil
}
