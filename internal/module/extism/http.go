package extism

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/module/invoke"
	"github.com/agent-runner/agent-runner/internal/module/policy"
	"github.com/agent-runner/agent-runner/internal/module/replay"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An httpRequest is the argument of http_request, apart from the body.
type httpRequest struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// sendHTTP implements http_request. Like Extism, it aborts the guest on an error, because
// http_request cannot return one.
func sendHTTP(ctx context.Context, p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	const name = "http_request"
	if !inv.Running() {
		abortCall(inv, g, name, invoke.Unavailable(name))
	}
	request := p.take(inv, g, name, stack[0])
	body := p.take(inv, g, name+": the body", stack[1])
	p.free(stack[0])
	p.free(stack[1])
	p.status, p.headers = 0, nil
	reply, err := inv.Ask(
		func() replay.HostCall { return replay.HostCall{Name: name, Bytes: []replay.Blob{request, body}} },
		func() ([]byte, error) {
			q, err := readRequest(inv, request, body)
			if err != nil {
				return nil, err
			}
			res, err := inv.SendRequest(ctx, q)
			if err != nil {
				return nil, err
			}
			return abijson.Marshal(res)
		},
	)
	g.Tick()
	if err == nil && len(reply) > inv.Limits.ReplyBytes {
		inv.Abort(g, &policy.LimitError{Limit: "reply_bytes", Max: inv.Limits.ReplyBytes, What: "the response"})
	}
	var res abi.HTTPResponse
	if err == nil {
		_, err = abijson.Decode(reply, &res)
	}
	if err == nil {
		p.headers, err = headerLines(res.Headers)
	}
	content := []byte(res.Body)
	if err == nil && res.BodyBase64 != "" {
		content, err = base64.StdEncoding.DecodeString(res.BodyBase64)
	}
	if err != nil {
		abortCall(inv, g, name, err)
	}
	p.status = res.Status
	stack[0] = 0
	if len(content) > 0 {
		stack[0] = p.give(inv, g, content)
	}
}

func readRequest(inv *invoke.Invocation, request, body []byte) (*abi.HTTPRequest, error) {
	var r httpRequest
	if err := inv.Decode("the request", request, &r); err != nil {
		return nil, err
	}
	q := &abi.HTTPRequest{Method: strings.ToUpper(r.Method), URL: r.URL}
	for _, name := range slices.Sorted(maps.Keys(r.Headers)) {
		q.Headers = append(q.Headers, abi.HTTPHeader{Name: name, Value: r.Headers[name]})
	}
	if utf8.Valid(body) {
		q.Body = string(body)
	} else {
		q.BodyBase64 = base64.StdEncoding.EncodeToString(body)
	}
	return q, nil
}

// headerLines returns the JSON of response headers in Extism's form, an object. Values of repeated
// headers are joined with commas.
func headerLines(list []abi.HTTPHeader) ([]byte, error) {
	lines := map[string]string{}
	for _, h := range list {
		if before, ok := lines[h.Name]; ok {
			h.Value = before + "," + h.Value
		}
		lines[h.Name] = h.Value
	}
	return json.Marshal(lines)
}

func httpStatus(p *plugin, _ *invoke.Invocation, _ *sandbox.Guest, stack []uint64) {
	stack[0] = uint64(p.status)
}

// httpHeaders implements http_headers. Its result is the offset of a block with the headers of the
// last response, or 0 before the first response.
func httpHeaders(p *plugin, inv *invoke.Invocation, g *sandbox.Guest, stack []uint64) {
	stack[0] = 0
	if len(p.headers) > 0 {
		stack[0] = p.give(inv, g, p.headers)
	}
}
