package contract

import "github.com/agent-runner/agent-runner/abi"

// EventTypes returns all types of events.
func EventTypes() []abi.EventType {
	return []abi.EventType{
		abi.EventRunStarted,
		abi.EventStepStarted,
		abi.EventChunk,
		abi.EventMessage,
		abi.EventToolCall,
		abi.EventToolResult,
		abi.EventDecision,
		abi.EventCustom,
		abi.EventLog,
		abi.EventFault,
		abi.EventModelAttempt,
		abi.EventLimit,
		abi.EventRepair,
		abi.EventTransfer,
		abi.EventLabels,
		abi.EventChild,
		abi.EventStepFinished,
		abi.EventRunPaused,
		abi.EventRunResumed,
		abi.EventRunFinished,
	}
}

// The actions of repair events. A repair gives the conversation a form that model APIs accept: each
// tool call has one result, directly after its message, and each result has a call.
const (
	RepairAnswered = "answered" // a call had no result, and got one that says so
	RepairMoved    = "moved"    // a result came later than directly after its call
	RepairRemoved  = "removed"  // a result had no call, or its call had an earlier result
	RepairKept     = "kept"     // like removed, but the result was kept as a message of the user
	RepairOmitted  = "omitted"  // summarizes further repairs; the event's Value is their number
)
