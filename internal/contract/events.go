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
		abi.EventTransfer,
		abi.EventChild,
		abi.EventStepFinished,
		abi.EventRunPaused,
		abi.EventRunResumed,
		abi.EventRunFinished,
	}
}
