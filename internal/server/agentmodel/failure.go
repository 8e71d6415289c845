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

// failure returns the error of a run that failed, or nil.
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

// modelFailed returns the error of a failed model call. The client can do something about the statuses 400
// and 429, so that these are kept. The error shows neither the model's address nor the text of its endpoint
// to the agent's users; the tenant can read the run's events.
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

// retryAfter returns a Retry-After header if the error has a delay.
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
