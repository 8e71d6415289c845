package middleware

import (
	"errors"

	"github.com/agent-runner/agent-runner/abi"
	"github.com/agent-runner/agent-runner/internal/abijson"
)

// A Decision is a gate's decision about a tool call. The zero value is not a decision: a gate that
// returns it fails, which denies the call.
type Decision struct {
	decision string
	message  string
	payload  string // JSON; empty if there is none
	err      error  // error of encoding the payload
}

// Allow returns the decision to allow the call. Other gates can still deny it.
func Allow() Decision { return Decision{decision: abi.DecideAllow} }

// Deny returns the decision to deny the call. The model receives the message as an error result.
func Deny(message string) Decision { return Decision{decision: abi.DecideDeny, message: message} }

// Ask returns the decision to pause the run until a person, who sees the message, approves, edits
// or denies the call.
func Ask(message string) Decision { return Decision{decision: abi.DecideAsk, message: message} }

// StopRun returns the decision to end the run. To give programs a code as well, return
// [Context.Stop] as the gate's error.
func StopRun(reason string) Decision { return Decision{decision: abi.DecideStop, message: reason} }

// With returns the decision with a payload for the person who is asked: any value that can be
// encoded as JSON. A gate that returns a decision whose payload cannot be encoded fails.
func (d Decision) With(payload any) Decision {
	raw, err := encodePayload(payload)
	d.payload, d.err = string(raw), err
	return d
}

// strictness returns the rank of a decision. The strictest of several decisions applies.
func (d Decision) strictness() int {
	switch d.decision {
	case abi.DecideAllow:
		return 1
	case abi.DecideAsk:
		return 2
	case abi.DecideDeny:
		return 3
	case abi.DecideStop:
		return 4
	default:
		return 0
	}
}

func (Decision) collect(m *Module, _ abi.Hook) any { return collect[GateToolHook](m) }

func (Decision) serve(s *served) (abijson.Writable, error) {
	v := hookCallOf[abijson.GateToolInput, abijson.GateToolAnswer](s)
	if err := v.begin(s, &v.in, &v.in.Common); err != nil {
		return nil, err
	}
	var strictest Decision
	for _, h := range hooks[GateToolHook](s) {
		asked := &Call{Call: v.in.Call, Tool: v.in.Tool}
		d, err := h.GateTool(v.ctx, asked)
		if err != nil {
			return gateEnding(err)
		}
		if d.strictness() == 0 {
			return nil, misuse("a gate returned no decision: return Allow, Deny, Ask or StopRun")
		}
		if asked.Arguments != v.in.Call.Arguments {
			return nil, misuse("a gate cannot change the arguments: change them in BeforeTool or WrapToolCall")
		}
		if d.strictness() > strictest.strictness() {
			strictest = d
		}
	}
	v.out.Decision, v.out.Message = strictest.decision, strictest.message
	if strictest.payload != "" {
		v.out.Payload = abi.JSON(strictest.payload)
	}
	return &v.out, strictest.err
}

// gateEnding returns the answer for a gate that returned a stop or an interrupt as its error err. A
// stop also needs a decision, and an interrupt asks for approval. gateEnding returns other errors
// unchanged.
func gateEnding(err error) (abijson.Writable, error) {
	end, ok := errors.AsType[*ending](err)
	switch {
	case !ok:
		return nil, err
	case end.Stop != nil:
		return &abijson.GateToolAnswer{Control: end.Control, Decision: abi.DecideStop, Message: end.Stop.Reason}, nil
	default:
		return &abijson.GateToolAnswer{
			Decision: abi.DecideAsk,
			Message:  end.Interrupt.Reason,
			Payload:  end.Interrupt.Payload,
		}, nil
	}
}
