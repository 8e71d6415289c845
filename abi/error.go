package abi

// A Code classifies an [Error] for programs.
type Code string

// The codes of ABI version 1.
const (
	CodeInvalid     Code = "invalid"     // malformed input, such as a bad key, list or patch
	CodeDenied      Code = "denied"      // permission not granted, or not available in this hook
	CodeLimit       Code = "limit"       // a limit was exceeded; the message names it
	CodeNotFound    Code = "not_found"   // no such value or tool
	CodeConflict    Code = "conflict"    // the value changed since it was read, or the name is taken
	CodeUnavailable Code = "unavailable" // not reachable or not available now, or a circuit breaker is open
	CodeModel       Code = "model"       // the model returned an error or its response was cut off
	CodeTool        Code = "tool"        // the tool failed
	CodeInternal    Code = "internal"    // the host or a module failed, and no other code fits
)

// An Error is the error object of a failed host call, and the output of a hook that
// returns 1.
type Error struct {
	Code         Code   `json:"code"`
	Message      string `json:"message"`
	Retryable    bool   `json:"retryable,omitempty"`
	Status       int    `json:"status,omitempty"`         // HTTP status, if there was one
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"` // when to retry, in milliseconds from now
}

// Error returns the message, or the code if the message is empty.
func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return e.Message
}

// Is reports whether target is an *Error with the same code and no message, so that
// errors.Is(err, &abi.Error{Code: abi.CodeDenied}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Message == "" && t.Code == e.Code
}
