package model

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
)

// Failure describes a failed model call without the endpoint's address or message. It is for
// readers who may not learn about the endpoint: users of an agent, and tenants that use the
// operator's model.
func Failure(code abi.Code, status int) string {
	how := "it answered with an error, or broke off"
	switch {
	case code == abi.CodeUnavailable:
		how = "it was not reached"
	case status != 0:
		how = strings.TrimSpace(fmt.Sprintf("it answered %d %s", status, http.StatusText(status)))
	}
	return "the model that the agent asks failed: " + how
}

// SourceModel is the source of a model call that failed in the model, not in a module.
const SourceModel = "model"

// EndedBy describes the end of a run as [Failure] does. ok is false if no failed model call
// ended the run.
func EndedBy(e *abi.Event) (how string, ok bool) {
	if e.Error == nil ||
		e.Error.Code != abi.CodeModel && (e.Error.Code != abi.CodeUnavailable || e.Source != SourceModel) {
		return "", false
	}
	return Failure(e.Error.Code, e.Error.Status), true
}

// Private returns a model whose errors contain only the kind of failure, without the
// endpoint's address or message. failed is called with the original errors. Errors with the
// codes invalid and limit remain unchanged and are not reported to failed.
func Private(m Model, failed func(context.Context, *Request, *Error)) Model {
	return &private{m, failed}
}

type private struct {
	model  Model
	failed func(context.Context, *Request, *Error)
}

// Generate implements Model.
func (p *private) Generate(ctx context.Context, req *Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	out, err := p.model.Generate(ctx, req, sink)
	e, ok := err.(*Error) //nolint:errorlint // an error that holds one is the sink's, and stays as it is
	if !ok || e.Code == abi.CodeInvalid || e.Code == abi.CodeLimit {
		return out, err
	}
	p.failed(ctx, req, e)
	shown := *e
	shown.Message, shown.Err = Failure(e.Code, e.Status), nil
	return out, &shown
}
