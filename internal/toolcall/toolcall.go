// Package toolcall holds what the loop and tools share about one call of a tool: the parts of a
// streamed result, the answer to an interrupt, and the calls that clients run. Package host/tool has
// the part that authors of tools use.
package toolcall

import (
	"context"
	"encoding/json"

	"github.com/agent-runner/agent-runner/abi"
)

type answerKey struct{}

// WithAnswer returns a context for repeating the call of a tool whose interrupt was
// answered.
func WithAnswer(ctx context.Context, answer json.RawMessage) context.Context {
	return context.WithValue(ctx, answerKey{}, answer)
}

// Answer returns the answer to the interrupt of this call. ok is false in the first call.
func Answer(ctx context.Context) (answer json.RawMessage, ok bool) {
	answer, ok = ctx.Value(answerKey{}).(json.RawMessage)
	return answer, ok
}

// clientReason is the reason of interrupts by tools that the client runs. It is stored with runs.
const clientReason = "a tool that the client runs"

// ClientInterrupt returns the interrupt that asks the client to run a tool.
func ClientInterrupt() *abi.Interrupt { return &abi.Interrupt{Reason: clientReason} }

// IsClient reports whether p asks the client to run a tool.
func IsClient(p abi.Pending) bool {
	return p.Entry == "" && p.Hook == "" && p.Call != nil && p.Reason == clientReason
}
