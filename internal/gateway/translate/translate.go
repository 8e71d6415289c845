// Package translate lets clients of one protocol use an upstream of another.
//
// The client's protocol parses a request, and the upstream's writes it. For an answer, the upstream's protocol parses
// and the client's writes. A field that has no equivalent at the upstream is rejected with an error that names it,
// except for hints that do not change the request to the model: docs/gateway.md lists them.
package translate

import (
	"net/http"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// A Pair translates between the protocol of clients and that of an upstream.
type Pair struct {
	Client, Upstream wire.Protocol
	// MaxCompletionTokens sends the limit of an answer's tokens to an upstream of chat completions as
	// max_completion_tokens, which some models of OpenAI require and other endpoints do not accept.
	MaxCompletionTokens bool
}

// A Request is a request for the upstream.
type Request struct {
	Body   []byte
	Model  string
	Stream bool
	usage  bool // the client expects the usage in a streamed answer
}

// Request returns the upstream's request for the body of a client's request. The error is a *wire.Error with
// CodeInvalid.
func (p Pair) Request(body []byte) (*Request, error) {
	parsed, err := p.Client.ParseRequest(body)
	if err != nil {
		return nil, err
	}
	root, err := rawjson.Parse(body)
	if err != nil {
		return nil, wire.Errorf(wire.CodeInvalid, "%v", err)
	}
	rules := rulesOf(p.Client)
	if err := rules.checkTools(root); err != nil {
		return nil, err
	}
	if err := rules.checkItems(root); err != nil {
		return nil, err
	}
	call := *parsed.Call()
	switch {
	case call.Model == "":
		return nil, invalid("model", "the request has no model")
	case len(call.Messages) == 0:
		return nil, invalid("", "the request has no messages")
	}
	if call.Messages, err = portable(call.Messages); err != nil {
		return nil, err
	}
	if call.Params, err = rules.params(call.Params); err != nil {
		return nil, err
	}
	out := &Request{Model: call.Model, Stream: call.Stream,
		usage: !rules.asksUsage || root.Get("stream_options").Get("include_usage").IsTrue()}
	p.adapt(&call)
	if out.Body, err = p.Upstream.NewRequest(&call); err != nil {
		return nil, rules.named(err)
	}
	return out, nil
}

// adapt sets parameters of chat completions that clients of other protocols do not send, if the
// upstream uses chat completions.
func (p Pair) adapt(call *wire.Call) {
	if !rulesOf(p.Upstream).asksUsage {
		return
	}
	if call.Stream {
		call.Params["stream_options"] = abi.JSON(`{"include_usage":true}`)
	}
	if limit, ok := call.Params["max_tokens"]; ok && p.MaxCompletionTokens {
		delete(call.Params, "max_tokens")
		call.Params["max_completion_tokens"] = limit
	}
}

// Answer returns the client's form of body, the upstream's whole answer to q. The error is a
// *wire.Error with CodeUpstream.
func (p Pair) Answer(body []byte, q *Request) ([]byte, error) {
	a, err := p.Upstream.ParseAnswer(body)
	if err != nil {
		return nil, err
	}
	res := *a.Response()
	res.FinishReason = finishOf(res.FinishReason)
	return p.Client.NewAnswer(&res, q.Model), nil
}

// finishOf returns a finish reason that every protocol has.
func finishOf(reason string) string {
	known := []string{abi.FinishStop, abi.FinishToolCalls, abi.FinishLength, abi.FinishFilter}
	switch {
	case slices.Contains(known, reason):
		return reason
	case reason == "model_context_window_exceeded":
		return abi.FinishLength
	}
	return abi.FinishStop
}

// Error returns the client's body for an error of the upstream with the given status.
func (p Pair) Error(status int, body []byte) []byte {
	err := &wire.Error{Code: wire.CodeInvalid, Message: "the upstream answered " + http.StatusText(status)}
	switch {
	case status == http.StatusUnauthorized:
		err.Code = wire.CodeAuth
	case status == http.StatusForbidden:
		err.Code = wire.CodeDenied
	case status == http.StatusNotFound:
		err.Code = wire.CodeNotFound
	case status == http.StatusRequestEntityTooLarge:
		err.Code = wire.CodeTooLarge
	case status == http.StatusTooManyRequests:
		err.Code = wire.CodeBusy
	case status >= http.StatusInternalServerError:
		err.Code = wire.CodeUpstream
	}
	if v, parsed := rawjson.Parse(body); parsed == nil {
		if text := messageOf(v); text != "" {
			err.Message = text
		}
	}
	_, out := p.Client.Error(err)
	return out
}

// messageOf returns the message of an error in one of the usual forms, or "".
func messageOf(v rawjson.Value) string {
	if inner := v.Get("error"); inner.IsObject() {
		v = inner
	} else if inner.IsString() {
		return inner.String()
	}
	return v.Get("message").String()
}
