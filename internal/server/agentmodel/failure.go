package agentmodel

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/agent"
	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/modelfailure"
)

// failure returns the error for the client if e or err reports that the run failed, and nil
// otherwise. e is an event of the run, and err is the error that came with it.
func failure(e abi.Event, err error) error {
	var journal *journal.Error
	var ended *agent.Error
	how, byModel := modelfailure.EndedBy(&e)
	switch {
	case errors.As(err, &journal):
		return &Error{
			Status:  http.StatusServiceUnavailable,
			Message: "the run was interrupted on this server; ask again later",
			Code:    "run_interrupted",
		}
	case e.Type != abi.EventRunFinished || e.Error == nil && !errors.As(err, &ended), e.FinishReason == abi.RunStopped:
		return nil
	case e.FinishReason == abi.RunTimeout:
		return &Error{Status: http.StatusGatewayTimeout, Message: text(e), Code: e.FinishReason}
	case e.FinishReason == abi.RunCanceled:
		return &Error{Status: http.StatusConflict, Message: "the run was canceled" + because(e.Error), Code: e.FinishReason}
	case byModel:
		return modelFailed(e, how)
	case e.Error != nil && e.Error.Code == abi.CodeUnavailable:
		return &Error{
			Status:  http.StatusServiceUnavailable,
			Message: text(e),
			Code:    string(e.Error.Code),
			Header:  retryAfter(e.Error),
		}
	case e.FinishReason == abi.RunMaxSteps || e.FinishReason == abi.RunLimit:
		return &Error{Status: http.StatusUnprocessableEntity, Message: text(e), Code: e.FinishReason}
	default:
		return &Error{Status: http.StatusInternalServerError, Message: text(e), Code: "run_failed"}
	}
}

// modelFailed returns the error for the client of a run that a failed model call ended. how
// describes the failure. The error keeps the model's status if it is 400 or 429, because the client
// can act on these. It contains neither the model's address nor the text of its endpoint, which the
// agent's users must not see. The tenant can read them in the run's events.
func modelFailed(e abi.Event, how string) *Error {
	status := http.StatusBadGateway
	if e.Error.Status == http.StatusBadRequest || e.Error.Status == http.StatusTooManyRequests {
		status = e.Error.Status
	}
	return &Error{
		Status:  status,
		Code:    string(e.Error.Code),
		Header:  retryAfter(e.Error),
		Message: fmt.Sprintf("%s; run %s has its events", how, e.Run),
	}
}

// retryAfter returns a Retry-After header with the error's delay, or nil if the error has none.
func retryAfter(err *abi.Error) http.Header {
	if err.RetryAfterMS <= 0 {
		return nil
	}
	return http.Header{"Retry-After": {strconv.FormatInt((err.RetryAfterMS+999)/1000, 10)}}
}

func because(err *abi.Error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Message
}

func text(e abi.Event) string {
	if e.Error != nil {
		return e.Error.Message
	}
	return "the run ended with " + e.FinishReason
}
