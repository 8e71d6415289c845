package abi

// A Code says what kind of failure an [Error] is; programs branch on it.
type Code string

// The codes of version 1.
const (
	CodeInvalid     Code = "invalid"     // the request makes no sense: a bad key, list, patch
	CodeDenied      Code = "denied"      // the power was not granted, or not here
	CodeLimit       Code = "limit"       // a limit was passed; the message names it
	CodeNotFound    Code = "not_found"   // no such thing
	CodeConflict    Code = "conflict"    // the value changed since it was read
	CodeUnavailable Code = "unavailable" // not reached, or a breaker is open
	CodeModel       Code = "model"       // the model answered with an error, or broke off
	CodeTool        Code = "tool"        // the tool failed
	CodeInternal    Code = "internal"    // the host failed, or a module: what has no better code
)

// Codes lists the codes.
func Codes() []Code {
	return []Code{CodeInvalid, CodeDenied, CodeLimit, CodeNotFound, CodeConflict, CodeUnavailable, CodeModel, CodeTool, CodeInternal}
}

// An Error is what a failed host call leaves pending for the guest, and what
// a hook that returns 1 writes as its output.
type Error struct {
	Code         Code   `json:"code"`
	Message      string `json:"message"`
	Retryable    bool   `json:"retryable,omitempty"`
	Status       int    `json:"status,omitempty"`         // HTTP status, when there was one
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"` // how long to wait, in milliseconds
}

// Error returns the message, or the code of an error without one.
func (e *Error) Error() string {
	if e.Message == "" {
		return string(e.Code)
	}
	return e.Message
}

// Is reports whether target is an *Error of the same code and without a
// message, so that errors.Is(err, &abi.Error{Code: abi.CodeDenied}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Message == "" && t.Code == e.Code
}

// Stop ends the run: nothing catches it.
type Stop struct {
	Reason string `json:"reason"`
	Code   string `json:"code,omitempty"`
}

// Interrupt pauses the run until somebody answers. As an error of a native
// tool it does the same.
type Interrupt struct {
	Reason  string `json:"reason"`
	Payload JSON   `json:"payload,omitempty"`
}

// Error returns the reason.
func (i *Interrupt) Error() string { return i.Reason }

// A Pending is an interrupt that waits for an answer.
type Pending struct {
	ID      string `json:"id"`
	Run     string `json:"run,omitempty"`   // of a run inside this one, if it waits there
	Agent   string `json:"agent,omitempty"` // of that run
	Entry   string `json:"entry,omitempty"` // empty for a tool's
	Hook    Hook   `json:"hook,omitempty"`  // gate_tool: somebody is asked to approve the call
	Reason  string `json:"reason"`
	Payload JSON   `json:"payload,omitempty"`
	Call    *Call  `json:"call,omitempty"` // of the tool, with the exact arguments
	// Asks are the questions of all gates, where more than one asks; an answer is
	// one to all of them.
	Asks []Ask `json:"asks,omitempty"`
}

// An Ask is the question of one of several gates that ask about a call.
type Ask struct {
	Entry   string `json:"entry"`
	Reason  string `json:"reason"`
	Payload JSON   `json:"payload,omitempty"`
}

// A Resume is what an interrupt was answered with. It is in the input of the
// hook that interrupted, when it is called again.
type Resume struct {
	ID     string `json:"id"`
	Answer JSON   `json:"answer"`
}

// An Approval answers the question whether a tool call may be made.
type Approval struct {
	Decision  string  `json:"decision"`            // approve, deny or edit
	Message   string  `json:"message,omitempty"`   // why not; the model reads it
	Arguments *string `json:"arguments,omitempty"` // edit: what to call the tool with instead
}

// What somebody may decide about a call.
const (
	Approve = "approve"
	Reject  = "deny"
	Edit    = "edit"
)

// Control is in every answer that may end or pause the run. Fields beside a
// stop or an interrupt are not applied.
type Control struct {
	Stop      *Stop      `json:"stop,omitempty"`
	Interrupt *Interrupt `json:"interrupt,omitempty"`
}

// Ending returns c itself; the host reads the control part of any answer
// through it.
func (c *Control) Ending() *Control { return c }

// Wrap returns an error that says what failed and, behind a colon, why: errors.Is and
// errors.As see err. It is fmt.Errorf("%s: %w", what, err) for modules, which fmt would
// make 0.7 MB larger.
func Wrap(what string, err error) error { return &wrapped{what, err} }

type wrapped struct {
	what string
	err  error
}

// Error returns what failed and why.
func (w *wrapped) Error() string { return w.what + ": " + w.err.Error() }

// Unwrap returns why.
func (w *wrapped) Unwrap() error { return w.err }
