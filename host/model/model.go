// Package model defines language models. Implementations are endpoints with OpenAI's chat completions
// (package openai), OpenAI's Responses API (package responses) and Anthropic's Messages API (package
// messages), recorded conversations (package cassette), scripted replies (package scripted) and an
// offline model (package echo). Retries and fallbacks wrap other models.
package model

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A Model answers requests. It must be safe for concurrent use.
type Model interface {
	// Generate answers req. If sink is not nil, Generate streams: it calls sink with every
	// chunk as it arrives, in order, from one goroutine. If sink returns an error, Generate
	// stops and returns it. The response is always complete.
	//
	// Errors other than those of ctx and sink are of type *Error.
	Generate(ctx context.Context, req *Request, sink func(abi.Chunk) error) (*abi.Response, error)
}

// A Request is one call of a model. A Model must not modify it.
type Request struct {
	Model    string
	Messages []abi.Message // shared with other requests; read-only
	Tools    []abi.Tool
	Params   abi.Params
}

// An Error is a failed call of a model.
type Error struct {
	// Code is abi.CodeModel if the model answered with an error or broke off,
	// abi.CodeUnavailable if it was unreachable, abi.CodeInvalid if the request cannot be
	// sent, and abi.CodeInternal if the host failed.
	Code       abi.Code
	Message    string        // human-readable, with advice if possible
	Status     int           // HTTP status, or 0
	Retryable  bool          // whether the same call may succeed later
	RetryAfter time.Duration // the delay that the endpoint requested, or 0
	Err        error         // the cause; may be nil
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with the given code, which is not retryable. The formatted error is
// its cause.
func Errorf(code abi.Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: err}
}
