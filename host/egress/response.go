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

// What of a response's header a module sees at most; the rest is left out.
const (
	maxLines       = 100
	maxLine        = 8 << 10  // bytes of one line
	maxHeaderBytes = 32 << 10 // of all
)

// unseen are headers of a response that are about the connection, or that are
// for browsers that keep something.
var unseen = map[string]bool{
	"set-cookie": true, "set-cookie2": true, "alt-svc": true, "connection": true, "keep-alive": true, "transfer-encoding": true,
	"te": true, "trailer": true, "upgrade": true, "strict-transport-security": true, "report-to": true, "nel": true,
}

// answer reads a response.
func (c *Client) answer(ctx context.Context, res *http.Response, r *request, hops int, f *filler) (*abi.HTTPResponse, error) {
	body, err := io.ReadAll(io.LimitReader(res.Body, int64(c.response)+1))
	switch {
	case len(body) > c.response:
		return nil, tooLarge("the body of the response", c.response)
	case err != nil:
		return nil, c.failure(ctx, r.to, err, f)
	}
	out := &abi.HTTPResponse{Status: res.StatusCode, Headers: headers(res.Header, f)}
	if hops > 0 {
		out.URL = f.redact(r.url)
	}
	if text := f.redact(string(body)); utf8.ValidString(text) {
		out.Body = text
	} else {
		out.BodyBase64 = base64.StdEncoding.EncodeToString([]byte(text))
	}
	return out, nil
}

// headers are those of a response that a module sees, in an order that is the
// same each time.
func headers(h http.Header, f *filler) []abi.HTTPHeader {
	var out []abi.HTTPHeader
	size := 0
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		lower := strings.ToLower(name)
		if unseen[lower] || strings.HasPrefix(lower, "proxy-") {
			continue
		}
		for _, value := range h[name] {
			n := len(name) + len(value)
			if n > maxLine || size+n > maxHeaderBytes || len(out) == maxLines || !utf8.ValidString(value) {
				continue
			}
			size += n
			out = append(out, abi.HTTPHeader{Name: lower, Value: f.redact(value)})
		}
	}
	return out
}
