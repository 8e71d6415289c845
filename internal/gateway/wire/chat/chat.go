// Package chat implements OpenAI's chat completions for the gateway. It reads requests, answers and
// streams as the ABI's messages, tools, parameters and chunks, and writes only what modules changed.
//
// A request has one choice, since modules judge one answer. The older fields functions and
// function_call are rejected, because gates would not see their calls. The arguments of a call of a
// custom tool are the object {"input": "…"} for modules, and max_completion_tokens is max_tokens.
//
// A refusal is text for modules, unless a message has content, too. Fields that the ABI does not define, such as
// audio and its transcript, pass unchanged. Modules can read those of messages, but not those of streams.
package chat

import (
	"cmp"
	"net/http"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// The limits of requests and answers.
const (
	maxItems  = 100_000 // messages, parts, tool calls and tools of a request or an answer
	maxBlocks = 10_000  // blocks of a streamed answer, and calls of any answer
)

// Protocol is OpenAI's chat completions.
type Protocol struct{}

var _ wire.Protocol = Protocol{}

// Error returns a failure as OpenAI reports it. Clients of the protocol retry 409, 429 and 5xx.
func (Protocol) Error(err *wire.Error) (status int, body []byte) {
	switch err.Code {
	case wire.CodeAuth:
		status = http.StatusUnauthorized
	case wire.CodeNotFound:
		status = http.StatusNotFound
	case wire.CodeTooLarge:
		status = http.StatusRequestEntityTooLarge
	case wire.CodeBusy:
		status = http.StatusTooManyRequests
	case wire.CodeUpstream:
		status = http.StatusBadGateway
	default:
		status = http.StatusBadRequest
	}
	return status, errorObject(err)
}

// errorObject returns the object that reports a failure, in a body and in a stream.
func errorObject(err *wire.Error) []byte {
	kind := "invalid_request_error"
	switch err.Code {
	case wire.CodeAuth:
		kind = "authentication_error"
	case wire.CodeBusy:
		kind = "rate_limit_error"
	case wire.CodeModule, wire.CodeUpstream:
		kind = "server_error"
	}
	param := []byte("null")
	if err.Param != "" {
		param = rawjson.Quote(err.Param)
	}
	return object(
		field("error", object(
			field("message", rawjson.Quote(err.Message)),
			field("type", rawjson.Quote(kind)),
			field("param", param),
			field("code", rawjson.Quote(cmp.Or(err.Reason, string(err.Code)))),
		)),
	)
}

// object returns an object with the given fields.
func object(fields ...abi.Field) []byte {
	b := []byte{'{'}
	for i, f := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, rawjson.Quote(f.Name)...), ':'), f.Value...)
	}
	return append(b, '}')
}

func field(name string, value []byte) abi.Field { return abi.Field{Name: name, Value: value} }

// root returns a value as a document of its own, whose offsets begin at 0.
func root(v rawjson.Value) rawjson.Value { return rawjson.Value{Text: v.Text} }

// setMembers returns an object with changed members, as [rawjson.Edits.Members] changes them.
func setMembers(v rawjson.Value, change map[string][]byte) []byte {
	return rawjson.SetMembers(v.Text, change)
}

// invalid returns an error that names the field of the request at fault.
func invalid(param, format string, args ...any) *wire.Error {
	err := wire.Errorf(wire.CodeInvalid, format, args...)
	err.Param = param
	return err
}

func moduleError(format string, args ...any) error {
	return wire.Errorf(wire.CodeModule, format, args...)
}

func upstreamError(format string, args ...any) error {
	return wire.Errorf(wire.CodeUpstream, format, args...)
}

// finishReason returns the finish reason for the client. reason is the upstream's, calls the number
// of calls that modules and gates have left, and added is set if modules added some of them.
func finishReason(reason string, calls int, added bool) string {
	switch {
	case calls == 0 && (reason == "" || reason == abi.FinishToolCalls):
		return abi.FinishStop
	case calls > 0 && (reason == "" || added && reason == abi.FinishStop):
		return abi.FinishToolCalls
	}
	return reason
}
