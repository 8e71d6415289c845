package toolcall

import "github.com/agent-runner/agent-runner/abi"

// clientReason is the reason of interrupts by tools that the client runs. It is stored with runs.
const clientReason = "a tool that the client runs"

// ClientInterrupt returns the interrupt that asks the client to run a tool.
func ClientInterrupt() *abi.Interrupt { return &abi.Interrupt{Reason: clientReason} }

// IsClient reports whether p asks the client to run a tool.
func IsClient(p abi.Pending) bool {
	return p.Entry == "" && p.Hook == "" && p.Call != nil && p.Reason == clientReason
}
