package agentmodel

import (
	"fmt"
	"net/http"

	"github.com/agent-runner/agent-runner/internal/gateway/wire"
)

// An Error is an error that a client of a model API receives.
type Error struct {
	Status  int
	Message string
	Param   string // the name of the invalid field; may be empty
	Code    string
	Header  http.Header // additional headers of the response
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

func badf(param, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Message: fmt.Sprintf(format, args...), Param: param}
}

// Type returns OpenAI's type for the error's status.
func (e *Error) Type() string {
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case e.Status == http.StatusUnauthorized:
		return "authentication_error"
	case e.Status == http.StatusForbidden:
		return "permission_error"
	case e.Status >= 500:
		return "server_error"
	}
	return "invalid_request_error"
}

// AnthropicType returns Anthropic's type for the error's status.
func (e *Error) AnthropicType() string {
	switch {
	case e.Status == http.StatusNotFound:
		return "not_found_error"
	case e.Status == http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case e.Status == http.StatusServiceUnavailable:
		return "overloaded_error"
	case e.Status == http.StatusGatewayTimeout:
		return "timeout_error"
	case e.Status >= 500:
		return "api_error"
	}
	return e.Type()
}

// inStream returns e in the form that [wire.Writer] sends in a stream that has begun.
func (e *Error) inStream() *wire.Error {
	code := wire.CodeInvalid
	switch {
	case e.Status == http.StatusTooManyRequests:
		code = wire.CodeBusy
	case e.Status >= 500:
		code = wire.CodeUpstream
	}
	return &wire.Error{Code: code, Message: e.Message, Param: e.Param, Reason: e.Code}
}
