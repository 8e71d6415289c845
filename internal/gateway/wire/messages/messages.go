// Package messages implements Anthropic's Messages API for the gateway: requests, whole answers and
// streams, as [wire.Protocol] describes. Requests to count tokens have the same form.
//
// Modules see the field system as the first message, with the ID "system". Element 3 of messages is the
// message "m3". Each of its tool_result blocks is a message of [abi.RoleTool] before it, such as "m3.0",
// and "m3" has the other blocks, if there are any. A document of plain text is a text part. A tool_use
// block is a tool call, whose arguments are the text of its input. Images and other documents are parts
// of the ABI if their source is in the request or, for images, a URL.
//
// A block among the messages that adds tools is opaque, so these tools are not listed. Their calls are calls.
//
// A thread, whose earlier messages the upstream stores, is rejected: modules could not see them, and a denied
// call would remain among them.
//
// Blocks of all other types are opaque: thinking, redacted_thinking, server_tool_use, results of the
// upstream's tools, citations of its search, and types that are new. The upstream signs thinking and
// rejects it if it changed, so that a stream does not show it as chunks of reasoning. For the same
// reason the gateway never writes reasoning of a module.
package messages

import (
	"net/http"
	"strings"

	"github.com/agent-runner/agent-runner/internal/gateway/rawjson"
	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// Protocol is the Messages API.
type Protocol struct {
	// KeepUnsigned lets NewRequest send thinking without a signature. Anthropic's API rejects it, but APIs of other
	// providers write it, and may need it back.
	KeepUnsigned bool
}

var _ wire.Protocol = Protocol{}

// The limits of a request or an answer.
const (
	maxRequestBlocks = 50_000   // in a request, with those in results of tools
	maxRequestCalls  = 10_000   // as many as the messages of a run may have
	maxBlocks        = 10_000   // in an answer
	maxCalls         = 1024     // in a message: the ABI's chunks number no more
	maxAnswer        = 32 << 20 // bytes of a streamed answer that are kept
	maxReason        = 128      // bytes of a stop reason
)

// statuses are the statuses and error types of failures. Claude Code repeats a request five times after a
// 400, but not after a 403.
var statuses = map[wire.Code]struct {
	status int
	kind   string
}{
	wire.CodeInvalid:  {http.StatusBadRequest, "invalid_request_error"},
	wire.CodeAuth:     {http.StatusUnauthorized, "authentication_error"},
	wire.CodeNotFound: {http.StatusNotFound, "not_found_error"},
	wire.CodeTooLarge: {http.StatusRequestEntityTooLarge, "request_too_large"},
	wire.CodeDenied:   {http.StatusForbidden, "permission_error"},
	wire.CodeBusy:     {http.StatusTooManyRequests, "rate_limit_error"},
	wire.CodeModule:   {http.StatusForbidden, "permission_error"},
	wire.CodeUpstream: {http.StatusBadGateway, "api_error"},
}

// Error returns a failure as the status and body of a response.
func (Protocol) Error(err *wire.Error) (status int, body []byte) {
	s, ok := statuses[err.Code]
	if !ok {
		s.status, s.kind = http.StatusInternalServerError, "api_error"
	}
	text := err.Message
	if err.Param != "" && !strings.Contains(text, err.Param) {
		text = err.Param + ": " + text
	}
	body = append([]byte(`{"type":"error","error":{"type":`), rawjson.Quote(s.kind)...)
	body = append(append(body, `,"message":`...), rawjson.Quote(text)...)
	if err.Code == wire.CodeInvalid && err.Param == FieldThread {
		body = append(append(body, `,"details":`...), ThreadDetails...)
	}
	return s.status, append(body, "}}"...)
}

// ThreadDetails are the details of the error for a request with a thread. Clients then send all messages, without
// a thread.
const ThreadDetails = `{"error_code":"thread_unsupported_request","unsupported":["modules"]}`

// A fieldError is an error in a field of a request or an answer.
type fieldError struct {
	path, problem string
}

func (e *fieldError) Error() string {
	if e.path == "" {
		return e.problem
	}
	return e.path + ": " + e.problem
}

// problem returns an error in a field.
func problem(path, text string) *fieldError { return &fieldError{path, text} }

// in returns the error with path, which names the object that has the field, in front of the field's
// own path.
func (e *fieldError) in(path string) *fieldError {
	if e.path != "" {
		path += "." + e.path
	}
	return &fieldError{path, e.problem}
}

// invalid returns e as an error of the client's request.
func (e *fieldError) invalid() error {
	return &wire.Error{Code: wire.CodeInvalid, Message: e.Error(), Param: e.path}
}

// upstream returns e as an error of the upstream's answer.
func (e *fieldError) upstream() error {
	return wire.Errorf(wire.CodeUpstream, "the upstream's answer is not understood: %s", e.Error())
}
