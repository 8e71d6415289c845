package gateway

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"os"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// authenticate returns the key of a request, or nil if the gateway has no keys.
func (g *Gateway) authenticate(r *http.Request) (*Key, *wire.Error) {
	if len(g.o.Keys) == 0 {
		return nil, nil
	}
	given, found := sha256.Sum256([]byte(clientKey(r.Header))), -1
	for i := range g.o.Keys {
		sum := sha256.Sum256([]byte(g.o.Keys[i].Secret))
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], sum[:]), i, found)
	}
	if found < 0 {
		return nil, wire.Errorf(wire.CodeAuth,
			"the request has no key of the gateway: send one as a bearer token or in X-Api-Key")
	}
	return &g.o.Keys[found], nil
}

// anthropicKey is the header of Anthropic's keys.
const anthropicKey = "X-Api-Key"

// clientKey returns the key in the header of a request, or "".
func clientKey(h http.Header) string {
	if bearer, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); ok {
		return bearer
	}
	return h.Get(anthropicKey)
}

// read reads the body of the request, and counts its memory in held.
func (c *record) read(held *memory) ([]byte, *wire.Error) {
	o := &c.g.o
	if encoding := c.r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, wire.Errorf(wire.CodeInvalid,
			"the request is compressed with %.40q, which the gateway does not read: send it uncompressed "+
				"(Codex: -c features.enable_request_compression=false)", encoding)
	}
	body, err := readAll(held.counted(http.MaxBytesReader(c.client, c.r.Body, o.MaxBody)), c.r.ContentLength)
	if full, ok := errors.AsType[*wire.Error](err); ok {
		return nil, full
	}
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, wire.Errorf(
			wire.CodeTooLarge,
			"the request has more than %d bytes, the limit of the gateway",
			o.MaxBody,
		)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.limited = outcomeTimeout
		return nil, wire.Errorf(wire.CodeInvalid,
			"the request did not arrive within %v, the limit of the gateway", c.g.readTimeout())
	}
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, "reading the request failed: %v", err)
	}
	return body, nil
}

// maxPrepared limits the memory that is prepared for a body before it arrives, in bytes.
const maxPrepared = 128 << 10

// readAll reads all of r. size is the expected number of bytes; it is negative if unknown.
func readAll(r io.Reader, size int64) ([]byte, error) {
	var b bytes.Buffer
	if size > 0 {
		b.Grow(int(min(size, maxPrepared)) + bytes.MinRead)
	}
	_, err := b.ReadFrom(r)
	return b.Bytes(), err
}

// A head has the fields of a request that the gateway itself needs.
type head struct {
	model     string
	maxOutput int64 // tokens of all choices of the answer
	request   rawjson.Value
}

// headOf reads the head of a request's body.
func headOf(body []byte) (head, *wire.Error) {
	v, err := rawjson.Parse(body)
	if err != nil {
		return head{}, wire.Errorf(wire.CodeInvalid, "the request is not valid: %v", err)
	}
	h, named, choices := head{request: v}, false, int64(1)
	for _, m := range v.Members() {
		switch m.Name {
		case "model":
			h.model, named = m.Value.String(), m.Value.IsString()
		case "max_tokens", "max_completion_tokens", "max_output_tokens": // upstreams differ in which they read
			h.maxOutput = max(h.maxOutput, outputLimit(m.Value))
		case "n":
			choices = max(1, min(outputLimit(m.Value), mostChoices))
		}
	}
	h.maxOutput = cmp.Or(h.maxOutput, usualOutput) * choices
	if !named {
		return head{}, &wire.Error{Code: wire.CodeInvalid, Param: "model",
			Message: "the request must be an object with a model"}
	}
	return h, nil
}

// known returns those of params whose names are in requested, the parameters of the client's request.
// The API rejects others, such as temperature, in requests to count tokens.
func known(params, requested abi.Params) abi.Params {
	out := abi.Params{}
	for name := range requested {
		if value, ok := params[name]; ok {
			out[name] = value
		}
	}
	return out
}

// withModel returns the body with another model.
func withModel(body []byte, model string) []byte {
	v, err := rawjson.Parse(body)
	if err != nil {
		return body
	}
	e := &rawjson.Edits{Doc: body}
	e.Members(v, map[string][]byte{"model": rawjson.Quote(model)})
	return e.Apply()
}

// hopHeaders are the names of headers that belong to one connection.
var hopHeaders = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Content-Length",
}

// passHeaders copies the headers that belong to the message, and not to the connection.
func passHeaders(to, from http.Header) {
	skip := map[string]bool{}
	for _, name := range hopHeaders {
		skip[name] = true
	}
	for _, list := range from["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			skip[textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(name))] = true
		}
	}
	for name, values := range from {
		if !skip[name] {
			to[name] = append([]string(nil), values...)
		}
	}
}
