package record

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
	"github.com/agent-runner/agent-runner/internal/chain/size"
	"github.com/agent-runner/agent-runner/internal/chain/toolset"
	"github.com/agent-runner/agent-runner/internal/contract"
	"github.com/agent-runner/agent-runner/internal/jsoncodec"
)

// Pending returns the unanswered interrupts, sorted by ID.
func (r *Record) Pending() []abi.Pending {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []abi.Pending
	for _, p := range r.waiting {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b abi.Pending) int {
		if len(a.ID) != len(b.ID) {
			return len(a.ID) - len(b.ID)
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return out
}

// Answer records answers to interrupts, by interrupt ID. by identifies the sender of the answers, such as an API key,
// or is "". If an ID is unknown or an answer is invalid, Answer changes nothing and returns an error.
func (r *Record) Answer(answers map[string]json.RawMessage, by string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var approvals []Approval
	byID := map[string]string{}
	for key, p := range r.waiting {
		byID[p.ID] = key
	}
	for id, answer := range answers {
		key, ok := byID[id]
		if !ok {
			return fmt.Errorf("no interrupt %q waits for an answer", id)
		}
		if err := jsoncodec.Valid(answer); err != nil {
			return fmt.Errorf("answer to %s: %w", id, err)
		}
		p := r.waiting[key]
		if p.Hook != contract.HookGateTool {
			continue
		}
		a, err := parseApproval(answer)
		if err != nil {
			return fmt.Errorf("answer to %s: %w", id, err)
		}
		approvals = append(approvals, Approval{p.Call.ID, p.Call.Owner, p.Call.Name, p.Call.Arguments, a, by})
	}
	for id, answer := range answers {
		key := byID[id]
		put(&r.answers, key, abi.Resume{ID: id, Answer: slices.Clone(answer)})
		delete(r.waiting, key)
	}
	r.approvals = append(r.approvals, approvals...)
	r.askedDirty = true
	return nil
}

// MaxApprover is the maximum length of the name of an approver, in bytes.
const MaxApprover = 256

// parseApproval decodes the answer to a gate's question: an [abi.Approval], true to approve, or
// false to reject.
func parseApproval(answer json.RawMessage) (abi.Approval, error) {
	switch string(answer) {
	case "true":
		return abi.Approval{Decision: abi.Approve}, nil
	case "false":
		return abi.Approval{Decision: abi.Reject}, nil
	}
	var a abi.Approval
	if _, err := abijson.Decode(answer, &a); err != nil {
		return a, fmt.Errorf("this is no decision (approve, deny or edit): %w", err)
	}
	switch {
	case len(a.Approver) > MaxApprover:
		return a, fmt.Errorf("approver has %d bytes; at most %d are allowed", len(a.Approver), MaxApprover)
	case a.ExpiresMS < 0:
		return a, fmt.Errorf("expires_ms is %d; want a Unix time in milliseconds, or 0 for none", a.ExpiresMS)
	case a.Decision == abi.Edit && a.Arguments == nil:
		return a, fmt.Errorf("an edit needs arguments, a JSON object in a string")
	case a.Decision == abi.Edit:
		if _, err := toolset.ParseArguments(*a.Arguments); err != nil {
			return a, fmt.Errorf("arguments: %w", err)
		}
	case a.Decision != abi.Approve && a.Decision != abi.Reject:
		return a, fmt.Errorf("decision is %q; want approve, deny or edit", a.Decision)
	case a.Arguments != nil:
		return a, fmt.Errorf("with the decision %s there are no arguments; edit is the one that runs the call with others",
			a.Decision)
	}
	return a, nil
}

// Resume returns the answer to the interrupt of the call of key, or the interrupt if it has no
// answer. It returns nil for both if the call has no interrupt.
func (r *Record) Resume(key string) (*abi.Resume, *abi.Pending) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.answers) == 0 && len(r.waiting) == 0 {
		return nil, nil
	}
	if a, ok := r.answers[key]; ok {
		return &a, nil
	}
	if p, ok := r.waiting[key]; ok {
		return nil, &p
	}
	return nil, nil
}

// maxAsked is the maximum size of all interrupts of a phase, in bytes. Each new interrupt makes the
// host persist all of them again.
const maxAsked = 2 << 20

// A pendingLimitError reports an interrupt that exceeds a limit.
type pendingLimitError struct{ cause error }

// Error returns the cause's message with the prefix "interrupt: ".
func (e *pendingLimitError) Error() string { return "interrupt: " + e.cause.Error() }

// Interrupt records that the call of key waits for an answer, and removes an earlier answer to that
// call. The error is a *pendingLimitError.
func (r *Record) Interrupt(key string, p abi.Pending) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := sizeOfPending(&p)
	if r.asked+n > maxAsked {
		return &pendingLimitError{
			fmt.Errorf("reasons, payloads and arguments of the run's interrupts take more than %d bytes; ask for less",
				maxAsked),
		}
	}
	if err := r.grow(n); err != nil {
		return &pendingLimitError{err}
	}
	r.asked += n
	delete(r.answers, key)
	put(&r.waiting, key, p)
	r.askedDirty = true
	return nil
}

// sizeOfPending returns the approximate size of an interrupt in bytes.
func sizeOfPending(p *abi.Pending) int64 {
	n := size.Overhead + len(p.Reason) + len(p.Payload)
	if p.Call != nil {
		n += len(p.Call.Arguments)
	}
	for i := range p.Asks {
		n += len(p.Asks[i].Reason) + len(p.Asks[i].Payload)
	}
	return int64(n)
}

// Decision returns the latest decision about a call with the same ID, owner, tool and arguments,
// and the number of such decisions. latest is nil if there is none.
func (r *Record) Decision(call abi.Call, owner string) (latest *Approval, number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := -1
	for i := range r.approvals {
		a := &r.approvals[i]
		if a.CallID == call.ID && a.Owner == owner && a.Tool == call.Name && a.Arguments == call.Arguments {
			at, number = i, number+1
		}
	}
	if at < 0 {
		return nil, 0
	}
	copied := r.approvals[at] // copy the decision, because the list may change
	return &copied, number
}

// Approve records the approval of a call with the arguments that a person wrote in the decision
// edit. It does nothing if a decision about those arguments follows edit in the record, since the
// call is examined again after each pause.
func (r *Record) Approve(call abi.Call, owner string, edit *Approval) {
	approved := Approval{CallID: call.ID, Owner: owner, Tool: call.Name, Arguments: call.Arguments, By: edit.By}
	approved.Approval = edit.Approval
	approved.Approval.Decision, approved.Approval.Arguments = abi.Approve, nil
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range slices.Backward(r.approvals) {
		if a.CallID != call.ID || a.Owner != owner || a.Tool != call.Name {
			continue
		}
		if a.Approval.Decision == abi.Edit && *a.Approval.Arguments == call.Arguments {
			break
		}
		if a.Arguments == call.Arguments {
			return
		}
	}
	r.approvals = append(r.approvals, approved)
	r.askedDirty = true
}
