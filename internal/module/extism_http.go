package module

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/sandbox"
)

// An extismRequest is what a plug-in hands to http_request, beside a body.
type extismRequest struct {
	URL     string            `json:"url"`
	Method  string            `json:"method"`
	Headers map[string]string `json:"headers"`
}

// extismHTTPRequest sends a request as the import http does. What http replies
// as an error ends the call, as in Extism: a plug-in cannot be told.
func extismHTTPRequest(ctx context.Context, p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	const name = "http_request"
	if !v.running() {
		v.abortCall(g, name, errBuilding(name))
	}
	request := p.take(v, g, name, stack[0])
	body := p.take(v, g, name+": the body", stack[1])
	p.free(stack[0])
	p.free(stack[1])
	p.status, p.headers = 0, nil
	reply, err := v.ask(func() HostCall { return HostCall{Name: name, Bytes: []Blob{request, body}} }, func() ([]byte, error) {
		q, err := v.extismRequest(request, body)
		if err != nil {
			return nil, err
		}
		res, err := v.sendRequest(ctx, q)
		if err != nil {
			return nil, err
		}
		return abi.Marshal(res)
	})
	g.Tick()
	if err == nil && len(reply) > v.limits.ReplyBytes {
		v.abort(g, &limitError{"reply_bytes", v.limits.ReplyBytes, "the response", ""})
	}
	var res abi.HTTPResponse
	if err == nil {
		_, err = abi.Decode(reply, &res)
	}
	if err == nil {
		p.headers, err = extismHeaderLines(res.Headers)
	}
	content := []byte(res.Body)
	if err == nil && res.BodyBase64 != "" {
		content, err = base64.StdEncoding.DecodeString(res.BodyBase64)
	}
	if err != nil {
		v.abortCall(g, name, err)
	}
	p.status = res.Status
	stack[0] = 0
	if len(content) > 0 {
		stack[0] = p.give(v, g, content)
	}
}

func (v *visit) extismRequest(request, body []byte) (*abi.HTTPRequest, error) {
	var r extismRequest
	if err := v.decode("the request", request, &r); err != nil {
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

// extismHeaderLines is a header as Extism gives it: an object, with the lines of
// one name joined by commas.
func extismHeaderLines(list []abi.HTTPHeader) ([]byte, error) {
	lines := map[string]string{}
	for _, h := range list {
		if before, ok := lines[h.Name]; ok {
			h.Value = before + "," + h.Value
		}
		lines[h.Name] = h.Value
	}
	return json.Marshal(lines)
}

func extismStatus(p *plugin, _ *visit, _ *sandbox.Guest, stack []uint64) {
	stack[0] = uint64(p.status)
}

// extismHeaders gives the header of the last response; there is none before one.
func extismHeaders(p *plugin, v *visit, g *sandbox.Guest, stack []uint64) {
	stack[0] = 0
	if len(p.headers) > 0 {
		stack[0] = p.give(v, g, p.headers)
	}
}
