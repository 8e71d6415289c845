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

// Stop ends the run. No hook can prevent that.
type Stop struct {
	Reason string `json:"reason"`
	Code   string `json:"code,omitempty"`
}

// Interrupt pauses the run until the interrupt is answered. A native tool has the same
// effect if it returns an *Interrupt as its error.
type Interrupt struct {
	Reason  string `json:"reason"`
	Payload JSON   `json:"payload,omitempty"`
}

// Error returns the reason.
func (i *Interrupt) Error() string { return i.Reason }

// A Pending is an interrupt that has not been answered yet.
type Pending struct {
	ID      string `json:"id"`
	Run     string `json:"run,omitempty"`   // ID of the nested run that is interrupted, if any
	Agent   string `json:"agent,omitempty"` // agent of that nested run
	Entry   string `json:"entry,omitempty"` // empty if a tool interrupted the run
	Hook    Hook   `json:"hook,omitempty"`  // gate_tool if the interrupt asks for approval of a call
	Reason  string `json:"reason"`
	Payload JSON   `json:"payload,omitempty"`
	Call    *Call  `json:"call,omitempty"` // the tool call, with the exact arguments
	// Asks lists the questions of all gates if several gates ask about the call. One
	// answer applies to all of them.
	Asks []Ask `json:"asks,omitempty"`
}

// An Ask is the question of one gate, if several gates ask about a call.
type Ask struct {
	Entry   string `json:"entry"`
	Reason  string `json:"reason"`
	Payload JSON   `json:"payload,omitempty"`
}

// A Resume is the answer to an interrupt. The hook that interrupted receives it in its
// input when it is called again.
type Resume struct {
	ID     string `json:"id"`
	Answer JSON   `json:"answer"`
}

// An Approval answers the question whether a tool call is allowed.
type Approval struct {
	Decision  string  `json:"decision"`            // approve, deny or edit
	Message   string  `json:"message,omitempty"`   // the reason; the model reads it
	Arguments *string `json:"arguments,omitempty"` // for edit: the arguments to use instead
}

// The values of Approval.Decision.
const (
	Approve = "approve"
	Reject  = "deny"
	Edit    = "edit"
)

// Control is the part of an answer that can end or pause the run. If it does, the host
// ignores the other fields of the answer.
type Control struct {
	Stop      *Stop      `json:"stop,omitempty"`
	Interrupt *Interrupt `json:"interrupt,omitempty"`
}

// Ending returns c. The host uses it to read the control part of any answer.
func (c *Control) Ending() *Control { return c }
