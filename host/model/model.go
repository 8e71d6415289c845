// Package model calls language models: any OpenAI-compatible endpoint
// (package openai), recordings of earlier conversations (package cassette),
// and replies that are written down beforehand (package scripted). Retries and
// fallbacks are models around models.
package model

import (
	"context"
	"fmt"
	"time"

	"github.com/agent-runner/agent-runner/abi"
)

// A Model answers requests. It is called by many runs at once.
type Model interface {
	// Generate answers req. With a sink it streams: every chunk is given to
	// sink as it arrives, in order, from one goroutine; an error of sink ends
	// the call and is returned. The response is complete either way.
	//
	// Errors are *Error, but for those of ctx and of sink.
	Generate(ctx context.Context, req *Request, sink func(abi.Chunk) error) (*abi.Response, error)
}

// A Request is one call of a model. A Model may not change it.
type Request struct {
	Model    string
	Messages []abi.Message // shared with other requests: not to be changed
	Tools    []abi.Tool
	Params   abi.Params
}

// An Error is a failed call of a model.
type Error struct {
	// Code is abi.CodeModel where the model answered with an error or broke
	// off, abi.CodeUnavailable where it was not reached, abi.CodeInvalid where
	// the request cannot be sent, abi.CodeInternal where the host failed.
	Code       abi.Code
	Message    string        // for people; says what to do where something can be done
	Status     int           // HTTP status, 0 where there was none
	Retryable  bool          // the same call may succeed later
	RetryAfter time.Duration // how long the endpoint asked to wait, 0 if it did not
	Err        error         // what caused it, may be nil
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error of a code that is not worth a retry.
func Errorf(code abi.Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: err}
}
