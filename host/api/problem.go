package api

import (
	"strings"
	"time"
)

// A Problem is the body of a response that reports an error (RFC 9457).
type Problem struct {
	Type     string       `json:"type" doc:"The problem type: urn:agent-runner:problem:<code>."`
	Title    string       `json:"title" doc:"A summary of the problem type. It is the same for every problem of a type."`
	Status   int          `json:"status" doc:"The HTTP status code."`
	Detail   string       `json:"detail,omitempty" doc:"What is wrong with this request, and how to fix it."`
	Instance string       `json:"instance,omitempty" doc:"The request's id, as urn:agent-runner:request:<id>. The server logs the same id."`
	Quota    string       `json:"quota,omitempty" doc:"The quota that was exceeded."`
	OpenAI   *OpenAIError `json:"error,omitempty" doc:"The same error in OpenAI's format. Only on OpenAI-compatible endpoints."`
	Errors   []FieldError `json:"errors,omitempty" doc:"All invalid parts of the request."`

	// RetryAfter is the time after which a retry may succeed, from the Retry-After header. It
	// is 0 if the response has no such header.
	RetryAfter time.Duration `json:"-"`
}

// A FieldError is an invalid part of a request.
type FieldError struct {
	Location string `json:"location,omitempty" doc:"The location of the error, such as body.quota.modules."`
	Message  string `json:"message" doc:"The error at that location."`
}

// An OpenAIError is an error in the format of OpenAI's API.
type OpenAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

// ProblemType is the prefix of a problem's type. The code follows it.
const ProblemType = "urn:agent-runner:problem:"

// Codes of problems: the parts of [Problem.Type] that follow ProblemType.
const (
	CodeInvalid      = "invalid-request"
	CodeUnauthorized = "no-valid-key"
	CodeForbidden    = "scope-missing"
	CodeNotFound     = "not-found"
	CodeMethod       = "method-not-allowed"
	CodeConflict     = "conflict"
	CodeTooLarge     = "too-large"
	CodeMediaType    = "media-type"
	CodeRefused      = "refused"
	CodeBlocked      = "blocked"
	CodeQuota        = "quota-reached"
	CodeInternal     = "internal"
	CodeUnavailable  = "unavailable"
	CodeModelFailed  = "model-failed"
	CodeRunFailed    = "run-failed"
)

// Code returns the problem's type without the prefix ProblemType, such as [CodeNotFound]. The type and
// the code are empty if package client made the problem from a response that had none. A type without
// the prefix, such as that of a proxy, is returned unchanged.
func (p *Problem) Code() string { return strings.TrimPrefix(p.Type, ProblemType) }

// Request returns the id of the request, or "" if the problem has none. The server logs the same id.
func (p *Problem) Request() string {
	return strings.TrimPrefix(p.Instance, "urn:agent-runner:request:")
}

// Error returns the detail, or the title if there is none, and the errors that the detail
// does not mention.
func (p *Problem) Error() string {
	var b strings.Builder
	b.WriteString(p.Detail)
	if p.Detail == "" {
		b.WriteString(p.Title)
	}
	for _, w := range p.Errors {
		if strings.Contains(p.Detail, w.Message) {
			continue
		}
		b.WriteString("; ")
		if w.Location != "" {
			b.WriteString(w.Location + ": ")
		}
		b.WriteString(w.Message)
	}
	return b.String()
}
