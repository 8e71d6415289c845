package agents

import (
	"context"
	"errors"
	"fmt"

	"github.com/agent-runner/agent-runner/host/api"
	"github.com/agent-runner/agent-runner/internal/server/admission"
	"github.com/agent-runner/agent-runner/internal/server/httpapi"
	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A NotReadyError reports that a stored agent or route cannot run now, for example because a key is
// missing or an MCP server does not respond.
type NotReadyError struct {
	What string // such as "agent greeter"
	Err  error
}

// NotReady returns err, the reason why what cannot run now, as a [*NotReadyError]. It returns err
// unchanged if the stored file is not its cause: after ctx is done, and for problems such as a blocked
// module, failures of the database, and exceeded quotas.
func NotReady(ctx context.Context, what string, err error) error {
	var problem *httpapi.Problem
	var db *database.Error
	var stored *store.QuotaError
	var busy *admission.QuotaError
	if ctx.Err() != nil || errors.As(err, &problem) || errors.As(err, &db) || errors.As(err, &stored) ||
		errors.As(err, &busy) {
		return err
	}
	return &NotReadyError{what, err}
}

// Error implements error.
func (e *NotReadyError) Error() string { return fmt.Sprintf("%s cannot run: %v", e.What, e.Err) }

// Problem returns the error as problem details.
func (e *NotReadyError) Problem() *httpapi.Problem {
	return httpapi.NewProblem(api.CodeRefused, "%v", e)
}

// Unwrap returns the cause.
func (e *NotReadyError) Unwrap() error { return e.Err }
