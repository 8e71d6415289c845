// Package modelfailure describes failed model calls to readers who must not learn about the
// endpoint: users of an agent, and tenants that use the operator's model.
package modelfailure

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/host/model"
)

// Text describes a failed model call without the endpoint's address or message.
func Text(code abi.Code, status int) string {
	how := "it answered with an error, or broke off"
	switch {
	case code == abi.CodeUnavailable:
		how = "it was not reached"
	case status != 0:
		how = strings.TrimSpace(fmt.Sprintf("it answered %d %s", status, http.StatusText(status)))
	}
	return "the model that the agent asks failed: " + how
}

// sourceModel is the source of a model call that failed in the model, not in a module.
const sourceModel = "model"

// EndedBy describes the end of a run as [Text] does. ok is false if no failed model call
// ended the run.
func EndedBy(e *abi.Event) (how string, ok bool) {
	if e.Error == nil ||
		e.Error.Code != abi.CodeModel && (e.Error.Code != abi.CodeUnavailable || e.Source != sourceModel) {
		return "", false
	}
	return Text(e.Error.Code, e.Error.Status), true
}

// Hide returns a model that replaces each [*model.Error] of m with one that contains only the kind
// of failure, without the endpoint's address or message. It passes the original error to failed.
// Errors with the codes [abi.CodeInvalid] and [abi.CodeLimit], and errors of other types, remain
// unchanged and are not passed to failed.
func Hide(m model.Model, failed func(context.Context, *model.Request, *model.Error)) model.Model {
	return &hidden{m, failed}
}

type hidden struct {
	model  model.Model
	failed func(context.Context, *model.Request, *model.Error)
}

// Generate implements [model.Model].
func (p *hidden) Generate(ctx context.Context, req *model.Request, sink func(abi.Chunk) error) (*abi.Response, error) {
	out, err := p.model.Generate(ctx, req, sink)
	e, ok := err.(*model.Error) //nolint:errorlint // an error that holds one is the sink's, and stays as it is
	if !ok || e.Code == abi.CodeInvalid || e.Code == abi.CodeLimit {
		return out, err
	}
	p.failed(ctx, req, e)
	shown := *e
	shown.Message, shown.Err = Text(e.Code, e.Status), nil
	return out, &shown
}
