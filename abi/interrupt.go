package abi

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
	Run     string `json:"run,omitempty"`   // ID of the nested run that is interrupted; empty if there is none
	Agent   string `json:"agent,omitempty"` // agent of the nested run; empty if there is none
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
	// Approver names the person who decided, in at most 256 bytes. The host does not check the
	// name. Optional.
	Approver string `json:"approver,omitempty"`
	// ExpiresMS is the Unix time in milliseconds after which the decision no longer applies, and
	// the gate asks again. 0 means that it does not expire.
	ExpiresMS int64 `json:"expires_ms,omitempty"`
}

// A Decision records what one gate decided about a tool call, or how the question of a gate was
// answered.
type Decision struct {
	// Decision is allow, deny, ask or stop for a gate, and approve, deny or edit for an answer
	// to its question.
	Decision string `json:"decision"`
	CallID   string `json:"call_id"`
	Tool     string `json:"tool"`
	Owner    string `json:"owner,omitempty"` // owner of the tool
	// ArgumentsDigest is the SHA-256 of the exact arguments, in 64 hexadecimal digits.
	ArgumentsDigest string `json:"arguments_digest"`
	Reason          string `json:"reason,omitempty"`
	// Answered is set if the decision answers a question of the gate.
	Answered bool `json:"answered,omitempty"`
	// Approver is the name in the answer. The host does not check the name.
	Approver string `json:"approver,omitempty"`
	// AnsweredBy is the API key, or the user of the machine, from which the host received the answer. It
	// is empty if neither is known.
	AnsweredBy string `json:"answered_by,omitempty"`
	ExpiresMS  int64  `json:"expires_ms,omitempty"` // when the answer expires, Unix time in milliseconds
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
